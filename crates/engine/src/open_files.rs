//! Opening the files of a table when a handle uses one of its indexes.

use crate::core::EngineCore;
use crate::core::opening::{entry_of, open_closed, slot_of};
use crate::core::table::{OpenIndexes, Table};
use crate::error::{EngineError, EngineResult};
use crate::maintenance::checkpoint::CheckpointContext;
use crate::maintenance::flusher::FlushContext;
use crate::retained::restore_table;
use std::sync::Arc;
use teak_base::StorageError;

/// The indexes of a table that has a handle. Opens the files if they are closed.
///
/// # Errors
/// `NoSuchTable` when the table was dropped; `TableUnavailable` when a file is missing, or log
/// records are retained for the table and cannot be applied; `TableDamaged` when a file is corrupt;
/// `Io`.
#[inline]
pub(crate) fn open_indexes(core: &EngineCore, table: &Arc<Table>) -> EngineResult<OpenIndexes> {
    table.note_use();
    match table.open_indexes() {
        Some(indexes) => Ok(indexes),
        None => open_files(core, table, &|| false),
    }
}

/// As [`open_indexes`]. Applying retained log records may take long: it stops when `interrupted`
/// returns true.
///
/// # Errors
/// Also `Interrupted`.
pub(crate) fn open_indexes_unless(
    core: &EngineCore,
    table: &Arc<Table>,
    interrupted: &dyn Fn() -> bool,
) -> EngineResult<OpenIndexes> {
    table.note_use();
    match table.open_indexes() {
        Some(indexes) => Ok(indexes),
        None => open_files(core, table, interrupted),
    }
}

/// Openings of tables between two checks of the number of open trees.
const OPENINGS_PER_CHECK: usize = 8;

#[cold]
fn open_files(
    core: &EngineCore,
    table: &Arc<Table>,
    interrupted: &dyn Fn() -> bool,
) -> EngineResult<OpenIndexes> {
    if core.signals.has_opened_too_many() {
        CheckpointContext::from(core).close_idle_tables()?;
    }
    if core.signals.openings().is_multiple_of(OPENINGS_PER_CHECK) {
        CheckpointContext::from(core).await_closed_trees(interrupted)?;
    }
    let dropped = || EngineError::NoSuchTable {
        name: table.name().to_string(),
    };
    let slot = slot_of(&core.tables, table.id).ok_or_else(dropped)?;
    let entry = entry_of(&core.tables, table.id);
    if entry.is_some_and(|entry| core.retained.is_unavailable(&entry)) {
        restore_table(core, table.id, interrupted)?;
    }
    let _slot = slot.lock();
    if let Some(indexes) = table.open_indexes() {
        return Ok(indexes);
    }
    let entry = entry_of(&core.tables, table.id).ok_or_else(dropped)?;
    open_closed(&core.tables, &core.files, table, &entry).map_err(|cause| {
        let name = entry.name.clone();
        core.messages
            .error(&format!("table {name} cannot be opened: {cause}"));
        match cause {
            StorageError::Corrupt { .. } => EngineError::TableDamaged { name, cause },
            StorageError::NotFound { .. } => EngineError::TableUnavailable { name, cause },
            cause => EngineError::Storage(cause),
        }
    })?;
    core.signals.note_opened();
    let indexes = table.open_indexes().ok_or_else(dropped)?;
    for index in indexes.iter() {
        if index.tree.backlog().has_work() {
            core.written.register(index);
            FlushContext::from(core).note_change(index);
        }
    }
    Ok(indexes)
}
