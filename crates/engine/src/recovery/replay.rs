//! Doing again what a record of the log says.

use super::{LOOK_BYTES, NOBODY, Replay};
use crate::catalogue::{
    ID_MAX, TableEntry, UNNAMED_IDS_MAX, decode_indexes_changed, decode_paths,
    decode_tables_altered,
};
use crate::error::{EngineError, EngineResult};
use crate::table::Index;
use crate::tables::{FILE_ID_COUNTER, NO_TABLE, make_directory, parents};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::bytes::{Malformed, Take};
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{CommitSequence, FileId, Lsn, StorageError, StorageResult, WriteId};
use teak_write_ahead_log::{Operations, Record, WriteIds};

fn malformed(lsn: Lsn) -> impl Fn(Malformed) -> EngineError {
    move |_| {
        EngineError::Storage(StorageError::corrupt(
            Path::new("teak.log"),
            lsn.0,
            "a record of the log is malformed",
        ))
    }
}

impl Replay {
    pub(super) fn apply(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
        self.records += 1;
        match *record {
            Record::Write {
                write_id,
                operations,
            } => self.write(lsn, write_id, &operations),
            Record::DeleteRange {
                file,
                write_id,
                start,
                end,
            } => {
                if start.len() > KEY_BYTES_MAX || end.len() > KEY_BYTES_MAX {
                    return Err(malformed(lsn)(Malformed));
                }
                self.adopt(lsn, write_id)?;
                if let Some(index) = self.index_after(file, lsn)? {
                    let guard = index.tree.write_guard();
                    guard.set_lsn(lsn);
                    guard.delete_range(write_id, start, end);
                }
                Ok(())
            }
            Record::Commit { write_ids, .. } => {
                let list = self.adopt_all(lsn, &write_ids)?;
                let ids = self.transactions.ids();
                // Nobody reads yet: everything committed is visible to all.
                ids.commit(&list, CommitSequence(0));
                Ok(())
            }
            Record::Abort { write_ids } => {
                let list = self.adopt_all(lsn, &write_ids)?;
                self.transactions.ids().abort(&list);
                Ok(())
            }
            Record::Prepare { xid, write_ids, .. } => {
                let mut list = self.adopt_all(lsn, &write_ids)?;
                // The catalogue keeps differences.
                list.sort_unstable();
                self.prepared.insert(xid.to_vec(), list);
                Ok(())
            }
            Record::Void { .. } => Ok(()),
            Record::TableCreated { .. }
            | Record::TableDropped { .. }
            | Record::TableRenamed { .. }
            | Record::IndexesChanged { .. }
            | Record::TablesAltered { .. }
            | Record::Counter { .. }
                if lsn < self.tables_lsn =>
            {
                Ok(())
            }
            Record::TableCreated { table } => {
                let mut take = Take::new(table);
                let entry = TableEntry::take(&mut take).map_err(malformed(lsn))?;
                for index in &entry.indexes {
                    self.indexes.remove(&index.file);
                }
                self.tables.insert(entry);
                Ok(())
            }
            Record::TableDropped { table_id } => {
                self.lacking.remove(&table_id);
                if let Some(state) = self.tables.remove(table_id) {
                    self.forget_files(&state.entry);
                }
                Ok(())
            }
            Record::TableRenamed {
                table_id,
                name,
                paths,
            } => {
                let paths = decode_paths(paths).map_err(malformed(lsn))?;
                let name =
                    String::from_utf8(name.to_vec()).map_err(|_| malformed(lsn)(Malformed))?;
                self.rename(table_id, name, paths)
            }
            Record::IndexesChanged { bytes } => {
                let (id, indexes) = decode_indexes_changed(bytes).map_err(malformed(lsn))?;
                let Some(state) = self.tables.by_id.get_mut(&id) else {
                    return Ok(());
                };
                let old = state.entry.clone();
                state.entry.indexes = indexes;
                state.entry.incomplete = false;
                self.lacking.remove(&id);
                state.counters.reset();
                *state.slot.lock() = None;
                let next = state.entry.indexes.iter().map(|i| i.file.0 + 1).max();
                for index in &state.entry.indexes {
                    self.indexes.remove(&index.file);
                }
                self.tables.next_file = self.tables.next_file.max(next.unwrap_or(0));
                self.forget_files(&old);
                Ok(())
            }
            Record::TablesAltered { bytes } => {
                for table in decode_tables_altered(bytes).map_err(malformed(lsn))? {
                    self.alter(table)?;
                }
                Ok(())
            }
            Record::Counter {
                table_id,
                counter,
                value,
            } => {
                if table_id == NO_TABLE && counter == FILE_ID_COUNTER {
                    if value > ID_MAX {
                        return Err(malformed(lsn)(Malformed));
                    }
                    self.tables.next_file = self.tables.next_file.max(value);
                    self.tables.reserved_files = self.tables.reserved_files.max(value);
                } else if let Some(state) = self.tables.by_id.get(&table_id) {
                    state.counters.replay(counter, value);
                }
                Ok(())
            }
        }
    }

    /// Notes that an id was given to a write. Ids are given in order, and those
    /// that the log does not name are few: a number far beyond all others
    /// would only take memory.
    fn adopt(&self, lsn: Lsn, id: WriteId) -> EngineResult<()> {
        let ids = self.transactions.ids();
        if id.0.saturating_sub(ids.next().0) > UNNAMED_IDS_MAX {
            return Err(malformed(lsn)(Malformed));
        }
        ids.adopt(id, NOBODY);
        Ok(())
    }

    fn adopt_all(&self, lsn: Lsn, ids: &WriteIds<'_>) -> EngineResult<Vec<WriteId>> {
        let list: Vec<WriteId> = ids.iter().collect();
        for id in &list {
            self.adopt(lsn, *id)?;
        }
        Ok(list)
    }

    fn write(
        &mut self,
        lsn: Lsn,
        write_id: WriteId,
        operations: &Operations<'_>,
    ) -> EngineResult<()> {
        self.adopt(lsn, write_id)?;
        for operation in operations {
            if operation.key.len() > KEY_BYTES_MAX || operation.value.len() > VALUE_BYTES_MAX {
                return Err(malformed(lsn)(Malformed));
            }
            let Some(index) = self.index_after(operation.file, lsn)? else {
                continue;
            };
            let guard = index.tree.write_guard();
            guard.set_lsn(lsn);
            guard.insert(
                write_id,
                operation.operation,
                operation.key,
                operation.value,
            );
            self.unlooked_bytes += (operation.key.len() + operation.value.len()) as u64 + 48;
        }
        if self.unlooked_bytes >= LOOK_BYTES {
            self.unlooked_bytes = 0;
            self.make_room(lsn)?;
        }
        Ok(())
    }

    /// The index of a file, if it needs the record at `lsn`.
    pub(super) fn index_after(
        &mut self,
        file: FileId,
        lsn: Lsn,
    ) -> EngineResult<Option<Arc<Index>>> {
        if !self.indexes.contains_key(&file) {
            self.open_table_of(file)?;
        }
        let index = self.indexes.get(&file).cloned().flatten();
        let index = index.filter(|index| lsn >= index.replay_from);
        if let Some(index) = &index
            && !index.listed.swap(true, Ordering::AcqRel)
        {
            self.written.push(Arc::clone(index));
        }
        Ok(index)
    }

    /// Opens the table that a file belongs to.
    pub(super) fn open_table_of(&mut self, file: FileId) -> EngineResult<()> {
        let owner = self
            .tables
            .by_id
            .values()
            .find(|state| state.entry.indexes.iter().any(|index| index.file == file));
        let Some(state) = owner else {
            // Dropped since: the catalogue is ahead of this part of the log.
            self.indexes.insert(file, None);
            return Ok(());
        };
        let id = state.entry.id;
        self.open_found(id, &[], &|_| true)
    }

    pub(super) fn forget_files(&mut self, entry: &TableEntry) {
        for index in &entry.indexes {
            if let Some(Some(index)) = self.indexes.insert(index.file, None) {
                index.gone.store(true, Ordering::Release);
            }
        }
        self.written.retain(|index| !index.is_gone());
    }

    /// Renames files that still have their old names.
    fn rename(&mut self, id: u64, name: String, paths: Vec<PathBuf>) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get(&id) else {
            return Ok(());
        };
        let root = self.options.directory.clone();
        let old: Vec<PathBuf> = state.entry.indexes.iter().map(|i| i.path.clone()).collect();
        for (old, new) in old.iter().zip(&paths) {
            let (old_path, new_path) = (root.join(old), root.join(new));
            if old_path != new_path && self.disk.exists(&old_path)? {
                for directory in parents(&root, std::slice::from_ref(new)) {
                    make_directory(&self.disk, &directory)?;
                }
                self.places = None;
                self.disk.rename(&old_path, &new_path)?;
            }
        }
        // A database may have been dropped since, and must not come back as an empty directory.
        for directory in parents(&root, &old).union(&parents(&root, &paths)) {
            if self.disk.exists(directory)? {
                self.disk.sync_directory(directory)?;
            }
        }
        if let Some(table) = &*state.slot.lock() {
            *table.name.write() = name.as_str().into();
        }
        self.tables.rename(id, name, paths);
        Ok(())
    }

    fn fits_in_memory(&self) -> bool {
        let trees = self.written.iter().map(|index| &index.tree);
        let held: u64 = trees
            .map(|tree| tree.memtable_bytes() + tree.frozen_bytes())
            .sum();
        held <= self.budget.total()
    }

    /// Flushes the largest memtables while they take more than half the quota.
    fn make_room(&mut self, lsn: Lsn) -> StorageResult<()> {
        // Behind this record and not behind the next.
        let boundary = Lsn(lsn.0 + 1);
        loop {
            let sizes = self.written.iter().map(|index| index.tree.memtable_bytes());
            let total: u64 = sizes.sum();
            if total <= self.budget.memtable_quota() / 2 {
                return Ok(());
            }
            let largest = self
                .written
                .iter()
                .max_by_key(|index| index.tree.memtable_bytes());
            let Some(index) = largest.cloned() else {
                return Ok(());
            };
            index.tree.freeze(|| boundary);
            let horizon = self.transactions.horizon();
            while index.tree.frozen_memtables() > 0 {
                let Some(job) = index.tree.next_job() else {
                    break;
                };
                match job.run(&horizon) {
                    // A full disk must be opened to be emptied: as long as
                    // memory lasts.
                    Err(error) if error.is_no_space() && self.fits_in_memory() => {
                        index.tree.give_back_tail();
                        return Ok(());
                    }
                    run => drop(run?),
                }
            }
        }
    }
}
