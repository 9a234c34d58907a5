//! The transactions of one engine: begin, snapshot, lock, wait, publish, end.
//!
//! Committing, seen from here: (1) the engine notes the log's end as the
//! transaction's floor, appends the commit record and syncs it; (2)
//! [`TransactionSystem::publish`] gives the ids their sequence under one short
//! mutex; (3) waiters are rung and explicit locks released. A catalogue written
//! between (1) and (2) lists the ids as undecided and keeps the log from the
//! floor on, so recovery finds the record.

mod listing;
mod locking;
mod memory;
mod waiting;

use self::memory::LockMemory;
use crate::latches::Latches;
use crate::report::DeadlockReport;
use crate::row_locks::RowLocks;
use crate::shared::TransactionHandle;
use crate::snapshots::Snapshots;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, own_stripe};
use crate::transaction::{Savepoint, Transaction};
use crate::view::{ReadView, ViewKind};
use crate::wait_graph::WaitGraph;
use crate::wait_listener::WaitListener;
use crate::waits::WriteWaits;
use crate::write_ids::WriteIdTable;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use teak_base::TransactionId;
use teak_base::WriteStatus;
use teak_base::stripes::{CachePadded, Striped};
use teak_base::{CommitSequence, Lsn, WriteId};
use teak_base::{Horizon, WriteRangeStatus};

/// By id. Each thread lists what it begins.
type Running = BTreeMap<u64, Arc<TransactionHandle>>;

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionCounts {
    /// Transactions that run.
    pub active: u64,
    /// Transactions that committed with writes.
    pub committed: u64,
    /// Transactions rolled back with writes.
    pub rolled_back: u64,
    /// Waits for a row.
    pub lock_waits: u64,
    /// Waits that ended by the timeout.
    pub lock_timeouts: u64,
    /// Circles of waiting transactions that were broken.
    pub deadlocks: u64,
    /// Transactions that wait at this moment.
    pub waiting: u64,
    /// Bytes that row and range locks take.
    pub lock_bytes: u64,
    /// Bytes that they may take.
    pub lock_bytes_max: u64,
    /// Times that a transaction's locks in one index became a range.
    pub lock_escalations: u64,
    /// Requests refused for want of lock memory.
    pub lock_refusals: u64,
}

#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    rolled_back: AtomicU64,
    lock_waits: AtomicU64,
    lock_timeouts: AtomicU64,
    deadlocks: AtomicU64,
    lock_escalations: AtomicU64,
    lock_refusals: AtomicU64,
}

/// The transactions of one engine.
pub struct TransactionSystem {
    ids: Arc<WriteIdTable>,
    snapshots: Snapshots,
    latches: Latches,
    locks: RowLocks,
    write_waits: WriteWaits,
    graph: WaitGraph,
    wait_listener: OnceLock<Arc<dyn WaitListener>>,
    running: Striped<Mutex<Running>>,
    next_transaction: CachePadded<AtomicU64>,
    publishing: Mutex<()>,
    published: AtomicU64,
    lock_memory: LockMemory,
    last_deadlock: Mutex<Option<Arc<DeadlockReport>>>,
    counts: Counts,
}

/// What merges may take away, at one moment.
pub struct MergeHorizon {
    ids: Arc<WriteIdTable>,
    snapshots: Vec<CommitSequence>,
}

impl Horizon for MergeHorizon {
    fn status(&self, id: WriteId) -> WriteStatus {
        self.ids.status(id)
    }

    fn snapshots(&self) -> &[CommitSequence] {
        &self.snapshots
    }

    fn range_status(&self, least: WriteId, greatest: WriteId) -> WriteRangeStatus {
        let oldest = self.snapshots.first().copied().unwrap_or_default();
        self.ids.range_status(least, greatest, oldest)
    }
}

impl TransactionSystem {
    /// A system over a restored or empty id table, whose transactions start at
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
            running: Striped::default(),
            next_transaction: CachePadded(AtomicU64::new(next_transaction.max(1))),
            publishing: Mutex::new(()),
            published: AtomicU64::new(1),
            lock_memory: LockMemory::default(),
            last_deadlock: Mutex::new(None),
            counts: Counts::default(),
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

    /// The newest sequence that readers may see.
    #[must_use]
    pub fn newest(&self) -> CommitSequence {
        CommitSequence(self.published.load(Ordering::Acquire))
    }

    /// The number of the next transaction.
    #[must_use]
    pub fn next_transaction(&self) -> TransactionId {
        TransactionId(self.next_transaction.0.load(Ordering::Acquire))
    }

    /// Has the waits of transactions with owners reported. Only the first call
    /// counts.
    pub fn set_wait_listener(&self, reports: Arc<dyn WaitListener>) {
        self.wait_listener.get_or_init(|| reports);
    }

    /// Starts a transaction.
    pub fn begin(&self) -> Transaction {
        let stripe = own_stripe();
        // Numbered where it is listed: nobody finds its number taken and it missing.
        let mut running = self.running.get(stripe).lock();
        let id = TransactionId(self.next_transaction.0.fetch_add(1, Ordering::AcqRel));
        let shared = Arc::new(TransactionHandle::new(id));
        running.insert(id.0, Arc::clone(&shared));
        drop(running);
        Transaction::new(shared, stripe)
    }

    /// The oldest running transaction, or the next one.
    #[must_use]
    pub fn oldest_running(&self) -> TransactionId {
        // Read first: a transaction that starts meanwhile is newer.
        let next = self.next_transaction().0;
        let oldest = self
            .running
            .iter()
            .filter_map(|shard| shard.lock().keys().next().copied())
            .fold(next, u64::min);
        TransactionId(oldest)
    }

    /// The lowest log position at which the commit record of a running
    /// transaction may stand. Records appended after the call are not covered.
    #[must_use]
    pub fn commit_floor(&self) -> Option<Lsn> {
        self.running
            .iter()
            .filter_map(|shard| {
                let shard = shard.lock();
                shard
                    .values()
                    .filter_map(|other| other.commit_floor())
                    .min()
            })
            .min()
    }

    /// The id under which the transaction writes now.
    pub fn write_id(&self, transaction: &mut Transaction) -> WriteId {
        if let Some(id) = transaction.open_write_id() {
            return id;
        }
        let id = self.ids.allocate(transaction.id());
        transaction.push_write_id(id);
        id
    }

    /// Gives the transaction writes that recovery found undecided.
    pub fn adopt(&self, transaction: &mut Transaction, ids: &[WriteId]) {
        for id in ids {
            self.ids.reactivate(*id, transaction.id());
            transaction.push_write_id(*id);
        }
        transaction.savepoint();
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

    /// Gives the snapshot up.
    pub fn drop_snapshot(&self, transaction: &mut Transaction) {
        if let Some(snapshot) = transaction.snapshot.take() {
            transaction.handle().set_snapshot(0);
            self.snapshots.release(snapshot);
            transaction.is_past_snapshot = false;
        }
    }

    /// A view for the transaction.
    #[must_use]
    pub fn view(&self, transaction: &Transaction, reads: ViewKind) -> ReadView {
        ReadView::new(Arc::clone(&self.ids), transaction.id(), reads)
            .interrupted_by(transaction.handle())
    }

    /// What merges may take away now.
    #[must_use]
    pub fn horizon(&self) -> MergeHorizon {
        MergeHorizon {
            ids: Arc::clone(&self.ids),
            snapshots: self.snapshots.list(|| self.newest()),
        }
    }

    /// The oldest live snapshot, or the newest published sequence.
    #[must_use]
    pub fn oldest_snapshot(&self) -> CommitSequence {
        self.snapshots.oldest(|| self.newest())
    }

    /// Lets the id table forget what every snapshot sees.
    pub fn prune(&self) -> WriteId {
        self.ids.prune(self.oldest_snapshot())
    }

    /// Aborts the writes since the mark and wakes who waits for them. Returns
    /// the aborted ids.
    pub fn rollback_to(&self, transaction: &mut Transaction, savepoint: Savepoint) -> Vec<WriteId> {
        let aborted = transaction.split_off(savepoint);
        self.ids.abort(&aborted);
        self.write_waits.ring(&aborted);
        aborted
    }

    /// Makes the transaction's writes visible, in commit order, and ends it.
    /// The commit record must be as durable as the caller wants it.
    pub fn publish(&self, mut transaction: Transaction) {
        transaction.handle().forget_owner();
        let ids = std::mem::take(&mut transaction.ids);
        if !ids.is_empty() {
            let publishing = self.publishing.lock();
            let sequence = CommitSequence(self.published.load(Ordering::Relaxed) + 1);
            self.ids.commit(&ids, sequence);
            self.published.store(sequence.0, Ordering::Release);
            drop(publishing);
            self.counts.committed.fetch_add(1, Ordering::Relaxed);
            self.write_waits.ring(&ids);
        }
        self.end(transaction);
    }

    /// Undoes everything and ends the transaction. Returns the aborted ids.
    pub fn abort(&self, mut transaction: Transaction) -> Vec<WriteId> {
        transaction.handle().forget_owner();
        let aborted = self.rollback_to(&mut transaction, Savepoint(0));
        if !aborted.is_empty() {
            self.counts.rolled_back.fetch_add(1, Ordering::Relaxed);
        }
        self.end(transaction);
        aborted
    }

    /// Ends a transaction whose outcome only recovery will know (its commit
    /// record may or may not be durable): its writes stay undecided, locked and
    /// invisible until the engine is opened again.
    pub fn abandon(&self, mut transaction: Transaction) {
        transaction.handle().forget_owner();
        transaction.ids.clear();
        // It stays listed as running, so that its floor keeps the log.
        self.release_all(&mut transaction);
    }

    fn release_all(&self, transaction: &mut Transaction) {
        let id = transaction.id();
        for ranges in transaction.marked.drain(..) {
            self.lock_memory.take_ranges(ranges.release(id));
        }
        for (lock, _) in std::mem::take(&mut transaction.held) {
            self.locks.release(lock, id);
        }
        for (index, _) in transaction.row_ranges.drain(..) {
            let (bytes, stopped) = index.release_rows(id);
            self.lock_memory.take_ranges(bytes);
            for lock in stopped {
                self.locks.pass_on(lock);
            }
        }
        self.drop_snapshot(transaction);
    }

    fn end(&self, mut transaction: Transaction) {
        self.release_all(&mut transaction);
        let mut running = self.running.get(transaction.stripe).lock();
        running.remove(&transaction.id().0);
    }

    /// Ends every wait: the engine is shutting down.
    pub fn interrupt_all(&self) {
        for shard in self.running.iter() {
            for transaction in shard.lock().values() {
                transaction.interrupt();
            }
        }
    }

    /// Counts for status reports.
    #[must_use]
    pub fn counts(&self) -> TransactionCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TransactionCounts {
            active: self
                .running
                .iter()
                .map(|shard| shard.lock().len() as u64)
                .sum(),
            committed: load(&self.counts.committed),
            rolled_back: load(&self.counts.rolled_back),
            lock_waits: load(&self.counts.lock_waits),
            lock_timeouts: load(&self.counts.lock_timeouts),
            deadlocks: load(&self.counts.deadlocks),
            waiting: self.graph.count() as u64,
            lock_bytes: self.lock_bytes(),
            lock_bytes_max: self.lock_memory.bytes_max(),
            lock_escalations: load(&self.counts.lock_escalations),
            lock_refusals: load(&self.counts.lock_refusals),
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
