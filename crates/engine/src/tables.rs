//! Tables: create, open, drop, rename, truncate.
//!
//! Every change has one commit point, a synced log record. What must exist
//! afterwards is made durable before it, what must not is removed after it, and
//! recovery finishes or undoes the rest:
//! - create: files and their names durable, then the record.
//! - drop: the record, then the files are removed.
//! - truncate: new files durable, the record, then the old files are removed.
//! - rename: the record with the new paths, then the files are renamed.

mod files;
mod handle;
mod state;

pub(crate) use self::files::{make_directory, parents};
pub use self::handle::TableHandle;
pub(crate) use self::handle::no_such_index;
pub(crate) use self::state::{Slot, Tables};
use crate::catalogue::{TableEntry, encode_indexes_changed, encode_paths};
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::name::TableName;
use crate::options::Level;
use crate::table::{Index, Table};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{Codec, StorageError};
use teak_write_ahead_log::Record;

/// Most indexes of a table.
pub const INDEXES_MAX: usize = 256;

/// Longest metadata of a table, in bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;

/// File ids made durable at once.
const FILE_IDS_RESERVED: u64 = 32;

/// No table has this id: its counters are the instance's.
pub(crate) const NO_TABLE: u64 = 0;

/// The instance's counter of file ids.
pub(crate) const FILE_ID_COUNTER: u8 = 0;

/// An index to create.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// Names the file; sanitised.
    pub label: String,
    /// Codec of the bottom pages.
    pub codec: Codec,
    /// Raw bytes of a page; zero for the default.
    pub page_bytes: u32,
    /// Whether whole keys are looked up, so that filters pay.
    pub exact_lookups: bool,
    /// Leading bytes of values that hold columns of fixed width, where all
    /// values have them; bottom pages keep them column by column. At most
    /// 64 KiB.
    pub value_fixed_bytes: u32,
}

/// A table to create.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// As the server names it: `./database/table`.
    pub name: String,
    /// The first holds the rows.
    pub indexes: Vec<IndexDefinition>,
    /// Kept for the caller.
    pub metadata: Vec<u8>,
}

/// Whether a page may have so many raw bytes; zero stands for the default.
pub(crate) fn page_bytes_fit(bytes: u32) -> bool {
    bytes == 0 || (1024..=8 << 20).contains(&bytes)
}

fn check(definition: &TableDefinition) -> EngineResult<()> {
    let refuse = |text: String| Err(EngineError::InvalidArgument(text));
    let count = definition.indexes.len();
    if count == 0 || count > INDEXES_MAX {
        return refuse(format!(
            "a table has 1 to {INDEXES_MAX} indexes, not {count}"
        ));
    }
    if definition.metadata.len() > METADATA_BYTES_MAX {
        return refuse(format!("metadata exceeds {METADATA_BYTES_MAX} bytes"));
    }
    definition.indexes.iter().try_for_each(check_index)
}

pub(crate) fn check_index(index: &IndexDefinition) -> EngineResult<()> {
    let fits = page_bytes_fit(index.page_bytes);
    if !fits {
        let text = format!("pages of {} bytes", index.page_bytes);
        return Err(EngineError::InvalidArgument(text));
    }
    Ok(())
}

/// Refuses what would pull the files away under an alteration. The caller holds
/// the lock on table changes.
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

impl Engine {
    /// Creates a table. Durable on return.
    ///
    /// # Errors
    /// `TableExists`, `InvalidArgument`, `NoSpace`, `Io`.
    pub fn create_table(&self, definition: &TableDefinition) -> EngineResult<()> {
        let inner = &self.inner;
        let name = TableName::parse(&definition.name)?;
        check(definition)?;
        let _changes = inner.table_changes.lock();
        if inner.tables.lock().find(&name.name).is_some() {
            return Err(EngineError::TableExists { name: name.name });
        }
        let indexes = inner.index_entries(&name, definition.indexes.clone().into_iter())?;
        let trees = inner.create_files(&indexes)?;
        let id = {
            let mut tables = inner.tables.lock();
            tables.next_table += 1;
            tables.next_table - 1
        };
        let entry = TableEntry {
            id,
            name: name.name,
            metadata: definition.metadata.clone(),
            indexes,
            incomplete: false,
            counters: BTreeMap::new(),
        };
        drop(trees);
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        if let Err(error) = inner.log_table_change(&Record::TableCreated { table: &bytes }) {
            inner.remove_unlogged(&entry.indexes, &error);
            return Err(error.into());
        }
        let born = inner.transactions.newest();
        let mut tables = inner.tables.lock();
        for index in &entry.indexes {
            tables.births.insert(index.file, born);
        }
        tables.insert(entry);
        Ok(())
    }

    /// Opens a table.
    ///
    /// # Errors
    /// `NoSuchTable`; `TableDamaged` when a file is missing or corrupt; `Io`.
    pub fn open_table(&self, name: &str) -> EngineResult<TableHandle> {
        let inner = &self.inner;
        let name = TableName::parse(name)?;
        if inner.background.has_opened_too_many() {
            crate::checkpoint::keep_house(inner, false)?;
        }
        let slot = Arc::clone(&inner.tables.lock().require(&name)?.slot);
        let mut open = slot.lock();
        let table = match &*open {
            Some(table) => Arc::clone(table),
            None => {
                let (entry, counters) = {
                    let tables = inner.tables.lock();
                    let state = tables.require(&name)?;
                    if !Arc::ptr_eq(&state.slot, &slot) {
                        return Err(EngineError::NoSuchTable { name: name.name });
                    }
                    (state.entry.clone(), Arc::clone(&state.counters))
                };
                let table = inner.open_table(&entry, &counters).map_err(|cause| {
                    inner.message(
                        Level::Error,
                        &format!("table {} cannot be opened: {cause}", entry.name),
                    );
                    match cause {
                        StorageError::Corrupt { .. } | StorageError::NotFound { .. } => {
                            EngineError::TableDamaged {
                                name: entry.name.clone(),
                                cause,
                            }
                        }
                        cause => EngineError::Storage(cause),
                    }
                })?;
                *open = Some(Arc::clone(&table));
                inner.background.note_opened();
                table
            }
        };
        let handle = TableHandle::new(inner, table);
        drop(open);
        Ok(handle)
    }

    /// Whether a table of this name exists.
    ///
    /// # Errors
    /// `InvalidArgument` when it is no table name.
    pub fn table_exists(&self, name: &str) -> EngineResult<bool> {
        let name = TableName::parse(name)?;
        Ok(self.inner.tables.lock().find(&name.name).is_some())
    }

    /// The id of a table, which no other table ever has.
    ///
    /// # Errors
    /// `NoSuchTable`; `InvalidArgument` when it is no table name.
    pub fn table_id(&self, name: &str) -> EngineResult<u64> {
        let name = TableName::parse(name)?;
        Ok(self.inner.tables.lock().require(&name)?.entry.id)
    }

    /// Names and metadata of the tables whose names begin so.
    ///
    /// # Errors
    /// `InvalidArgument` when it is no table name.
    pub fn tables_metadata(&self, prefix: &str) -> EngineResult<Vec<(String, Vec<u8>)>> {
        let prefix = TableName::parse(prefix)?;
        let tables = self.inner.tables.lock();
        let entries = tables.by_id.values().map(|state| &state.entry);
        Ok(entries
            .filter(|entry| entry.name.starts_with(&prefix.name))
            .map(|entry| (entry.name.clone(), entry.metadata.clone()))
            .collect())
    }

    /// The names of all tables, in no order.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        let tables = self.inner.tables.lock();
        let states = tables.by_id.values();
        states.map(|state| state.entry.name.clone()).collect()
    }

    /// Drops a table. Durable on return. Open handles keep what they see.
    ///
    /// # Errors
    /// `NoSuchTable`; those of the log.
    pub fn drop_table(&self, name: &str) -> EngineResult<()> {
        let inner = &self.inner;
        let name = TableName::parse(name)?;
        let state = {
            let _changes = inner.table_changes.lock();
            let (table_id, slot) = {
                let tables = inner.tables.lock();
                let state = tables.require(&name)?;
                (state.entry.id, Arc::clone(&state.slot))
            };
            require_unaltered(&slot)?;
            inner.log_table_change(&Record::TableDropped { table_id })?;
            inner.tables.lock().remove(table_id)
        };
        if let Some(state) = state {
            if let Some(table) = state.slot.lock().take() {
                inner.abandon(&table);
            }
            let paths: Vec<PathBuf> = state
                .entry
                .indexes
                .iter()
                .map(|index| index.path.clone())
                .collect();
            inner.remove_files(&paths);
            inner.space_freed();
        }
        Ok(())
    }

    /// Renames a table and its files. Durable on return.
    ///
    /// # Errors
    /// `NoSuchTable`, `TableExists`; those of the log. When a file could not be
    /// renamed the table has its new name all the same, and the file its old.
    pub fn rename_table(&self, from: &str, to: &str) -> EngineResult<()> {
        let inner = &self.inner;
        let (from, to) = (TableName::parse(from)?, TableName::parse(to)?);
        let _changes = inner.table_changes.lock();
        let (entry, slot) = {
            let tables = inner.tables.lock();
            if tables.find(&to.name).is_some() {
                return Err(EngineError::TableExists { name: to.name });
            }
            let state = tables.require(&from)?;
            (state.entry.clone(), Arc::clone(&state.slot))
        };
        require_unaltered(&slot)?;
        let old: Vec<PathBuf> = entry.indexes.iter().map(|i| i.path.clone()).collect();
        let mut new: Vec<PathBuf> = entry
            .indexes
            .iter()
            .map(|index| to.index_path(&index.label, index.file))
            .collect();
        make_directory(&inner.disk, &inner.directory().join(to.directory()))?;
        inner.log_table_change(&Record::TableRenamed {
            table_id: entry.id,
            name: to.name.as_bytes(),
            paths: &encode_paths(&new),
        })?;
        let mut outcome = Ok(());
        for (old, new) in old.iter().zip(&mut new) {
            let directory = inner.directory();
            if let Err(error) = inner
                .disk
                .rename(&directory.join(old), &directory.join(&*new))
            {
                new.clone_from(old);
                outcome = Err(EngineError::Storage(error));
            }
        }
        for directory in parents(inner.directory(), &old).union(&parents(inner.directory(), &new)) {
            if let Err(error) = inner.disk.sync_directory(directory) {
                outcome = Err(EngineError::Storage(error));
            }
        }
        let slot = {
            let mut tables = inner.tables.lock();
            tables.rename(entry.id, to.name.clone(), new);
            tables.find(&to.name).map(|state| Arc::clone(&state.slot))
        };
        if let Some(table) = slot.and_then(|slot| slot.lock().clone()) {
            *table.name.write() = to.name.as_str().into();
        }
        if outcome.is_err() {
            // The log promises the new names; the catalogue knows better.
            crate::checkpoint::write_catalogue_now(inner)?;
        }
        outcome
    }

    /// Replaces every index of a table by an empty one; open handles follow.
    /// Counters and row ids return to zero. Durable on return.
    ///
    /// # Errors
    /// `NoSuchTable`, `NoSpace`, `Io`.
    pub fn truncate_table(&self, name: &str) -> EngineResult<()> {
        let inner = &self.inner;
        let name = TableName::parse(name)?;
        let old = {
            let _changes = inner.table_changes.lock();
            let (entry, slot) = {
                let tables = inner.tables.lock();
                let state = tables.require(&name)?;
                (state.entry.clone(), Arc::clone(&state.slot))
            };
            require_unaltered(&slot)?;
            let definitions = entry.indexes.iter().map(|index| IndexDefinition {
                label: index.label.clone(),
                codec: index.codec,
                page_bytes: index.page_bytes,
                exact_lookups: index.exact_lookups,
                value_fixed_bytes: index.value_fixed_bytes,
            });
            let indexes = inner.index_entries(&name, definitions)?;
            let trees = inner.create_files(&indexes)?;
            let bytes = encode_indexes_changed(entry.id, &indexes);
            let changed = inner.log_table_change(&Record::IndexesChanged { bytes: &bytes });
            if let Err(error) = changed {
                inner.remove_unlogged(&indexes, &error);
                return Err(error.into());
            }
            let born = inner.transactions.newest();
            {
                let mut tables = inner.tables.lock();
                for (old, new) in entry.indexes.iter().zip(&indexes) {
                    tables.births.remove(&old.file);
                    tables.births.insert(new.file, born);
                }
                let Some(state) = tables.by_id.get_mut(&entry.id) else {
                    return Err(EngineError::NoSuchTable { name: name.name });
                };
                state.entry.indexes.clone_from(&indexes);
                state.entry.incomplete = false;
                state.counters.reset();
            }
            if let Some(table) = &*slot.lock() {
                inner.abandon(table);
                let indexes = indexes
                    .into_iter()
                    .zip(trees)
                    .map(|(entry, tree)| {
                        let index = Index::new(entry, tree, &table.damaged);
                        index.born.store(born.0, Ordering::Release);
                        Arc::new(index)
                    })
                    .collect();
                table.indexes.store(Arc::new(indexes));
                table.damaged.store(false, Ordering::Release);
            }
            entry.indexes
        };
        let paths: Vec<PathBuf> = old.into_iter().map(|index| index.path).collect();
        inner.remove_files(&paths);
        inner.space_freed();
        Ok(())
    }
}
