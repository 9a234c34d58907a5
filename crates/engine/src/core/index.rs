//! One open index: its tree, its range locks, and the state of background work
//! on it.

use super::index_load::IndexLoad;
use super::retry::Retry;
use super::work_kind::WorkKind;
use crate::catalogue::IndexEntry;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Dropped or replaced: no more background work.
    pub dropped: AtomicBool,
    /// The file is too large for its live bytes.
    pub space_due: AtomicBool,
    /// Held during a checkpoint of the file, so that who finds that it needs
    /// none knows that the last one is durable.
    pub checkpointing: Mutex<()>,
    /// Recovery skips log records before this position because the file contains their effects.
    pub replay_from: Lsn,
    /// The newest commit sequence when the index was created. An older snapshot must not read the
    /// index, because the index lacks older versions of the rows. Zero: every snapshot can read it.
    pub created_at: AtomicU64,
    /// The durable file contains no unsettled write id below this one.
    pub durable_oldest: AtomicU64,
    /// Range locks of transactions on this index.
    pub ranges: Arc<RangeLocks>,
    /// How far background work is behind the writers.
    pub load: IndexLoad,
    flushes: Retry,
    merges: Retry,
    /// Shared with the table.
    pub damaged: Arc<AtomicBool>,
}

impl Index {
    pub(crate) fn new(entry: IndexEntry, tree: Arc<Tree>, damaged: &Arc<AtomicBool>) -> Self {
        Self {
            ranges: Arc::new(RangeLocks::new(entry.file)),
            entry,
            registered: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
            space_due: AtomicBool::new(false),
            checkpointing: Mutex::new(()),
            replay_from: tree.flushed_lsn(),
            created_at: AtomicU64::new(0),
            durable_oldest: AtomicU64::new(oldest_of(&tree).0),
            load: IndexLoad::default(),
            flushes: Retry::default(),
            merges: Retry::default(),
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

    /// The syncs of its file, of which `calls` were requested: those of a
    /// temporary file did nothing.
    pub(crate) fn data_syncs(&self, calls: u64) -> u64 {
        if self.is_temporary() { 0 } else { calls }
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The attempts at one kind of work. A leaf that cannot be merged does not
    /// prevent memtables from being flushed.
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
    }

    /// The last failure of background work, unless such work has succeeded
    /// since.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.flushes.failure().or_else(|| self.merges.failure())
    }

    /// Whether all background work may be tried now.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        !self.is_dropped() && self.flushes.may_try(now) && self.merges.may_try(now)
    }

    /// The position from which recovery would need this index's log records; `None` if its file
    /// contains all of them. `log_end` returns the log's end.
    pub(crate) fn log_needed_from(&self, log_end: impl Fn() -> Lsn) -> Option<Lsn> {
        let mut end = Lsn(0);
        let needed = self.tree.oldest_needed_lsn(|| {
            end = log_end();
            end
        });
        (needed < end).then_some(needed)
    }

    /// The oldest unsettled write id that the file may contain at the next start, if recovery then
    /// replays no log record for it. Zero: no such id.
    pub(crate) fn oldest_write_id(&self, log_end: impl Fn() -> Lsn) -> WriteId {
        let clean = self.log_needed_from(log_end).is_none();
        let live = oldest_of(&self.tree);
        let durable = WriteId(self.durable_oldest.load(Ordering::Acquire));
        match (clean, live.is_settled(), durable.is_settled()) {
            (true, ..) | (false, _, true) => live,
            (false, true, false) => durable,
            (false, false, false) => live.min(durable),
        }
    }
}

fn oldest_of(tree: &Tree) -> WriteId {
    let range = tree.write_id_range();
    range.map_or(WriteId::SETTLED, |(oldest, _)| oldest)
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
