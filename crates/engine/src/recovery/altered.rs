//! Tables whose indexes change during the replay: opening them with the files
//! that exist, and applying alterations.

use super::files::with_found_paths;
use super::replay::Replay;
use crate::catalogue::AlteredTable;
use crate::core::index::Index;
use crate::core::table::Table;
use crate::error::EngineResult;
use std::collections::BTreeSet;
use std::sync::Arc;
use teak_base::{FileId, StorageError, StorageResult};

impl Replay {
    /// Opens a table, except the indexes in `kept`, which are already open. Adds the indexes that
    /// `is_new` accepts to the replay. A missing file may belong to an index that the log drops
    /// later: the table is opened without it. If the file is still missing at the end, the table is
    /// not recovered.
    pub(super) fn open_found(
        &mut self,
        id: u64,
        kept: &[Arc<Index>],
        is_new: &dyn Fn(FileId) -> bool,
    ) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get(&id) else {
            return Ok(());
        };
        let (disk, root) = (&self.files.disk, &self.files.directory);
        let mut entry = with_found_paths(disk, root, &mut self.paths, &state.entry)?;
        let counters = Arc::clone(&state.counters);
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
        let mut table = Table::closed(&entry, &counters);
        let table = table.open_files(&self.files, &entry, kept).map(|()| table);
        self.take_opened(id, table, is_new)
    }

    /// Excludes the tables that still have a missing file at the end.
    pub(super) fn leave_out_missing(&mut self) -> EngineResult<()> {
        for (id, path) in std::mem::take(&mut self.missing) {
            self.take_opened(id, Err(StorageError::NotFound { path }), &|_| false)?;
        }
        Ok(())
    }

    /// Adds an opened table with the indexes that `is_new` accepts, or excludes it if its files are
    /// missing or damaged.
    fn take_opened(
        &mut self,
        id: u64,
        table: StorageResult<Table>,
        is_new: &dyn Fn(FileId) -> bool,
    ) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get_mut(&id) else {
            return Ok(());
        };
        match table {
            Ok(table) => {
                let indexes = table.open_indexes();
                for index in indexes.iter().flat_map(|indexes| indexes.iter()) {
                    if is_new(index.entry.file) {
                        self.indexes
                            .insert(index.entry.file, Some(Arc::clone(index)));
                    }
                }
                *state.slot.lock() = Some(Arc::new(table));
                Ok(())
            }
            Err(
                cause @ (StorageError::Corrupt { .. }
                | StorageError::NotFound { .. }
                | StorageError::UnsupportedFormat { .. }),
            ) => {
                let text = format!("table {} is not recovered: {cause}", state.entry.name);
                self.not_recovered.insert(state.entry.id, text);
                state.entry.incomplete = true;
                *state.slot.lock() = None;
                let indexes = state.entry.indexes.clone();
                self.forget_files(&indexes);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a table the indexes and the metadata of an alteration. The files of new indexes
    /// contain all earlier log records for them.
    pub(super) fn alter(&mut self, table: AlteredTable) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get_mut(&table.id) else {
            return Ok(());
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
                    kept.sizes = index.sizes;
                    kept.path = index.path;
                }
                None => dropped.push(index),
            }
        }
        let next = indexes.iter().map(|index| index.file.0 + 1);
        let next = next.max();
        // The files of a rebuild contain all rows that were left.
        state.entry.incomplete &= !is_rebuild;
        let open = state.slot.lock().take();
        self.tables.next_file = self.tables.next_file.max(next.unwrap_or(0));
        self.forget_files(&dropped);
        for file in &added {
            self.indexes.remove(file);
        }
        match open.as_ref().and_then(|open| open.open_indexes()) {
            Some(kept) => self.open_found(table.id, &kept, &|file| added.contains(&file)),
            None => Ok(()),
        }
    }
}
