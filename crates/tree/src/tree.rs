//! The tree itself: the current version and what changes it.
//!
//! Locks, in the order in which they are taken:
//! 1. `checkpoint`: one checkpoint at a time.
//! 2. `active`: shared by writers, exclusive for the instant of a freeze.
//! 3. `install`: claims and the replacement of the version; short.
//!
//! Readers take none of them: they load the current version and keep it.

use crate::counters::TreeCounters;
use crate::install_state::InstallState;
use crate::node::{Node, NodeLoader};
use crate::payload::Payload;
use crate::version::{MemtableSlot, TreeVersion};
use crate::{PageCache, TreeOptions};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use teak_base::{FileId, Lsn, StorageResult, WriteId};
use teak_block_file::BlockFile;
use teak_disk::Disk;

/// One index: a file of runs below memtables. All functions may be called from
/// many threads at once.
pub struct Tree {
    pub(crate) file: BlockFile,
    pub(crate) cache: Arc<PageCache>,
    options: ArcSwap<TreeOptions>,
    /// The active memtable; the same as in the current version.
    pub(crate) active: RwLock<Arc<MemtableSlot>>,
    pub(crate) version: ArcSwap<TreeVersion>,
    /// Counts freezes, so that cursors notice them.
    pub(crate) generation: AtomicU64,
    /// Keys without a visible value that cursors passed since the last freeze.
    pub(crate) passed_keys: AtomicU64,
    pub(crate) install: Mutex<InstallState>,
    pub(crate) checkpoint: Mutex<()>,
    pub(crate) counters: TreeCounters,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// Creates the file of an empty tree. The file is durable on return, its
    /// name once the caller syncs the directory.
    ///
    /// # Errors
    /// `AlreadyExists`, `NoSpace`, `Io`.
    ///
    /// # Panics
    /// When the options are not sound.
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        options: TreeOptions,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        assert!(options.is_sound(), "a tree is made with sound options");
        let payload = Payload {
            root: None,
            flushed_lsn: Lsn(0),
            next_child_id: 1,
            options,
            rows: 0,
            raw_bytes: 0,
        };
        let file = BlockFile::create(disk, path, file_id, &payload.encode())?;
        Self::from_payload(file, payload, cache)
    }

    /// Opens a tree as of its last checkpoint. Reads the nodes; runs are read
    /// when they are used.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`, `NotFound`, `Io`.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: Option<FileId>,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let (file, payload) = BlockFile::open(disk, path, expected)?;
        let payload = Payload::decode(path, &payload)?;
        Self::from_payload(file, payload, cache)
    }

    fn from_payload(
        file: BlockFile,
        payload: Payload,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let options = payload.options;
        let mut install = InstallState::new(payload.flushed_lsn, payload.next_child_id.max(1));
        let root = match payload.root {
            Some(address) => {
                let mut loader = NodeLoader::new(&file, cache, &options);
                let root = loader.load_root(address)?;
                install.next_child_id = install.next_child_id.max(loader.child_id_max() + 1);
                install.written_nodes = loader.into_addresses();
                root
            }
            None => Node::empty(install.take_child_id(), &options),
        };
        let active = MemtableSlot::new();
        let version = TreeVersion {
            active: Arc::clone(&active),
            frozen: Vec::new(),
            root,
            pin: Arc::new(file.pin()),
            awaits_base: false,
        };
        Ok(Arc::new(Self {
            file,
            cache: Arc::clone(cache),
            options: ArcSwap::from_pointee(options),
            active: RwLock::new(active),
            version: ArcSwap::from_pointee(version),
            generation: AtomicU64::new(0),
            passed_keys: AtomicU64::new(0),
            install: Mutex::new(install),
            checkpoint: Mutex::new(()),
            counters: TreeCounters::default(),
        }))
    }

    /// The file's id.
    #[must_use]
    pub fn file_id(&self) -> FileId {
        self.file.file_id()
    }

    /// The file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives space that failed work has left at the end of the file back.
    pub fn give_back_tail(&self) {
        self.file.truncate_free_tail();
    }

    /// The options that new blocks follow.
    #[must_use]
    pub fn options(&self) -> Arc<TreeOptions> {
        self.options.load_full()
    }

    /// Changes the options for what is written from now on. Durable with the
    /// next checkpoint.
    ///
    /// # Panics
    /// When the options are not sound.
    pub fn set_options(&self, options: TreeOptions) {
        assert!(options.is_sound(), "a tree is given sound options");
        self.options.store(Arc::new(options));
        self.install.lock().changed = true;
    }

    /// The least and greatest write id that any memtable or run names;
    /// `None` when all is settled. Ids below are needed by nothing here.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        let version = self.load_version();
        let memtables = version.memtables();
        let ids = memtables.filter_map(|slot| slot.memtable.write_id_range());
        ids.chain(version.root.summary.write_ids)
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether some memtable or run may hold writes from `least` to `greatest`.
    #[must_use]
    pub fn may_hold(&self, min: WriteId, max: WriteId) -> bool {
        self.write_id_range()
            .is_some_and(|(first, last)| first <= max && min <= last)
    }

    /// Points in memtables and runs, all versions counted.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let version = self.load_version();
        let memtables = version.memtables().map(|slot| slot.memtable.entries());
        memtables.sum::<u64>() + version.root.summary.entries
    }

    /// Whether everything flushed lies in leaves, and nothing waits to be.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let version = self.load_version();
        let summary = &version.root.summary;
        version.frozen.is_empty() && !summary.holds_buffered && !summary.holds_pending
    }

    /// The current version, for a short use on this thread.
    #[inline]
    pub(crate) fn load_version(&self) -> arc_swap::Guard<Arc<TreeVersion>> {
        self.version.load()
    }
}
