//! Locks a row without reading it.
//!
//! A replica that applies a row event knows the row before the change. It needs the lock, and to know
//! that the row exists. If filters in memory say that a run has the row's key, that is the case, except for their
//! false positives, provided that no run that may have the key has deletes, or writes that are not committed and
//! visible to the transaction.

use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::newest_version::{LockedRead, LockingRead};
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_transactions::{LockMode, RowName};

impl EngineTransaction {
    /// Locks a row exclusively, as a locking read of it does, for a caller that knows what the row
    /// contains. Reads blocks only if filters in memory do not decide whether there is such a row.
    /// Returns `false`, without a lock, if there is none. Of about 50 rows that do not exist, one may
    /// be locked.
    ///
    /// # Errors
    /// `Wait`, `Storage`, `Conflict`, `InvalidArgument`.
    pub fn lock_row(&mut self, table: &TableHandle, key: &[u8]) -> EngineResult<bool> {
        self.check_interrupt()?;
        self.check_open()?;
        let index = table.index(IndexNumber::ROWS)?;
        table.require_readable(&index)?;
        let read = LockingRead {
            index: &index,
            locks_row: true,
            row: RowName::new(&index.ranges, key),
            mode: LockMode::Exclusive,
            waits: true,
            needs_value: false,
        };
        let (found, _) = read.run(&mut self.context()?, &mut Vec::new())?;
        Ok(found == LockedRead::Live)
    }
}
