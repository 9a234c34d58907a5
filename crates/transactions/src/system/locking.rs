//! Taking and giving up row and range locks.

use super::TransactionSystem;
use crate::error::WaitError;
use crate::hash::LockId;
use crate::range_locks::{RangeLockKind, RangeLocks};
use crate::row_locks::{Asked, LockMode, Requested, RowName};
use crate::transaction::{HeldLock, Transaction};
use std::sync::Arc;
use std::time::Duration;

impl TransactionSystem {
    /// Locks a row for the transaction. Called without any latch when it may
    /// wait (`timeout` not zero); with the row's latch held, only
    /// [`TransactionSystem::try_lock`] is allowed.
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
        if self.request(transaction, row, mode, true)? == Requested::Queued {
            let shared = Arc::clone(transaction.handle());
            self.wait_for_lock(&shared, row, mode, timeout)?;
            self.note_lock(transaction, row, mode);
        }
        Ok(())
    }

    /// Locks a row if nobody stands in the way. `false` when somebody does;
    /// nothing is queued then.
    ///
    /// # Errors
    /// [`WaitError::TooManyLocks`].
    pub fn try_lock(
        &self,
        transaction: &mut Transaction,
        row: RowName<'_>,
        mode: LockMode,
    ) -> Result<bool, WaitError> {
        Ok(self.request(transaction, row, mode, false)? != Requested::Refused)
    }

    fn request(
        &self,
        transaction: &mut Transaction,
        row: RowName<'_>,
        mode: LockMode,
        queues: bool,
    ) -> Result<Requested, WaitError> {
        if let Some(held) = transaction.held.get_mut(&row.lock)
            && held.mode >= mode
        {
            held.count += 1;
            return Ok(Requested::Granted);
        }
        self.admit_lock(transaction, row.lock)?;
        let asked = Asked {
            mode,
            covered: transaction.covers(&row, mode),
            queues,
        };
        let requested = self.locks.request(row, transaction.handle(), asked);
        if requested == Requested::Granted {
            self.note_lock(transaction, row, mode);
        }
        Ok(requested)
    }

    fn note_lock(&self, transaction: &mut Transaction, row: RowName<'_>, mode: LockMode) {
        let scope = transaction.scope;
        let before = transaction.held.len();
        let held = transaction.held.entry(row.lock).or_insert(HeldLock {
            mode,
            count: 0,
            scope,
            written: false,
        });
        held.mode = held.mode.max(mode);
        held.count += 1;
        let after = transaction.held.len();
        if after > before {
            transaction.note_index(row.index);
            transaction.handle().note_row_locks(after);
            transaction.handle().add_lock_bytes(row.bytes());
        }
    }

    /// Releases a row that the transaction does not list any more.
    pub(super) fn let_go(&self, transaction: &Transaction, lock: LockId) {
        let bytes = self.locks.release(lock, transaction.id());
        transaction.handle().note_row_locks(transaction.held.len());
        transaction.handle().take_lock_bytes(bytes);
    }

    /// Gives up one acquisition of a row; the lock goes with the last. A row in
    /// a range that the transaction holds in place of rows stays locked.
    pub fn unlock(&self, transaction: &mut Transaction, lock: LockId) {
        let Some(held) = transaction.held.get_mut(&lock) else {
            return;
        };
        held.count = held.count.saturating_sub(1);
        if held.count == 0 {
            transaction.held.remove(&lock);
            self.let_go(transaction, lock);
        }
    }

    /// Gives a row's lock up whatever the count: its newest version is the
    /// transaction's own now, which locks it implicitly. A lock taken before
    /// the last mark stays, for returning to the mark would undo the write but
    /// must not undo the lock.
    pub fn unlock_written(&self, transaction: &mut Transaction, lock: LockId) {
        if transaction.held.is_empty() {
            return;
        }
        let scope = transaction.scope;
        match transaction.held.get_mut(&lock) {
            Some(held) if held.scope == scope => {
                transaction.held.remove(&lock);
                self.let_go(transaction, lock);
            }
            Some(held) => held.written = true,
            None => {}
        }
    }

    /// Keeps others from inserting at `low <= key < high` of an index, or from
    /// any write there, until the transaction ends. Writes that are under way
    /// may still come. Whoever waits to write there already goes first, unless
    /// `timeout` is zero. Called without any latch.
    ///
    /// # Errors
    /// [`WaitError`] when the range is not marked.
    pub fn lock_range(
        &self,
        transaction: &mut Transaction,
        ranges: &Arc<RangeLocks>,
        keeps: RangeLockKind,
        (low, high): (&[u8], Option<&[u8]>),
        timeout: Duration,
    ) -> Result<(), WaitError> {
        self.admit_lock(transaction, LockId::new(ranges.file(), low))?;
        let (is_first, resized) = if timeout.is_zero() {
            // Who will not wait does not fail for a mark that stops nobody but writers.
            ranges.mark(transaction.id(), keeps, low, high)
        } else {
            let shared = transaction.handle();
            self.mark_in_turn(shared, ranges, keeps, (low, high), timeout)?
        };
        self.resize(transaction, resized);
        if is_first {
            transaction.marked.push(Arc::clone(ranges));
        }
        Ok(())
    }
}
