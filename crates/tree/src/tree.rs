//! The tree: its current version, and the state that changes it.
//!
//! Lock order:
//! 1. The file's checkpoint turn: one checkpoint at a time.
//! 2. `active`: shared by writers; exclusive to freeze the memtable, and to wait for writers.
//! 3. `freeing`: taken by threads that install results of jobs or make checkpoints.
//! 4. `install`: claims, and the replacement of the version; held briefly, and
//!    never during I/O.
//!
//! Reads of entries take none of these locks: a reader loads the current version and holds a
//! reference to it.

use crate::block_memory::FileBlocks;
use crate::counters::TreeCounters;
use crate::install_state::InstallState;
use crate::live_versions::LiveVersions;
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::memory::TreeAccount;
use crate::node::{Key, Node, NodeReader, WATERMARK_MIN};
use crate::payload::Payload;
use crate::shared_runs::SharedRuns;
use crate::version::{MemtableSlot, TreeVersion};
use crate::{FilterChecks, PageCache, TreeOptions};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use teak_base::{FileId, StorageError, StorageResult, WriteId};
use teak_block_file::BlockFile;
use teak_disk::Disk;

/// One index: memtables, and a file of runs below them. All functions may be
/// called from several threads.
pub struct Tree {
    pub(crate) file: BlockFile,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) options: ArcSwap<TreeOptions>,
    /// The active memtable. The current version refers to the same one.
    pub(crate) active: RwLock<Arc<MemtableSlot>>,
    pub(crate) version: ArcSwap<TreeVersion>,
    live_versions: Arc<LiveVersions>,
    /// Number of freezes. Cursors compare it to detect a freeze.
    pub(crate) generation: AtomicU64,
    /// Keys without a visible value that cursors have passed since [`Tree::next_reader_job`] last
    /// took a request (see `flush::readers`).
    pub(crate) passed_keys: AtomicU64,
    /// The settled watermark (see [`Tree::note_settled`]).
    pub(crate) settled_below: AtomicU64,
    /// The number of flushed memtables from which on a key of [`InstallState::hidden`] is tried.
    pub(crate) hidden_from: AtomicU64,
    /// A key near which cursors have passed many such keys.
    pub(crate) slow_read: Mutex<Option<Key>>,
    pub(crate) account: Arc<TreeAccount>,
    /// Shared from the installation of a job's result until all blocks that it frees are free;
    /// exclusive while a checkpoint captures the space. So the captured state has all of these
    /// blocks free, or none.
    pub(crate) freeing: RwLock<()>,
    pub(crate) install: Mutex<InstallState>,
    pub(crate) nodes: NodeReader,
    pub(crate) counters: TreeCounters,
    /// The size of the upper runs when the tree was opened.
    pub(crate) upper_bytes_opened: u64,
    /// Counts the file's blocks in memory.
    pub(crate) blocks: FileBlocks,
    /// The checks of the file's filters that were counted when the tree was opened, if it was open before.
    pub(crate) checks_opened: FilterChecks,
    /// Whether the tree was opened with [`Tree::open_damaged`].
    is_for_salvage: bool,
    /// The superblock and the root, if they were skipped.
    pub(crate) lost: Vec<LostPart>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// Creates the file of an empty tree. The file is durable on return; its
    /// name is durable once the caller syncs the directory.
    ///
    /// # Errors
    /// `AlreadyExists`, `NoSpace`, `Io`; `Key` if the key of the options is not available.
    ///
    /// # Panics
    /// When the options are not valid.
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        options: TreeOptions,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        assert!(options.is_valid(), "the options are valid");
        // Before there is a file that cannot be written.
        let key = cache.encryption(options.encryption_key).current(path)?;
        let payload = Payload::empty(options);
        let file = BlockFile::create_encrypted(disk, path, file_id, &payload.encode(), key)?;
        Self::load(file, payload, cache, false, Vec::new())
    }

    /// Opens a tree as of its last checkpoint. Reads the root; other nodes and
    /// runs are read on use.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`, `NotFound`, `Io`; `Key` if the root is encrypted and its key is not available.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: Option<FileId>,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        Self::of_file(BlockFile::open(disk, path, expected)?, path, cache)
    }

    /// As [`Tree::open`], for a file whose checkpoint `generation_min` is known to have
    /// been durable, see [`Tree::durable_generation`].
    ///
    /// # Errors
    /// Also `Corrupt` for a file whose last valid checkpoint is older.
    pub fn open_not_before(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: FileId,
        generation_min: u64,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let opened = BlockFile::open_not_before(disk, path, expected, generation_min)?;
        Self::of_file(opened, path, cache)
    }

    /// Opens a tree whose blocks may be damaged, to be salvaged: an unreadable
    /// root becomes an empty one. If the disk does not read one superblock,
    /// or if none of a checkpoint from `generation_min` on is valid, the newest state
    /// that can be read is opened. Writes nothing; checkpoints fail.
    ///
    /// # Errors
    /// `Corrupt` when no superblock is valid; `UnsupportedFormat`, `NotFound`, `Io`.
    pub fn open_damaged(
        disk: &Arc<dyn Disk>,
        path: &Path,
        expected: FileId,
        generation_min: u64,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let (file, payload, older) = BlockFile::open_damaged(disk, path, expected, generation_min)?;
        let payload = Payload::decode(path, &payload)?;
        let lost = older.map(|cause| LostPart {
            hides_older: true,
            ..LostPart::new(LostKind::Checkpoint, &[], None, cause)
        });
        let lost = lost.into_iter().collect();
        Self::load(file, payload, cache, true, lost)
    }

    /// Opens a file of which no superblock is valid, as an empty tree that lacks everything. See [`Tree::visit_pages`].
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn open_without_superblock(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file_id: FileId,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let file = BlockFile::open_without_superblock(disk, path, file_id)?;
        let cause = StorageError::corrupt(path, 0, "no superblock is valid");
        let lost = vec![LostPart::new(LostKind::Subtree, &[], None, cause)];
        Self::load(
            file,
            Payload::empty(TreeOptions::default()),
            cache,
            true,
            lost,
        )
    }

    /// The tree of an open file and the payload of its superblock.
    fn of_file(
        (file, payload): (BlockFile, Vec<u8>),
        path: &Path,
        cache: &Arc<PageCache>,
    ) -> StorageResult<Arc<Self>> {
        let payload = Payload::decode(path, &payload)?;
        Self::load(file, payload, cache, false, Vec::new())
    }

    fn load(
        file: BlockFile,
        payload: Payload,
        cache: &Arc<PageCache>,
        is_for_salvage: bool,
        mut lost: Vec<LostPart>,
    ) -> StorageResult<Arc<Self>> {
        let (mut options, file_id) = (payload.options, file.file_id());
        options.encryption_key = file.encryption_state().with.map(|with| with.key);
        file.set_encryption(cache.encryption(options.encryption_key));
        let next_child_id = payload.next_child_id.max(1);
        let mut install = InstallState::new(payload.flushed_lsn, next_child_id);
        let nodes = NodeReader::new(&file, cache, next_child_id);
        let root = match payload.root {
            Some(address) => match nodes.read_root(address) {
                Err(error) if is_for_salvage && is_loss(&error) => {
                    lost.push(LostPart::new(LostKind::Subtree, &[], None, error));
                    Node::empty(install.take_child_id(), &options, cache.nodes())
                }
                read => read?,
            },
            None => Node::empty(install.take_child_id(), &options, cache.nodes()),
        };
        if !is_for_salvage {
            // Only the installation of jobs needs the list, and a salvaged tree has no jobs.
            let shared = SharedRuns::read(&file, payload.shared_runs)?;
            (install.shared, install.shared_blocks) = shared;
        }
        let account = TreeAccount::new(cache.memtables(), file.file_id());
        let active = MemtableSlot::new(&account);
        let upper_bytes_opened = root.summary.upper_bytes;
        let version = Arc::new(TreeVersion {
            active: Arc::clone(&active),
            frozen: Vec::new(),
            flushed: 0,
            root,
            pin: Arc::new(file.pin()),
            checkpoint_pin: install.checkpoint_pin(),
            awaits_base: false,
        });
        let live_versions = Arc::new(LiveVersions::default());
        live_versions.add(&version);
        Ok(Arc::new(Self {
            file,
            cache: Arc::clone(cache),
            options: ArcSwap::from_pointee(options),
            active: RwLock::new(active),
            version: ArcSwap::new(version),
            live_versions,
            generation: AtomicU64::new(0),
            passed_keys: AtomicU64::new(0),
            settled_below: AtomicU64::new(WATERMARK_MIN.0),
            hidden_from: AtomicU64::new(u64::MAX),
            slow_read: Mutex::new(None),
            account,
            freeing: RwLock::new(()),
            install: Mutex::new(install),
            nodes,
            counters: TreeCounters::default(),
            upper_bytes_opened,
            checks_opened: cache.blocks_in_memory().file_filters(file_id).checks,
            blocks: cache.blocks_in_memory().of_file(file_id),
            is_for_salvage,
            lost,
        }))
    }

    /// The file's id.
    #[must_use]
    pub fn file_id(&self) -> FileId {
        self.file.file_id()
    }

    /// Whether the tree was opened with [`Tree::open_damaged`]: parts of it may be
    /// missing.
    #[inline]
    #[must_use]
    pub fn is_for_salvage(&self) -> bool {
        self.is_for_salvage
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Truncates free space at the end of the file, which failed jobs may have left.
    pub fn truncate_free_tail(&self) {
        self.file.truncate_free_tail();
    }

    /// The current options.
    #[must_use]
    pub fn options(&self) -> Arc<TreeOptions> {
        self.options.load_full()
    }

    /// Changes the options. The change is durable with the next checkpoint.
    ///
    /// # Panics
    /// When the options are not valid.
    pub fn set_options(&self, options: TreeOptions) {
        assert!(options.is_valid(), "the options are valid");
        let encryption = self.cache.encryption(options.encryption_key);
        self.file.set_encryption(encryption);
        self.options.store(Arc::new(options));
        self.install.lock().changed = true;
    }

    /// The minimum and maximum unsettled write id in memtables and runs; `None`
    /// when everything is settled.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        let version = self.load_version();
        let memtables = version.memtables();
        let ids = memtables.filter_map(|slot| slot.memtable.write_id_range());
        ids.chain(version.root.summary.write_ids)
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The oldest write id that the tree may contain although its write is aborted, or may be
    /// later: merges have dropped the entries of older aborted writes. `None` if there is none.
    #[must_use]
    pub fn oldest_unpurged_write_id(&self) -> Option<WriteId> {
        let version = self.load_version();
        let memtables = version.memtables();
        let ids = memtables.filter_map(|slot| slot.memtable.write_id_range());
        ids.map(|(oldest, _)| oldest)
            .chain(version.root.summary.oldest_unpurged)
            .min()
    }

    /// The versions of the tree that readers may use.
    #[must_use]
    pub fn live_versions(&self) -> &Arc<LiveVersions> {
        &self.live_versions
    }

    /// Replaces the current version. The caller holds the install lock.
    pub(crate) fn publish_version(&self, version: TreeVersion) {
        let version = Arc::new(version);
        self.live_versions.add(&version);
        self.version.store(version);
    }

    /// The oldest unsettled write id in the memtables.
    #[must_use]
    pub fn oldest_memtable_write_id(&self) -> Option<WriteId> {
        let version = self.load_version();
        let memtables = version.memtables();
        let ids = memtables.filter_map(|slot| slot.memtable.write_id_range());
        ids.map(|(oldest, _)| oldest).min()
    }

    /// Whether a memtable or run may contain entries with unsettled write ids from `min` to `max`.
    #[must_use]
    pub fn may_hold(&self, min: WriteId, max: WriteId) -> bool {
        self.write_id_range()
            .is_some_and(|(first, last)| first <= max && min <= last)
    }

    /// The number of entries in memtables and runs, counting all versions.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let version = self.load_version();
        let memtables = version.memtables().map(|slot| slot.memtable.entries());
        memtables.sum::<u64>() + version.root.summary.entries
    }

    /// The number of range tombstones in the active memtable.
    #[must_use]
    pub fn active_tombstones(&self) -> usize {
        self.load_version().active.memtable.tombstone_count()
    }

    /// Whether all flushed entries are in bottom runs, and no memtable waits to be flushed.
    #[must_use]
    pub fn is_fully_merged(&self) -> bool {
        let version = self.load_version();
        let summary = &version.root.summary;
        version.frozen.is_empty() && !summary.holds_buffered && !summary.holds_pending
    }

    /// The current version, for short use on this thread.
    #[inline]
    pub(crate) fn load_version(&self) -> arc_swap::Guard<Arc<TreeVersion>> {
        self.version.load()
    }
}
