//! The columns of indexes as pages store them, from a sample of pages.

use crate::engine::Engine;
use crate::error::EngineResult;
use crate::visit_tables::{IndexOfTable, TableVisitor};
use teak_base::StorageError;
use teak_tree::{ColumnKind, PagePart, PartTotals};

/// Pages that are read of each index.
const SAMPLED_PAGES: u32 = 32;

/// A part of the pages of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPlace {
    /// The heads of entries: types, write ids, lengths.
    Heads,
    /// Whole keys.
    Keys,
    /// A column of the keys, by its number.
    KeyColumn(u32),
    /// Whole values, or the parts of them that are not stored by column.
    Values,
    /// A column of the values, by its number: those of fixed width first, then optional ones, then those of variable
    /// width.
    ValueColumn(u32),
}

/// What is known about a part of the pages of an index.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ColumnReport<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// The number of the index; 0 contains the rows.
    pub number: u32,
    /// The label of the index.
    pub label: &'a str,
    /// The part.
    pub place: ColumnPlace,
    /// The kind of the values and the bytes of each, of columns of fixed width.
    pub kind: Option<(ColumnKind, u32)>,
    /// The encodings with their shares of the pages that have the part.
    pub encodings: String,
    /// The number of values in the sample.
    pub values: u64,
    /// Their bytes.
    pub raw_bytes: u64,
    /// Their bytes in pages, before the codec of the index has compressed these.
    pub encoded_bytes: u64,
    /// The pages that have the part.
    pub part_pages: u64,
    /// All pages of the sample.
    pub sampled_pages: u64,
    /// Bytes of these pages before and after compression.
    pub sampled_encoded_bytes: u64,
    /// See `sampled_encoded_bytes`.
    pub sampled_stored_bytes: u64,
    /// Pages of the index.
    pub pages: u64,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Engine {
    /// Calls `visit` for the parts of the pages of each index, of the tables that the visitor wants. Reads at most 32 pages of
    /// each index, of its bottom runs, which have most of the data. An index that was never flushed has no pages.
    ///
    /// # Errors
    /// `Storage(Interrupted)`.
    pub fn list_columns(
        &self,
        visitor: &mut dyn TableVisitor,
        visit: &mut dyn FnMut(&ColumnReport<'_>),
    ) -> EngineResult<()> {
        self.visit_indexes(visitor, &mut |visitor, index| {
            self.list_columns_of(&*visitor, index, visit)
        })
    }

    fn list_columns_of(
        &self,
        visitor: &dyn TableVisitor,
        of: IndexOfTable<'_>,
        visit: &mut dyn FnMut(&ColumnReport<'_>),
    ) -> EngineResult<()> {
        let tree = &of.index.tree;
        let sampled = tree.sample_pages(SAMPLED_PAGES, &mut || !visitor.is_interrupted());
        let sample = match sampled {
            Err(error) if !matches!(error, StorageError::Interrupted) => {
                self.core.messages.report_damage(of.index, &error);
                return Err(error.into());
            }
            sampled => sampled?,
        };
        let (options, pages) = (tree.options(), tree.statistics().pages);
        let fixed = options.columns.value().len();
        let optional = options.columns.tail().optional.len();
        let place_of = |part: PagePart| match part {
            PagePart::Heads => ColumnPlace::Heads,
            PagePart::Keys => ColumnPlace::Keys,
            PagePart::KeyColumn(column) => ColumnPlace::KeyColumn(number(column)),
            PagePart::FrontColumn(column) => ColumnPlace::ValueColumn(number(column)),
            PagePart::OptionalColumn(column) => ColumnPlace::ValueColumn(number(fixed + column)),
            PagePart::VariableColumn(column) => {
                ColumnPlace::ValueColumn(number(fixed + optional + column))
            }
            PagePart::Values => ColumnPlace::Values,
        };
        let report = |(part, totals): (&PagePart, &PartTotals)| ColumnReport {
            table: of.table,
            number: of.number,
            label: &of.index.entry.label,
            place: place_of(*part),
            kind: totals.column.map(|(kind, bytes)| (kind, number(bytes))),
            encodings: totals.encodings_text(),
            values: totals.values,
            raw_bytes: totals.raw_bytes,
            encoded_bytes: totals.encoded_bytes,
            part_pages: totals.encodings.values().sum(),
            sampled_pages: sample.pages,
            sampled_encoded_bytes: sample.encoded_bytes,
            sampled_stored_bytes: sample.page_bytes,
            pages,
        };
        for part in &sample.parts {
            visit(&report(part));
        }
        Ok(())
    }
}
