//! Locks a key that has no entry, so that no other transaction inserts it.
//!
//! REPLACE and INSERT ... ON DUPLICATE KEY UPDATE first try an insert. If it finds a duplicate,
//! they change the existing row instead. The unique keys that the insert checked before it found
//! the duplicate had no entries. Other transactions must not insert these keys until the row is
//! written.

use crate::core::index::Index;
use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::newest_version::{NewestVersion, OlderVersion, find_newest_version};
use crate::table_handle::TableHandle;
use crate::transaction::{EngineTransaction, TransactionContext};
use teak_transactions::{LockMode, RowName};

impl EngineTransaction {
    /// Locks a key of a unique index until the transaction ends. Returns `false`, without a lock,
    /// if the key has a live entry.
    ///
    /// # Errors
    /// `Wait`, `Storage`, `InvalidArgument`.
    pub fn lock_absent(
        &mut self,
        table: &TableHandle,
        index: IndexNumber,
        key: &[u8],
    ) -> EngineResult<bool> {
        self.check_interrupt()?;
        self.check_open()?;
        let index = table.index(index)?;
        let row = RowName::new(&index.ranges, key);
        let mut context = self.context()?;
        let mut is_locked = false;
        let absent = context.lock_absent(&index, row, &mut is_locked);
        if is_locked && !matches!(absent, Ok(true)) {
            context
                .core
                .transactions
                .unlock(context.transaction, row.lock);
        }
        absent
    }
}

impl TransactionContext<'_> {
    fn lock_absent(
        &mut self,
        index: &Index,
        row: RowName<'_>,
        is_locked: &mut bool,
    ) -> EngineResult<bool> {
        let transactions = &self.core.transactions;
        let me = self.transaction.id();
        let mut deadline = None;
        let mut older = None;
        loop {
            let latch = transactions.latches().one(row.lock);
            let found = find_newest_version(self.core, index, row.key, me, None, older.as_ref())?;
            // The older version must not retain memory and disk space during a wait.
            older = None;
            let Some(found) = found else {
                drop(latch);
                older = Some(OlderVersion::read(self.core, index, row.key, me, false)?);
                continue;
            };
            if let NewestVersion::Uncommitted(id) = found {
                drop(latch);
                // Queues for the lock before it waits, so that requests for the key are granted in
                // order.
                self.lock_unless_locked(row, LockMode::Exclusive, is_locked, &mut deadline)?;
                let timeout = self.remaining_timeout(&mut deadline);
                transactions.wait_for_write(self.transaction, id, row, timeout)?;
                continue;
            }
            if matches!(found, NewestVersion::Live(_)) {
                return Ok(false);
            }
            if *is_locked || transactions.try_lock(self.transaction, row, LockMode::Exclusive)? {
                *is_locked = true;
                return Ok(true);
            }
            drop(latch);
            self.lock_unless_locked(row, LockMode::Exclusive, is_locked, &mut deadline)?;
        }
    }
}
