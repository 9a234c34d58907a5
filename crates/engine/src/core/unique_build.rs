//! The uniqueness of an index that is built while rows are written.
//!
//! The entries of existing rows, the *base*, are added to the tree at the end of the build. Until then
//! writers find only each other's entries. So a writer notes each key for which it has found neither
//! an entry nor a delete. When the base has been added, these keys are looked up in the snapshot from
//! which the base was read: an entry is a duplicate. The snapshot is taken before writers use the index,
//! so a row that has lost its key since then has left a delete. A writer that finds a delete notes
//! nothing: the row with the key was deleted after the build began, or the key was noted before.
//!
//! A writer that finds a live entry does not fail, because the key is not part of the table yet. The
//! build fails.
//!
//! Lock order: `noting` before the write guards of trees; `noted` after them.

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::WriteId;
use teak_base::bytes::Malformed;
use teak_bulk_load::{BulkLoadResult, Sorter};

/// The state of an index while its uniqueness is not certain.
pub(crate) struct UniqueBuild {
    /// Whether writers find all entries of the index.
    has_base: AtomicBool,
    /// The index is part of its table: a duplicate is the writer's error.
    is_committed: AtomicBool,
    /// Held shared from the check of `has_base` until the keys are noted.
    noting: RwLock<()>,
    /// The keys that writers have noted, each with its write id. `None` when the base has been added.
    noted: Mutex<Option<Sorter>>,
    duplicate: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
}

impl fmt::Debug for UniqueBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UniqueBuild").finish_non_exhaustive()
    }
}

impl UniqueBuild {
    /// `keys` sorts the noted keys.
    pub(crate) fn new(keys: Sorter) -> Self {
        Self {
            has_base: AtomicBool::new(false),
            is_committed: AtomicBool::new(false),
            noting: RwLock::new(()),
            noted: Mutex::new(Some(keys)),
            duplicate: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn is_committed(&self) -> bool {
        self.is_committed.load(Ordering::Acquire)
    }

    pub(crate) fn commit(&self) {
        self.is_committed.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_base(&self) -> bool {
        self.has_base.load(Ordering::Acquire)
    }

    /// Begins to write entries whose keys are to be noted. `None`: the base has been added since
    /// they were checked.
    pub(crate) fn begin_noting(&self) -> Option<Noting<'_>> {
        let guard = self.noting.read();
        (!self.has_base()).then_some(Noting {
            build: self,
            _guard: guard,
        })
    }

    /// Called when the base has been added. Returns the keys noted until then; later there are none.
    pub(crate) fn base_added(&self) -> Option<Sorter> {
        self.has_base.store(true, Ordering::Release);
        // Waits for writers that have not noted their keys yet.
        drop(self.noting.write());
        self.noted.lock().take()
    }

    /// Remembers the first entry with a duplicate key.
    pub(crate) fn set_duplicate(&self, key: &[u8], value: &[u8]) {
        let mut duplicate = self.duplicate.lock();
        duplicate.get_or_insert_with(|| (key.to_vec(), value.to_vec()));
    }

    /// The first entry with a duplicate key that a writer has found.
    pub(crate) fn duplicate(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.duplicate.lock().clone()
    }
}

/// A writer between the check and the noting of its keys.
pub(crate) struct Noting<'a> {
    build: &'a UniqueBuild,
    _guard: RwLockReadGuard<'a, ()>,
}

impl Noting<'_> {
    /// Notes the key of an entry that was written. May write a spill file, so the caller holds no
    /// latch or guard.
    ///
    /// # Errors
    /// Errors of sorting.
    pub(crate) fn note(self, key: &[u8], id: WriteId) -> BulkLoadResult<()> {
        match &mut *self.build.noted.lock() {
            Some(noted) => noted.add(key, &id.0.to_le_bytes(), &|| false),
            None => Ok(()),
        }
    }
}

/// The write id that was noted with a key.
pub(crate) fn noted_id(bytes: &[u8]) -> Result<WriteId, Malformed> {
    let bytes = bytes.try_into().map_err(|_| Malformed)?;
    Ok(WriteId(u64::from_le_bytes(bytes)))
}
