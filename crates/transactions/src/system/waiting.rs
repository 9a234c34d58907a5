//! Waiting for row locks, range locks and writes of other transactions.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::handle::TransactionHandle;
use crate::lock_types::{LockMode, RangeLockKind, Resized};
use crate::range_locks::RangeLocks;
use crate::range_queue_positions::RangeQueuePositions;
use crate::report::{Blocker, DeadlockReport, FailedWait, LockRequest, WaitKind};
use crate::row_name::RowName;
use crate::sync::atomic::Ordering;
use crate::transaction::Transaction;
use crate::wait_graph::{Wait, WaitTarget};
use crate::waker::Wake;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{TransactionId, WriteId};

fn lock_request(row: &RowName<'_>, kind: WaitKind) -> LockRequest {
    LockRequest {
        file: row.index.file(),
        key: row.key.into(),
        kind,
    }
}

fn range_wait(
    handle: &Arc<TransactionHandle>,
    ranges: &Arc<RangeLocks>,
    key: &[u8],
    kind: WaitKind,
) -> Wait {
    let row = RowName::new(ranges, key);
    let target = WaitTarget::Range(Arc::clone(ranges));
    Wait::new(handle, target, lock_request(&row, kind))
}

impl TransactionSystem {
    /// Waits until a queued row lock request is granted.
    pub(super) fn wait_for_lock(
        &self,
        handle: &Arc<TransactionHandle>,
        row: RowName<'_>,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let request = lock_request(&row, WaitKind::Lock(mode));
        let wait = Wait::new(handle, WaitTarget::Row(row.lock), request);
        let Err(error) = self.wait(wait, timeout) else {
            return Ok(());
        };
        if !self.locks.withdraw(row.lock, handle.id()) {
            // The request was granted after the wait had failed.
            return Ok(());
        }
        Err(self.count_failure(error))
    }

    /// Waits until the write `id` of another transaction is committed or
    /// aborted. The caller must hold no latch.
    ///
    /// # Errors
    /// [`WaitError`] when it is still active.
    pub fn wait_for_write(
        &self,
        transaction: &Transaction,
        id: WriteId,
        row: RowName<'_>,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let handle = transaction.handle();
        if !self.write_waits.register(id, handle, &self.ids) {
            return Ok(());
        }
        let request = lock_request(&row, WaitKind::Write);
        let wait = Wait::new(handle, WaitTarget::Write(id), request);
        let outcome = self.wait(wait, timeout);
        self.write_waits.unregister(id, handle.id());
        outcome.map_err(|error| self.count_failure(error))
    }

    /// Waits until a range lock that blocks the write of the key is released; the caller checks
    /// again. Until `queue_positions` is dropped, later range requests that would block the write
    /// wait for it. The caller must hold no latch.
    ///
    /// # Errors
    /// [`WaitError`] when a range lock still blocks the write.
    pub fn wait_for_range_lock(
        &self,
        transaction: &Transaction,
        queue_positions: &mut RangeQueuePositions,
        ranges: &Arc<RangeLocks>,
        key: &[u8],
        is_insert: bool,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let handle = transaction.handle();
        if !ranges.enqueue_write(key, is_insert, handle) {
            return Ok(());
        }
        queue_positions.add(ranges, handle.id());
        let wait = range_wait(handle, ranges, key, WaitKind::RangeLock);
        let outcome = self.wait(wait, timeout);
        ranges.note_awake(handle.id());
        outcome.map_err(|error| self.count_failure(error))
    }

    /// Adds a range lock after the earlier writes that are blocked in the range.
    pub(super) fn add_range_in_turn(
        &self,
        handle: &Arc<TransactionHandle>,
        ranges: &Arc<RangeLocks>,
        kind: RangeLockKind,
        (low, high): (&[u8], Option<&[u8]>),
        timeout: Duration,
    ) -> Result<(bool, Resized), WaitError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(added) = ranges.add_in_turn(handle, kind, low, high) {
                return Ok(added);
            }
            let wait = range_wait(handle, ranges, low, WaitKind::RangeRequest(kind));
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if let Err(error) = self.wait(wait, left) {
                ranges.dequeue_request(handle.id());
                return Err(self.count_failure(error));
            }
        }
    }

    /// Sleeps until the transaction is woken. Fails if it is the victim of a
    /// deadlock, is interrupted or times out. A timeout that ends later than the
    /// clock can represent never expires.
    fn wait(&self, wait: Wait, timeout: Duration) -> Result<(), WaitError> {
        self.counters.lock_waits.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::clone(&wait.handle);
        let me = handle.id();
        if timeout.is_zero() {
            // A request that does not block cannot cause a deadlock.
            let wake = handle.waker().wait_until(Some(wait.since));
            return self.finish_wait(&wait, wake);
        }
        let known = wait.clone();
        let deadlocks = self.graph.begin(wait, &self.locks, &self.ids);
        if !deadlocks.is_empty() && self.record_deadlocks(&deadlocks, me) {
            self.record_failure(&known, blockers_in_last(&deadlocks, me));
            return Err(WaitError::Deadlock);
        }
        self.notify_listener(&known);
        let wake = handle.waker().wait_until(known.since.checked_add(timeout));
        self.graph.end(me);
        self.finish_wait(&known, wake)
    }

    /// Notifies the listener of the transactions that block the wait. Holds no
    /// lock of this crate except the owner lock of the holder.
    ///
    /// Another transaction may start to block the wait later, by a lock upgrade or by acquiring the
    /// lock before the waiter. Either it is already ahead in the queue and is reported now, or the
    /// waiter is woken, waits again and reports it then.
    fn notify_listener(&self, wait: &Wait) {
        let Some(listener) = self.wait_listener.get() else {
            return;
        };
        let holders = match &wait.target {
            WaitTarget::Row(lock) => self.locks.ahead_of(*lock, wait.handle.id()),
            _ => wait.blockers(&self.locks, &self.ids),
        };
        let holders: SmallVec<[Arc<TransactionHandle>; 4]> = holders
            .iter()
            .filter_map(|blocking| self.find(blocking.transaction))
            .collect();
        let Some(waiter) = wait.handle.owner() else {
            return;
        };
        for holder in holders {
            holder.with_owner(|holder| listener.wait_begins(waiter, holder));
        }
    }

    fn finish_wait(&self, wait: &Wait, wake: Wake) -> Result<(), WaitError> {
        self.counters.lock_wait_times.record_since(wait.since);
        let error = match wake {
            Wake::Notified => return Ok(()),
            Wake::TimedOut => WaitError::Timeout,
            Wake::Interrupted => return Err(WaitError::Interrupted),
            Wake::Victim => WaitError::Deadlock,
        };
        let blockers = wait.blockers(&self.locks, &self.ids);
        let blockers = blockers.iter().map(|blocking| self.blocker(blocking));
        self.record_failure(wait, blockers.collect());
        Err(error)
    }

    fn record_failure(&self, wait: &Wait, blockers: Vec<Blocker>) {
        wait.handle.set_failed_wait(FailedWait {
            request: wait.request.clone(),
            waited: wait.since.elapsed(),
            blockers,
        });
    }

    /// Counts the deadlocks and stores the last report. Returns whether `me` is its victim.
    fn record_deadlocks(&self, deadlocks: &[DeadlockReport], me: TransactionId) -> bool {
        let count = deadlocks.len() as u64;
        self.counters.deadlocks.fetch_add(count, Ordering::Relaxed);
        let Some(last) = deadlocks.last() else {
            return false;
        };
        *self.last_deadlock.lock() = Some(Arc::new(last.clone()));
        last.victim == me
    }

    fn count_failure(&self, error: WaitError) -> WaitError {
        if error == WaitError::Timeout {
            self.counters.lock_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        error
    }
}

/// The transaction that `me` waits for in the last deadlock.
fn blockers_in_last(deadlocks: &[DeadlockReport], me: TransactionId) -> Vec<Blocker> {
    let members = deadlocks.last().map_or(&[][..], |last| &last.members);
    let mut around = members.iter().cycle().take(members.len() + 1);
    let own = around.find(|member| member.participant.transaction == me);
    let blocker = own.zip(around.next()).map(|(own, next)| Blocker {
        participant: next.participant,
        kind: own.blocked_by,
    });
    blocker.into_iter().collect()
}
