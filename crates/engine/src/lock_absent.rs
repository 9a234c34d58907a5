//! Locking a key that has no entry, so that nobody else inserts it.
//!
//! Who writes over a duplicate goes on from what the insertion found: of
//! several unique keys those that were looked at first are free. They must stay
//! so until the row is written.

use crate::core::index::Index;
use crate::error::EngineResult;
use crate::newest_version::{NewestVersion, find_newest_version};
use crate::table_handle::TableHandle;
use crate::transaction::{EngineTransaction, TransactionContext};

use teak_transactions::{LockMode, RowName};

impl EngineTransaction {
    /// Locks a key of a unique index until the transaction ends, provided that
    /// it has no live entry. `false`: it has one, and is not locked.
    ///
    /// # Errors
    /// `Wait`, `Storage`, `InvalidArgument`.
    pub fn lock_absent(
        &mut self,
        table: &TableHandle,
        index: u32,
        key: &[u8],
    ) -> EngineResult<bool> {
        self.check_interrupt()?;
        self.check_open()?;

        let index = table.index(index)?;
        let row = RowName::new(&index.ranges, key);
        let mut context = self.context()?;
        let mut held = false;
        let absent = context.lock_absent(&index, row, &mut held);
        if held && !matches!(absent, Ok(true)) {
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
        held: &mut bool,
    ) -> EngineResult<bool> {
        let transactions = &self.core.transactions;
        let me = self.transaction.id();
        let mut deadline = None;
        loop {
            let latch = transactions.latches().one(row.lock);
            let found =
                find_newest_version(self.core, index, row.key, me, &mut self.duplicate.value)?;
            if let NewestVersion::Uncommitted(id) = found {
                drop(latch);
                // In line before waiting, as writers of the key are.
                self.lock_unless_locked(row, LockMode::Exclusive, held, &mut deadline)?;
                let timeout = self.remaining_timeout(&mut deadline);
                transactions.wait_for_write(self.transaction, id, row, timeout)?;
                continue;
            }
            if matches!(found, NewestVersion::Live(_)) {
                return Ok(false);
            }
            if *held || transactions.try_lock(self.transaction, row, LockMode::Exclusive)? {
                *held = true;
                return Ok(true);
            }
            drop(latch);
            self.lock_unless_locked(row, LockMode::Exclusive, held, &mut deadline)?;
        }
    }
}
