//! What an open engine knows about its files of retained log records, and counts
//! of the index files that belong to no table.

use super::files::IndexFiles;
use super::restoring::RestoringTables;
use crate::catalogue::TableEntry;
use crate::name::retained_path;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use teak_base::{FileId, StorageError};

/// Why log records of a table are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetainedFor {
    /// The engine was opened with retained records of the table, or a file of the table could not
    /// be used at that time. Without the records the table is incomplete.
    UnavailableTable,
    /// A file of the table cannot be written or synced. The memtables contain the records, so the
    /// table can be read.
    ReadOnlyTable,
}

#[derive(Clone, Copy, Debug)]
struct RetainedFile {
    bytes: u64,
    purpose: RetainedFor,
}

/// The retained log records of tables, and counts of orphaned files.
#[derive(Default)]
pub(crate) struct RetainedFiles {
    /// The tables that threads are making whole or opening to salvage them.
    pub restoring: RestoringTables,
    /// The files, by table id.
    files: Mutex<BTreeMap<u64, RetainedFile>>,
    /// Files of unavailable tables into which all their retained records were inserted. Such a
    /// table remains unavailable while another file of it cannot be read.
    pub filled: Mutex<BTreeSet<FileId>>,
    /// By table: the last message in the error log about why it is unavailable.
    pub reported: Mutex<BTreeMap<u64, String>>,
    /// Tables that refuse writes because a file of them fails.
    pub read_only_tables: AtomicU64,
    /// The number of files in the directory of orphans when the engine was opened, and their bytes.
    pub orphan_files: AtomicU64,
    pub orphan_bytes: AtomicU64,
}

impl RetainedFiles {
    /// Adds a file of `bytes`, for a table whose entry says that its records are retained.
    pub(crate) fn add(&self, table: u64, bytes: u64, purpose: RetainedFor) {
        let file = RetainedFile { bytes, purpose };
        self.files.lock().insert(table, file);
    }

    /// Whether a table must be made whole before it can be used.
    pub(crate) fn is_unavailable(&self, entry: &TableEntry) -> bool {
        entry.retained.is_some() && !self.is_of_read_only(entry.id)
    }

    fn is_of_read_only(&self, table: u64) -> bool {
        let files = self.files.lock();
        let file = files.get(&table);
        file.is_some_and(|file| file.purpose == RetainedFor::ReadOnlyTable)
    }

    pub(crate) fn unavailable_tables(&self) -> u64 {
        let files = self.files.lock();
        let purposes = files.values().map(|file| file.purpose);
        let unavailable = purposes.filter(|purpose| *purpose == RetainedFor::UnavailableTable);
        unavailable.count() as u64
    }

    /// Bytes of all files of retained records.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.lock().values().map(|file| file.bytes).sum()
    }

    /// Removes the retained records of a table that no longer needs them. If the file
    /// cannot be removed now, it is removed when the engine is opened next. No other thread may
    /// retain records of the table during the call.
    pub(crate) fn remove(&self, files: &IndexFiles, table: u64) {
        self.files.lock().remove(&table);
        self.reported.lock().remove(&table);
        let path = retained_path(&files.directory, table);
        match files.disk.remove(&path) {
            Ok(()) | Err(StorageError::NotFound { .. }) => {}
            Err(error) => {
                let text = format!("an unused file cannot be removed now: {error}");
                files.messages.warning(&text);
            }
        }
    }

    /// Called when an alteration or a repair has replaced all files of a table with retained
    /// records. `rows` is its old file of rows. Removes the retained records if the new files
    /// certainly contain them: those of a read-only table after an alteration that is no repair,
    /// and those of an unavailable table if they had been inserted into `rows`. Moves them to the
    /// directory of orphans otherwise.
    pub(crate) fn replace(
        &self,
        files: &IndexFiles,
        table: u64,
        name: &str,
        rows: Option<FileId>,
        is_repair: bool,
    ) {
        let is_of_read_only = self.is_of_read_only(table);
        let has_all = match is_of_read_only {
            true => !is_repair,
            false => rows.is_some_and(|rows| self.filled.lock().contains(&rows)),
        };
        if has_all {
            return self.remove(files, table);
        }
        self.files.lock().remove(&table);
        self.reported.lock().remove(&table);
        let path = retained_path(&files.directory, table);
        match files.move_aside(&path) {
            Ok(path) => {
                let path = path.display();
                let text = format!(
                    "table {name} was repaired, and its retained log records were moved to {path}"
                );
                files.messages.note(&text);
            }
            Err(error) => {
                let text = format!(
                    "retained log records of table {name} cannot be moved now, only when the engine is opened next: {error}"
                );
                files.messages.warning(&text);
            }
        }
    }
}
