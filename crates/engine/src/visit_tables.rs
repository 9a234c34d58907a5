//! Visits of tables for reports that read their files, one table after the other.

use crate::core::index::Index;
use crate::core::opening::entry_of;
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use std::sync::Arc;
use teak_base::StorageError;

/// What a report of tables needs from its caller.
pub trait TableVisitor {
    /// Whether the table with this name is to be visited.
    fn wants(&mut self, table: &str) -> bool;
    /// Called for a table that cannot be read.
    fn fails(&mut self, table: &str, error: &EngineError);
    /// Called often; returns whether the report shall end.
    fn is_interrupted(&self) -> bool;
}

impl Engine {
    /// The names of all tables except temporary ones, in their order.
    fn durable_names(&self) -> Vec<String> {
        let tables = self.core.tables.lock();
        let names = tables.durable().map(|(_, state)| state.entry.name.clone());
        let mut names: Vec<String> = names.collect();
        drop(tables);
        names.sort_unstable();
        names
    }

    /// Calls `visit` for each index of the tables that the visitor wants, except temporary ones, in the order of their names.
    /// Opens the files of these tables, one table at a time; they are closed again as after any other use. A table that cannot
    /// be read is reported to the visitor and skipped. Blocks neither writers nor DDL: a table that is dropped during the call
    /// may be left out.
    ///
    /// # Errors
    /// `Storage(Interrupted)`.
    pub(crate) fn visit_indexes(
        &self,
        visitor: &mut dyn TableVisitor,
        visit: &mut dyn FnMut(&mut dyn TableVisitor, IndexOfTable<'_>) -> EngineResult<()>,
    ) -> EngineResult<()> {
        for name in self.durable_names() {
            if visitor.is_interrupted() {
                return Err(EngineError::Storage(StorageError::Interrupted));
            }
            if !visitor.wants(&name) {
                continue;
            }
            match self.visit_indexes_of(&name, visitor, visit) {
                Ok(()) | Err(EngineError::NoSuchTable { .. }) => {}
                Err(EngineError::Storage(StorageError::Interrupted)) => {
                    return Err(EngineError::Storage(StorageError::Interrupted));
                }
                Err(error) => visitor.fails(&name, &error),
            }
        }
        Ok(())
    }

    fn visit_indexes_of(
        &self,
        name: &str,
        visitor: &mut dyn TableVisitor,
        visit: &mut dyn FnMut(&mut dyn TableVisitor, IndexOfTable<'_>) -> EngineResult<()>,
    ) -> EngineResult<()> {
        let handle = self.open_table_lazily(name)?;
        handle.open_files_unless(&|| visitor.is_interrupted())?;
        // As long as this reference exists, the files remain open.
        let Some(indexes) = handle.table.share_indexes() else {
            return Ok(());
        };
        let Some(entry) = entry_of(&self.core.tables, handle.table.id) else {
            return Ok(());
        };
        for (number, own) in (0u32..).zip(&entry.indexes) {
            // The list may also contain indexes that an alteration is building.
            let mut same_file = indexes.iter().filter(|open| open.entry.file == own.file);
            let Some(index) = same_file.next() else {
                continue;
            };
            let index = IndexOfTable {
                table: name,
                number,
                index,
            };
            visit(visitor, index)?;
        }
        Ok(())
    }
}

/// An index that is visited.
#[derive(Clone, Copy)]
pub(crate) struct IndexOfTable<'a> {
    pub table: &'a str,
    /// The number of the index in the table.
    pub number: u32,
    pub index: &'a Arc<Index>,
}
