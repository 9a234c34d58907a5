//! Replay of table changes: create, drop, rename, truncate, alter, and counters.

use super::replay::{Replay, malformed};
use crate::catalogue::{
    ID_MAX, IndexEntry, TableEntry, decode_indexes_changed, decode_paths, decode_tables_altered,
};
use crate::core::file_search::FoundFiles;
use crate::core::files::{parents, paths_of};
use crate::core::tables::{FILE_ID_COUNTER, NO_TABLE, TableState};
use crate::error::EngineResult;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use teak_base::bytes::{Malformed, Take};
use teak_base::{FileId, Lsn};
use teak_write_ahead_log::Record;

impl Replay {
    /// Redoes a table change that the catalogue does not contain.
    pub(super) fn change_tables(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        match *record {
            Record::TableCreated { table } => {
                let mut take = Take::new(table);
                let entry = TableEntry::take(&mut take).map_err(malformed(lsn))?;
                for index in &entry.indexes {
                    self.indexes.remove(&index.file);
                }
                self.tables.insert(entry);
            }
            Record::TableDropped { table_id } => {
                self.missing.remove(&table_id);
                self.unavailable.remove(&table_id);
                if let Some(state) = self.tables.remove(table_id) {
                    self.files.add_unowned(&state.entry.indexes);
                    self.forget_files(&state.entry.indexes);
                }
            }
            Record::TableRenamed {
                table_id,
                name,
                paths,
            } => {
                let paths = decode_paths(paths).map_err(malformed(lsn))?;
                let name = String::from_utf8(name.to_vec());
                let name = name.map_err(|_| malformed(lsn)(Malformed))?;
                self.rename(table_id, name, paths)?;
            }
            Record::IndexesChanged { bytes } => {
                let (id, indexes) = decode_indexes_changed(bytes).map_err(malformed(lsn))?;
                self.truncate(id, indexes);
            }
            Record::TablesAltered { bytes } => {
                for table in decode_tables_altered(bytes).map_err(malformed(lsn))? {
                    self.alter(table);
                }
            }
            Record::Counter {
                table_id,
                counter,
                value,
            } => self.set_counter(lsn, table_id, counter, value)?,
            _ => {}
        }
        Ok(())
    }

    fn set_counter(&mut self, lsn: Lsn, table: u64, counter: u8, value: u64) -> EngineResult<()> {
        if table == NO_TABLE && counter == FILE_ID_COUNTER {
            if value > ID_MAX {
                return Err(malformed(lsn)(Malformed));
            }
            self.tables.next_file = self.tables.next_file.max(value);
            self.tables.reserved_files = self.tables.reserved_files.max(value);
        } else if let Some(state) = self.tables.by_id.get(&table) {
            state.counters.replay(counter, value);
        }
        Ok(())
    }

    /// Gives a table its new, empty indexes.
    fn truncate(&mut self, id: u64, indexes: Vec<IndexEntry>) {
        let Some(state) = self.tables.by_id.get_mut(&id) else {
            return;
        };
        self.missing.remove(&id);
        self.unavailable.remove(&id);
        for index in &indexes {
            self.indexes.remove(&index.file);
        }
        let next = indexes.iter().map(|index| index.file.0 + 1);
        self.tables.next_file = next.fold(self.tables.next_file, u64::max);
        let old = std::mem::replace(&mut state.entry.indexes, indexes);
        if state.entry.retained.take().is_some() {
            self.replaced.insert(id);
        }
        state.counters.reset();
        *state.slot.lock() = None;
        self.files.add_unowned(&old);
        self.forget_files(&old);
    }

    /// Opens the table that a file belongs to.
    pub(super) fn open_table_of(&mut self, file: FileId) {
        match self.owner_of(file) {
            Some(id) => self.open_found(id, &[], &|_| true),
            None => {
                // The catalogue is newer than this record: the file was dropped or replaced later.
                self.indexes.insert(file, None);
            }
        }
    }

    /// The table that a file belongs to.
    pub(super) fn owner_of(&self, file: FileId) -> Option<u64> {
        let mut states = self.tables.by_id.values();
        let has_file =
            |state: &&TableState| state.entry.indexes.iter().any(|index| index.file == file);
        states.find(has_file).map(|state| state.entry.id)
    }

    /// Makes the replay skip all later log records of some files.
    pub(super) fn forget_files(&mut self, indexes: &[IndexEntry]) {
        for index in indexes {
            if let Some(Some(index)) = self.indexes.insert(index.file, None) {
                index.dropped.store(true, Ordering::Release);
            }
        }
        self.written.retain(|index| !index.is_dropped());
    }

    /// Renames a table, and its files that still have their old names.
    fn rename(&mut self, id: u64, name: String, paths: Vec<PathBuf>) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get(&id) else {
            return Ok(());
        };
        let (disk, root) = (&self.files.disk, &self.files.directory);
        let old = paths_of(&state.entry.indexes);
        for (old, new) in old.iter().zip(&paths) {
            let (old_path, new_path) = (root.join(old), root.join(new));
            if old_path != new_path && disk.exists(&old_path)? {
                for directory in parents(root, std::slice::from_ref(new)) {
                    self.files.make_directory(&directory)?;
                }
                self.paths = FoundFiles::default();
                disk.rename(&old_path, &new_path)?;
            }
        }
        // Uses existing directories only: the database may have been dropped later, and must not
        // reappear as an empty directory.
        for directory in parents(root, &old).union(&parents(root, &paths)) {
            if disk.exists(directory)? {
                disk.sync_directory(directory)?;
            }
        }
        if let Some(table) = &*state.slot.lock() {
            *table.name.write() = name.as_str().into();
        }
        self.tables.rename(id, name, paths);
        Ok(())
    }
}
