//! Locks on the counters of tables. A statement that needs consecutive values locks the counter
//! until its end; the callers agree not to advance a counter that another transaction has locked.
//! The engine does not check this. These locks take part in deadlock detection, like row locks.

use crate::error::EngineResult;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_transactions::{LockId, LockMode, RowName};

impl EngineTransaction {
    /// Locks a counter. Lock calls are counted: the lock is held until the same number of
    /// `unlock_counter` calls, or until the transaction ends.
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

    /// Undoes one lock call of a counter. Undoing the last one releases the lock.
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
