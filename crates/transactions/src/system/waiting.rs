//! Sleeping until somebody else lets go.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::range_locks::{RangeLockKind, RangeLocks, Resized};
use crate::range_waits::RangeQueuePositions;
use crate::report::{DeadlockReport, FailedWait, LockRequest, Party, WaitKind};
use crate::row_locks::{LockMode, RowName};
use crate::shared::{TransactionHandle, Wake};
use crate::sync::atomic::Ordering;
use crate::transaction::Transaction;
use crate::wait_graph::{Target, Waiting};
use crate::wait_listener::report;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::TransactionId;
use teak_base::WriteId;

fn wanted(row: &RowName<'_>, kind: WaitKind) -> LockRequest {
    LockRequest {
        file: row.index.file(),
        key: row.key.into(),
        kind,
    }
}

fn range_wait(
    shared: &Arc<TransactionHandle>,
    ranges: &Arc<RangeLocks>,
    key: &[u8],
    kind: WaitKind,
) -> Waiting {
    let row = RowName::new(ranges, key);
    Waiting::new(
        shared,
        Target::Range(Arc::clone(ranges)),
        wanted(&row, kind),
    )
}

impl TransactionSystem {
    pub(super) fn wait_for_lock(
        &self,
        shared: &Arc<TransactionHandle>,
        row: RowName<'_>,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let wanted = wanted(&row, WaitKind::Lock(mode));
        let wait = Waiting::new(shared, Target::Lock(row.lock), wanted);
        let Err(error) = self.sleep_on(wait, timeout) else {
            return Ok(());
        };
        if !self.locks.withdraw(row.lock, shared.id()) {
            // Granted between the wake-up and here.
            return Ok(());
        }
        Err(self.count_failure(error))
    }

    /// Waits until the foreign write `id` of a row is decided. Called without
    /// any latch.
    ///
    /// # Errors
    /// [`WaitError`] when it is still undecided.
    pub fn wait_for_write(
        &self,
        transaction: &Transaction,
        id: WriteId,
        row: RowName<'_>,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let shared = transaction.handle();
        if !self.write_waits.enlist(id, shared, &self.ids) {
            return Ok(());
        }
        let wanted = wanted(&row, WaitKind::Write);
        let wait = Waiting::new(shared, Target::Write(id), wanted);
        let outcome = self.sleep_on(wait, timeout);
        self.write_waits.delist(id, shared.id());
        outcome.map_err(|error| self.count_failure(error))
    }

    /// Waits until no range of another transaction keeps this one from the key,
    /// or one that did is given up. Called without any latch. Until `queue_positions` is
    /// dropped, nobody who comes later locks a range that would.
    ///
    /// # Errors
    /// [`WaitError`] when a range still does.
    pub fn wait_for_range_lock(
        &self,
        transaction: &Transaction,
        queue_positions: &mut RangeQueuePositions,
        ranges: &Arc<RangeLocks>,
        key: &[u8],
        is_insertion: bool,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let shared = transaction.handle();
        if !ranges.enlist(key, is_insertion, shared) {
            return Ok(());
        }
        queue_positions.note(ranges, shared.id());
        let wait = range_wait(shared, ranges, key, WaitKind::RangeLock);
        let outcome = self.sleep_on(wait, timeout);
        ranges.awake(shared.id());
        outcome.map_err(|error| self.count_failure(error))
    }

    /// Marks a range once whoever waited to write there before has.
    pub(super) fn mark_in_turn(
        &self,
        shared: &Arc<TransactionHandle>,
        ranges: &Arc<RangeLocks>,
        keeps: RangeLockKind,
        (low, high): (&[u8], Option<&[u8]>),
        timeout: Duration,
    ) -> Result<(bool, Resized), WaitError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(marked) = ranges.mark_in_turn(shared, keeps, low, high) {
                return Ok(marked);
            }
            let wait = range_wait(shared, ranges, low, WaitKind::RangeRequest);
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(error) = self.sleep_on(wait, left) {
                ranges.withdraw(shared.id());
                return Err(self.count_failure(error));
            }
        }
    }

    /// Sleeps until woken, unless this transaction must fail for a circle that
    /// the wait closes.
    fn sleep_on(&self, wait: Waiting, timeout: Duration) -> Result<(), WaitError> {
        self.counts.lock_waits.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&wait.shared);
        let me = shared.id();
        if timeout.is_zero() {
            // Who will not wait closes no circle.
            let wake = shared.sleep_until(wait.since);
            return self.wake_up(&wait, wake);
        }
        let known = wait.clone();
        let circles = self.graph.begin(wait, &self.locks, &self.ids);
        if !circles.is_empty() && self.note_circles(&circles, me) {
            self.note_failure(&known, self.blockers_in(&circles, me));
            return Err(WaitError::Deadlock);
        }
        self.report_wait(&known);
        let wake = shared.sleep_until(known.since + timeout);
        self.graph.end(me);
        self.wake_up(&known, wake)
    }

    /// Tells who is waited for, without any lock of this crate but the
    /// holder's owner's. Whoever comes to stand in the way later, by an upgrade
    /// of its lock or by taking what was waited for first, has been listed
    /// before or is waited for anew.
    fn report_wait(&self, wait: &Waiting) {
        let Some(reports) = self.wait_listener.get() else {
            return;
        };
        let holders = match &wait.target {
            Target::Lock(lock) => self.locks.ahead_of(*lock, wait.shared.id()),
            _ => wait.blockers(&self.locks, &self.ids),
        };
        let holders: SmallVec<[Arc<TransactionHandle>; 4]> =
            holders.iter().filter_map(|id| self.find(*id)).collect();
        let holders = holders.iter().map(|holder| &**holder);
        report(&**reports, &wait.shared, holders);
    }

    fn wake_up(&self, wait: &Waiting, wake: Wake) -> Result<(), WaitError> {
        let error = match wake {
            Wake::Woken => return Ok(()),
            Wake::TimedOut => WaitError::Timeout,
            Wake::Interrupted => return Err(WaitError::Interrupted),
            Wake::Doomed => WaitError::Deadlock,
        };
        let blockers = wait.blockers(&self.locks, &self.ids);
        let parties = blockers.iter().map(|id| self.party(*id)).collect();
        self.note_failure(wait, parties);
        Err(error)
    }

    fn note_failure(&self, wait: &Waiting, blockers: Vec<Party>) {
        wait.shared.note_failed_wait(FailedWait {
            request: wait.request.clone(),
            waited: wait.since.elapsed(),
            blockers,
        });
    }

    /// Keeps the last of the circles for whoever asks. Whether `me` fails.
    fn note_circles(&self, circles: &[DeadlockReport], me: TransactionId) -> bool {
        let count = circles.len() as u64;
        self.counts.deadlocks.fetch_add(count, Ordering::Relaxed);
        let Some(last) = circles.last() else {
            return false;
        };
        *self.last_deadlock.lock() = Some(Arc::new(last.clone()));
        last.victim == me
    }

    /// Whom a transaction that fails for the last circle waits for in it.
    fn blockers_in(&self, circles: &[DeadlockReport], me: TransactionId) -> Vec<Party> {
        let members = circles.last().map_or(&[][..], |circle| &circle.members);
        let mut turned = members.iter().cycle().take(members.len() + 1);
        let _ = turned.find(|member| member.party.transaction == me);
        turned.next().map(|next| next.party).into_iter().collect()
    }

    fn count_failure(&self, error: WaitError) -> WaitError {
        if error == WaitError::Timeout {
            self.counts.lock_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        error
    }
}
