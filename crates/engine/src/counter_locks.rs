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
        let parts = self.parts()?;
        let timeout = parts.remaining(&mut None);
        let transactions = &parts.inner.transactions;
        transactions.lock(parts.core, row, LockMode::Exclusive, timeout)?;
        Ok(())
    }

    /// Gives a counter up.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn unlock_counter(&mut self, table: &TableHandle, counter: u8) -> EngineResult<()> {
        let lock = LockId::of_counter(table.table.id, counter);
        let parts = self.parts()?;
        parts.inner.transactions.unlock(parts.core, lock);
        Ok(())
    }
}
