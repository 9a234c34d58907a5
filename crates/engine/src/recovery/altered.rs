//! Tables whose indexes change during the replay: opening them with the files
//! that are there, and taking over what an alteration left.

use super::Replay;
use super::files::as_found;
use crate::catalogue::AlteredTable;
use crate::error::EngineResult;
use crate::table::{Index, Table};
use std::collections::BTreeSet;
use std::sync::Arc;
use teak_base::{FileId, StorageError, StorageResult};

impl Replay {
    /// Opens a table, where `kept` are open already, and takes up those of its
    /// indexes that are new here. A file that is not there may be of an index
    /// that the log drops later on: the table is opened without it, and found
    /// lacking at the end if it still is.
    pub(super) fn open_found(
        &mut self,
        id: u64,
        kept: &[Arc<Index>],
        is_new: &dyn Fn(FileId) -> bool,
    ) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get(&id) else {
            return Ok(());
        };
        let root = self.options.directory.clone();
        let mut entry = as_found(&self.disk, &root, &mut self.places, &state.entry)?;
        let counters = Arc::clone(&state.counters);
        let (mut there, mut lacking) = (Vec::new(), None);
        for index in std::mem::take(&mut entry.indexes) {
            if self.disk.exists(&root.join(&index.path))? {
                there.push(index);
            } else {
                self.indexes.insert(index.file, None);
                lacking.get_or_insert(root.join(index.path));
            }
        }
        entry.indexes = there;
        match lacking {
            Some(path) => self.lacking.insert(id, path),
            None => self.lacking.remove(&id),
        };
        let table = Table::open(&self.disk, &root, &entry, &counters, &self.cache, kept);
        self.take_opened(id, table, is_new)
    }

    /// Takes up a table that was opened, with those of its indexes that are
    /// new here; or leaves it out when its files are not sound.
    pub(super) fn take_opened(
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
                for index in table.indexes.load().iter() {
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
                self.lost.insert(state.entry.id, text);
                state.entry.incomplete = true;
                *state.slot.lock() = None;
                let entry = state.entry.clone();
                self.forget_files(&entry);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a table the indexes and the metadata that an alteration left. What
    /// was logged for the new files before is in them.
    pub(super) fn alter(&mut self, table: AlteredTable) -> EngineResult<()> {
        let Some(state) = self.tables.by_id.get_mut(&table.id) else {
            return Ok(());
        };
        let mut entry = state.entry.clone();
        let old = std::mem::replace(&mut entry.indexes, table.indexes);
        entry.metadata = table.metadata;
        let (mut dropped, mut added) = (entry.clone(), BTreeSet::new());
        dropped.indexes.clear();
        for index in old {
            let kept = entry.indexes.iter_mut().find(|new| new.file == index.file);
            match kept {
                // What the catalogue or this replay knows of it is newer.
                Some(kept) => {
                    kept.oldest_write_id = index.oldest_write_id;
                    kept.path = index.path;
                }
                None => dropped.indexes.push(index),
            }
        }
        for index in &entry.indexes {
            if !state.entry.indexes.iter().any(|old| old.file == index.file) {
                added.insert(index.file);
            }
        }
        state.entry = entry;
        let open = state.slot.lock().take();
        let next = state.entry.indexes.iter().map(|index| index.file.0 + 1);
        self.tables.next_file = next.fold(self.tables.next_file, u64::max);
        self.forget_files(&dropped);
        for file in &added {
            self.indexes.remove(file);
        }
        match open {
            Some(open) => {
                let kept = open.indexes.load_full();
                self.open_found(table.id, &kept, &|file| added.contains(&file))
            }
            None => Ok(()),
        }
    }
}
