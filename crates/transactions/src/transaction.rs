//! One transaction: the ids of its writes, its marks, the rows it has locked,
//! and the place where it waits. The owner's half ([`Transaction`]) belongs to
//! one thread at a time; the shared half may be interrupted and woken by any.

use crate::hash::{LockId, PassBuild};
use crate::range_locks::RangeLocks;
use crate::row_locks::LockMode;
use crate::wait_reports::Owner;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use teak_base::{CommitSequence, Lsn, WriteId};

/// Names a transaction while the engine is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TransactionId(pub u64);

/// A mark in a transaction's writes to which it can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u64);

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Woken,
    TimedOut,
    Interrupted,
}

/// The half of a transaction that other threads touch.
#[derive(Debug)]
pub struct TransactionShared {
    id: TransactionId,
    interrupted: AtomicBool,
    /// The log's end before the commit record was appended; `u64::MAX` before.
    commit_floor: AtomicU64,
    /// Whom to name when a wait is reported; none when the end has begun.
    owner: Mutex<Option<Owner>>,
    woken: Mutex<bool>,
    wake: Condvar,
}

impl TransactionShared {
    pub(crate) fn new(id: TransactionId) -> Self {
        Self {
            id,
            interrupted: AtomicBool::new(false),
            commit_floor: AtomicU64::new(u64::MAX),
            owner: Mutex::new(None),
            woken: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Ends this transaction's waits, now and until the next statement.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        let _woken = self.woken.lock();
        self.wake.notify_all();
    }

    /// Forgets an interrupt.
    pub fn clear_interrupt(&self) {
        self.interrupted.store(false, Ordering::SeqCst);
    }

    /// Whether an interrupt is pending.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Says who runs the transaction, for reports of waits.
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.lock() = Some(owner);
    }

    /// Forgets who ran the transaction. Waits for a report under way.
    pub fn forget_owner(&self) {
        *self.owner.lock() = None;
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        *self.owner.lock()
    }

    /// Calls `report` with the owner, who is not forgotten meanwhile.
    pub(crate) fn with_owner(&self, report: impl FnOnce(Owner)) {
        if let Some(owner) = *self.owner.lock() {
            report(owner);
        }
    }

    /// Says that a commit record will stand at or after `floor` in the log.
    pub fn set_commit_floor(&self, floor: Lsn) {
        self.commit_floor.store(floor.0, Ordering::SeqCst);
    }

    /// Says that no record of this transaction is on its way into the log.
    pub fn clear_commit_floor(&self) {
        self.commit_floor.store(u64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn commit_floor(&self) -> Option<Lsn> {
        let floor = self.commit_floor.load(Ordering::SeqCst);
        (floor != u64::MAX).then_some(Lsn(floor))
    }

    /// Arms the bell before the transaction is put into a queue.
    pub(crate) fn arm(&self) {
        *self.woken.lock() = false;
    }

    pub(crate) fn ring(&self) {
        *self.woken.lock() = true;
        self.wake.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn is_rung(&self) -> bool {
        *self.woken.lock()
    }

    pub(crate) fn sleep_until(&self, deadline: Instant) -> Wake {
        let mut woken = self.woken.lock();
        loop {
            if *woken {
                return Wake::Woken;
            }
            if self.interrupted.load(Ordering::SeqCst) {
                return Wake::Interrupted;
            }
            if self.wake.wait_until(&mut woken, deadline).timed_out() {
                return if *woken { Wake::Woken } else { Wake::TimedOut };
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub mode: LockMode,
    pub count: u32,
    /// The mark after which it was taken first.
    pub scope: u64,
    /// The transaction may have written the row since.
    pub written: bool,
}

/// The half of a transaction that its owner uses.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<TransactionShared>,
    /// Ids of writes that count, oldest first.
    pub(crate) ids: Vec<WriteId>,
    /// Whether the newest id may take further writes.
    open: bool,
    /// Counts marks, so that a lock knows whether one was set since.
    pub(crate) scope: u64,
    pub(crate) held: HashMap<LockId, HeldLock, PassBuild>,
    /// Indexes in which it has marked ranges.
    pub(crate) marked: Vec<Arc<RangeLocks>>,
    pub(crate) snapshot: Option<CommitSequence>,
    /// Whether it took rows that were committed after its snapshot, to write.
    pub(crate) is_past_snapshot: bool,
}

impl Transaction {
    pub(crate) fn new(shared: Arc<TransactionShared>) -> Self {
        Self {
            shared,
            ids: Vec::new(),
            open: false,
            scope: 0,
            held: HashMap::default(),
            marked: Vec::new(),
            snapshot: None,
            is_past_snapshot: false,
        }
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.shared.id
    }

    /// The half that other threads may use.
    #[must_use]
    pub fn shared(&self) -> &Arc<TransactionShared> {
        &self.shared
    }

    /// Whether any write counts so far.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The ids of the writes that count, oldest first.
    #[must_use]
    pub fn write_ids(&self) -> &[WriteId] {
        &self.ids
    }

    /// The id under which to write now, if one is open.
    #[must_use]
    pub fn open_write_id(&self) -> Option<WriteId> {
        if self.open {
            self.ids.last().copied()
        } else {
            None
        }
    }

    pub(crate) fn push_write_id(&mut self, id: WriteId) {
        self.ids.push(id);
        self.open = true;
    }

    /// Sets a mark: later writes take another id.
    pub fn savepoint(&mut self) -> Savepoint {
        self.open = false;
        self.scope += 1;
        Savepoint(self.ids.len() as u64)
    }

    pub(crate) fn split_off(&mut self, savepoint: Savepoint) -> Vec<WriteId> {
        self.open = false;
        let keep = usize::try_from(savepoint.0).unwrap_or(usize::MAX);
        if keep >= self.ids.len() {
            return Vec::new();
        }
        self.ids.split_off(keep)
    }

    /// The snapshot held, if one was taken.
    #[must_use]
    pub fn snapshot(&self) -> Option<CommitSequence> {
        self.snapshot
    }

    /// Notes that a row was locked or written whose newest version is later
    /// than the snapshot.
    pub fn go_past_snapshot(&mut self) {
        self.is_past_snapshot = true;
    }

    /// Whether its own writes may have replaced what its snapshot does not see.
    /// Then the snapshot sees entries of secondary indexes that are no longer of
    /// the rows that it sees.
    #[must_use]
    pub fn is_past_snapshot(&self) -> bool {
        self.is_past_snapshot
    }

    /// Whether this transaction holds an explicit lock that covers `mode`.
    #[must_use]
    pub fn holds(&self, lock: LockId, mode: LockMode) -> bool {
        !self.held.is_empty() && self.held.get(&lock).is_some_and(|held| held.mode >= mode)
    }

    /// Whether the row is as it was when it was locked: this transaction holds
    /// an explicit lock that covers `mode` and has not written the row since.
    #[must_use]
    pub fn holds_unwritten(&self, lock: LockId, mode: LockMode) -> bool {
        let covers = |held: &HeldLock| held.mode >= mode && !held.written;
        !self.held.is_empty() && self.held.get(&lock).is_some_and(covers)
    }

    /// How many rows it has locked explicitly.
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.held.len()
    }
}
