//! The files of tables' indexes, and the log records that name them.

use super::{FILE_ID_COUNTER, FILE_IDS_RESERVED, IndexDefinition, NO_TABLE};
use crate::catalogue::{IndexEntry, TableEntry, VALUE_FIXED_BYTES_MAX};
use crate::engine::Inner;
use crate::name::TableName;
use crate::options::Level;
use crate::table::{Counters, Table};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{StorageError, StorageResult, WriteId};
use teak_disk::Disk;
use teak_tree::{Tree, TreeOptions};
use teak_write_ahead_log::Record;

/// The parent directories of some paths.
pub(crate) fn parents(root: &Path, paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths
        .iter()
        .filter_map(|path| root.join(path).parent().map(Path::to_path_buf))
        .collect()
}

/// Creates a directory, durable with its name.
pub(crate) fn make_directory(disk: &Arc<dyn Disk>, directory: &Path) -> StorageResult<()> {
    if disk.exists(directory)? {
        return Ok(());
    }
    disk.create_directories(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => disk.sync_directory(parent),
        _ => Ok(()),
    }
}

impl Inner {
    pub(super) fn tree_options(&self, entry: &IndexEntry) -> TreeOptions {
        let mut options = self.options.tree.clone();
        options.codec = entry.codec;
        options.filters = entry.exact_lookups;
        options.value_planes = entry.value_fixed_bytes;
        if entry.page_bytes != 0 {
            options.page_bytes = entry.page_bytes;
        }
        options
    }

    /// Creates empty index files, durable with their names. Removes them again
    /// when one fails.
    pub(crate) fn create_files(&self, indexes: &[IndexEntry]) -> StorageResult<Vec<Arc<Tree>>> {
        let mut trees = Vec::with_capacity(indexes.len());
        let paths: Vec<PathBuf> = indexes.iter().map(|index| index.path.clone()).collect();
        let made = (|| {
            for directory in parents(self.directory(), &paths) {
                make_directory(&self.disk, &directory)?;
            }
            for index in indexes {
                let path = self.directory().join(&index.path);
                trees.push(Tree::create(
                    &self.disk,
                    &path,
                    index.file,
                    self.tree_options(index),
                    &self.cache,
                )?);
            }
            for directory in parents(self.directory(), &paths) {
                self.disk.sync_directory(&directory)?;
            }
            Ok(())
        })();
        if let Err(error) = made {
            let made = trees.len();
            self.remove_files(paths.get(..made).unwrap_or_default());
            return Err(error);
        }
        Ok(trees)
    }

    /// Removes index files that the catalogue no longer names. What cannot be
    /// removed now is removed when the engine is opened next.
    pub(crate) fn remove_files(&self, paths: &[PathBuf]) {
        for path in paths {
            match self.disk.remove(&self.directory().join(path)) {
                Ok(()) | Err(StorageError::NotFound { .. }) => {}
                Err(error) => {
                    self.message(Level::Warning, &format!("an old file stays: {error}"));
                }
            }
        }
    }

    /// Opens a table's trees.
    pub(crate) fn open_table(
        &self,
        entry: &TableEntry,
        counters: &Arc<Counters>,
    ) -> StorageResult<Arc<Table>> {
        if entry.incomplete {
            let reason = format!(
                "rows of table {} were lost: when they were recovered, its files were missing or damaged",
                entry.name
            );
            return Err(StorageError::corrupt(self.directory(), 0, reason));
        }
        let table = Table::open(
            &self.disk,
            self.directory(),
            entry,
            counters,
            &self.cache,
            &[],
        )?;
        let tables = self.tables.lock();
        for index in table.indexes.load().iter() {
            if let Some(born) = tables.births.get(&index.entry.file) {
                index.born.store(born.0, Ordering::Release);
            }
        }
        drop(tables);
        for index in table.indexes.load().iter() {
            if index.tree.pending_work_bytes() > 0 {
                self.note_written(index);
            }
        }
        Ok(Arc::new(table))
    }

    pub(crate) fn index_entries(
        &self,
        name: &TableName,
        definitions: impl ExactSizeIterator<Item = IndexDefinition>,
    ) -> StorageResult<Vec<IndexEntry>> {
        let (files, short) = {
            let mut tables = self.tables.lock();
            let files = tables.take_file_ids(definitions.len());
            (files, tables.next_file > tables.reserved_files)
        };
        if short {
            self.reserve_file_ids()?;
        }
        Ok(definitions
            .zip(files)
            .map(|(index, file)| IndexEntry {
                file,
                path: name.index_path(&index.label, file),
                label: index.label,
                codec: index.codec,
                page_bytes: index.page_bytes,
                exact_lookups: index.exact_lookups,
                value_fixed_bytes: index.value_fixed_bytes.min(VALUE_FIXED_BYTES_MAX),
                oldest_write_id: WriteId::SETTLED,
            })
            .collect())
    }

    /// Makes it durable that some file ids are used. A file whose creation was
    /// not logged may outlive a crash: its id must not be another file's then.
    fn reserve_file_ids(&self) -> StorageResult<()> {
        let value = self.tables.lock().next_file + FILE_IDS_RESERVED;
        self.log_table_change(&Record::Counter {
            table_id: NO_TABLE,
            counter: FILE_ID_COUNTER,
            value,
        })?;
        self.tables.lock().reserved_files = value;
        Ok(())
    }

    /// Ends background work on indexes that are no longer the table's.
    pub(super) fn abandon(&self, table: &Table) {
        for index in table.indexes.load().iter() {
            index.gone.store(true, Ordering::Release);
            self.counts.add_closed(index);
        }
        self.unlist_gone();
        self.background.announce_room();
    }

    pub(crate) fn log_table_change(&self, record: &Record<'_>) -> StorageResult<()> {
        let lsn = self.log.append(record)?;
        self.log.sync_or_revoke(lsn)
    }

    /// After a table change that may not have been logged: new files must stay
    /// when the log may promise them, and go when it does not.
    pub(super) fn remove_unlogged(&self, indexes: &[IndexEntry], error: &StorageError) {
        if error.is_no_space() {
            let paths: Vec<PathBuf> = indexes.iter().map(|index| index.path.clone()).collect();
            self.remove_files(&paths);
        }
    }

    /// Tables went, and their space with them.
    pub(super) fn space_freed(&self) {
        for index in self.written_indexes() {
            index.space_freed();
        }
        self.background.wake_flushers();
        self.log.wake();
    }
}
