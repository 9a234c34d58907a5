//! A table in use: its indexes while its files are open, its durable counters,
//! and whether damage was found.

use super::counters::TableCounters;
use super::files::IndexFiles;
use super::index::{Index, adopt_options};
use crate::catalogue::{TEMPORARY_ID_MIN, TableEntry};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, RwLock};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use teak_base::{FileId, StorageError, StorageResult, WriteId};
use teak_transactions::RangeLocks;
use teak_tree::Tree;

/// The origin of the times of all tables.
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds on [`CLOCK`].
fn now() -> u64 {
    u64::try_from(CLOCK.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The index with a number.
///
/// # Errors
/// `NoSuchIndex`.
pub(crate) fn index_at(indexes: &[Arc<Index>], number: IndexNumber) -> EngineResult<&Arc<Index>> {
    number
        .of(indexes)
        .ok_or(EngineError::NoSuchIndex { index: number })
}

/// The open indexes of a table, for short use on one thread. The files remain
/// open until this is dropped.
pub(crate) struct OpenIndexes(Guard<Option<Arc<Vec<Arc<Index>>>>>);

impl Deref for OpenIndexes {
    type Target = [Arc<Index>];

    #[inline]
    fn deref(&self) -> &[Arc<Index>] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// A table in memory: it has handles or open files, or had them recently.
#[derive(Debug)]
pub(crate) struct Table {
    pub id: u64,
    pub name: RwLock<Arc<str>>,
    pub metadata: RwLock<Arc<[u8]>>,
    /// The table's indexes, followed by those that an alteration is building;
    /// `None` while the files are closed. Opened and closed with the table's slot
    /// locked.
    indexes: ArcSwapOption<Vec<Arc<Index>>>,
    /// Whether `indexes` was there when it was last changed. Cheaper to read, but not exact while threads change it.
    seems_open: AtomicBool,
    /// Whether a handle has used the indexes since maintenance last checked this.
    is_used: AtomicBool,
    /// When maintenance last found that it was used, on [`CLOCK`].
    used_at: AtomicU64,
    /// Number of indexes that are being built.
    pub building: AtomicUsize,
    /// Whether an alteration is in progress; there is at most one at a time.
    pub altering: AtomicBool,
    /// The newest write whose load has locked its keys.
    pub loading: Mutex<Option<WriteId>>,
    pub counters: Arc<TableCounters>,
    /// Namespace for the locks of the table's counters. Its file id belongs to no index file.
    pub counter_locks: Arc<RangeLocks>,
    pub damaged: Arc<AtomicBool>,
    pub handles: AtomicUsize,
    /// Set while the table is open only to be salvaged: why it cannot be used. Of the
    /// table's own indexes, `indexes` then contains only the row index, and nodes of
    /// its tree may be lost.
    unreadable: RwLock<Option<StorageError>>,
    /// Whether log records are retained that no salvage of the unreadable table has read.
    lacks_records: AtomicBool,
}

impl Table {
    /// A table whose files are closed.
    pub(crate) fn closed(entry: &TableEntry, counters: &Arc<TableCounters>) -> Self {
        Self {
            id: entry.id,
            name: RwLock::new(entry.name.as_str().into()),
            metadata: RwLock::new(entry.metadata.as_slice().into()),
            indexes: ArcSwapOption::const_empty(),
            seems_open: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            used_at: AtomicU64::new(now()),
            building: AtomicUsize::new(0),
            altering: AtomicBool::new(false),
            loading: Mutex::new(None),
            counters: Arc::clone(counters),
            counter_locks: Arc::new(RangeLocks::new(FileId(!entry.id))),
            damaged: Arc::default(),
            handles: AtomicUsize::new(0),
            unreadable: RwLock::new(None),
            lacks_records: AtomicBool::new(false),
        }
    }

    /// A table that was created just now, with its empty trees.
    pub(crate) fn created(
        entry: &TableEntry,
        counters: &Arc<TableCounters>,
        trees: Vec<Arc<Tree>>,
    ) -> Self {
        let table = Self::closed(entry, counters);
        let indexes = entry.indexes.iter().zip(trees);
        let indexes =
            indexes.map(|(index, tree)| Arc::new(Index::new(index.clone(), tree, &table.damaged)));
        table.set_indexes(indexes.collect());
        table
    }

    /// Opens the files of a table, except those of the indexes in `kept`, which
    /// are already open. Replaces the list of indexes.
    pub(crate) fn open_files(
        &mut self,
        files: &IndexFiles,
        entry: &TableEntry,
        kept: &[Arc<Index>],
    ) -> StorageResult<()> {
        if let Some(index) = kept.first() {
            self.damaged = Arc::clone(&index.damaged);
        }
        let indexes = self.open_trees(files, entry, kept)?;
        self.set_indexes(indexes);
        Ok(())
    }

    /// The indexes of a table: those in `kept`, and the others, whose files it opens.
    pub(crate) fn open_trees(
        &self,
        files: &IndexFiles,
        entry: &TableEntry,
        kept: &[Arc<Index>],
    ) -> StorageResult<Vec<Arc<Index>>> {
        let mut indexes = Vec::with_capacity(entry.indexes.len());
        for index in &entry.indexes {
            if let Some(open) = kept.iter().find(|open| open.entry.file == index.file) {
                adopt_options(&open.tree, index);
                indexes.push(Arc::clone(open));
                continue;
            }
            let tree = files.open_tree(index)?;
            adopt_options(&tree, index);
            indexes.push(Arc::new(Index::new(index.clone(), tree, &self.damaged)));
        }
        Ok(indexes)
    }

    /// The table's indexes, followed by those that an alteration is building;
    /// `None` while the files are closed.
    #[inline]
    pub(crate) fn open_indexes(&self) -> Option<OpenIndexes> {
        let indexes = self.indexes.load();
        indexes.is_some().then_some(OpenIndexes(indexes))
    }

    /// The open indexes, unless they were opened to be salvaged. Examines the list
    /// itself and not `unreadable`, because another thread may replace the list
    /// between two reads.
    pub(crate) fn readable_indexes(&self) -> Option<OpenIndexes> {
        let open = self.open_indexes()?;
        let is_salvaged = open.iter().any(|index| index.tree.is_for_salvage());
        (!is_salvaged).then_some(open)
    }

    /// Whether the files seem to be open. Only a hint.
    #[inline]
    pub(crate) fn seems_open(&self) -> bool {
        self.seems_open.load(Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.indexes.load().is_some()
    }

    /// The list of indexes. While the caller holds it, the files are not closed.
    pub(crate) fn share_indexes(&self) -> Option<Arc<Vec<Arc<Index>>>> {
        self.indexes.load_full()
    }

    pub(crate) fn set_indexes(&self, indexes: Vec<Arc<Index>>) {
        self.indexes.store(Some(Arc::new(indexes)));
        self.seems_open.store(true, Ordering::Relaxed);
    }

    /// Removes the list of indexes, so that a thread that needs it waits for the
    /// slot, which the caller has locked. The second value is whether some thread
    /// is using the list.
    pub(crate) fn withdraw_indexes(&self) -> Option<(Arc<Vec<Arc<Index>>>, bool)> {
        // Afterwards every thread that has loaded the list owns a reference.
        self.seems_open.store(false, Ordering::Relaxed);
        let indexes = self.indexes.swap(None)?;
        let is_used = Arc::strong_count(&indexes) > 1;
        // Makes the changes visible that a thread made before it released its reference.
        fence(Ordering::Acquire);
        Some((indexes, is_used))
    }

    /// Installs a withdrawn list again, unless an alteration that was using it
    /// has installed another.
    pub(crate) fn restore_indexes(&self, indexes: Arc<Vec<Arc<Index>>>) {
        self.indexes
            .compare_and_swap(&None::<Arc<Vec<Arc<Index>>>>, Some(indexes));
        self.seems_open.store(true, Ordering::Relaxed);
    }

    /// Called by each use through a handle.
    #[inline]
    pub(crate) fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the table was used since the last call.
    pub(crate) fn take_use(&self) -> bool {
        let is_used = self.is_used.swap(false, Ordering::Relaxed);
        if is_used {
            self.used_at.store(now(), Ordering::Relaxed);
        }
        is_used
    }

    /// The time since [`Table::take_use`] last returned true.
    pub(crate) fn unused_for(&self) -> Duration {
        let used_at = self.used_at.load(Ordering::Relaxed);
        Duration::from_millis(now().saturating_sub(used_at))
    }

    /// Whether the table was used since the last call of [`Table::take_use`].
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(crate) fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// Opens what is left of the rows of a closed table that cannot be opened
    /// because of `cause`. The caller has locked its slot.
    pub(crate) fn open_damaged(
        &self,
        files: &IndexFiles,
        entry: &TableEntry,
        cause: StorageError,
    ) -> StorageResult<()> {
        let mut indexes = Vec::new();
        if let Some(rows) = entry.indexes.first() {
            let tree = files.open_damaged_tree(rows)?;
            let index = Index::new(rows.clone(), tree, &self.damaged);
            index.access.refuse(&cause);
            indexes.push(Arc::new(index));
        }
        *self.unreadable.write() = Some(cause);
        self.set_lacks_records(entry.retained.is_some());
        self.damaged.store(true, Ordering::Release);
        self.set_indexes(indexes);
        Ok(())
    }

    /// Closes a table that was opened to be salvaged. The caller has locked its
    /// slot.
    pub(crate) fn close_damaged(&self) {
        if self.unreadable.write().take().is_some() {
            self.set_lacks_records(false);
            self.seems_open.store(false, Ordering::Relaxed);
            self.indexes.store(None);
            self.damaged.store(false, Ordering::Release);
        }
    }

    /// Why the table can only be salvaged; `None` when it can be used.
    pub(crate) fn unreadable(&self) -> Option<StorageError> {
        self.unreadable.read().clone()
    }

    /// Whether log records are retained that no salvage of the unreadable table has
    /// read, so that they would be missing in new files.
    pub(crate) fn lacks_records(&self) -> bool {
        self.lacks_records.load(Ordering::Acquire)
    }

    pub(crate) fn set_lacks_records(&self, lacks: bool) {
        self.lacks_records.store(lacks, Ordering::Release);
    }

    /// Called when all indexes were replaced by new ones, which are not damaged.
    pub(crate) fn replaced(&self) {
        *self.unreadable.write() = None;
        self.set_lacks_records(false);
        self.damaged.store(false, Ordering::Release);
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.id >= TEMPORARY_ID_MIN
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }
}
