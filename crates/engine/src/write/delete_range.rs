//! Deleting all rows of a table with one range tombstone for each index, or a range of the rows of a
//! table that has no other index than that of the rows.
//!
//! 1. A locking scan of the rows' index locks each row, and the gaps between them under any
//!    isolation level, and counts the rows. So it waits for the writes of other transactions, and
//!    afterwards no other transaction can insert or change a row of the range.
//! 2. Every index gets a range tombstone for the range, of the same write. The entries of secondary
//!    indexes belong to locked rows, so they need no locks.
//!
//! Then the rows need no record in the log and no entries in memtables. Merges drop them.

use super::EngineTransaction;
use super::plan::RowPlan;
use crate::core::index::Index;
use crate::cursor::ReadMode;
use crate::error::{EngineError, EngineResult};
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

/// The keys from `start` to `end`, exclusive; with an empty `end`, all keys from `start`.
#[derive(Clone, Copy)]
struct Range<'a> {
    start: &'a [u8],
    end: &'a [u8],
}

impl Range<'_> {
    const ALL: Range<'static> = Range {
        start: &[],
        end: &[],
    };

    fn upper(&self) -> Option<&[u8]> {
        (!self.end.is_empty()).then_some(self.end)
    }

    fn record(&self, index: &Index, write_id: WriteId) -> Record<'_> {
        Record::DeleteRange {
            file: index.entry.file,
            write_id,
            start: self.start,
            end: self.end,
        }
    }
}

impl TableHandle {
    /// Whether [`EngineTransaction::delete_all`] suits the table: it has at least about `rows_min`
    /// rows, no alteration is building indexes of it, and not many ranges were deleted shortly before.
    ///
    /// # Errors
    /// Errors of opening the table's files.
    pub fn can_delete_all(&self, rows_min: u64) -> EngineResult<bool> {
        let indexes = self.indexes()?;
        let has_rows = indexes
            .first()
            .is_some_and(|rows| rows.tree.entries() >= rows_min);
        Ok(has_rows && self.takes_tombstones()?)
    }

    /// Whether [`EngineTransaction::delete_range`] suits the table: it has one index, no
    /// alteration is building others, and not many ranges were deleted shortly before.
    ///
    /// # Errors
    /// Errors of opening the table's files.
    pub fn can_delete_range(&self) -> EngineResult<bool> {
        Ok(self.indexes()?.len() == 1 && self.takes_tombstones()?)
    }

    fn takes_tombstones(&self) -> EngineResult<bool> {
        let indexes = self.indexes()?;
        let is_building = self.table.building.load(Ordering::Acquire) > 0;
        let has_few_tombstones =
            |index: &Arc<Index>| index.tree.active_tombstones() < TOMBSTONES_MAX;
        Ok(!is_building && indexes.iter().all(has_few_tombstones))
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
        self.delete_rows(table, Range::ALL)
    }

    /// Deletes the rows with keys from `start` to `end`, exclusive; with an empty `end`, all rows from
    /// `start`. Returns their number. Locks the range against writes of other transactions until the
    /// transaction ends.
    ///
    /// # Errors
    /// `InvalidArgument` if the table has several indexes; those of [`EngineTransaction::delete_all`].
    pub fn delete_range(
        &mut self,
        table: &TableHandle,
        start: &[u8],
        end: &[u8],
    ) -> EngineResult<u64> {
        if table.indexes()?.len() != 1 {
            let reason = "ranges can be deleted in tables with one index only";
            return Err(EngineError::InvalidArgument(reason.into()));
        }
        if !end.is_empty() && start >= end {
            return Ok(0);
        }
        self.delete_rows(table, Range { start, end })
    }

    fn delete_rows(&mut self, table: &TableHandle, range: Range<'_>) -> EngineResult<u64> {
        let count = self.lock_rows(table, range)?;
        if count > 0 {
            self.write_tombstones(table, range)?;
            self.rows.deleted += count;
            self.row_changes.note_hidden_rows();
            let removed = i64::try_from(count).unwrap_or(i64::MAX);
            self.note_rows(table, &table.indexes()?, -removed);
        }
        Ok(count)
    }

    /// Locks the rows of a range and the gaps between them. Returns the number of rows.
    fn lock_rows(&mut self, table: &TableHandle, range: Range<'_>) -> EngineResult<u64> {
        let mut cursor = self.cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)?;
        cursor.set_bounds(Some(range.start), range.upper());
        cursor.lock_gaps();
        let mut count = 0;
        let mut is_on_row = cursor.first(self)?.is_some();
        while is_on_row {
            count += 1;
            is_on_row = cursor.next(self)?.is_some();
        }
        Ok(count)
    }

    fn write_tombstones(&mut self, table: &TableHandle, range: Range<'_>) -> EngineResult<()> {
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
            let record = range.record(index, WriteId::SETTLED);
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
                let record = range.record(index, write_id);
                guard.set_lsn(core.log.append_reserved(space, &record)?);
            }
            guard.delete_range(write_id, range.start, range.end);
        }
        context.transaction.handle().note_row_written();
        context.transaction.note_locked_rows_written();
        Ok(())
    }
}
