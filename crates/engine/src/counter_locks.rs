//! Locks of tables' counters: whoever holds one alone takes values from it,
//! so the values of one statement follow each other. They are taken, waited for
//! and given up as row locks are, and closed circles are found across both.

use crate::error::EngineResult;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_transactions::{LockId, LockMode, RowName};

impl EngineTransaction {
    /// Locks a counter until it is unlocked as often, or the transaction ends.
    ///
    /// # Errors
    /// `Wait`.
    pub fn lock_counter(&mut self, table: &TableHandle, counter: u8) -> EngineResult<()> {
        self.check_interrupt()?;
        let row = RowName {
            lock: LockId::of_counter(table.table.id, counter),
            index: &table.table.counter_locks,
            key: &[counter],
        };
        let context = self.context()?;
        let timeout = context.remaining_timeout(&mut None);
        let transactions = &context.core.transactions;
        transactions.lock(context.transaction, row, LockMode::Exclusive, timeout)?;
        Ok(())
    }

    /// Gives a counter up.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn unlock_counter(&mut self, table: &TableHandle, counter: u8) -> EngineResult<()> {
        let lock = LockId::of_counter(table.table.id, counter);
        let context = self.context()?;
        context.core.transactions.unlock(context.transaction, lock);
        Ok(())
    }
}
