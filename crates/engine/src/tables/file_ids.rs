//! File ids of new indexes.

use crate::catalogue::IndexEntry;
use crate::core::log_sync::append_durable;
use crate::core::tables::{FILE_ID_COUNTER, NO_TABLE, Tables};
use crate::definition::IndexDefinition;
use crate::name::TableName;
use parking_lot::Mutex;
use teak_base::{FileId, StorageResult};
use teak_write_ahead_log::{Record, WriteAheadLog};

/// File ids reserved with one log record.
const FILE_IDS_RESERVED: u64 = 32;

/// Allocates file ids for new indexes of a table. Those of temporary tables need
/// no record: their files do not survive a restart.
pub(crate) fn new_index_entries(
    tables: &Mutex<Tables>,
    log: &WriteAheadLog,
    name: &TableName,
    definitions: impl ExactSizeIterator<Item = IndexDefinition>,
) -> StorageResult<Vec<IndexEntry>> {
    let count = definitions.len();
    let files: Vec<FileId> = if name.is_temporary() {
        let mut tables = tables.lock();
        let ids = std::iter::repeat_with(|| FileId(tables.take_temporary_id()));
        ids.take(count).collect()
    } else {
        take_durable_ids(tables, log, count)?
    };
    Ok(definitions
        .zip(files)
        .map(|(definition, file)| {
            let path = name.index_path(&definition.label, file);
            IndexEntry::new(file, path, definition)
        })
        .collect())
}

fn take_durable_ids(
    tables: &Mutex<Tables>,
    log: &WriteAheadLog,
    count: usize,
) -> StorageResult<Vec<FileId>> {
    let (files, next_file, reserved) = {
        let mut tables = tables.lock();
        let files = tables.take_file_ids(count).collect();
        (files, tables.next_file, tables.reserved_files)
    };
    if next_file > reserved {
        reserve_file_ids(tables, log)?;
    }
    Ok(files)
}

/// Reserves file ids durably. A file whose creation was not logged may survive a crash, so its id
/// must not be allocated again after the crash.
fn reserve_file_ids(tables: &Mutex<Tables>, log: &WriteAheadLog) -> StorageResult<()> {
    let value = tables.lock().next_file + FILE_IDS_RESERVED;
    let record = Record::Counter {
        table_id: NO_TABLE,
        counter: FILE_ID_COUNTER,
        value,
    };
    append_durable(log, &record)?;
    tables.lock().reserved_files = value;
    Ok(())
}
