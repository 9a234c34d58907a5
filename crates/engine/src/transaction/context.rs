//! The parts of a transaction that one row operation uses, borrowed separately.

use super::{Duplicate, EngineTransaction, ended};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{Operation, WriteId, WriteStatus};
use teak_transactions::{LockMode, RowName, Transaction, ViewKind};
use teak_tree::Visit;

/// The parts of an [`EngineTransaction`] that row reads and writes need. They are borrowed, so that
/// no row operation changes the engine's reference count.
pub(crate) struct TransactionContext<'a> {
    pub core: &'a EngineCore,
    pub transaction: &'a mut Transaction,
    pub duplicate: &'a mut Duplicate,
    snapshot_isolation: bool,
    lock_timeout: Duration,
}

impl EngineTransaction {
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub(crate) fn context(&mut self) -> EngineResult<TransactionContext<'_>> {
        Ok(TransactionContext {
            core: &self.core,
            transaction: self.transaction.as_mut().ok_or_else(ended)?,
            duplicate: &mut self.duplicate,
            snapshot_isolation: self.snapshot_isolation,
            lock_timeout: self.lock_timeout,
        })
    }
}

impl TransactionContext<'_> {
    /// The remaining lock timeout. If there is no deadline yet, sets it from the lock timeout. So
    /// all waits of an operation that pass the same `deadline` share one timeout. A timeout that
    /// ends later than the clock can represent has no deadline.
    pub(crate) fn remaining_timeout(&self, deadline: &mut Option<Instant>) -> Duration {
        let now = Instant::now();
        if deadline.is_none() {
            *deadline = now.checked_add(self.lock_timeout);
        }
        deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(now)
        })
    }

    /// Locks a row unless `is_locked`, waiting for the transactions that hold a
    /// conflicting lock.
    pub(crate) fn lock_unless_locked(
        &mut self,
        row: RowName<'_>,
        mode: LockMode,
        is_locked: &mut bool,
        deadline: &mut Option<Instant>,
    ) -> EngineResult<()> {
        if !*is_locked {
            let timeout = self.remaining_timeout(deadline);
            let transactions = &self.core.transactions;
            transactions.lock(self.transaction, row, mode, timeout)?;
            *is_locked = true;
        }
        Ok(())
    }

    /// Checks that the transaction may use a version newer than its snapshot.
    ///
    /// # Errors
    /// `Conflict` under snapshot isolation.
    pub(crate) fn accept_newer_than_snapshot(&mut self) -> EngineResult<()> {
        if self.snapshot_isolation {
            return Err(self.snapshot_conflict());
        }
        self.transaction.set_past_snapshot();
        Ok(())
    }

    /// Checks that the transaction may use the absence of a key that was deleted after its snapshot
    /// was taken. May read blocks, so the caller must not hold the latch of the key.
    ///
    /// # Errors
    /// `Conflict` under snapshot isolation, if the snapshot sees an entry of the key. A key that was
    /// inserted and deleted after the snapshot is no conflict: merges may have dropped both. Errors
    /// of reading.
    pub(crate) fn accept_deleted_after_snapshot(
        &mut self,
        index: &Index,
        key: &[u8],
    ) -> EngineResult<()> {
        if self.snapshot_isolation && !self.snapshot_sees(index, key)? {
            return Ok(());
        }
        self.accept_newer_than_snapshot()
    }

    /// Whether the snapshot sees an entry of the key.
    fn snapshot_sees(&self, index: &Index, key: &[u8]) -> EngineResult<bool> {
        let Some(snapshot) = self.transaction.snapshot() else {
            return Ok(false);
        };
        let transactions = &self.core.transactions;
        let view = transactions.view(self.transaction, ViewKind::Snapshot(snapshot));
        let mut is_seen = false;
        let visited = index.tree.visit(key, &mut |id, operation, _| {
            if !view.sees(id) {
                return Visit::Continue;
            }
            is_seen = operation == Operation::Put;
            Visit::Stop
        });
        self.core.checked(index, visited)?;
        Ok(is_seen)
    }

    /// Counts a snapshot conflict and returns its error.
    pub(crate) fn snapshot_conflict(&self) -> EngineError {
        let conflicts = &self.core.counts.conflicts;
        conflicts.fetch_add(1, Ordering::Relaxed);
        EngineError::Conflict
    }

    /// Whether a write was committed after the snapshot was taken. `false` while
    /// there is no snapshot.
    pub(crate) fn is_newer_than_snapshot(&self, id: WriteId) -> bool {
        let Some(snapshot) = self.transaction.snapshot() else {
            return false;
        };
        match self.core.transactions.ids().status(id) {
            WriteStatus::Committed(sequence) => sequence > snapshot,
            _ => false,
        }
    }
}
