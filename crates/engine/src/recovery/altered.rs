//! Tables whose indexes change during the replay: opening them with the files
//! that exist, and applying alterations.

use super::replay::Replay;
use crate::catalogue::{AlteredTable, TableEntry};
use crate::core::file_search::with_found_paths;
use crate::core::index::Index;
use crate::core::table::Table;
use std::collections::BTreeSet;
use std::sync::Arc;
use teak_base::{FileId, StorageError, StorageResult};

impl Replay {
    /// Opens a table, except the indexes in `kept`, which are already open. Adds the indexes that
    /// `is_new` accepts to the replay. A missing file may belong to an index that the log drops
    /// later: the table is opened without it. If the file is still missing at the end, the table is
    /// unavailable. Of an unavailable table, no later record is replayed.
    pub(super) fn open_found(
        &mut self,
        id: u64,
        kept: &[Arc<Index>],
        is_new: &dyn Fn(FileId) -> bool,
    ) {
        let Some(state) = self.tables.by_id.get(&id) else {
            return;
        };
        if state.entry.retained.is_some() || self.unavailable.contains_key(&id) {
            for index in &state.entry.indexes {
                self.indexes.insert(index.file, None);
            }
            return;
        }
        let counters = Arc::clone(&state.counters);
        let table = self.find_files(id).and_then(|entry| {
            let Some(entry) = entry else {
                return Ok(None);
            };
            let mut table = Table::closed(&entry, &counters);
            table.open_files(&self.files, &entry, kept)?;
            Ok(Some(table))
        });
        match table {
            Ok(Some(table)) => self.take_opened(id, table, is_new),
            Ok(None) => {}
            Err(cause) => self.exclude(id, cause),
        }
    }

    /// The entry of a table with the paths of its files, without those that are missing.
    fn find_files(&mut self, id: u64) -> StorageResult<Option<TableEntry>> {
        let Some(state) = self.tables.by_id.get(&id) else {
            return Ok(None);
        };
        let (disk, root) = (&self.files.disk, &self.files.directory);
        let mut entry = with_found_paths(disk, root, &mut self.paths, &state.entry)?;
        let (mut existing, mut missing) = (Vec::new(), None);
        for index in std::mem::take(&mut entry.indexes) {
            if disk.exists(&root.join(&index.path))? {
                existing.push(index);
            } else {
                self.indexes.insert(index.file, None);
                missing.get_or_insert(root.join(index.path));
            }
        }
        entry.indexes = existing;
        match missing {
            Some(path) => self.missing.insert(id, path),
            None => self.missing.remove(&id),
        };
        Ok(Some(entry))
    }

    /// Leaves out the tables that still have a missing file at the end.
    pub(super) fn exclude_missing(&mut self) {
        for (id, path) in std::mem::take(&mut self.missing) {
            self.exclude(id, StorageError::NotFound { path });
        }
    }

    /// Adds an opened table, and its indexes that `is_new` accepts.
    fn take_opened(&mut self, id: u64, table: Table, is_new: &dyn Fn(FileId) -> bool) {
        let Some(state) = self.tables.by_id.get_mut(&id) else {
            return;
        };
        let indexes = table.open_indexes();
        for index in indexes.iter().flat_map(|indexes| indexes.iter()) {
            if is_new(index.entry.file) {
                self.indexes
                    .insert(index.entry.file, Some(Arc::clone(index)));
            }
        }
        *state.slot.lock() = Some(Arc::new(table));
    }

    /// Excludes a table whose files cannot be used. Its memtables are dropped,
    /// because all its log records are retained later.
    pub(super) fn exclude(&mut self, id: u64, cause: StorageError) {
        if let Some(state) = self.tables.by_id.get_mut(&id) {
            *state.slot.lock() = None;
            let indexes = state.entry.indexes.clone();
            self.unavailable.entry(id).or_insert(cause);
            self.forget_files(&indexes);
        }
    }

    /// Gives a table the indexes and the metadata of an alteration. The files of new indexes
    /// contain all earlier log records for them.
    pub(super) fn alter(&mut self, table: AlteredTable) {
        let Some(state) = self.tables.by_id.get_mut(&table.id) else {
            return;
        };
        state.entry.metadata = table.metadata;
        let old = std::mem::replace(&mut state.entry.indexes, table.indexes);
        let indexes = &mut state.entry.indexes;
        let is_old = |file| old.iter().any(|old| old.file == file);
        let is_rebuild = !indexes.iter().any(|index| is_old(index.file));
        let files = indexes.iter().map(|index| index.file);
        let added: BTreeSet<FileId> = files.filter(|file| !is_old(*file)).collect();
        let mut dropped = Vec::new();
        for index in old {
            match indexes.iter_mut().find(|new| new.file == index.file) {
                // The catalogue or this replay may have newer values.
                Some(kept) => {
                    kept.oldest_write_id = index.oldest_write_id;
                    kept.durable_generation = kept.durable_generation.max(index.durable_generation);
                    kept.encryption = index.encryption;
                    kept.sizes = index.sizes;
                    kept.path = index.path;
                }
                None => dropped.push(index),
            }
        }
        let next = indexes.iter().map(|index| index.file.0 + 1);
        let next = next.max();
        if is_rebuild {
            // The new files contain all earlier records.
            if state.entry.retained.take().is_some() {
                match table.is_repair {
                    true => self.repaired.insert(table.id),
                    false => self.replaced.insert(table.id),
                };
            }
            self.missing.remove(&table.id);
            self.unavailable.remove(&table.id);
        }
        let open = state.slot.lock().take();
        self.tables.next_file = self.tables.next_file.max(next.unwrap_or(0));
        // The files that a repair has replaced are moved aside, like orphan files.
        if !table.is_repair {
            self.files.add_unowned(&dropped);
        }
        self.forget_files(&dropped);
        for file in &added {
            self.indexes.remove(file);
        }
        if let Some(kept) = open.as_ref().and_then(|open| open.open_indexes()) {
            self.open_found(table.id, &kept, &|file| added.contains(&file));
        }
    }
}
