//! The number of rows that a transaction sees in a table, without a scan.

use super::{EngineTransaction, Isolation};
use crate::core::index::Index;
use crate::error::EngineResult;
use crate::table_handle::TableHandle;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl EngineTransaction {
    /// The number of rows that plain reads of the transaction see in the table now. Takes the
    /// transaction's snapshot, unless it has one. `None`: it is not known without a scan. A scan of all
    /// rows, or of all entries of another index, makes it known.
    ///
    /// # Errors
    /// As [`EngineTransaction::cursor`].
    pub fn count_rows(&mut self, table: &TableHandle) -> EngineResult<Option<u64>> {
        let indexes = table.indexes()?;
        let Some(rows) = indexes.first() else {
            return Ok(None);
        };
        table.require_readable(rows)?;
        self.view()?;
        // Under READ UNCOMMITTED the transaction also sees writes of others that are not committed. Past its
        // snapshot it may have deleted rows that the snapshot does not see.
        if self.isolation == Isolation::ReadUncommitted || self.is_past_snapshot() {
            return Ok(None);
        }
        let (counters, file) = (&table.table.counters, rows.entry.file);
        let snapshot = self.snapshot();
        let is_readable = |at: &_| *at >= rows.created_at.load(Ordering::Relaxed);
        let Some(snapshot) = snapshot.filter(|at| is_readable(&at.0)) else {
            return Ok(None);
        };
        let Some(own) = self.row_changes.of(counters, file) else {
            return Ok(None);
        };
        let untracked = self.core.prepared.untracked_commit();
        let others = counters.rows.at(file, snapshot, untracked);
        Ok(others.and_then(|rows| rows.checked_add_signed(own)))
    }

    /// Notes that the newest write has added rows to the table, or removed them.
    #[inline]
    pub(crate) fn note_rows(&mut self, table: &TableHandle, indexes: &[Arc<Index>], rows: i64) {
        let Some(transaction) = &self.transaction else {
            return;
        };
        if let Some(index) = indexes.first() {
            let ids = transaction.write_ids().len();
            let counters = &table.table.counters;
            self.row_changes.add(counters, index.entry.file, ids, rows);
        }
    }
}

impl TableHandle {
    /// Whether the number of all committed rows is known, so that
    /// [`EngineTransaction::count_rows`] would probably return it.
    ///
    /// # Errors
    /// Errors of opening the table's files.
    pub fn knows_row_count(&self) -> EngineResult<bool> {
        let indexes = self.indexes()?;
        let untracked = self.core.prepared.untracked_commit();
        let rows = indexes.first();
        Ok(rows.is_some_and(|rows| {
            let count = self.table.counters.rows.newest(rows.entry.file, untracked);
            count.is_some()
        }))
    }
}
