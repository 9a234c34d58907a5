//! Opening the engine: the catalogue, then the log behind it.
//!
//! 1. Read the catalogue; an empty directory gets a new one.
//! 2. Restore the write ids: settled, aborted, and those that were undecided.
//! 3. Read the log from the catalogue's position on. Table changes that the
//!    catalogue does not have yet are redone; rows newer than what an index's
//!    file holds go into its memtable, which is flushed when memory is short.
//! 4. Ids without a commit record are aborted, unless they were prepared.
//! 5. Files that look like ours and that no table has are removed.
//! 6. A new catalogue makes all this final.
//!
//! A table whose files are missing or damaged is left out: its rows in the log
//! are skipped, opening it later says what is wrong.

mod altered;

use crate::background::Background;
use crate::budget::Budget;
use crate::catalogue::{
    CATALOGUE_FILE, Catalogue, ID_MAX, TableEntry, UNNAMED_IDS_MAX, decode_indexes_changed,
    decode_paths, decode_tables_altered, read_catalogue, write_catalogue,
};
use crate::engine::Inner;
use crate::error::{EngineError, EngineResult};
use crate::name::file_id_of;
use crate::options::{EngineOptions, Level, microseconds};
use crate::prepared::{self, PreparedEntry, PreparedList};
use crate::statistics::EngineCounts;
use crate::table::Index;
use crate::tables::{FILE_ID_COUNTER, NO_TABLE, Tables, make_directory, parents};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use teak_base::bytes::{Malformed, Take};
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{CommitSequence, FileId, Lsn, Operation, StorageError, StorageResult, WriteId};
use teak_disk::Disk;
use teak_transactions::{TransactionId, TransactionSystem, WriteIdTable};
use teak_tree::{PageCache, UpdateFunctions};
use teak_write_ahead_log::{LogOptions, Operations, Record, WriteAheadLog, WriteIds};

/// Replayed bytes after which the memory in use is looked at.
const LOOK_BYTES: u64 = 256 * 1024;

/// The file in the data directory that is locked while it is open.
const LOCK_FILE: &str = "teak.lock";

/// The owner of ids that were undecided when the engine stopped.
const NOBODY: TransactionId = TransactionId(0);

/// Everything the replay changes.
struct Replay {
    disk: Arc<dyn Disk>,
    options: EngineOptions,
    cache: Arc<PageCache>,
    updates: Arc<dyn UpdateFunctions>,
    budget: Budget,
    transactions: TransactionSystem,
    tables: Tables,
    tables_lsn: Lsn,
    /// By file; `None` for files that are nobody's or cannot be opened.
    indexes: HashMap<FileId, Option<Arc<Index>>>,
    written: Vec<Arc<Index>>,
    /// Where index files lie, once it was needed to look.
    places: Option<HashMap<FileId, PathBuf>>,
    /// Prepared transactions by name, whatever became of them since.
    prepared: BTreeMap<Vec<u8>, Vec<WriteId>>,
    /// Tables of which a file is not there, and which file.
    lacking: BTreeMap<u64, PathBuf>,
    records: u64,
    unlooked_bytes: u64,
    /// Tables that could not be opened, with the reason. The log may tell later
    /// that they were dropped or emptied.
    lost: BTreeMap<u64, String>,
}

fn new_instance() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(1, |now| now.as_nanos());
    let seed = [
        nanoseconds.to_le_bytes(),
        [u8::try_from(std::process::id() & 0xff).unwrap_or(0); 16],
    ];
    teak_base::checksum::checksum(seed.as_flattened()) | 1
}

/// Reads or makes the catalogue.
fn catalogue(disk: &Arc<dyn Disk>, options: &EngineOptions) -> EngineResult<Catalogue> {
    let directory = &options.directory;
    if let Some(catalogue) = read_catalogue(disk, directory)? {
        return Ok(catalogue);
    }
    let log = disk.list(directory)?.into_iter().find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("teak.log."))
    });
    if let Some(log) = log {
        // Starting anew would overwrite what may be somebody's data.
        return Err(StorageError::corrupt(
            &directory.join(CATALOGUE_FILE),
            0,
            format!("the catalogue is missing, but there is {}", log.display()),
        )
        .into());
    }
    let catalogue = Catalogue::new(options.instance.unwrap_or_else(new_instance));
    write_catalogue(disk, directory, &catalogue)?;
    Ok(catalogue)
}

/// Opens the files and replays the log.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    options: EngineOptions,
    updates: Arc<dyn UpdateFunctions>,
) -> EngineResult<Inner> {
    make_directory(&disk, &options.directory)?;
    let lock = disk.lock(&options.directory.join(LOCK_FILE))?;
    let mut catalogue = catalogue(&disk, &options)?;
    let instance = catalogue.instance;
    let replay_from = catalogue.replay_from;
    let next = catalogue.next_write_id;
    let below = catalogue.active.first().map_or(next, |id| next.min(*id));
    let ids = WriteIdTable::new(below, next, &catalogue.aborted);
    for id in &catalogue.active {
        ids.reactivate(*id, NOBODY);
    }
    let budget = Budget::new(
        options.cache_bytes,
        options.background_threads,
        options.memtable_bytes_min,
    );
    let mut log_options = LogOptions::new(instance);
    log_options.segment_bytes = options.log_segment_bytes.max(1 << 16);
    log_options.pending_bytes = Budget::log_pending_bytes(options.cache_bytes);
    let mut replay = Replay {
        cache: Arc::new(PageCache::new(budget.page_cache_bytes())),
        transactions: TransactionSystem::new(ids, 1),
        tables_lsn: catalogue.tables_lsn,
        tables: Tables::restore(&mut catalogue),
        indexes: HashMap::new(),
        written: Vec::new(),
        places: None,
        prepared: std::mem::take(&mut catalogue.prepared)
            .into_iter()
            .map(|entry| (entry.xid, entry.write_ids))
            .collect(),
        lacking: BTreeMap::new(),
        records: 0,
        unlooked_bytes: 0,
        lost: BTreeMap::new(),
        budget,
        options,
        updates,
        disk,
    };
    let log = WriteAheadLog::open::<EngineError>(
        &Arc::clone(&replay.disk),
        &replay.options.directory.clone(),
        log_options,
        replay_from,
        &mut |lsn, record| replay.apply(lsn, &record),
    )?;
    for (id, path) in std::mem::take(&mut replay.lacking) {
        replay.take_opened(id, Err(StorageError::NotFound { path }), &|_| false)?;
    }
    let counts = EngineCounts::default();
    counts
        .recovered_records
        .store(replay.records, Ordering::Relaxed);
    let inner = Inner {
        background: Background::new(replay.options.background_threads),
        commit_sync: AtomicBool::new(replay.options.commit_sync),
        log_sync_period: AtomicU64::new(microseconds(replay.options.log_sync_period)),
        log_sync_owed: AtomicBool::new(false),
        replay_from: AtomicU64::new(replay_from.0),
        written: RwLock::new(replay.written),
        prepared: PreparedList::default(),
        tables: Mutex::new(replay.tables),
        options: replay.options,
        disk: replay.disk,
        transactions: replay.transactions,
        cache: replay.cache,
        updates: replay.updates,
        budget: replay.budget,
        table_changes: Mutex::new(()),
        house: crate::checkpoint::new_house(),
        counters_to_log: Mutex::new(Vec::new()),
        counters_wait: AtomicBool::new(false),
        next_spill: Arc::default(),
        log,
        instance,
        counts,
        _lock: lock,
    };
    inner.budget.set_lock_bytes(inner.options.lock_bytes_max);
    inner
        .transactions
        .set_lock_bytes_max(inner.budget.lock_bytes());
    if let Some(reports) = &inner.options.wait_reports {
        inner.transactions.set_wait_reports(Arc::clone(reports));
    }
    let found = replay.prepared.into_iter();
    let found = found.map(|(xid, write_ids)| PreparedEntry { xid, write_ids });
    let prepared = prepared::restore(&inner, found.collect());
    if prepared > 0 {
        let text = format!("{prepared} prepared transactions wait for their coordinator");
        inner.message(Level::Note, &text);
    }
    let is_lost = |id: &u64| {
        let tables = inner.tables.lock();
        tables
            .by_id
            .get(id)
            .is_some_and(|state| state.entry.incomplete)
    };
    for (_, text) in replay.lost.iter().filter(|(id, _)| is_lost(id)) {
        inner.message(Level::Error, text);
    }
    Ok(inner)
}

/// Decides what is undecided, tidies up, and writes the catalogue.
pub(crate) fn finish(inner: &Arc<Inner>) -> EngineResult<()> {
    let ids = inner.transactions.ids();
    let prepared = inner.prepared.entries();
    let promised: BTreeSet<WriteId> = prepared.into_iter().flat_map(|e| e.write_ids).collect();
    let mut lost = ids.active_below(ids.next());
    lost.retain(|id| !promised.contains(id));
    ids.abort(&lost);
    inner.transactions.prune();
    find_moved(inner)?;
    remove_orphans(inner)?;
    let records = inner.counts.recovered_records.load(Ordering::Relaxed);
    if records > 0 {
        let text = format!(
            "recovered {records} log records; {} writes were not committed",
            lost.len()
        );
        inner.message(Level::Note, &text);
    }
    let _changes = inner.table_changes.lock();
    match crate::checkpoint::write_catalogue_now(inner) {
        Err(EngineError::Storage(error)) if error.is_no_space() => {
            // Only the next opening has more to replay for it.
            let text = format!("the disk is full, tables can be read and dropped: {error}");
            inner.message(Level::Warning, &text);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Finds files at other paths than the catalogue says: a rename may be durable
/// in the catalogue and not in the directory.
fn find_moved(inner: &Inner) -> EngineResult<()> {
    let root = inner.directory();
    let mut tables = inner.tables.lock();
    let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
    let known: Vec<PathBuf> = indexes.map(|index| root.join(&index.path)).collect();
    let files = index_files(&inner.disk, root, known.iter())?;
    let places: HashMap<FileId, &PathBuf> = files
        .iter()
        .filter_map(|path| Some((file_id_of(path)?, path)))
        .collect();
    let there: BTreeSet<&PathBuf> = files.iter().collect();
    for state in tables.by_id.values_mut() {
        for index in &mut state.entry.indexes {
            if !there.contains(&root.join(&index.path))
                && let Some(place) = places.get(&index.file)
                && let Ok(place) = place.strip_prefix(root)
            {
                index.path = place.to_path_buf();
            }
        }
    }
    Ok(())
}

/// Removes index files that no table has, and spill files: leftovers of a
/// crash. Their ids are
/// not given out again, for a removal that another crash undoes must not leave
/// two files of one id.
fn remove_orphans(inner: &Inner) -> EngineResult<()> {
    let root = inner.directory();
    let (known, files) = {
        let tables = inner.tables.lock();
        let indexes = tables.by_id.values().flat_map(|state| &state.entry.indexes);
        let known: BTreeSet<PathBuf> = indexes.clone().map(|i| root.join(&i.path)).collect();
        let files: BTreeSet<FileId> = indexes.map(|index| index.file).collect();
        (known, files)
    };
    let mut changed = BTreeSet::new();
    for path in inner.disk.list(root)? {
        if crate::alter::is_spill(&path) {
            inner.disk.remove(&path)?;
        }
    }
    for path in index_files(&inner.disk, root, known.iter())? {
        let Some(file) = file_id_of(&path) else {
            continue;
        };
        {
            let mut tables = inner.tables.lock();
            tables.next_file = tables.next_file.max(file.0.saturating_add(1));
        }
        if !known.contains(&path) && !files.contains(&file) {
            let text = format!("removing {}, which no table has", path.display());
            inner.message(Level::Note, &text);
            inner.disk.remove(&path)?;
            changed.extend(path.parent().map(Path::to_path_buf));
        }
    }
    for directory in changed {
        inner.disk.sync_directory(&directory)?;
    }
    Ok(())
}

/// Files with names of index files, in the directories of `known` paths and
/// those of the data directory.
fn index_files<'a>(
    disk: &Arc<dyn Disk>,
    root: &Path,
    known: impl Iterator<Item = &'a PathBuf>,
) -> StorageResult<Vec<PathBuf>> {
    let mut directories: BTreeSet<PathBuf> = known
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect();
    directories.insert(root.to_path_buf());
    directories.extend(disk.list(root)?);
    let mut files = Vec::new();
    for directory in directories {
        // Plain files of the data directory cannot be listed.
        if let Ok(found) = disk.list(&directory) {
            files.extend(found.into_iter().filter(|path| file_id_of(path).is_some()));
        }
    }
    Ok(files)
}

/// The entry with the paths at which its files lie now. The log tells of a
/// table's rows before it tells that the table was renamed later.
fn as_found(
    disk: &Arc<dyn Disk>,
    root: &Path,
    places: &mut Option<HashMap<FileId, PathBuf>>,
    entry: &TableEntry,
) -> StorageResult<TableEntry> {
    let mut entry = entry.clone();
    for index in &mut entry.indexes {
        if disk.exists(&root.join(&index.path))? {
            continue;
        }
        let places = match places {
            Some(places) => places,
            None => {
                let known = root.join(&index.path);
                let files = index_files(disk, root, std::iter::once(&known))?;
                let named = files.into_iter().filter_map(|path| {
                    let relative = path.strip_prefix(root).ok()?.to_path_buf();
                    Some((file_id_of(&path)?, relative))
                });
                places.insert(named.collect())
            }
        };
        if let Some(place) = places.get(&index.file) {
            index.path.clone_from(place);
        }
    }
    Ok(entry)
}

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
    fn apply(&mut self, lsn: Lsn, record: &Record<'_>) -> EngineResult<()> {
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
            Record::Checkpoint { .. } | Record::Void { .. } => Ok(()),
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
            let too_short = operation.operation == Operation::Update && operation.value.len() < 4;
            if too_short
                || operation.key.len() > KEY_BYTES_MAX
                || operation.value.len() > VALUE_BYTES_MAX
            {
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
    fn index_after(&mut self, file: FileId, lsn: Lsn) -> EngineResult<Option<Arc<Index>>> {
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
    fn open_table_of(&mut self, file: FileId) -> EngineResult<()> {
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

    fn forget_files(&mut self, entry: &TableEntry) {
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
