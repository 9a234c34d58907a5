//! Acquiring and releasing row and range locks.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::lock_id::LockId;
use crate::lock_types::{HeldLock, LockMode, RangeLockKind};
use crate::range_locks::RangeLocks;
use crate::row_locks::{RowRequest, RowRequestOutcome, lock_bytes};
use crate::row_name::RowName;
use crate::transaction::Transaction;
use std::sync::Arc;
use std::time::Duration;

impl TransactionSystem {
    /// Locks a row for the transaction. The caller must hold no latch, because the call may wait;
    /// under the row's latch, only [`TransactionSystem::try_lock`] is allowed.
    ///
    /// # Errors
    /// [`WaitError`] when the lock was not granted.
    pub fn lock(
        &self,
        transaction: &mut Transaction,
        row: RowName<'_>,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let outcome = self.request(transaction, row, mode, true)?;
        if outcome == RowRequestOutcome::Queued {
            let handle = Arc::clone(transaction.handle());
            self.wait_for_lock(&handle, row, mode, timeout)?;
            self.record_lock(transaction, row, mode);
        }
        Ok(())
    }

    /// Locks a row without waiting. Returns false, without queueing, if there is a conflict or if
    /// other requests wait for the row.
    ///
    /// # Errors
    /// [`WaitError::TooManyLocks`] when the limit of lock memory is reached.
    pub fn try_lock(
        &self,
        transaction: &mut Transaction,
        row: RowName<'_>,
        mode: LockMode,
    ) -> Result<bool, WaitError> {
        let outcome = self.request(transaction, row, mode, false)?;
        Ok(outcome != RowRequestOutcome::Refused)
    }

    fn request(
        &self,
        transaction: &mut Transaction,
        row: RowName<'_>,
        mode: LockMode,
        may_queue: bool,
    ) -> Result<RowRequestOutcome, WaitError> {
        if let Some(held) = transaction.held.get_mut(&row.lock)
            && held.mode >= mode
        {
            held.count += 1;
            return Ok(RowRequestOutcome::Granted);
        }
        self.admit_lock(transaction, row.lock)?;
        let request = RowRequest {
            mode,
            is_covered: transaction.covers(&row, mode),
            may_queue,
        };
        let outcome = self.locks.request(row, transaction.handle(), request);
        if outcome == RowRequestOutcome::Granted {
            self.record_lock(transaction, row, mode);
        }
        Ok(outcome)
    }

    fn record_lock(&self, transaction: &mut Transaction, row: RowName<'_>, mode: LockMode) {
        let savepoints = transaction.savepoints;
        let before = transaction.held.len();
        let held = transaction.held.entry(row.lock).or_insert(HeldLock {
            mode,
            count: 0,
            savepoints,
            written: false,
        });
        held.mode = held.mode.max(mode);
        held.count += 1;
        let after = transaction.held.len();
        if after > before {
            transaction.note_row_locked_index(row.index);
            transaction.handle().set_row_locks(after);
            transaction.handle().add_lock_bytes(lock_bytes(row.key));
        }
    }

    /// Releases a row lock that was removed from the transaction's own table.
    fn release_removed(&self, transaction: &Transaction, lock: LockId) {
        let bytes = self.locks.release(lock, transaction.id());
        transaction.handle().set_row_locks(transaction.held.len());
        transaction.handle().subtract_lock_bytes(bytes);
    }

    /// Releases one acquisition of a row lock; the last one releases the lock. A
    /// row within a row range of the transaction remains locked.
    pub fn unlock(&self, transaction: &mut Transaction, lock: LockId) {
        let Some(held) = transaction.held.get_mut(&lock) else {
            return;
        };
        held.count = held.count.saturating_sub(1);
        if held.count == 0 {
            transaction.held.remove(&lock);
            self.release_removed(transaction, lock);
        }
    }

    /// Releases the lock of a row that the transaction has written, however often it was acquired:
    /// the newest version is an implicit lock. A lock acquired before the last savepoint is
    /// retained, because a rollback to the savepoint undoes the write but must not release the
    /// lock.
    pub fn unlock_written(&self, transaction: &mut Transaction, lock: LockId) {
        if transaction.held.is_empty() {
            return;
        }
        let savepoints = transaction.savepoints;
        match transaction.held.get_mut(&lock) {
            Some(held) if held.savepoints == savepoints => {
                transaction.held.remove(&lock);
                self.release_removed(transaction, lock);
            }
            Some(held) => held.written = true,
            None => {}
        }
    }

    /// Adds a range lock on `low <= key < high` until the transaction ends.
    /// Writes in progress may still insert their entries. Waits for earlier
    /// writes that are blocked in the range, unless `timeout` is zero. The
    /// caller must hold no latch.
    ///
    /// # Errors
    /// [`WaitError`] when the lock was not granted.
    pub fn lock_range(
        &self,
        transaction: &mut Transaction,
        ranges: &Arc<RangeLocks>,
        kind: RangeLockKind,
        (low, high): (&[u8], Option<&[u8]>),
        timeout: Duration,
    ) -> Result<(), WaitError> {
        self.admit_lock(transaction, LockId::new(ranges.file(), low))?;
        let (is_first, resized) = if timeout.is_zero() {
            // Range locks conflict only with writes, so a request that does not wait ignores the
            // queue instead of failing.
            ranges.add(transaction.id(), kind, low, high)
        } else {
            let handle = transaction.handle();
            self.add_range_in_turn(handle, ranges, kind, (low, high), timeout)?
        };
        self.count_resized(transaction, resized);
        if is_first {
            transaction.range_locked_indexes.push(Arc::clone(ranges));
        }
        Ok(())
    }
}
