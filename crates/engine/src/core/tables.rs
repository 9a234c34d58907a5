//! The list of all tables, open or not.

use super::counters::{ROW_COUNT_COUNTER, TableCounters};
use super::table::Table;
use crate::catalogue::{Catalogue, IndexEntry, TEMPORARY_ID_MIN, TableEntry};
use crate::error::{EngineError, EngineResult};
use crate::name::TableName;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{CommitSequence, FileId, WriteIdRange};
use teak_tree::Tree;

/// The table id under which the instance's own counters are logged.
pub(crate) const NO_TABLE: u64 = 0;

/// The instance's counter of file ids.
pub(crate) const FILE_ID_COUNTER: u8 = 0;

/// The table, if it is in memory. Maintenance removes a table with neither handles nor open files.
/// Locked while its files are opened or closed.
pub(crate) type Slot = Arc<Mutex<Option<Arc<Table>>>>;

/// The catalogue's entry of a table. Clones share it until one is changed, so
/// captures of the catalogue copy nothing under the mutex of the list.
#[derive(Clone, Debug)]
pub(crate) struct SharedEntry(Arc<TableEntry>);

impl Deref for SharedEntry {
    type Target = TableEntry;

    fn deref(&self) -> &TableEntry {
        &self.0
    }
}

impl DerefMut for SharedEntry {
    fn deref_mut(&mut self) -> &mut TableEntry {
        Arc::make_mut(&mut self.0)
    }
}

/// A table, open or not.
pub(crate) struct TableState {
    pub entry: SharedEntry,
    pub counters: Arc<TableCounters>,
    pub slot: Slot,
    /// The write ids that the files may contain, if settling (`maintenance::settling`) could not
    /// open them. Reset to `None` when the table is closed after it was open.
    pub unreadable: Option<WriteIdRange>,
}

/// All tables.
pub(crate) struct Tables {
    pub next_table: u64,
    pub next_file: u64,
    /// The next id of a temporary table or of one of its files.
    next_temporary: u64,
    /// File ids below this one are never allocated again, even after a crash.
    pub reserved_files: u64,
    pub by_id: BTreeMap<u64, TableState>,
    /// For index files that older snapshots must not read: see `Index::created_at`. Kept while the
    /// table is closed.
    pub created_at: HashMap<FileId, CommitSequence>,
    by_name: BTreeMap<String, u64>,
}

impl Tables {
    pub(crate) fn restore(catalogue: &mut Catalogue) -> Self {
        let mut tables = Self {
            next_table: catalogue.next_table,
            next_file: catalogue.next_file,
            next_temporary: TEMPORARY_ID_MIN,
            reserved_files: catalogue.next_file,
            by_id: BTreeMap::new(),
            created_at: HashMap::new(),
            by_name: BTreeMap::new(),
        };
        for (_, entry) in std::mem::take(&mut catalogue.tables) {
            tables.insert(entry);
        }
        tables
    }

    pub(crate) fn insert(&mut self, entry: TableEntry) {
        self.next_table = self.next_table.max(entry.id + 1);
        for index in &entry.indexes {
            self.next_file = self.next_file.max(index.file.0 + 1);
        }
        let counters = TableCounters::restore(&entry.counters);
        counters
            .written_at
            .store(entry.written_at, Ordering::Relaxed);
        if let Some(rows) = entry.counters.get(&ROW_COUNT_COUNTER)
            && let Some(index) = entry.indexes.first()
        {
            let rows = rows.saturating_sub(1);
            counters.rows.set(index.file, CommitSequence(0), Some(rows));
        }
        self.add(entry, Arc::new(counters), Slot::default());
    }

    /// Adds a table that was created just now.
    pub(crate) fn insert_created(&mut self, entry: TableEntry, created_at: CommitSequence) {
        let (id, rows) = (entry.id, entry.indexes.first().map(|index| index.file));
        self.insert(entry);
        if let (Some(state), Some(rows)) = (self.by_id.get(&id), rows) {
            state.counters.rows.set(rows, created_at, Some(0));
        }
    }

    /// Makes the numbers of rows unknown, because the log contains changes.
    pub(crate) fn forget_row_counts(&self) {
        for state in self.by_id.values() {
            state.counters.rows.forget();
        }
    }

    /// Adds a temporary table, which remains open until it is dropped.
    pub(crate) fn insert_temporary(&mut self, entry: TableEntry, trees: Vec<Arc<Tree>>) {
        let counters = Arc::new(TableCounters::default());
        if let Some(index) = entry.indexes.first() {
            counters.rows.set(index.file, CommitSequence(0), Some(0));
        }
        let table = Table::created(&entry, &counters, trees);
        self.add(entry, counters, Arc::new(Mutex::new(Some(Arc::new(table)))));
    }

    fn add(&mut self, entry: TableEntry, counters: Arc<TableCounters>, slot: Slot) {
        self.by_name.insert(entry.name.clone(), entry.id);
        let state = TableState {
            entry: SharedEntry(Arc::new(entry)),
            counters,
            slot,
            unreadable: None,
        };
        self.by_id.insert(state.entry.id, state);
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<TableState> {
        let state = self.by_id.remove(&id)?;
        self.by_name.remove(&state.entry.name);
        for index in &state.entry.indexes {
            self.created_at.remove(&index.file);
        }
        Some(state)
    }

    pub(crate) fn rename(&mut self, id: u64, name: String, paths: Vec<PathBuf>) {
        if let Some(state) = self.by_id.get_mut(&id) {
            self.by_name.remove(&state.entry.name);
            self.by_name.insert(name.clone(), id);
            state.entry.name = name;
            for (index, path) in state.entry.indexes.iter_mut().zip(paths) {
                index.path = path;
            }
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&TableState> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// The tables whose names begin with `prefix`, by name.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a TableEntry> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let names = self.by_name.range::<str, _>(from);
        let names = names.take_while(move |(name, _)| name.starts_with(prefix));
        names.filter_map(|(_, id)| self.by_id.get(id).map(|state| &*state.entry))
    }

    pub(crate) fn require(&self, name: &TableName) -> EngineResult<&TableState> {
        self.find(&name.name)
            .ok_or_else(|| EngineError::NoSuchTable {
                name: name.name.clone(),
            })
    }

    /// The tables that are not temporary.
    pub(crate) fn durable(&self) -> impl Iterator<Item = (&u64, &TableState)> {
        self.by_id.range(..TEMPORARY_ID_MIN)
    }

    pub(crate) fn take_temporary_id(&mut self) -> u64 {
        self.next_temporary += 1;
        self.next_temporary - 1
    }

    pub(crate) fn take_file_ids(&mut self, count: usize) -> impl Iterator<Item = FileId> + use<> {
        let first = self.next_file;
        self.next_file += count as u64;
        (first..self.next_file).map(FileId)
    }

    pub(crate) fn take_table_id(&mut self) -> u64 {
        self.next_table += 1;
        self.next_table - 1
    }

    /// Replaces the indexes of a truncated table by new, empty ones, and resets its
    /// counters.
    pub(crate) fn replace_indexes(
        &mut self,
        id: u64,
        indexes: &[IndexEntry],
        created_at: CommitSequence,
    ) -> EngineResult<()> {
        let Some(state) = self.by_id.get_mut(&id) else {
            return Err(EngineError::Internal("a truncated table is missing".into()));
        };
        for index in &state.entry.indexes {
            self.created_at.remove(&index.file);
        }
        for index in indexes {
            self.created_at.insert(index.file, created_at);
        }
        state.entry.indexes = indexes.to_vec();
        state.entry.retained = None;
        state.counters.reset();
        if let Some(index) = indexes.first() {
            state.counters.rows.set(index.file, created_at, Some(0));
        }
        Ok(())
    }
}
