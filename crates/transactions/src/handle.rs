//! The part of a transaction that other threads use: its waker, its interrupt
//! flag, and data for reports and for the choice of deadlock victims.

use crate::report::FailedWait;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::wait_listener::Owner;
use crate::waker::Waker;
use std::sync::Arc;
use std::time::SystemTime;
use teak_base::{Lsn, TransactionId};

/// Counts of the transaction's work, and its snapshot. Only its own thread changes them.
#[derive(Debug, Default)]
struct Work {
    rows_written: AtomicU64,
    write_ids: AtomicU64,
    row_locks: AtomicU64,
    lock_bytes: AtomicU64,
    id_list_bytes: AtomicU64,
    snapshot: AtomicU64,
}

/// The part of a transaction that other threads use.
#[derive(Debug)]
pub struct TransactionHandle {
    id: TransactionId,
    started: SystemTime,
    /// Thread id assigned by the caller; zero for none.
    thread: AtomicU64,
    /// Isolation level code assigned by the caller.
    isolation: AtomicU8,
    /// Deadlock-victim weight; see [`TransactionHandle::set_weight`].
    weight: AtomicU32,
    work: Work,
    /// Another transaction has requested lock escalation.
    must_escalate: AtomicBool,
    prepared_as: Mutex<Option<Box<[u8]>>>,
    last_failure: Mutex<Option<Box<FailedWait>>>,
    /// The end of the log before a commit, abort or prepare record of this transaction was
    /// appended. `u64::MAX` when no such record is being appended.
    commit_floor: AtomicU64,
    /// The session that is passed to the wait listener. Cleared before the
    /// transaction ends.
    owner: Mutex<Option<Owner>>,
    waker: Waker,
}

/// Adds to a counter that only one thread changes, without an atomic addition.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

fn subtract(counter: &AtomicU64, amount: u64) {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.saturating_sub(amount), Ordering::Relaxed);
}

impl TransactionHandle {
    pub(crate) fn new(id: TransactionId) -> Self {
        Self {
            id,
            started: SystemTime::now(),
            thread: AtomicU64::new(0),
            isolation: AtomicU8::new(0),
            weight: AtomicU32::new(0),
            work: Work::default(),
            must_escalate: AtomicBool::new(false),
            prepared_as: Mutex::new(None),
            last_failure: Mutex::new(None),
            commit_floor: AtomicU64::new(u64::MAX),
            owner: Mutex::new(None),
            waker: Waker::new(),
        }
    }

    /// Replaces the handle of an ended transaction by that of a new one with the same thread and weight, in the same memory
    /// if no other thread has the handle.
    pub(crate) fn renew(ended: &mut Arc<Self>, id: TransactionId) {
        let mut new = Self::new(id);
        new.thread = AtomicU64::new(ended.thread());
        new.weight = AtomicU32::new(ended.weight());
        match Arc::get_mut(ended) {
            Some(only) => *only = new,
            None => *ended = Arc::new(new),
        }
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// When it began.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Thread id assigned by the caller; zero for none.
    #[must_use]
    pub fn thread(&self) -> u64 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Sets the thread id assigned by the caller; zero for none.
    pub fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Isolation level code assigned by the caller.
    #[must_use]
    pub fn isolation(&self) -> u8 {
        self.isolation.load(Ordering::Relaxed)
    }

    /// Sets the isolation level code assigned by the caller.
    pub fn set_isolation(&self, isolation: u8) {
        self.isolation.store(isolation, Ordering::Relaxed);
    }

    /// The deadlock-victim weight.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Sets the deadlock-victim weight. In a deadlock, the wait of the transaction with the lowest
    /// weight fails. The default is zero.
    pub fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Rows written, including those undone by a savepoint rollback.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.work.rows_written.load(Ordering::Relaxed)
    }

    /// Counts a written row. Only the transaction's own thread calls this.
    pub fn note_row_written(&self) {
        add(&self.work.rows_written, 1);
    }

    /// Counts rows that were written together. Only the transaction's own thread calls this.
    pub fn note_rows_written(&self, rows: u64) {
        add(&self.work.rows_written, rows);
    }

    /// Number of write ids that were not rolled back.
    #[must_use]
    pub fn write_ids(&self) -> u64 {
        self.work.write_ids.load(Ordering::Relaxed)
    }

    pub(crate) fn set_write_ids(&self, count: u64) {
        self.work.write_ids.store(count, Ordering::Relaxed);
    }

    /// Number of rows locked explicitly, without row ranges.
    #[must_use]
    pub fn row_locks(&self) -> u64 {
        self.work.row_locks.load(Ordering::Relaxed)
    }

    /// Memory of its row and range locks, and of its ranges of write ids beyond the first 1024, in
    /// bytes.
    #[must_use]
    pub fn lock_bytes(&self) -> u64 {
        self.work.lock_bytes.load(Ordering::Relaxed)
    }

    /// Memory of the locks that lock escalation may replace, in bytes.
    pub(crate) fn replaceable_lock_bytes(&self) -> u64 {
        let ids = self.work.id_list_bytes.load(Ordering::Relaxed);
        self.lock_bytes().saturating_sub(ids)
    }

    pub(crate) fn set_id_list_bytes(&self, bytes: u64) {
        self.work.id_list_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_row_locks(&self, count: usize) {
        self.work.row_locks.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_lock_bytes(&self, bytes: u64) {
        add(&self.work.lock_bytes, bytes);
    }

    pub(crate) fn subtract_lock_bytes(&self, bytes: u64) {
        subtract(&self.work.lock_bytes, bytes);
    }

    /// The commit sequence of its snapshot; zero without a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> u64 {
        self.work.snapshot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_snapshot(&self, sequence: u64) {
        self.work.snapshot.store(sequence, Ordering::Relaxed);
    }

    /// The XID, if it is prepared.
    #[must_use]
    pub fn prepared_as(&self) -> Option<Box<[u8]>> {
        self.prepared_as.lock().clone()
    }

    /// Records the XID of the prepared transaction.
    pub fn set_prepared_as(&self, name: &[u8]) {
        *self.prepared_as.lock() = Some(name.into());
    }

    /// Removes and returns the report of its last failed wait.
    pub fn take_failed_wait(&self) -> Option<Box<FailedWait>> {
        self.last_failure.lock().take()
    }

    pub(crate) fn set_failed_wait(&self, failure: FailedWait) {
        *self.last_failure.lock() = Some(Box::new(failure));
    }

    /// Requests that the transaction escalates its locks at its next lock
    /// request.
    pub(crate) fn request_escalation(&self) {
        self.must_escalate.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_escalate(&self) -> bool {
        self.must_escalate.load(Ordering::Relaxed)
    }

    pub(crate) fn clear_must_escalate(&self) {
        self.must_escalate.store(false, Ordering::Relaxed);
    }

    /// Interrupts the transaction: its current and later waits fail, and reads through its views
    /// end, until [`TransactionHandle::clear_interrupt`].
    pub fn interrupt(&self) {
        self.waker.interrupt();
    }

    /// Clears an interrupt.
    pub fn clear_interrupt(&self) {
        self.waker.clear_interrupt();
    }

    /// Whether an interrupt is pending.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.waker.is_interrupted()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sets the session that is passed to the wait listener.
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.lock() = Some(owner);
    }

    /// Clears the session. Blocks while the listener is called with it.
    pub fn clear_owner(&self) {
        *self.owner.lock() = None;
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        *self.owner.lock()
    }

    /// Calls `report` with the session. The session cannot be cleared during
    /// the call.
    pub(crate) fn with_owner(&self, report: impl FnOnce(Owner)) {
        let owner = self.owner.lock();
        if let Some(owner) = *owner {
            report(owner);
        }
    }

    /// Records that the log may contain a commit, abort or prepare record of this transaction at or
    /// after `floor`.
    pub fn set_commit_floor(&self, floor: Lsn) {
        self.commit_floor.store(floor.0, Ordering::SeqCst);
    }

    /// Records that no commit, abort or prepare record of this transaction is being appended.
    pub fn clear_commit_floor(&self) {
        self.commit_floor.store(u64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn commit_floor(&self) -> Option<Lsn> {
        let floor = self.commit_floor.load(Ordering::SeqCst);
        (floor != u64::MAX).then_some(Lsn(floor))
    }
}
