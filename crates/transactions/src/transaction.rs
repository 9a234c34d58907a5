//! The part of a transaction that its own thread uses: the ids of its writes,
//! its savepoints and its locks. It belongs to one thread at a time.

use crate::handle::TransactionHandle;
use crate::lock_id::{IdentityBuild, LockId};
use crate::lock_types::{HeldLock, LockMode};
use crate::range_locks::{RangeLocks, RowRange};
use crate::row_name::RowName;
use crate::snapshots::HeldSnapshot;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::stripes::Stripe;
use teak_base::{CommitSequence, TransactionId, WriteId, WriteIdRange, WriteIdRanges};

/// A transaction takes write ids in blocks: the size of a block is the number of ids that the
/// transaction has, divided by this, but at least one. So its ids form few ranges, even if other
/// transactions take ids in between.
const BLOCK_SHARE: u64 = if cfg!(feature = "schedules") { 1 } else { 64 };

/// Maximum number of ids in a block.
const BLOCK_IDS_MAX: u64 = if cfg!(feature = "schedules") { 3 } else { 4096 };

/// Number of ranges in a transaction's list of write ids that are not counted as lock memory.
const RANGES_FREE: usize = 1024;

/// A point in a transaction's writes to which it can roll back: the number of write ids that it had
/// at that point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u64);

/// The part of a transaction that its own thread uses.
#[derive(Debug)]
pub struct Transaction {
    handle: Arc<TransactionHandle>,
    /// Ids of writes that were not rolled back, oldest first.
    pub(crate) ids: WriteIdRanges,
    /// The ids of a block that no write has taken yet. Their status is active.
    reserved: Option<WriteIdRange>,
    /// The part of the memory of the list of ids that is counted as lock memory, in bytes.
    pub(crate) counted_id_bytes: u64,
    /// Whether further writes may use the newest id.
    open: bool,
    /// Number of savepoints set so far. A lock stores the number at its acquisition.
    pub(crate) savepoints: u64,
    pub(crate) held: HashMap<LockId, HeldLock, IdentityBuild>,
    /// Indexes in which it has locked rows.
    pub(crate) row_locked_indexes: Vec<Arc<RangeLocks>>,
    /// Row ranges that replaced its row locks after escalation.
    pub(crate) row_ranges: Vec<(Arc<RangeLocks>, RowRange)>,
    /// Indexes in which it holds range locks.
    pub(crate) range_locked_indexes: Vec<Arc<RangeLocks>>,
    pub(crate) snapshot: Option<HeldSnapshot>,
    /// The part of the running-transactions table that contains it.
    pub(crate) stripe: Stripe,
    /// Whether it locked or wrote rows that were committed after its snapshot.
    pub(crate) is_past_snapshot: bool,
}

impl Transaction {
    pub(crate) fn new(handle: Arc<TransactionHandle>, stripe: Stripe) -> Self {
        Self {
            handle,
            ids: WriteIdRanges::default(),
            reserved: None,
            counted_id_bytes: 0,
            open: false,
            savepoints: 0,
            held: HashMap::default(),
            row_locked_indexes: Vec::new(),
            row_ranges: Vec::new(),
            range_locked_indexes: Vec::new(),
            snapshot: None,
            stripe,
            is_past_snapshot: false,
        }
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.handle.id()
    }

    /// The part that other threads may use.
    #[must_use]
    pub fn handle(&self) -> &Arc<TransactionHandle> {
        &self.handle
    }

    /// Whether it has writes that were not rolled back.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The ids of its writes that were not rolled back, oldest first.
    #[must_use]
    pub fn write_ids(&self) -> &WriteIdRanges {
        &self.ids
    }

    /// The newest id, if the next write may use it.
    #[must_use]
    pub fn open_write_id(&self) -> Option<WriteId> {
        if self.open { self.ids.last() } else { None }
    }

    pub(crate) fn push_write_ids(&mut self, ids: WriteIdRange) {
        self.ids.push_range(ids);
        self.open = true;
        self.handle.set_write_ids(self.ids.len());
    }

    /// The number of ids to allocate for its next writes.
    pub(crate) fn block_ids(&self) -> u64 {
        (self.ids.len() / BLOCK_SHARE).clamp(1, BLOCK_IDS_MAX)
    }

    /// Stores a block of allocated ids. A write that needs a new id (the first one, and the first
    /// one after a savepoint) takes the next id of the block. The previous block must be used up.
    pub(crate) fn reserve_write_ids(&mut self, block: WriteIdRange) {
        self.reserved = Some(block);
    }

    /// The next of the reserved ids.
    pub(crate) fn take_reserved_id(&mut self) -> Option<WriteId> {
        let block = self.reserved?;
        let next = WriteIdRange {
            first: WriteId(block.first.0 + 1),
            count: block.count - 1,
        };
        self.reserved = (next.count > 0).then_some(next);
        self.push_write_ids(WriteIdRange::one(block.first));
        Some(block.first)
    }

    /// Adds the reserved ids that no write has taken to the transaction's ids, so
    /// that they are logged and ended with the others. Must be called before the end
    /// of the transaction is logged; the transaction must not write afterwards.
    pub fn close_write_ids(&mut self) {
        if let Some(rest) = self.reserved.take() {
            self.ids.push_range(rest);
        }
        self.open = false;
    }

    /// The part of the memory of its list of ids that counts as lock memory, in bytes.
    pub(crate) fn id_list_bytes(&self) -> u64 {
        let ranges = self.ids.ranges().len().saturating_sub(RANGES_FREE);
        (ranges * size_of::<WriteIdRange>()) as u64
    }

    /// Sets a savepoint: later writes take another id.
    pub fn savepoint(&mut self) -> Savepoint {
        self.open = false;
        self.savepoints += 1;
        Savepoint(self.ids.len())
    }

    /// Removes and returns the ids of the writes after `savepoint`.
    pub(crate) fn split_off(&mut self, savepoint: Savepoint) -> WriteIdRanges {
        self.open = false;
        let removed = self.ids.split_off(savepoint.0);
        self.handle.set_write_ids(self.ids.len());
        removed
    }

    /// The snapshot, if one was taken.
    #[must_use]
    pub fn snapshot(&self) -> Option<CommitSequence> {
        self.snapshot.map(|held| held.sequence)
    }

    /// Records that the transaction locked or wrote a row whose newest version is newer than its
    /// snapshot.
    pub fn set_past_snapshot(&mut self) {
        self.is_past_snapshot = true;
    }

    /// Whether its own writes may have replaced versions that its snapshot does not see. If so,
    /// secondary index entries that the snapshot sees may not match the visible row versions.
    #[must_use]
    pub fn is_past_snapshot(&self) -> bool {
        self.is_past_snapshot
    }

    /// Whether one of its row ranges covers the row in this mode or a stronger one.
    #[must_use]
    pub fn covers(&self, row: &RowName<'_>, mode: LockMode) -> bool {
        self.row_ranges.iter().any(|(index, range)| {
            Arc::ptr_eq(index, row.index) && range.mode >= mode && range.covers(row.key)
        })
    }

    /// Whether it holds a lock of the row, or a row range that contains the row, in this mode or a
    /// stronger one.
    #[must_use]
    pub fn holds(&self, row: RowName<'_>, mode: LockMode) -> bool {
        let held = self.held.get(&row.lock);
        held.is_some_and(|held| held.mode >= mode) || self.covers(&row, mode)
    }

    /// Whether the row is unchanged since it was locked: the transaction holds
    /// its lock in `mode` or stronger and has not written the row since.
    #[must_use]
    pub fn holds_unwritten(&self, lock: LockId, mode: LockMode) -> bool {
        let covers = |held: &HeldLock| held.mode >= mode && !held.written;
        !self.held.is_empty() && self.held.get(&lock).is_some_and(covers)
    }

    /// Notes that the transaction may have written every row that it has locked.
    pub fn note_locked_rows_written(&mut self) {
        for held in self.held.values_mut() {
            held.written = true;
        }
    }

    /// Number of row locks held, without row ranges.
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.held.len()
    }

    /// Whether other transactions may have to wait for it: it holds row or range locks, or has
    /// writes, which are implicit locks.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        self.has_writes()
            || !self.held.is_empty()
            || !self.row_ranges.is_empty()
            || !self.range_locked_indexes.is_empty()
    }

    pub(crate) fn note_row_locked_index(&mut self, index: &Arc<RangeLocks>) {
        let last = self.row_locked_indexes.last();
        if last.is_some_and(|last| Arc::ptr_eq(last, index))
            || self
                .row_locked_indexes
                .iter()
                .any(|known| Arc::ptr_eq(known, index))
        {
            return;
        }
        self.row_locked_indexes.push(Arc::clone(index));
    }
}
