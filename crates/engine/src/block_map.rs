//! The map of the files of tables: what each range contains.

use crate::engine::Engine;
use crate::error::EngineResult;
use crate::visit_tables::TableVisitor;
use teak_base::StorageError;
use teak_tree::MappedRange;

/// A range of the file of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexRange<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// The number of the index; 0 contains the rows.
    pub number: u32,
    /// The label of the index.
    pub label: &'a str,
    /// The range.
    pub range: MappedRange,
}

impl Engine {
    /// Calls `visit` for each range of the file of each index, of the tables that the visitor wants. The ranges of a file are in no
    /// order. Reads all nodes and index blocks of these indexes, but no pages.
    ///
    /// # Errors
    /// `Storage(Interrupted)`.
    pub fn map_blocks(
        &self,
        visitor: &mut dyn TableVisitor,
        visit: &mut dyn FnMut(&IndexRange<'_>),
    ) -> EngineResult<()> {
        self.visit_indexes(visitor, &mut |visitor, of| {
            let mapped = of.index.tree.map_blocks(&mut |range| {
                visit(&IndexRange {
                    table: of.table,
                    number: of.number,
                    label: &of.index.entry.label,
                    range: *range,
                });
                !visitor.is_interrupted()
            });
            mapped.map_err(|error| {
                if !matches!(error, StorageError::Interrupted) {
                    self.core.messages.report_damage(of.index, &error);
                }
                error.into()
            })
        })
    }
}
