//! The half of a transaction that other threads touch: its bell, interrupts,
//! and what reports and the choice of a deadlock's victim need to know.

use crate::report::FailedWait;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::wait_listener::Owner;
use std::time::{Instant, SystemTime};
use teak_base::{Lsn, TransactionId};

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Woken,
    TimedOut,
    Interrupted,
    /// Another transaction's wait closed a circle, and this one is to fail.
    Doomed,
}

#[derive(Debug, Default)]
struct Bell {
    rung: bool,
    doomed: bool,
}

/// What a transaction has done so far; written by its owner alone.
#[derive(Debug, Default)]
struct Work {
    rows_written: AtomicU64,
    write_ids: AtomicU64,
    row_locks: AtomicU64,
    lock_bytes: AtomicU64,
    snapshot: AtomicU64,
}

/// The half of a transaction that other threads touch.
#[derive(Debug)]
pub struct TransactionHandle {
    id: TransactionId,
    started: SystemTime,
    /// The caller's number of whoever runs it; zero for nobody.
    thread: AtomicU64,
    /// The caller's number of its isolation.
    isolation: AtomicU8,
    /// Of a deadlock's transactions one of the least weight fails.
    weight: AtomicU32,
    work: Work,
    /// Somebody wants its row locks replaced by fewer.
    must_escalate: AtomicBool,
    prepared_as: Mutex<Option<Box<[u8]>>>,
    last_failure: Mutex<Option<Box<FailedWait>>>,
    interrupted: AtomicBool,
    /// The log's end before the commit record was appended; `u64::MAX` before.
    commit_floor: AtomicU64,
    /// Whom to name when a wait is reported; none when the end has begun.
    owner: Mutex<Option<Owner>>,
    bell: Mutex<Bell>,
    wake: Condvar,
}

/// The only writer of a counter needs no atomic addition.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

fn take(counter: &AtomicU64, amount: u64) {
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
            interrupted: AtomicBool::new(false),
            commit_floor: AtomicU64::new(u64::MAX),
            owner: Mutex::new(None),
            bell: Mutex::new(Bell::default()),
            wake: Condvar::new(),
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

    /// The caller's number of whoever runs it; zero for nobody.
    #[must_use]
    pub fn thread(&self) -> u64 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Says who runs it, in the caller's numbers; zero for nobody.
    pub fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The caller's number of its isolation.
    #[must_use]
    pub fn isolation(&self) -> u8 {
        self.isolation.load(Ordering::Relaxed)
    }

    /// Notes the caller's number of its isolation.
    pub fn set_isolation(&self, isolation: u8) {
        self.isolation.store(isolation, Ordering::Relaxed);
    }

    /// How much it should be spared when a deadlock is resolved.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Spares it when a deadlock is resolved, as long as another of the circle
    /// weighs less. At first zero.
    pub fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Rows written, those undone by a savepoint included.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.work.rows_written.load(Ordering::Relaxed)
    }

    /// The owner has written a row.
    pub fn note_row_written(&self) {
        add(&self.work.rows_written, 1);
    }

    /// Write ids that count.
    #[must_use]
    pub fn write_ids(&self) -> u64 {
        self.work.write_ids.load(Ordering::Relaxed)
    }

    pub(crate) fn set_write_ids(&self, count: usize) {
        self.work.write_ids.store(count as u64, Ordering::Relaxed);
    }

    /// Rows locked explicitly.
    #[must_use]
    pub fn row_locks(&self) -> u64 {
        self.work.row_locks.load(Ordering::Relaxed)
    }

    /// Bytes that its row and range locks take.
    #[must_use]
    pub fn lock_bytes(&self) -> u64 {
        self.work.lock_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_row_locks(&self, count: usize) {
        self.work.row_locks.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_lock_bytes(&self, bytes: u64) {
        add(&self.work.lock_bytes, bytes);
    }

    pub(crate) fn take_lock_bytes(&self, bytes: u64) {
        take(&self.work.lock_bytes, bytes);
    }

    /// The commit sequence that it reads at; zero without a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> u64 {
        self.work.snapshot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_snapshot(&self, sequence: u64) {
        self.work.snapshot.store(sequence, Ordering::Relaxed);
    }

    /// The name under which it is prepared.
    #[must_use]
    pub fn prepared_as(&self) -> Option<Box<[u8]>> {
        self.prepared_as.lock().clone()
    }

    /// Notes the name under which it is prepared.
    pub fn set_prepared_as(&self, name: &[u8]) {
        *self.prepared_as.lock() = Some(name.into());
    }

    /// Why its last wait failed, once.
    pub fn take_failed_wait(&self) -> Option<Box<FailedWait>> {
        self.last_failure.lock().take()
    }

    pub(crate) fn note_failed_wait(&self, failure: FailedWait) {
        *self.last_failure.lock() = Some(Box::new(failure));
    }

    /// Asks the owner to replace its locks by fewer at its next request.
    pub(crate) fn ask_to_escalate(&self) {
        self.must_escalate.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_escalate(&self) -> bool {
        self.must_escalate.load(Ordering::Relaxed)
    }

    pub(crate) fn clear_must_escalate(&self) {
        self.must_escalate.store(false, Ordering::Relaxed);
    }

    /// Ends this transaction's waits, now and until the next statement.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        let _bell = self.bell.lock();
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
        let owner = self.owner.lock();
        if let Some(owner) = *owner {
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
        *self.bell.lock() = Bell::default();
    }

    pub(crate) fn ring(&self) {
        self.bell.lock().rung = true;
        self.wake.notify_all();
    }

    /// Ends the wait that the transaction is in as the victim of a deadlock.
    pub(crate) fn doom(&self) {
        self.bell.lock().doomed = true;
        self.wake.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn is_rung(&self) -> bool {
        self.bell.lock().rung
    }

    pub(crate) fn sleep_until(&self, deadline: Instant) -> Wake {
        let mut bell = self.bell.lock();
        let mut timed_out = false;
        loop {
            if bell.rung {
                return Wake::Woken;
            }
            if bell.doomed {
                return Wake::Doomed;
            }
            if self.interrupted.load(Ordering::SeqCst) {
                return Wake::Interrupted;
            }
            if timed_out {
                return Wake::TimedOut;
            }
            timed_out = self.wake.wait_until(&mut bell, deadline).timed_out();
        }
    }
}
