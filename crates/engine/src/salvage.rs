//! Reading what is left of a damaged table.

mod retained_rows;

use self::retained_rows::RetainedRows;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::table_handle::TableHandle;
use std::sync::Arc;
use teak_base::StorageError;
use teak_bulk_load::Interrupted;
use teak_transactions::{ReadView, TransactionId, ViewKind};
use teak_tree::{LostPart, SalvagedEntry};

/// Maximum number of lost parts of one index that are listed one by one.
const LISTED_MAX: usize = 50;

/// What a salvage has read and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Rows read.
    pub rows: u64,
    /// Of these, rows of which a newer version, or the delete, may have been lost.
    pub doubtful_rows: u64,
    /// Number of separate values, pages, runs, nodes and superblocks that could not be read. If
    /// retained log records could not be read, they count as one part.
    pub lost_parts: u64,
    /// Entries of the lost parts, old versions and deletes included, as far as their number is
    /// known. For lost nodes it is not.
    pub lost_entries: u64,
}

/// Counts lost parts, and passes the first ones to a sink.
struct Listing<'a> {
    label: &'a str,
    count: usize,
    entries: u64,
    sink: &'a mut dyn FnMut(&str),
}

impl Listing<'_> {
    fn add(&mut self, lost: &LostPart) {
        self.count += 1;
        self.entries += lost.entries.unwrap_or(0);
        if self.count <= LISTED_MAX {
            (self.sink)(&format!("index {}: {lost}", self.label));
        }
    }

    fn end(&mut self) {
        if let Some(rest) = self.count.checked_sub(LISTED_MAX).filter(|rest| *rest > 0) {
            let label = self.label;
            (self.sink)(&match rest {
                1 => format!("index {label}: 1 more part cannot be read"),
                _ => format!("index {label}: {rest} more parts cannot be read"),
            });
        }
    }
}

/// Passes the rows of the retained records up to and including `key` to `on_row`; without a key,
/// the rest of the rows. Returns whether the records determine the row of the key: then the file's
/// version of it must not be used.
fn pass(
    retained: &mut Option<RetainedRows>,
    key: Option<&[u8]>,
    report: &mut SalvageReport,
    on_row: &mut dyn FnMut(&SalvagedEntry<'_>) -> EngineResult<()>,
) -> EngineResult<bool> {
    let Some(retained) = retained else {
        return Ok(false);
    };
    retained.pass(key, &mut |key, value| {
        report.rows += 1;
        on_row(&SalvagedEntry {
            key,
            value,
            is_doubtful: false,
        })
    })
}

/// # Damaged tables
impl TableHandle {
    /// Reads the committed rows of the table in the order of their keys, and skips
    /// what cannot be read. Applies the log records that are retained for an unavailable
    /// table. Passes each row to `on_row`, and sentences about the lost parts to
    /// `findings`. Calls `interrupted` while it reads and sorts the log records, and stops
    /// when that returns true. No transaction may write to the table during the call.
    ///
    /// # Errors
    /// The error of `on_row`; errors other than those of single blocks. `TableUnavailable` when the
    /// retained records cannot be read now, but may be readable later. `Wait(Timeout)` when one of
    /// them is that of a prepared transaction. `Wait(Interrupted)`, `NoSpace`.
    pub fn salvage(
        &self,
        interrupted: Box<Interrupted>,
        on_row: &mut dyn FnMut(&SalvagedEntry<'_>) -> EngineResult<()>,
        findings: &mut dyn FnMut(&str),
    ) -> EngineResult<SalvageReport> {
        let index = self.index(IndexNumber::ROWS)?;
        let mut retained = self.retained_rows(&index, interrupted)?;
        // No transaction has this id, so the view sees only what is committed.
        let nobody = TransactionId(u64::MAX);
        let ids = Arc::clone(self.core.transactions.ids());
        let view = ReadView::new(ids, nobody, ViewKind::Committed);
        let mut cursor = index.tree.salvage(view);
        let mut report = SalvageReport::default();
        while let Some(entry) = cursor.next()? {
            let is_replaced = pass(&mut retained, Some(entry.key), &mut report, on_row)?;
            if !is_replaced {
                report.rows += 1;
                report.doubtful_rows += u64::from(entry.is_doubtful);
                on_row(&entry)?;
            }
        }
        pass(&mut retained, None, &mut report, on_row)?;
        self.table.set_lacks_records(false);
        if let Some(unread) = retained.and_then(|retained| retained.unread) {
            report.lost_parts = 1;
            let cause = unread.cause;
            let lost = match unread.records {
                Some(1) => format!("1 log record is lost: {cause}"),
                Some(records) => format!("{records} log records are lost: {cause}"),
                None => format!("all retained log records are lost: {cause}"),
            };
            findings(&format!(
                "{lost}. Rows written since the last checkpoint of the table are missing or have earlier values"
            ));
        }
        let mut listing = Listing {
            label: &index.entry.label,
            count: 0,
            entries: 0,
            sink: findings,
        };
        cursor.lost().iter().for_each(|lost| listing.add(lost));
        listing.end();
        report.lost_parts += listing.count as u64;
        report.lost_entries = listing.entries;
        Ok(report)
    }

    /// The rows in the retained log records that the file of the `rows` does not contain; `None` if
    /// no records need to be read.
    fn retained_rows(
        &self,
        rows: &Index,
        interrupted: Box<Interrupted>,
    ) -> EngineResult<Option<RetainedRows>> {
        let core = &self.core;
        let is_filled = || core.retained.filled.lock().contains(&rows.entry.file);
        if self.table.unreadable().is_none() || !self.is_unavailable() || is_filled() {
            return Ok(None);
        }
        let read = RetainedRows::read(core, self.table.id, rows, interrupted);
        let read = read.map_err(|error| match error {
            EngineError::Storage(cause) if !cause.is_no_space() => EngineError::TableUnavailable {
                name: self.table.name().to_string(),
                cause,
            },
            error => error,
        });
        read.map(Some)
    }

    /// Whether the table was opened only to be salvaged, see
    /// [`Engine::open_damaged_table`](crate::Engine::open_damaged_table).
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.table.unreadable().is_some()
    }

    /// Returns an error for an index that was opened only to be salvaged.
    pub(crate) fn require_readable(&self, index: &Index) -> EngineResult<()> {
        if !index.tree.is_for_salvage() {
            return Ok(());
        }
        let cause = self.table.unreadable().unwrap_or_else(|| {
            StorageError::corrupt(index.tree.path(), 0, "the file is open only to be salvaged")
        });
        Err(self.damaged(cause))
    }

    /// Lists what cannot be read in an index, after a check of it has failed.
    pub(crate) fn list_damage(
        &self,
        index: &Index,
        is_wanted: &mut dyn FnMut() -> bool,
        findings: &mut dyn FnMut(&str),
    ) -> EngineResult<()> {
        let mut listing = Listing {
            label: &index.entry.label,
            count: 0,
            entries: 0,
            sink: findings,
        };
        let surveyed = index.tree.survey(is_wanted, &mut |lost| listing.add(lost));
        listing.end();
        match surveyed {
            Err(StorageError::Interrupted) => Err(EngineError::Storage(StorageError::Interrupted)),
            // The caller reports the error of the check that failed before.
            _ => Ok(()),
        }
    }
}
