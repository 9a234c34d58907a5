//! The range locks and row ranges of one index.
//!
//! **Range locks** protect the intervals that locking reads have scanned, until
//! the reader's transaction ends. A gap lock blocks inserts by other
//! transactions, so a repeated scan finds no phantom row. A write range lock
//! also blocks updates and deletes, so a long scan needs no lock for each row.
//! Range locks never conflict with each other, only with writes. A request for
//! a range in which an earlier write is blocked waits for that write (see
//! `queue`).
//!
//! A locking read and a write of the same range may run concurrently:
//! 1. The reader adds its range lock, then waits until the writes in progress
//!    have inserted their entries, then reads.
//! 2. A writer takes a write guard, checks the range locks, then inserts. The wait in step 1 ends
//!    when all write guards taken before it are dropped.
//!
//! So the reader sees the write, or the writer sees the range lock.
//!
//! **Row ranges** replace the row locks of a transaction after lock escalation, at most one per
//! transaction and index. Each row of the range is locked as by a row lock. A row range blocks only
//! later requests: a transaction that has already locked or written a row keeps its lock, and the
//! owner of the range must wait for that transaction before it accesses the row. An exclusive row
//! range never overlaps a write range lock of another transaction, because its owner writes there
//! without checking range locks.
//!
//! Lock order: the waits-for graph, then a shard of row locks, then the state
//! of one index, then a transaction's waker.

mod held_ranges;
mod intervals;
mod queue;
mod row_ranges;

pub(crate) use self::row_ranges::RowRange;

use self::held_ranges::{HeldRanges, OwnedRanges};
use self::queue::{RangeQueue, RangeRequest};
use self::row_ranges::RowRanges;
use crate::handle::TransactionHandle;
use crate::lock_id::LockId;
use crate::lock_types::{BlockerKind, Blockers, LockMode, RangeLockKind, Resized};
use crate::report::{LockExtent, LockReport};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use teak_base::{FileId, TransactionId};

/// Returns a function that reports whether the range locks `own` block a write of another
/// transaction.
fn blocked_by(own: Option<&OwnedRanges>) -> impl Fn(&[u8], bool) -> bool {
    move |key, is_insert| own.is_some_and(|own| own.block(key, is_insert))
}

#[derive(Default)]
struct State {
    held: HeldRanges,
    queue: RangeQueue,
    rows: RowRanges,
}

impl State {
    /// Whether a row range conflicts with row ranges of other transactions or, if it is exclusive,
    /// with their write range locks.
    fn conflicts(&self, wanted: &RowRange, transaction: TransactionId) -> bool {
        self.rows.conflict(wanted, transaction)
            || (wanted.mode == LockMode::Exclusive
                && self
                    .held
                    .has_write_lock_of_others(&wanted.low, &wanted.high, transaction))
    }
}

/// The range locks and row ranges of one index.
pub struct RangeLocks {
    file: FileId,
    /// Number of transactions with range locks. If it is zero, inserts skip the check.
    owners: AtomicUsize,
    /// Number of transactions with write range locks. If it is zero, updates and deletes skip the
    /// check.
    write_lock_owners: AtomicUsize,
    /// Number of row ranges. If it is zero, row lock requests skip the check.
    row_ranges: AtomicUsize,
    state: Mutex<State>,
}

impl RangeLocks {
    /// The range locks of the index in `file`.
    #[must_use]
    pub fn new(file: FileId) -> Self {
        Self {
            file,
            owners: AtomicUsize::new(0),
            write_lock_owners: AtomicUsize::new(0),
            row_ranges: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    /// The index file.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Whether any transaction holds a range lock.
    #[inline]
    #[must_use]
    pub fn has_range_locks(&self) -> bool {
        self.owners.load(Ordering::SeqCst) != 0
    }

    /// Whether any transaction holds a row range.
    #[must_use]
    pub fn has_row_ranges(&self) -> bool {
        self.row_ranges.load(Ordering::SeqCst) != 0
    }

    /// Whether any transaction holds a range lock or a row range.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.has_range_locks() || self.has_row_ranges()
    }

    /// Whether a range lock of another transaction blocks an insert of the key, or, without
    /// `is_insert`, an update or delete.
    #[must_use]
    pub fn blocks(&self, key: &[u8], is_insert: bool, transaction: TransactionId) -> bool {
        let owners = if is_insert {
            &self.owners
        } else {
            &self.write_lock_owners
        };
        owners.load(Ordering::SeqCst) != 0
            && self.state.lock().held.blocks(key, is_insert, transaction)
    }

    /// A key of `low <= key < high` whose insertion a range lock of another transaction blocks, if
    /// there is one.
    #[must_use]
    pub fn blocked_key(
        &self,
        low: &[u8],
        high: &[u8],
        transaction: TransactionId,
    ) -> Option<Box<[u8]>> {
        if self.owners.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.state.lock().held.blocked_key(low, high, transaction)
    }

    /// Adds a range lock on `low <= key < high`, even if a write is blocked there. Returns whether
    /// it is the transaction's first in this index, and the change of memory.
    pub(crate) fn add(
        &self,
        transaction: TransactionId,
        kind: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> (bool, Resized) {
        self.add_locked(&mut self.state.lock(), transaction, kind, low, high)
    }

    /// Adds a range lock unless an earlier write is blocked in the range. In that
    /// case it returns `None`, the request is in the queue and the transaction's
    /// waker is prepared; the caller must retry or call
    /// [`RangeLocks::dequeue_request`].
    pub(crate) fn add_in_turn(
        &self,
        transaction: &Arc<TransactionHandle>,
        kind: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<(bool, Resized)> {
        let mut state = self.state.lock();
        let State { held, queue, .. } = &mut *state;
        let own = held.of(transaction.id());
        let admitted = queue.is_empty() || {
            let request = RangeRequest {
                kind,
                low: low.into(),
                high: high.map(Into::into),
            };
            queue.admit_request(transaction, request, blocked_by(own))
        };
        admitted.then(|| self.add_locked(&mut state, transaction.id(), kind, low, high))
    }

    fn add_locked(
        &self,
        state: &mut State,
        transaction: TransactionId,
        kind: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> (bool, Resized) {
        let added = state.held.add(transaction, kind, low, high);
        if added.is_first_write_lock {
            self.write_lock_owners.fetch_add(1, Ordering::SeqCst);
        }
        self.owners.store(state.held.len(), Ordering::SeqCst);
        (added.is_first, added.resized)
    }

    /// Removes a waiting range request from the queue.
    pub(crate) fn dequeue_request(&self, transaction: TransactionId) {
        self.state.lock().queue.remove_request(transaction);
    }

    /// Replaces a transaction's range locks of each kind by one interval;
    /// `None` when no kind has more than one interval.
    pub(crate) fn merge(&self, transaction: TransactionId) -> Option<Resized> {
        self.state.lock().held.merge(transaction)
    }

    /// Releases all range locks of a transaction and wakes the writes that the locks may have
    /// blocked. Returns the memory of the locks in bytes.
    pub(crate) fn release(&self, transaction: TransactionId) -> u64 {
        let mut state = self.state.lock();
        let Some(owned) = state.held.remove(transaction) else {
            return 0;
        };
        self.owners.store(state.held.len(), Ordering::SeqCst);
        if owned.has_write_locks() {
            self.write_lock_owners.fetch_sub(1, Ordering::SeqCst);
        }
        state.queue.wake_writes(blocked_by(Some(&owned)));
        owned.bytes() as u64
    }

    /// Whether a row range of another transaction blocks a lock of the row.
    #[inline]
    #[must_use]
    pub fn blocks_row(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
        self.row_ranges.load(Ordering::SeqCst) != 0
            && self.state.lock().rows.blocks(key, transaction, mode)
    }

    /// Like [`RangeLocks::blocks_row`], for the first request in the queue of a row lock. If the
    /// row is blocked, records the lock, so that [`RangeLocks::release_rows`] returns it and the
    /// caller checks the queue again.
    pub(crate) fn blocks_queued(
        &self,
        key: &[u8],
        transaction: TransactionId,
        mode: LockMode,
        lock: LockId,
    ) -> bool {
        if self.row_ranges.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let blocked = state.rows.blocks(key, transaction, mode);
        if blocked {
            state.rows.note_blocked(lock);
        }
        blocked
    }

    /// Adds the owners of the row ranges that block a lock of the row.
    pub(crate) fn add_row_blockers(
        &self,
        key: &[u8],
        transaction: TransactionId,
        mode: LockMode,
        blockers: &mut Blockers,
    ) {
        if self.row_ranges.load(Ordering::SeqCst) == 0 {
            return;
        }
        let state = self.state.lock();
        for owner in state.rows.blockers(key, transaction, mode) {
            blockers.add(owner, BlockerKind::RowRange);
        }
    }

    /// Extends the row range of a transaction to the union of its current one and `wanted`. Returns
    /// the new range, or `None` if it would conflict with locks of other transactions.
    pub(crate) fn widen_rows(
        &self,
        transaction: TransactionId,
        wanted: RowRange,
    ) -> Option<(RowRange, Resized)> {
        let mut state = self.state.lock();
        let old = state.rows.of(transaction);
        let before = old.map_or(0, RowRange::bytes);
        let range = match old {
            Some(old) => old.clone().union(wanted),
            None => wanted,
        };
        if state.conflicts(&range, transaction) {
            return None;
        }
        let resized = Resized::of(before, range.bytes());
        state.rows.set(transaction, range.clone());
        self.row_ranges.store(state.rows.len(), Ordering::SeqCst);
        Some((range, resized))
    }

    /// Releases a transaction's row range. Returns its memory in bytes and the
    /// locks whose queues must be checked again.
    pub(crate) fn release_rows(&self, transaction: TransactionId) -> (u64, Vec<LockId>) {
        let mut state = self.state.lock();
        let bytes = state.rows.remove(transaction) as u64;
        self.row_ranges.store(state.rows.len(), Ordering::SeqCst);
        (bytes, state.rows.take_blocked())
    }

    /// Enqueues a write if a range lock of another transaction blocks it, and returns true.
    /// [`RangeLocks::dequeue_writes`] must then follow.
    pub(crate) fn enqueue_write(
        &self,
        key: &[u8],
        is_insert: bool,
        transaction: &Arc<TransactionHandle>,
    ) -> bool {
        let mut state = self.state.lock();
        let blocked = state.held.blocks(key, is_insert, transaction.id());
        if blocked {
            state.queue.enqueue_write(key, is_insert, transaction);
        }
        blocked
    }

    /// Records that a transaction with a blocked write is awake.
    pub(crate) fn note_awake(&self, transaction: TransactionId) {
        self.state.lock().queue.note_awake(transaction);
    }

    /// Removes a transaction's writes from the queue, after they are done or cancelled.
    pub(crate) fn dequeue_writes(&self, transaction: TransactionId) {
        self.state.lock().queue.remove_writes(transaction);
    }

    /// The transactions that block a transaction in the queue of this index.
    pub(crate) fn blockers(&self, transaction: TransactionId) -> Blockers {
        let state = self.state.lock();
        if let Some((key, is_insert)) = state.queue.sleeping_write(transaction) {
            return state.held.blockers(key, is_insert, transaction).collect();
        }
        let own = state.held.of(transaction);
        state.queue.ahead_of_request(transaction, blocked_by(own))
    }

    /// A copy of all range locks and row ranges.
    #[must_use]
    pub fn list(&self) -> Vec<LockReport> {
        if !self.in_use() {
            return Vec::new();
        }
        let state = self.state.lock();
        let report = |transaction, extent, mode| LockReport {
            transaction,
            file: self.file,
            extent,
            mode,
        };
        let mut list = Vec::new();
        for (owner, owned) in state.held.iter() {
            for (intervals, kind) in owned.by_kind() {
                for (low, high) in &intervals.by_low {
                    let (low, high) = (low.clone(), high.clone());
                    let extent = LockExtent::Range { low, high, kind };
                    list.push(report(*owner, extent, LockMode::Shared));
                }
            }
        }
        for (owner, range) in state.rows.iter() {
            let (low, high) = (range.low.clone(), range.high.clone());
            list.push(report(
                *owner,
                LockExtent::RowRange { low, high },
                range.mode,
            ));
        }
        list
    }

    /// Memory of the range locks and row ranges, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        if !self.in_use() {
            return 0;
        }
        let state = self.state.lock();
        state.held.bytes() + state.rows.bytes()
    }
}

impl std::fmt::Debug for RangeLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RangeLocks({} owners)",
            self.owners.load(Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
