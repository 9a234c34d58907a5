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
mod files;
mod replay;

use self::files::{find_moved, remove_orphans};
use crate::background::Background;
use crate::budget::Budget;
use crate::catalogue::{CATALOGUE_FILE, Catalogue, read_catalogue, write_catalogue};
use crate::engine::Inner;
use crate::error::{EngineError, EngineResult};
use crate::options::{EngineOptions, Level, microseconds};
use crate::prepared::{self, PreparedEntry, PreparedList};
use crate::statistics::EngineCounts;
use crate::table::Index;
use crate::tables::{Tables, make_directory};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use teak_base::{FileId, Lsn, StorageError, WriteId};
use teak_disk::Disk;
use teak_transactions::{TransactionId, TransactionSystem, WriteIdTable};
use teak_tree::PageCache;
use teak_write_ahead_log::{LogOptions, WriteAheadLog};

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
pub(crate) fn open(disk: Arc<dyn Disk>, options: EngineOptions) -> EngineResult<Inner> {
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
    if let Some(reports) = &inner.options.wait_listener {
        inner.transactions.set_wait_listener(Arc::clone(reports));
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
