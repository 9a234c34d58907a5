//! Deleting all rows of a table with one range tombstone for each index.
//!
//! 1. A locking scan of the rows' index locks each row, and the gaps between them under any
//!    isolation level, and counts the rows. So it waits for the writes of other transactions, and
//!    afterwards no other transaction can insert or change a row of the table.
//! 2. Every index gets a range tombstone for all keys, of the same write. The entries of secondary
//!    indexes belong to locked rows, so they need no locks.
//!
//! Then the rows need no record in the log and no entries in memtables. Merges drop them.

use super::EngineTransaction;
use super::plan::RowPlan;
use crate::core::index::Index;
use crate::cursor::ReadMode;
use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::maintenance::log_space::reserve_write;
use crate::table_handle::TableHandle;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::WriteId;
use teak_tree::WriteGuard;
use teak_write_ahead_log::{LogReservation, Record};

/// Number of range tombstones in the memtable of an index from which on rows are better deleted one
/// by one: readers of the memtable check all of its tombstones for each key.
const TOMBSTONES_MAX: usize = 8;

fn record_of(index: &Index, write_id: WriteId) -> Record<'static> {
    Record::DeleteRange {
        file: index.entry.file,
        write_id,
        start: &[],
        end: &[],
    }
}

impl TableHandle {
    /// Whether [`EngineTransaction::delete_all`] suits the table: it has at least about `rows_min`
    /// rows, no indexes that an alteration is building, and was not emptied like this many times
    /// shortly before.
    ///
    /// # Errors
    /// Errors of opening the table's files.
    pub fn can_delete_all(&self, rows_min: u64) -> EngineResult<bool> {
        let indexes = self.indexes()?;
        let is_building = self.table.building.load(Ordering::Acquire) > 0;
        let has_rows = indexes
            .first()
            .is_some_and(|rows| rows.tree.entries() >= rows_min);
        let has_few_tombstones =
            |index: &Arc<Index>| index.tree.active_tombstones() < TOMBSTONES_MAX;
        Ok(!is_building && has_rows && indexes.iter().all(has_few_tombstones))
    }
}

impl EngineTransaction {
    /// Deletes all rows. Returns their number. Locks the table against writes of other transactions
    /// until the transaction ends.
    ///
    /// # Errors
    /// As [`EngineTransaction::delete`], but not `NotFound`. Some indexes may then have lost their
    /// entries: the caller must roll back to a savepoint.
    pub fn delete_all(&mut self, table: &TableHandle) -> EngineResult<u64> {
        let count = self.lock_all(table)?;
        if count > 0 {
            self.delete_ranges(table)?;
            self.rows.deleted += count;
        }
        Ok(count)
    }

    /// Locks all rows and the gaps between them. Returns the number of rows.
    fn lock_all(&mut self, table: &TableHandle) -> EngineResult<u64> {
        let mut cursor = self.cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)?;
        cursor.lock_gaps();
        let mut count = 0;
        let mut is_on_row = cursor.first(self)?.is_some();
        while is_on_row {
            count += 1;
            is_on_row = cursor.next(self)?.is_some();
        }
        Ok(count)
    }

    fn delete_ranges(&mut self, table: &TableHandle) -> EngineResult<()> {
        self.check_interrupt()?;
        self.check_open()?;
        self.admit_to(table)?;
        let indexes = table.indexes()?;
        let is_logged = RowPlan::new(&indexes).is_logged();
        self.serial.note_write();
        self.has_logged_writes |= is_logged;
        let context = self.context()?;
        let (core, transactions) = (context.core, &context.core.transactions);
        transactions.admit_write(context.transaction)?;
        // Before any guard is taken, because it may wait for the log.
        let mut spaces: Vec<Option<LogReservation<'_>>> = Vec::new();
        for index in indexes.iter() {
            // The size of the reserved space does not depend on the write id.
            let record = record_of(index, WriteId::SETTLED);
            let handle = context.transaction.handle();
            spaces.push(reserve_write(core, handle, is_logged, &record)?);
        }
        let mut guards: Vec<Option<WriteGuard<'_>>> = Vec::new();
        for index in indexes.iter() {
            let guard = index.tree.write_guard();
            let is_open = index.access.is_open() || core.begin_writes(index)?;
            guards.push(is_open.then_some(guard));
        }
        let write_id = transactions.write_id(context.transaction);
        for ((index, guard), space) in indexes.iter().zip(&guards).zip(spaces) {
            // There is no guard for an index whose building was ended.
            let Some(guard) = guard else { continue };
            if let Some(space) = space {
                let lsn = core
                    .log
                    .append_reserved(space, &record_of(index, write_id))?;
                guard.set_lsn(lsn);
            }
            guard.delete_range(write_id, &[], &[]);
        }
        context.transaction.handle().note_row_written();
        context.transaction.note_locked_rows_written();
        Ok(())
    }
}
