//! Reading some columns of all rows of an index, for a calculation.

use super::bounds::Motion;
use super::position::{CursorMemory, IndexPosition, Rows};
use super::snapshot::SnapshotCursor;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_aggregate::Condition;
use teak_base::StorageError;
use teak_tree::{ColumnChoice, ColumnRows, ReadColumn, ZoneReader};

/// Rows that are read together.
const ROWS_MAX: usize = 1024;

/// A scan of all rows of an index, in key order, that reads some of their columns.
pub(crate) struct ColumnScan {
    cursor: SnapshotCursor,
    choice: ColumnChoice,
    zones: ZoneReader,
    unread_pages: u64,
    state: State,
}

/// What the scan has returned last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    /// So many rows of a page, or one row. The cursor is on the first of them.
    Rows(usize),
    Columns,
    End,
}

/// Rows of a scan, at least one.
#[derive(Debug)]
pub(crate) enum ColumnBatch<'a> {
    /// Those of a page whose columns can be decoded.
    Columns(ColumnRows),
    /// Rows with whole values, or values that have only the chosen columns, as
    /// [`Cursor::set_projection`](crate::Cursor::set_projection) describes.
    Rows(Rows<'a>),
}

impl EngineTransaction {
    /// Begins a scan that reads the versions that the transaction's view sees. `beginning`: as for
    /// [`TableHandle::projection`].
    ///
    /// # Errors
    /// As [`EngineTransaction::cursor`]; `InvalidArgument` if the rows do not have such columns.
    pub(crate) fn column_scan(
        &mut self,
        table: &TableHandle,
        index: IndexNumber,
        beginning: &[u8],
        columns: &[ReadColumn],
    ) -> EngineResult<ColumnScan> {
        let position = IndexPosition::new(CursorMemory::default(), table, index)?;
        table.require_readable(&position.index)?;
        let of_tree = &position.index.tree.options().columns;
        let choice = ColumnChoice::new(of_tree, beginning, columns);
        let invalid = || EngineError::InvalidArgument("the index has no such columns".into());
        let choice = choice.ok_or_else(invalid)?;
        let mut cursor = SnapshotCursor::new(position);
        cursor.set_choice(choice.projection().clone());
        Ok(ColumnScan {
            cursor,
            zones: ZoneReader::new(choice.clone()),
            unread_pages: 0,
            choice,
            state: State::Nothing,
        })
    }
}

impl ColumnScan {
    /// The columns that the scan reads.
    #[must_use]
    pub(crate) fn choice(&self) -> &ColumnChoice {
        &self.choice
    }

    /// The number of pages that were not read, because no row can match according to the zones of their columns.
    pub(crate) fn unread_pages(&self) -> u64 {
        self.unread_pages
    }

    /// Makes the scan begin again, in the transaction's current view.
    pub(crate) fn rewind(&mut self) {
        self.cursor.clear_position();
        self.state = State::Nothing;
    }

    /// The next rows; `None` after the last. May leave out rows that do not match the condition, which counts the columns of
    /// the scan.
    ///
    /// # Errors
    /// `Storage`, `Interrupted`.
    pub(crate) fn next(
        &mut self,
        transaction: &mut EngineTransaction,
        condition: Option<&Condition>,
    ) -> EngineResult<Option<ColumnBatch<'_>>> {
        transaction.check_interrupt()?;
        let before = std::mem::replace(&mut self.state, State::End);
        let passed = match before {
            State::End => return Ok(None),
            State::Nothing => {
                if self
                    .cursor
                    .move_to(transaction, Motion::Forward, None)?
                    .is_none()
                {
                    return Ok(None);
                }
                return self.rows_here(transaction);
            }
            State::Rows(rows) => rows - 1,
            State::Columns => 0,
        };
        self.cursor.pass_rows(passed)?;
        if let Some(condition) = condition {
            let (cursor, zones) = (&mut self.cursor, &mut self.zones);
            while cursor.pass_page_by_zones(transaction, zones, condition)? {
                self.unread_pages += 1;
                transaction.check_interrupt()?;
            }
        }
        if let Some(columns) = self.cursor.next_columns(transaction, &self.choice)? {
            self.state = State::Columns;
            return Ok(Some(ColumnBatch::Columns(columns)));
        }
        if self.cursor.step(transaction, Motion::Forward)?.is_none() {
            return Ok(None);
        }
        self.rows_here(transaction)
    }

    /// The error of a row that cannot be read.
    pub(crate) fn malformed_row(&self) -> EngineError {
        let path = self.cursor.index().tree.path();
        StorageError::corrupt(path, 0, "a row is malformed").into()
    }

    fn rows_here(
        &mut self,
        transaction: &EngineTransaction,
    ) -> EngineResult<Option<ColumnBatch<'_>>> {
        let rows = self.cursor.rows_here(transaction, ROWS_MAX)?;
        if let Some(rows) = &rows {
            self.state = State::Rows(rows.len());
        }
        Ok(rows.map(ColumnBatch::Rows))
    }
}
