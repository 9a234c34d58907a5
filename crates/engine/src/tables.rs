//! Tables: create, open, drop, rename, truncate; their metadata and names.
//!
//! Every durable change has one commit point, a synced log record. New files are made durable
//! before it, and old files are removed after it. Recovery completes or undoes an interrupted
//! change:
//! - create: the files and their directory entries are made durable, then the record.
//! - drop: the record is made durable, then the files are removed.
//! - truncate: the new files are made durable, then the record; then the old
//!   files are removed.
//! - rename: the record with the new paths is made durable, then the files are
//!   renamed.
//!
//! Changes of temporary tables are not logged and sync nothing: recovery removes
//! all files of such tables. They are serialised by a mutex of their own, so that
//! they do not wait for the syncs of other changes.

mod file_ids;

pub(crate) use self::file_ids::new_index_entries;
use crate::catalogue::{
    AlteredTable, IndexEntry, TableEntry, encode_indexes_changed, encode_paths,
    encode_tables_altered,
};
use crate::core::EngineCore;
use crate::core::files::paths_of;
use crate::core::index::Index;
use crate::core::log_sync::append_durable;
use crate::core::table::Table;
use crate::core::tables::Slot;
use crate::definition::{TableDefinition, check_metadata, check_table};
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::catalogue_writer::CatalogueContext;
use crate::maintenance::flusher::abandon_index;
use crate::name::{TEMPORARY_NAME_PREFIX, TableName};
use crate::retained::restore_table;
use crate::table_handle::{TableHandle, open_lazily};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{CommitSequence, FileId, StorageError};
use teak_write_ahead_log::Record;

/// Returns an error if an alteration of the table is in progress, because the change would remove
/// or replace its files. The caller holds the mutex of table changes.
fn require_unaltered(slot: &Slot) -> EngineResult<()> {
    let open = slot.lock();
    let altering = |table: &Arc<Table>| table.altering.load(Ordering::Acquire);
    if open.as_ref().is_some_and(altering) {
        return Err(EngineError::InvalidArgument(
            "the table is being altered".into(),
        ));
    }
    Ok(())
}

/// Refuses the name of a temporary table.
fn refuse_temporary(name: &TableName) -> EngineResult<()> {
    if name.is_temporary() {
        return Err(EngineError::InvalidArgument(format!(
            "names of temporary tables only begin with {TEMPORARY_NAME_PREFIX}"
        )));
    }
    Ok(())
}

/// # Tables
impl Engine {
    /// Creates a table. Durable on return.
    ///
    /// # Errors
    /// `TableExists`, `InvalidArgument`, `NoSpace`, `Io`.
    pub fn create_table(&self, definition: &TableDefinition) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(&definition.name)?;
        refuse_temporary(&name)?;
        check_table(definition)?;
        let _changes = core.table_changes.lock();
        if core.tables.lock().find(&name.name).is_some() {
            return Err(EngineError::TableExists { name: name.name });
        }
        let definitions = definition.indexes.clone().into_iter();
        let indexes = new_index_entries(&core.tables, &core.log, &name, definitions)?;
        drop(core.files.create(&indexes)?);
        let mut entry = TableEntry {
            id: core.tables.lock().take_table_id(),
            name: name.name,
            metadata: definition.metadata.clone(),
            indexes,
            retained: None,
            counters: BTreeMap::new(),
            written_at: 0,
        };
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        let record = Record::TableCreated { table: &bytes };
        if let Err(error) = append_durable(&core.log, &record) {
            core.files.remove_unlogged(&entry.indexes, &error);
            return Err(error.into());
        }
        core.files.publish(entry.indexes.iter_mut());
        // Advances the sequence, so that all earlier snapshots are older than the table.
        let created_at = core.transactions.advance_commit_sequence();
        let mut tables = core.tables.lock();
        for index in &entry.indexes {
            tables.created_at.insert(index.file, created_at);
        }
        tables.insert_created(entry, created_at);
        Ok(())
    }

    /// Creates a table that exists until it is dropped or the engine is closed. The
    /// caller lets only one session use it. Its writes are transactional but not
    /// logged, and its files are never synced. Snapshots older than the table can
    /// read it. The name must begin with [`TEMPORARY_NAME_PREFIX`].
    ///
    /// # Errors
    /// `TableExists`, `InvalidArgument`, `NoSpace`, `Io`.
    pub fn create_temporary_table(&self, definition: &TableDefinition) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(&definition.name)?;
        if !name.is_temporary() {
            return Err(EngineError::InvalidArgument(format!(
                "the name of a temporary table begins with {TEMPORARY_NAME_PREFIX}"
            )));
        }
        check_table(definition)?;
        let _changes = core.lock_changes(true);
        if core.tables.lock().find(&name.name).is_some() {
            return Err(EngineError::TableExists { name: name.name });
        }
        let definitions = definition.indexes.clone().into_iter();
        let indexes = new_index_entries(&core.tables, &core.log, &name, definitions)?;
        let trees = core.files.create(&indexes)?;
        let mut tables = core.tables.lock();
        let entry = TableEntry {
            id: tables.take_temporary_id(),
            name: name.name,
            metadata: definition.metadata.clone(),
            indexes,
            retained: None,
            counters: BTreeMap::new(),
            written_at: 0,
        };
        tables.insert_temporary(entry, trees);
        Ok(())
    }

    /// Opens a table and its files.
    ///
    /// # Errors
    /// `NoSuchTable`; `TableDamaged` when a file is corrupt; `TableUnavailable`
    /// when a file is missing, or when log records are retained for the table and
    /// cannot be applied because a file cannot be read; `InvalidArgument` when the
    /// name is not a valid table name; `Io`.
    pub fn open_table(&self, name: &str) -> EngineResult<TableHandle> {
        let handle = self.open_table_lazily(name)?;
        handle.open_files()?;
        Ok(handle)
    }

    /// Opens a table without its files. The first use of an index opens them, and
    /// reports damage. Before that, names, metadata and sizes are read from the
    /// catalogue.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` when the name is not a valid table name.
    pub fn open_table_lazily(&self, name: &str) -> EngineResult<TableHandle> {
        open_lazily(&self.core, name)
    }

    /// Opens a table that may be damaged. If [`Engine::open_table`] fails because of
    /// its files, the table is opened to be salvaged: only
    /// [`TableHandle::salvage`], [`TableHandle::verify`] and an alteration that
    /// replaces all indexes can use the handle. Until this handle is dropped, other calls of this
    /// function and of [`Engine::open_table`] fail, and handles of
    /// [`Engine::open_table_lazily`] can neither read nor write rows.
    ///
    /// # Errors
    /// `NoSuchTable`; `TableDamaged` when nothing can be read: the file of the
    /// rows is missing or has no valid superblock; `Storage`.
    pub fn open_damaged_table(&self, name: &str) -> EngineResult<TableHandle> {
        self.open_damaged_table_unless(name, &|| false)
    }

    /// As [`Engine::open_damaged_table`]. Applying retained log records, or waiting for threads that
    /// do so or open damaged tables, may take long: it stops when `interrupted` returns true.
    ///
    /// # Errors
    /// Also `Storage(Interrupted)`.
    pub fn open_damaged_table_unless(
        &self,
        name: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> EngineResult<TableHandle> {
        let mut handle = self.open_table_lazily(name)?;
        let cause = match handle.open_files_unless(interrupted) {
            Err(
                EngineError::TableDamaged { cause, .. }
                | EngineError::TableUnavailable { cause, .. },
            ) => cause,
            Err(EngineError::Storage(cause @ StorageError::Io { .. })) => cause,
            opened => return opened.map(|()| handle),
        };
        // Waits for a thread that is applying the retained records to the table, and prevents
        // others from beginning to do so.
        let restoring = &self.core.retained.restoring;
        let _turn = restoring.begin(handle.table.id, interrupted)?;
        handle.open_damaged(cause)?;
        Ok(handle)
    }

    /// Whether a table of this name exists.
    ///
    /// # Errors
    /// `InvalidArgument` when the name is not a valid table name.
    pub fn table_exists(&self, name: &str) -> EngineResult<bool> {
        let name = TableName::parse(name)?;
        Ok(self.core.tables.lock().find(&name.name).is_some())
    }

    /// The id of a table. It is not assigned to another table, except that ids of
    /// temporary tables are allocated again after a restart.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` when the name is not a valid table
    /// name.
    pub fn table_id(&self, name: &str) -> EngineResult<u64> {
        let name = TableName::parse(name)?;
        Ok(self.core.tables.lock().require(&name)?.entry.id)
    }

    /// Names and metadata of the tables whose names begin with `prefix`.
    ///
    /// # Errors
    /// `InvalidArgument` when the prefix is not a valid table name.
    pub fn tables_metadata(&self, prefix: &str) -> EngineResult<Vec<(String, Vec<u8>)>> {
        let prefix = TableName::parse(prefix)?;
        let tables = self.core.tables.lock();
        let entries = tables.with_prefix(&prefix.name);
        Ok(entries
            .map(|entry| (entry.name.clone(), entry.metadata.clone()))
            .collect())
    }

    /// Replaces the metadata of a table. Durable on return. Handles that were
    /// created before still return the old metadata.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` for the name of a temporary table, for a table that is being
    /// altered, and for metadata that is too long; errors of the log.
    pub fn set_table_metadata(&self, name: &str, metadata: &[u8]) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(name)?;
        refuse_temporary(&name)?;
        check_metadata(metadata)?;
        let _changes = core.table_changes.lock();
        let (entry, slot) = {
            let tables = core.tables.lock();
            let state = tables.require(&name)?;
            (state.entry.clone(), Arc::clone(&state.slot))
        };
        require_unaltered(&slot)?;
        let altered = [AlteredTable {
            id: entry.id,
            metadata: metadata.to_vec(),
            indexes: entry.indexes.clone(),
            is_repair: false,
        }];
        let bytes = &encode_tables_altered(&altered);
        append_durable(&core.log, &Record::TablesAltered { bytes })?;
        let [altered] = altered;
        if let Some(state) = core.tables.lock().by_id.get_mut(&altered.id) {
            state.entry.metadata = altered.metadata;
        }
        if let Some(table) = &*slot.lock() {
            *table.metadata.write() = metadata.into();
        }
        Ok(())
    }

    /// The names of all tables except temporary ones, unordered.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        let tables = self.core.tables.lock();
        let states = tables.durable();
        states.map(|(_, state)| state.entry.name.clone()).collect()
    }

    /// The names of the tables of a directory, in ascending order, without the
    /// directory.
    ///
    /// # Errors
    /// `InvalidArgument` when it cannot be the directory of a table.
    pub fn table_names_in(&self, directory: &str) -> EngineResult<Vec<String>> {
        let prefix = TableName::parse(directory)?.name + "/";
        let tables = self.core.tables.lock();
        let names = tables.with_prefix(&prefix);
        let names = names.filter_map(|entry| entry.name.strip_prefix(&prefix));
        Ok(names
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect())
    }

    /// Makes a table unreadable for the snapshots that exist now, as if it had
    /// been created after them. For a table whose rows were committed in several
    /// steps: an older snapshot would see only some of them. This is not stored,
    /// because no snapshot outlives the engine.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` for the name of a temporary table.
    pub fn refuse_older_snapshots(&self, name: &str) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(name)?;
        refuse_temporary(&name)?;
        let _changes = core.table_changes.lock();
        let slot = Arc::clone(&core.tables.lock().require(&name)?.slot);
        // Locks the slot, so that the files are not opened before the new creation times are
        // stored.
        let open = slot.lock();
        let created_at = core.transactions.advance_commit_sequence();
        let mut tables = core.tables.lock();
        let entry = &tables.require(&name)?.entry;
        let files: Vec<FileId> = entry.indexes.iter().map(|index| index.file).collect();
        for file in files {
            tables.created_at.insert(file, created_at);
        }
        drop(tables);
        let indexes = open.as_ref().and_then(|table| table.open_indexes());
        for index in indexes.iter().flat_map(|indexes| indexes.iter()) {
            index.created_at.store(created_at.0, Ordering::Release);
        }
        Ok(())
    }

    /// Drops a table. Durable on return, unless it is temporary. Cursors that
    /// are open on it can still read.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` while the table is being altered; errors of the log.
    pub fn drop_table(&self, name: &str) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(name)?;
        let state = {
            let _changes = core.lock_changes(name.is_temporary());
            let (table_id, slot) = {
                let tables = core.tables.lock();
                let state = tables.require(&name)?;
                (state.entry.id, Arc::clone(&state.slot))
            };
            require_unaltered(&slot)?;
            if !name.is_temporary() {
                append_durable(&core.log, &Record::TableDropped { table_id })?;
            }
            let state = core.tables.lock().remove(table_id);
            if let Some(state) = &state {
                core.files.add_unowned(&state.entry.indexes);
            }
            state
        };
        if let Some(state) = state {
            if state.entry.retained.is_some() {
                core.retained.remove(&core.files, state.entry.id);
            }
            if let Some(table) = state.slot.lock().take() {
                abandon(core, &table);
            }
            remove_files(core, &state.entry.indexes);
        }
        Ok(())
    }

    /// Renames a table and its files. Durable on return.
    ///
    /// # Errors
    /// `NoSuchTable`, `TableExists`, `TableUnavailable`; `InvalidArgument` for the name of a
    /// temporary table, and while the table is being altered; errors of the log. If a file cannot
    /// be renamed, the table has its new name and the file keeps its old path.
    pub fn rename_table(&self, from: &str, to: &str) -> EngineResult<()> {
        let core = &self.core;
        let (from, to) = (TableName::parse(from)?, TableName::parse(to)?);
        refuse_temporary(&from)?;
        refuse_temporary(&to)?;
        if self.open_table_lazily(&from.name)?.is_unavailable() {
            // A file that is missing could not be renamed, and would keep its old path.
            restore_table(core, self.table_id(&from.name)?, &|| false)?;
        }
        let _changes = core.table_changes.lock();
        let (entry, slot) = {
            let tables = core.tables.lock();
            if tables.find(&to.name).is_some() {
                return Err(EngineError::TableExists { name: to.name });
            }
            let state = tables.require(&from)?;
            (state.entry.clone(), Arc::clone(&state.slot))
        };
        require_unaltered(&slot)?;
        let old = paths_of(&entry.indexes);
        let indexes = entry.indexes.iter();
        let mut new: Vec<PathBuf> = indexes
            .map(|index| to.index_path(&index.label, index.file))
            .collect();
        let directory = &core.files.directory;
        core.files.make_directory(&directory.join(to.directory()))?;
        let record = Record::TableRenamed {
            table_id: entry.id,
            name: to.name.as_bytes(),
            paths: &encode_paths(&new),
        };
        append_durable(&core.log, &record)?;
        let outcome = core.files.rename(&old, &mut new);
        core.tables.lock().rename(entry.id, to.name.clone(), new);
        if let Some(table) = &*slot.lock() {
            *table.name.write() = to.name.as_str().into();
        }
        if outcome.is_err() {
            // The log record contains the new paths. The catalogue, which replaces the record, must
            // contain the paths at which the files are.
            CatalogueContext::from(&**core).write_now()?;
        }
        Ok(outcome?)
    }

    /// Replaces every index of a table by an empty one; open handles use the new
    /// ones. Counters and row ids are reset to zero. Durable on return, unless the
    /// table is temporary.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` while the table is being altered;
    /// `NoSpace`, `Io`.
    pub fn truncate_table(&self, name: &str) -> EngineResult<()> {
        let core = &self.core;
        let name = TableName::parse(name)?;
        let old = {
            let _changes = core.lock_changes(name.is_temporary());
            let (entry, slot) = {
                let tables = core.tables.lock();
                let state = tables.require(&name)?;
                (state.entry.clone(), Arc::clone(&state.slot))
            };
            require_unaltered(&slot)?;
            let definitions = entry.indexes.iter().map(IndexEntry::definition);
            let mut indexes = new_index_entries(&core.tables, &core.log, &name, definitions)?;
            let trees = core.files.create(&indexes)?;
            let created_at = if name.is_temporary() {
                // Every snapshot can read a temporary table.
                CommitSequence(0)
            } else {
                let bytes = encode_indexes_changed(entry.id, &indexes);
                let record = Record::IndexesChanged { bytes: &bytes };
                if let Err(error) = append_durable(&core.log, &record) {
                    core.files.remove_unlogged(&indexes, &error);
                    return Err(error.into());
                }
                core.files.publish(indexes.iter_mut());
                core.transactions.advance_commit_sequence()
            };
            // Locks the slot before the list of tables changes, so that no thread opens the new
            // files a second time.
            let slot = slot.lock();
            let mut tables = core.tables.lock();
            tables.replace_indexes(entry.id, &indexes, created_at)?;
            drop(tables);
            core.files.add_unowned(&entry.indexes);
            if let Some(table) = &*slot
                && table.is_open()
            {
                abandon(core, table);
                let new_index = |(entry, tree)| {
                    let index = Index::new(entry, tree, &table.damaged);
                    index.created_at.store(created_at.0, Ordering::Release);
                    Arc::new(index)
                };
                let indexes = indexes.into_iter().zip(trees).map(new_index);
                table.set_indexes(indexes.collect());
                table.replaced();
            }
            drop(slot);
            if entry.retained.is_some() {
                // With table changes still locked: if a new file fails, records may be retained for
                // the table again, and these must not be removed.
                core.retained.remove(&core.files, entry.id);
            }
            entry
        };
        remove_files(core, &old.indexes);
        Ok(())
    }
}

/// Ends background work on the open indexes of a dropped or truncated table.
fn abandon(core: &EngineCore, table: &Table) {
    if let Some(indexes) = table.open_indexes() {
        for index in indexes.iter() {
            abandon_index(core.into(), index);
        }
    }
    core.signals.space_available();
}

/// Removes the files of dropped indexes. Then permits immediate retries of jobs that failed because
/// of a full disk.
fn remove_files(core: &EngineCore, indexes: &[IndexEntry]) {
    core.files.remove(&paths_of(indexes));
    core.work.space_freed();
    core.signals.wake_flushers();
    core.log.wake();
}
