//! Scans that pass over pages without rows that match a condition.

use super::snapshot::SnapshotCursor;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use teak_aggregate::{Columns, Condition, RowFilter, TextRules};
use teak_base::StorageError;
use teak_columns::{Kind, Vector};
use teak_tree::{ColumnChoice, ColumnRows, ReadColumn, ZoneReader};

/// Maximum number of pages that are not examined after one with matching rows.
const UNEXAMINED_MAX: usize = 16;

/// A condition by which a scan passes over pages. After pages with matching rows, fewer pages are examined.
#[derive(Debug)]
pub struct PageFilter {
    index: IndexNumber,
    choice: ColumnChoice,
    zones: ZoneReader,
    filter: RowFilter,
    /// The number of rows before the next page that is examined.
    unexamined_rows: usize,
    /// The number of pages that are not examined after the next one with matching rows.
    unexamined_pages: usize,
    passed: u64,
    unread: u64,
}

/// The columns of a page.
pub(crate) struct OpenedPage<'a>(pub(crate) &'a mut ColumnRows);

impl Columns for OpenedPage<'_> {
    type Error = StorageError;

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn vector(&mut self, column: usize) -> Result<Vector, StorageError> {
        self.0.vector(column)
    }
}

/// Whether the columns have the numbers and strings that a condition compares.
pub(crate) fn suits_columns(condition: &Condition, choice: &ColumnChoice) -> bool {
    let has_numbers = |column: usize| {
        let column = choice.column(column);
        column.is_some_and(|of| of.has_numbers() || of.kind() == Kind::Float)
    };
    let is_text = |column: usize| {
        let column = choice.column(column);
        column.is_none_or(|of| of.kind() == Kind::Bytes)
    };
    let is_integer = |column: usize| choice.column(column).is_some_and(|of| of.has_numbers());
    condition.numbers().into_iter().all(has_numbers)
        && condition.compared().into_iter().all(is_integer)
        && condition.texts().into_iter().all(is_text)
}

impl TableHandle {
    /// A condition for [`Cursor::next_matching_rows`](super::Cursor::next_matching_rows) of cursors of an index. `beginning`:
    /// as for [`TableHandle::projection`]. `columns`: those that the condition counts.
    ///
    /// # Errors
    /// `NoSuchIndex`; `InvalidArgument` if the index has no such columns, or they do not have what the condition
    /// compares; errors of opening the table's files.
    pub fn page_filter(
        &self,
        index: IndexNumber,
        beginning: &[u8],
        columns: &[ReadColumn],
        condition: Condition,
    ) -> EngineResult<PageFilter> {
        let invalid =
            || EngineError::InvalidArgument("the condition does not suit the index".into());
        let of_tree = self.index(index)?.tree.options().columns.clone();
        let choice = ColumnChoice::new(&of_tree, beginning, columns).ok_or_else(invalid)?;
        if !suits_columns(&condition, &choice) {
            return Err(invalid());
        }
        let filter = RowFilter::new(columns.len(), condition).ok_or_else(invalid)?;
        Ok(PageFilter {
            index,
            zones: ZoneReader::new(choice.clone()),
            choice,
            filter,
            unexamined_rows: 0,
            unexamined_pages: 1,
            passed: 0,
            unread: 0,
        })
    }
}

impl PageFilter {
    /// The number of pages that were passed over.
    #[must_use]
    pub fn passed_pages(&self) -> u64 {
        self.passed
    }

    /// The number of these that were not read, because no row can match according to the zones of their columns.
    #[must_use]
    pub fn unread_pages(&self) -> u64 {
        self.unread
    }

    /// Passes over the pages that follow and have no matching rows. `rows`: the number of rows that the scan has returned since
    /// the last call.
    ///
    /// # Errors
    /// Errors of reading pages; `InvalidArgument` if the cursor is one of another index.
    pub(super) fn pass_pages(
        &mut self,
        cursor: &mut SnapshotCursor,
        transaction: &EngineTransaction,
        rules: &mut dyn TextRules,
        rows: usize,
    ) -> EngineResult<()> {
        if cursor.index_number() != self.index {
            let text = "the filter is one of another index";
            return Err(EngineError::InvalidArgument(text.into()));
        }
        self.unexamined_rows = self.unexamined_rows.saturating_sub(rows);
        loop {
            transaction.check_interrupt()?;
            let Self {
                choice,
                zones,
                filter,
                unexamined_rows,
                unexamined_pages,
                ..
            } = self;
            let condition = filter.condition();
            if cursor.pass_page_by_zones(transaction, zones, condition)? {
                self.passed += 1;
                self.unread += 1;
                continue;
            }
            if *unexamined_rows > 0 {
                break;
            }
            let mut has_no_match = |columns: &mut ColumnRows| {
                let matches = filter.matches_any(&mut OpenedPage(columns), &mut *rules)?;
                if matches {
                    *unexamined_rows = columns.rows() * (1 + *unexamined_pages);
                    *unexamined_pages = (*unexamined_pages * 2).min(UNEXAMINED_MAX);
                } else {
                    *unexamined_pages = 1;
                }
                Ok(!matches)
            };
            if !cursor.pass_page_if(transaction, choice, &mut has_no_match)? {
                break;
            }
            self.passed += 1;
        }
        Ok(())
    }
}
