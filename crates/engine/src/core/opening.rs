//! Opening the files of a table.
//!
//! A handle does not need open files. The files are opened when a handle uses an
//! index, and closed when the table was not used for a while, even if it has handles.

use super::files::IndexFiles;
use super::table::Table;
use super::tables::{SharedEntry, Slot, Tables};
use crate::catalogue::TableEntry;
use crate::name::retained_path;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{StorageError, StorageResult};

/// Finds a table by its id.
pub(crate) fn slot_of(tables: &Mutex<Tables>, id: u64) -> Option<Slot> {
    let tables = tables.lock();
    let state = tables.by_id.get(&id)?;
    Some(Arc::clone(&state.slot))
}

/// The entry of a table, `None` if it was dropped. A caller that reads the sizes
/// or the oldest write ids in the entry has locked the slot, because closing the
/// table updates them.
pub(crate) fn entry_of(tables: &Mutex<Tables>, id: u64) -> Option<SharedEntry> {
    let tables = tables.lock();
    let state = tables.by_id.get(&id)?;
    Some(state.entry.clone())
}

/// Returns an error for a table whose files lack log records.
fn require_whole(files: &IndexFiles, entry: &TableEntry) -> StorageResult<()> {
    match entry.retained {
        None => Ok(()),
        Some(_) => {
            let path = retained_path(&files.directory, entry.id);
            Err(StorageError::corrupt(
                &path,
                0,
                "the records are not applied",
            ))
        }
    }
}

/// Opens the files of a table that is closed. The caller has locked its slot.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`, `NotFound`, `Io`.
pub(crate) fn open_closed(
    tables: &Mutex<Tables>,
    files: &IndexFiles,
    table: &Table,
    entry: &TableEntry,
) -> StorageResult<()> {
    require_whole(files, entry)?;
    let indexes = table.open_trees(files, entry, &[])?;
    let tables = tables.lock();
    for index in &indexes {
        if let Some(created_at) = tables.created_at.get(&index.entry.file) {
            index.created_at.store(created_at.0, Ordering::Release);
        }
    }
    drop(tables);
    table.set_indexes(indexes);
    Ok(())
}
