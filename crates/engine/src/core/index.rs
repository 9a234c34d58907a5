//! One open index: its tree, its range locks, and the state of background work
//! on it.

use super::index_load::IndexLoad;
use super::retry::Retry;
use super::unique_build::UniqueBuild;
use super::work_kind::WorkKind;
use super::write_access::WriteAccess;
use crate::catalogue::{IndexEntry, IndexSizes};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use teak_base::{Lsn, StorageError, WriteId};
use teak_transactions::RangeLocks;
use teak_tree::Tree;

/// One open index.
#[derive(Debug)]
pub(crate) struct Index {
    pub entry: IndexEntry,
    pub tree: Arc<Tree>,
    /// Whether the index is in the engine's list of written indexes.
    pub registered: AtomicBool,
    pub access: WriteAccess,
    /// Dropped, replaced, or built by an alteration that failed: no more background work.
    pub dropped: AtomicBool,
    /// Why the alteration that was building the index cannot be completed.
    build_failure: OnceLock<StorageError>,
    /// Until the alteration that builds the unique index is committed.
    unique_build: OnceLock<UniqueBuild>,
    /// The log records that its file lacks are in a file of retained records, so the log need not
    /// keep them.
    log_retained: AtomicBool,
    /// Recovery skips log records before this position because the file contains their effects.
    pub replay_from: Lsn,
    /// Snapshots with a smaller commit sequence must not read the index, because it lacks older
    /// versions of the rows. Zero: every snapshot can read it.
    pub created_at: AtomicU64,
    /// The durable file contains no entry of an aborted write below this one; zero when it contains
    /// none at all.
    durable_oldest: AtomicU64,
    /// Range locks of transactions on this index.
    pub ranges: Arc<RangeLocks>,
    /// How far background work is behind the writers.
    pub load: IndexLoad,
    flushes: Retry,
    merges: Retry,
    /// The failures of checkpoints.
    pub checkpoint_retry: Retry,
    /// Whether damage was found in any index of the table, which shares this flag.
    pub damaged: Arc<AtomicBool>,
}

impl Index {
    pub(crate) fn new(entry: IndexEntry, tree: Arc<Tree>, damaged: &Arc<AtomicBool>) -> Self {
        Self {
            ranges: Arc::new(RangeLocks::new(entry.file)),
            entry,
            registered: AtomicBool::new(false),
            access: WriteAccess::default(),
            dropped: AtomicBool::new(false),
            build_failure: OnceLock::new(),
            unique_build: OnceLock::new(),
            log_retained: AtomicBool::new(false),
            replay_from: tree.flushed_lsn(),
            created_at: AtomicU64::new(0),
            durable_oldest: AtomicU64::new(oldest_of(&tree).0),
            load: IndexLoad::default(),
            flushes: Retry::default(),
            merges: Retry::default(),
            checkpoint_retry: Retry::default(),
            damaged: Arc::clone(damaged),
            tree,
        }
    }

    /// Whether it belongs to a temporary table: its writes are not logged, and
    /// its file is never synced.
    #[inline]
    pub(crate) fn is_temporary(&self) -> bool {
        self.entry.is_temporary()
    }

    /// Whether its log records are retained apart from the log.
    pub(crate) fn is_log_retained(&self) -> bool {
        self.log_retained.load(Ordering::Acquire)
    }

    pub(crate) fn set_log_retained(&self, is_retained: bool) {
        self.log_retained.store(is_retained, Ordering::Release);
    }

    /// Ends the building of the index: the alteration fails, and writers skip the
    /// index. After the call no writer inserts into it.
    pub(crate) fn fail_build(&self, cause: &StorageError) {
        let _ = self.build_failure.set(cause.clone());
        self.access.refuse(cause);
        self.tree.wait_for_writers();
    }

    /// Why the alteration that was building the index cannot be completed.
    pub(crate) fn build_failure(&self) -> Option<&StorageError> {
        self.build_failure.get()
    }

    /// Called before writers see the index, if its uniqueness is to be checked while they write.
    pub(crate) fn set_unique_build(&self, build: UniqueBuild) {
        let _ = self.unique_build.set(build);
    }

    /// The state of its uniqueness, while it is not part of its table.
    #[inline]
    pub(crate) fn unique_build(&self) -> Option<&UniqueBuild> {
        let build = self.unique_build.get();
        build.filter(|build| !build.is_committed())
    }

    /// Ends the building of a unique index, because a writer has found another entry with its key.
    pub(crate) fn fail_unique_build(&self, key: &[u8], value: &[u8]) {
        if let Some(build) = self.unique_build.get() {
            build.set_duplicate(key, value);
        }
        self.fail_build(&StorageError::Interrupted);
    }

    /// The entry with a duplicate key because of which the building has ended.
    pub(crate) fn found_duplicate(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.unique_build.get().and_then(UniqueBuild::duplicate)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The attempts at one kind of work. They are separate, so that a leaf that
    /// cannot be merged does not prevent memtables from being flushed.
    pub(crate) fn attempts(&self, kind: WorkKind) -> &Retry {
        match kind {
            WorkKind::Memtables => &self.flushes,
            WorkKind::Runs => &self.merges,
        }
    }

    /// Allows immediate retries of work that failed because the disk was full.
    pub(crate) fn space_freed(&self) {
        self.flushes.space_freed();
        self.merges.space_freed();
        self.checkpoint_retry.space_freed();
    }

    /// The failure of the last flush, or if it succeeded, that of the last merge.
    /// Failures of checkpoints are not included.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.flushes.failure().or_else(|| self.merges.failure())
    }

    /// Whether flushes and merges may be tried now.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        !self.is_dropped() && self.flushes.may_try(now) && self.merges.may_try(now)
    }

    /// Whether a checkpoint in the background may be tried now.
    pub(crate) fn may_checkpoint(&self, now: Instant) -> bool {
        !self.is_dropped() && self.checkpoint_retry.may_try(now)
    }

    /// Notes that the durable file may soon contain entries of aborted writes from `oldest` on.
    pub(crate) fn may_contain(&self, oldest: WriteId) {
        let before = WriteId(self.durable_oldest.load(Ordering::Acquire));
        let oldest = oldest_unpurged([before, oldest]);
        self.durable_oldest.store(oldest.0, Ordering::Release);
    }

    /// Notes that the durable file contains no entry of an aborted write below `oldest`, or
    /// none at all. Called at the end of a checkpoint, while no other one of the index
    /// is in progress.
    pub(crate) fn contains_from(&self, oldest: Option<WriteId>) {
        let oldest = oldest.unwrap_or(WriteId::SETTLED);
        self.durable_oldest.store(oldest.0, Ordering::Release);
    }

    /// The position from which recovery would need this index's log records,
    /// `None` when its file contains everything. `log_end` returns the log's end.
    pub(crate) fn log_needed_from(&self, log_end: impl Fn() -> Lsn) -> Option<Lsn> {
        let mut end = Lsn(0);
        let needed = self.tree.oldest_needed_lsn(|| {
            end = log_end();
            end
        });
        (needed < end).then_some(needed)
    }

    /// The sizes for the catalogue.
    fn sizes(&self) -> IndexSizes {
        let tree = self.tree.statistics();
        let file = self.tree.file_statistics();
        IndexSizes {
            entries: tree.rows,
            tombstones: tree.deletes + tree.range_tombstones,
            raw_bytes: tree.raw_bytes + tree.memtable_bytes + tree.frozen_bytes,
            file_bytes: file.file_bytes,
            unused_bytes: file.unused_bytes(),
            height: tree.height,
            runs: tree.runs,
        }
    }

    /// Updates the catalogue's entry of the index.
    pub(crate) fn update(&self, entry: &mut IndexEntry) {
        entry.oldest_write_id = self.oldest_write_id();
        entry.durable_generation = self.tree.durable_generation();
        entry.encryption = self.tree.encryption_state();
        entry.sizes = self.sizes();
    }

    /// The oldest aborted id that the file may contain when the engine is opened
    /// next, if recovery then replays no records of the index. Zero when there is none.
    fn oldest_write_id(&self) -> WriteId {
        let live = oldest_of(&self.tree);
        let durable = WriteId(self.durable_oldest.load(Ordering::Acquire));
        oldest_unpurged([live, durable])
    }

    /// The oldest id of which the index may have entries, now or after a crash, log records
    /// included, although its write is aborted or may be later. Zero when there is none.
    pub(crate) fn oldest_recoverable_write_id(&self) -> WriteId {
        // Read in the order in which ids move, from memtables and runs to the
        // durable file, so that none is missed while a flush or a checkpoint runs.
        let live = oldest_of(&self.tree);
        let undurable = self.tree.oldest_undurable_write_id();
        let durable = WriteId(self.durable_oldest.load(Ordering::Acquire));
        oldest_unpurged([live, undurable.unwrap_or(WriteId::SETTLED), durable])
    }
}

/// The oldest of the ids that are not zero; zero if there is none.
fn oldest_unpurged<const N: usize>(ids: [WriteId; N]) -> WriteId {
    let unsettled = ids.into_iter().filter(|id| !id.is_settled());
    unsettled.min().unwrap_or(WriteId::SETTLED)
}

fn oldest_of(tree: &Tree) -> WriteId {
    let oldest = tree.oldest_unpurged_write_id();
    oldest.unwrap_or(WriteId::SETTLED)
}

/// Sets the tree's options from its catalogue entry. The file may contain older options.
pub(crate) fn adopt_options(tree: &Tree, entry: &IndexEntry) {
    let old = tree.options();
    let mut options = (*old).clone();
    entry.apply_to(&mut options);
    if options != *old {
        tree.set_options(options);
    }
}
