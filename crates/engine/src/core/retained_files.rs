//! The files of retained log records, and those of no table, of an open engine.

use super::files::IndexFiles;
use crate::name::retained_path;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{FileId, StorageError};

/// What recovery kept apart.
#[derive(Default)]
pub(crate) struct RetainedFiles {
    /// Allows one thread at a time to make a table whole.
    pub restoring: Mutex<()>,
    /// Unavailable tables.
    pub tables: AtomicU64,
    /// Bytes of their retained log records.
    pub bytes: AtomicU64,
    /// Files of unavailable tables that contain all their records: another file of the table cannot
    /// be read.
    pub filled: Mutex<BTreeSet<FileId>>,
    /// Index files of no table that were moved aside, and their bytes.
    pub orphan_files: AtomicU64,
    pub orphan_bytes: AtomicU64,
}

impl RetainedFiles {
    /// Counts an unavailable table.
    pub(crate) fn add(&self, bytes: u64) {
        self.tables.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes the retained records of a table, which is not unavailable any
    /// more. If it fails, they are removed when the engine is opened next.
    pub(crate) fn remove(&self, files: &IndexFiles, table: u64) {
        self.tables.fetch_sub(1, Ordering::Relaxed);
        let path = retained_path(&files.directory, table);
        let bytes = files.disk.open(&path).and_then(|file| file.len());
        match files.disk.remove(&path) {
            Ok(()) => {
                self.bytes.fetch_sub(bytes.unwrap_or(0), Ordering::Relaxed);
            }
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => {
                let text = format!("an unused file cannot be removed now: {error}");
                files.messages.warning(&text);
            }
        }
    }

    /// Called when a repair has replaced the files of an unavailable table. Records that its `rows`
    /// lacked are moved aside.
    pub(crate) fn replace(&self, files: &IndexFiles, table: u64, rows: Option<FileId>) {
        if rows.is_some_and(|rows| self.filled.lock().contains(&rows)) {
            return self.remove(files, table);
        }
        self.tables.fetch_sub(1, Ordering::Relaxed);
        let path = retained_path(&files.directory, table);
        let bytes = files.disk.open(&path).and_then(|file| file.len());
        self.bytes.fetch_sub(bytes.unwrap_or(0), Ordering::Relaxed);
        let text = match files.move_aside(&path) {
            Ok(path) => format!(
                "log records of a table were not applied when it was repaired: they are in {}",
                path.display()
            ),
            Err(error) => format!("log records of a repaired table are not applied: {error}"),
        };
        files.messages.error(&text);
    }
}
