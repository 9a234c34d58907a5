//! The transactions of one engine: begin, snapshot, lock, wait, publish, end.
//!
//! A commit has these steps:
//! 1. The engine records the log's end as the transaction's commit floor, then appends the commit
//!    record and syncs the log, unless the sync is deferred.
//! 2. [`TransactionSystem::publish`] assigns the next commit sequence to the
//!    transaction's write ids, under a mutex. If there are many ids, their status
//!    is set after the mutex is released, see [`WriteIdTable`].
//! 3. It wakes the transactions that wait for the writes and releases the locks.
//!
//! A checkpoint of the catalogue between steps 1 and 2 lists the ids as active and retains the log
//! from the floor on, so recovery finds the commit record.

mod escalation;
mod listing;
mod locking;
mod waiting;

use crate::counts::{Counters, TransactionCounts};
use crate::error::WaitError;
use crate::handle::TransactionHandle;
use crate::horizon::MergeHorizon;
use crate::latches::Latches;
use crate::lock_memory::LockMemory;
use crate::lock_types::Resized;
use crate::read_view::{ReadView, ViewKind};
use crate::report::DeadlockReport;
use crate::row_locks::RowLocks;
use crate::running::RunningTransactions;
use crate::snapshots::Snapshots;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::{Savepoint, Transaction};
use crate::wait_graph::WaitGraph;
use crate::wait_listener::WaitListener;
use crate::write_ids::WriteIdTable;
use crate::write_waits::WriteWaits;
use std::sync::{Arc, OnceLock};
use teak_base::{CommitSequence, Lsn, TransactionId, WriteId, WriteIdRange, WriteIdRanges};

/// The transactions of one engine.
pub struct TransactionSystem {
    ids: Arc<WriteIdTable>,
    snapshots: Snapshots,
    latches: Latches,
    locks: RowLocks,
    write_waits: WriteWaits,
    graph: WaitGraph,
    wait_listener: OnceLock<Arc<dyn WaitListener>>,
    running: RunningTransactions,
    publishing: Mutex<()>,
    published: AtomicU64,
    lock_memory: LockMemory,
    last_deadlock: Mutex<Option<Arc<DeadlockReport>>>,
    counters: Counters,
}

impl TransactionSystem {
    /// Creates a system with a restored or empty id table. Transaction ids start at
    /// `next_transaction` (at least 1).
    #[must_use]
    pub fn new(ids: WriteIdTable, next_transaction: u64) -> Self {
        Self {
            ids: Arc::new(ids),
            snapshots: Snapshots::default(),
            latches: Latches::default(),
            locks: RowLocks::default(),
            write_waits: WriteWaits::default(),
            graph: WaitGraph::default(),
            wait_listener: OnceLock::new(),
            running: RunningTransactions::new(next_transaction),
            publishing: Mutex::new(()),
            published: AtomicU64::new(1),
            lock_memory: LockMemory::default(),
            last_deadlock: Mutex::new(None),
            counters: Counters::default(),
        }
    }

    /// The table of write ids.
    #[must_use]
    pub fn ids(&self) -> &Arc<WriteIdTable> {
        &self.ids
    }

    /// The row latches.
    #[must_use]
    pub fn latches(&self) -> &Latches {
        &self.latches
    }

    /// The explicit row locks.
    #[must_use]
    pub fn locks(&self) -> &RowLocks {
        &self.locks
    }

    /// The live snapshots.
    #[must_use]
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The newest published commit sequence.
    #[must_use]
    pub fn newest(&self) -> CommitSequence {
        CommitSequence(self.published.load(Ordering::Acquire))
    }

    /// The id of the next transaction.
    #[must_use]
    pub fn next_transaction(&self) -> TransactionId {
        self.running.next()
    }

    /// Sets the listener that is called when a transaction with an owner waits.
    /// Only the first call has an effect.
    pub fn set_wait_listener(&self, listener: Arc<dyn WaitListener>) {
        self.wait_listener.get_or_init(|| listener);
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction {
        self.running.begin()
    }

    /// Begins a transaction, and replaces the handle of an ended one by its handle, without allocating memory if no other
    /// thread has the old one.
    pub fn begin_again(&self, ended: &mut Arc<TransactionHandle>) -> Transaction {
        self.running.begin_again(ended)
    }

    /// The id of the oldest running transaction; without any, that of the next one.
    #[must_use]
    pub fn oldest_running(&self) -> TransactionId {
        self.running.oldest()
    }

    /// The lowest log position that may contain a commit, abort or prepare record of a running
    /// transaction. Does not cover transactions that set their commit floor after the call.
    #[must_use]
    pub fn commit_floor(&self) -> Option<Lsn> {
        self.running.commit_floor()
    }

    /// The id for the transaction's next write.
    pub fn write_id(&self, transaction: &mut Transaction) -> WriteId {
        if let Some(id) = transaction.open_write_id() {
            return id;
        }
        if let Some(id) = transaction.take_reserved_id() {
            return id;
        }
        let count = transaction.block_ids();
        let block = self.ids.allocate_block(transaction.id(), count);
        transaction.reserve_write_ids(block);
        self.count_id_list(transaction);
        if WriteIdTable::begins_chunk(block) {
            self.ids
                .compact_step(&self.snapshots.list(|| self.newest()));
        }
        transaction.take_reserved_id().unwrap_or(block.first)
    }

    /// Assigns to the transaction the writes of a prepared transaction that recovery found.
    pub fn adopt(&self, transaction: &mut Transaction, ids: &WriteIdRanges) {
        self.ids.reactivate(ids.ranges(), transaction.id());
        for range in ids.ranges() {
            transaction.push_write_ids(*range);
        }
        transaction.savepoint();
    }

    /// Registers ids found in the log during recovery, see [`WriteIdTable::adopt`].
    pub fn adopt_found(&self, ids: WriteIdRange, transaction: TransactionId) {
        self.ids.adopt(ids, transaction);
        if WriteIdTable::begins_chunk(ids) {
            self.ids
                .compact_step(&self.snapshots.list(|| self.newest()));
        }
    }

    /// Takes a snapshot unless the transaction has one.
    pub fn take_snapshot(&self, transaction: &mut Transaction) -> CommitSequence {
        match transaction.snapshot {
            Some(held) => held.sequence,
            None => {
                let held = self.snapshots.acquire(|| self.newest());
                transaction.snapshot = Some(held);
                transaction.handle().set_snapshot(held.sequence.0);
                held.sequence
            }
        }
    }

    /// Releases the transaction's snapshot.
    pub fn drop_snapshot(&self, transaction: &mut Transaction) {
        if let Some(snapshot) = transaction.snapshot.take() {
            transaction.handle().set_snapshot(0);
            self.snapshots.release(snapshot);
            transaction.is_past_snapshot = false;
        }
    }

    /// Makes a view of an earlier transaction one of this transaction, see [`TransactionSystem::view`].
    pub fn renew_view(&self, view: &mut ReadView, transaction: &Transaction, kind: ViewKind) {
        view.renew(transaction.handle(), kind);
    }

    /// A read view of the transaction. An interrupt of the transaction ends reads through the view.
    #[must_use]
    pub fn view(&self, transaction: &Transaction, kind: ViewKind) -> ReadView {
        ReadView::new(Arc::clone(&self.ids), transaction.id(), kind)
            .interrupted_by(transaction.handle())
    }

    /// The horizon for a merge that starts now.
    #[must_use]
    pub fn horizon(&self) -> MergeHorizon {
        let snapshots = self.snapshots.list(|| self.newest());
        MergeHorizon::new(Arc::clone(&self.ids), snapshots)
    }

    /// The live snapshots, ascending, followed by the newest published sequence; later snapshots are
    /// not older than that.
    #[must_use]
    pub fn live_snapshots(&self) -> Vec<CommitSequence> {
        self.snapshots.list(|| self.newest())
    }

    /// The oldest live snapshot, or the newest published sequence.
    #[must_use]
    pub fn oldest_snapshot(&self) -> CommitSequence {
        self.snapshots.oldest(|| self.newest())
    }

    /// Compacts the id table and advances its settled watermark, see
    /// [`WriteIdTable::prune`].
    pub fn prune(&self) -> WriteId {
        self.ids.prune(&self.snapshots.list(|| self.newest()))
    }

    /// Aborts the writes after the savepoint and wakes the transactions that
    /// wait for them. Returns the aborted ids.
    pub fn rollback_to(
        &self,
        transaction: &mut Transaction,
        savepoint: Savepoint,
    ) -> WriteIdRanges {
        let aborted = transaction.split_off(savepoint);
        self.ids.abort(aborted.ranges());
        self.write_waits.wake(&aborted);
        self.count_id_list(transaction);
        aborted
    }

    /// Counts the list of write ids, beyond its first ranges, as lock memory: each id is the
    /// implicit lock of the rows that it wrote.
    fn count_id_list(&self, transaction: &mut Transaction) {
        let after = transaction.id_list_bytes();
        let before = std::mem::replace(&mut transaction.counted_id_bytes, after);
        if before != after {
            transaction.handle().set_id_list_bytes(after);
            self.count_resized(transaction, Resized { before, after });
        }
    }

    /// Checks the limit of lock memory before a write, if the transaction's write ids count as lock
    /// memory. The caller must hold no latch.
    ///
    /// # Errors
    /// `TooManyLocks` when the limit is reached and lock escalation does not free enough.
    #[inline]
    pub fn admit_write(&self, transaction: &mut Transaction) -> Result<(), WaitError> {
        match transaction.counted_id_bytes {
            0 => Ok(()),
            _ => self.free_lock_memory(transaction),
        }
    }

    /// Makes the transaction's writes visible, in commit order, and ends it.
    /// The commit record must be as durable as the caller requires.
    pub fn publish(&self, transaction: Transaction) {
        self.publish_with(transaction, |_| {});
    }

    /// As [`TransactionSystem::publish`]. Calls `on_commit` with the commit's sequence before it is
    /// visible, in the order of the commits, unless there are no writes. The call must be short.
    pub fn publish_with(
        &self,
        mut transaction: Transaction,
        on_commit: impl FnOnce(CommitSequence),
    ) {
        transaction.handle().clear_owner();
        let has_writes = transaction.has_writes();
        transaction.close_write_ids();
        let ids = std::mem::take(&mut transaction.ids);
        if !ids.is_empty() {
            if self.ids.is_bulk(&ids) {
                let id = transaction.id();
                self.ids.commit_in_bulk(ids.ranges(), id, |begin| {
                    self.publish_next(|sequence| {
                        on_commit(sequence);
                        begin(sequence);
                    })
                });
            } else {
                self.publish_next(|sequence| {
                    on_commit(sequence);
                    self.ids.commit(ids.ranges(), sequence);
                });
            }
            self.write_waits.wake(&ids);
        }
        if has_writes {
            self.counters.committed.fetch_add(1, Ordering::Relaxed);
        }
        self.end(transaction);
    }

    /// Calls `commit` with the next commit sequence, then makes the sequence visible to readers.
    fn publish_next(&self, commit: impl FnOnce(CommitSequence)) -> CommitSequence {
        let _publishing = self.publishing.lock();
        let sequence = CommitSequence(self.published.load(Ordering::Relaxed) + 1);
        commit(sequence);
        self.published.store(sequence.0, Ordering::Release);
        sequence
    }

    /// Publishes a commit sequence that no transaction has, and returns it. Every snapshot taken
    /// before the call is older.
    pub fn advance_commit_sequence(&self) -> CommitSequence {
        self.publish_next(|_| {})
    }

    /// Rolls back all writes and ends the transaction. Returns the aborted ids.
    pub fn abort(&self, mut transaction: Transaction) -> WriteIdRanges {
        transaction.handle().clear_owner();
        transaction.close_write_ids();
        let aborted = self.rollback_to(&mut transaction, Savepoint(0));
        if !aborted.is_empty() {
            self.counters.rolled_back.fetch_add(1, Ordering::Relaxed);
        }
        self.end(transaction);
        aborted
    }

    /// Ends a transaction whose outcome is unknown until recovery, because its
    /// commit record may or may not be durable. Its explicit locks are released. Its
    /// writes remain active until the engine is opened again: no snapshot sees them,
    /// and they still lock their rows.
    pub fn abandon(&self, mut transaction: Transaction) {
        transaction.handle().clear_owner();
        transaction.ids = WriteIdRanges::default();
        // The transaction remains in `running`, so that its commit floor retains the log.
        self.release_all(&mut transaction);
    }

    fn release_all(&self, transaction: &mut Transaction) {
        let id = transaction.id();
        let id_bytes = std::mem::take(&mut transaction.counted_id_bytes);
        self.lock_memory.subtract_ranges(id_bytes);
        for ranges in transaction.range_locked_indexes.drain(..) {
            self.lock_memory.subtract_ranges(ranges.release(id));
        }
        for (lock, _) in std::mem::take(&mut transaction.held) {
            self.locks.release(lock, id);
        }
        for (index, _) in transaction.row_ranges.drain(..) {
            let (bytes, blocked) = index.release_rows(id);
            self.lock_memory.subtract_ranges(bytes);
            for lock in blocked {
                self.locks.grant_queued(lock);
            }
        }
        self.drop_snapshot(transaction);
    }

    fn end(&self, mut transaction: Transaction) {
        self.release_all(&mut transaction);
        self.running.remove(&transaction);
    }

    /// Interrupts all transactions, for a shutdown of the engine.
    pub fn interrupt_all(&self) {
        self.running.interrupt_all();
    }

    /// Counts for status reports.
    #[must_use]
    pub fn counts(&self) -> TransactionCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TransactionCounts {
            active: self.running.count(),
            committed: load(&self.counters.committed),
            rolled_back: load(&self.counters.rolled_back),
            lock_waits: load(&self.counters.lock_waits),
            lock_wait_times: self.counters.lock_wait_times.read(),
            lock_timeouts: load(&self.counters.lock_timeouts),
            deadlocks: load(&self.counters.deadlocks),
            waiting: self.graph.count() as u64,
            lock_bytes: self.lock_bytes(),
            lock_bytes_max: self.lock_memory.bytes_max(),
            lock_escalations: load(&self.counters.lock_escalations),
            lock_refusals: load(&self.counters.lock_refusals),
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
