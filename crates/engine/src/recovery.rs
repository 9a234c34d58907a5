//! Opens a data directory: reads the catalogue, then replays the log.
//!
//! 1. Read the catalogue; an empty directory gets a new one.
//! 2. Restore the write ids: settled, aborted, and active ones.
//! 3. Read the log from the catalogue's position on. Table changes that the
//!    catalogue does not contain are redone. Entries that an index's file does
//!    not contain go into its memtable, which is flushed when memory is short.
//! 4. Abort the ids without a commit record, except those of prepared
//!    transactions.
//! 5. Copy the log records of tables with a file that is missing, damaged or
//!    cannot be written to files of their own: these tables are unavailable, see
//!    `retained`.
//! 6. Remove or move index files that belong to no table, and remove spill files
//!    and files of temporary tables.
//! 7. Write a new catalogue, which makes the result durable.
//! 8. Apply the retained records of tables whose files can be read now.

mod altered;
mod files;
mod id_parts;
mod orphans;
mod replay;
mod table_changes;

use self::files::find_moved;
use self::orphans::settle_orphans;
use self::replay::Replay;
use crate::catalogue::{CATALOGUE_FILE, Catalogue, read_catalogue, write_catalogue};
use crate::core::EngineCore;
use crate::core::aborted_load::AbortedLoad;
use crate::core::budget::Budget;
use crate::core::checkpoint_queue::CheckpointQueue;
use crate::core::files::{IndexFiles, make_directory};
use crate::core::job_threads::JobThreadCounts;
use crate::core::log_sync::LogSyncPolicy;
use crate::core::messages::Messages;
use crate::core::running_jobs::RunningJobs;
use crate::core::signals::Signals;
use crate::core::unlogged_ids::UnloggedIds;
use crate::core::written::WrittenIndexes;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::catalogue_writer::CatalogueContext;
use crate::maintenance::flusher::FlushContext;
use crate::options::EngineOptions;
use crate::retained::{count_retained, remove_unneeded, restore_all, retain};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use teak_base::{Lsn, StorageError};
use teak_disk::{Disk, DiskLock, IoPacer};
use teak_tree::PageCache;
use teak_write_ahead_log::{LogOptions, SegmentCreation, WriteAheadLog};

/// The file that is locked while the data directory is open.
const LOCK_FILE: &str = "teak.lock";

/// Prefix of the log segments' file names.
const LOG_PREFIX: &str = "teak.log.";

fn new_instance() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(1, |now| now.as_nanos());
    let seed = [
        nanoseconds.to_le_bytes(),
        [u8::try_from(std::process::id() & 0xff).unwrap_or(0); 16],
    ];
    teak_base::checksum::checksum(seed.as_flattened()) | 1
}

/// Reads the catalogue, or creates one in an empty directory.
fn read_or_create_catalogue(
    disk: &Arc<dyn Disk>,
    options: &EngineOptions,
) -> EngineResult<Catalogue> {
    let directory = &options.directory;
    if let Some(catalogue) = read_catalogue(disk, directory)? {
        return Ok(catalogue);
    }
    let log = disk.list(directory)?.into_iter().find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(LOG_PREFIX))
    });
    if let Some(log) = log {
        // The directory is not new: its catalogue was lost. A new catalogue would have another
        // instance number, and these log files could not be opened with it.
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

fn index_files(disk: Arc<dyn Disk>, options: &EngineOptions, budget: &Budget) -> IndexFiles {
    let cache = PageCache::new(budget.page_cache_bytes());
    let cache = Arc::new(cache.with_cipher(options.encryption.cipher.clone()));
    cache.nodes().set_bytes_max(budget.node_bytes_max());
    IndexFiles::new(
        disk,
        options.directory.clone(),
        cache,
        options.tree.clone(),
        options.encryption.clone(),
        Messages::new(options.messages.clone()),
    )
}

/// Opens a data directory and recovers it after a crash.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    pacer: Arc<IoPacer>,
    options: EngineOptions,
) -> EngineResult<EngineCore> {
    make_directory(&disk, &options.directory)?;
    let lock = disk.lock(&options.directory.join(LOCK_FILE))?;
    let mut catalogue = read_or_create_catalogue(&disk, &options)?;
    let budget = Budget::new(
        options.cache_bytes,
        options.background_threads,
        options.memtable_bytes_min,
        options.node_bytes_max,
    );
    let files = index_files(disk, &options, &budget);
    let history = &files.backup.history;
    history.read(&files.disk, &options.directory, &files.messages)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.background_threads.min(processors);
    let mut replay = Replay::new(files, budget, &mut catalogue, threads);
    let log = read_log(&mut replay, &options, &catalogue)?;
    replay.finish()?;
    replay.exclude_missing();
    let unavailable = std::mem::take(&mut replay.unavailable);
    let repaired = std::mem::take(&mut replay.repaired);
    let replaced = std::mem::take(&mut replay.replaced);
    let core = into_core(replay, pacer, options, &catalogue, log, lock)?;
    remove_unneeded(&core, &repaired, &replaced)?;
    finish(&core, &unavailable)?;
    restore_all(&core)?;
    Ok(core)
}

/// Opens the log and replays it.
fn read_log(
    replay: &mut Replay,
    options: &EngineOptions,
    catalogue: &Catalogue,
) -> EngineResult<WriteAheadLog> {
    let mut log_options = LogOptions::new(catalogue.instance);
    // Small compared with the bound of the log, because trimming removes whole segments.
    let segment_bytes = options.log_segment_bytes.min(options.log_bytes_max / 8);
    log_options.segment_bytes = segment_bytes.max(1 << 16);
    log_options.bytes_max = options.log_bytes_max;
    log_options.reads_ahead = options.background_threads > 0;
    log_options.segment_creation = if options.background_threads > 0 {
        SegmentCreation::Ahead
    } else {
        SegmentCreation::AheadOrOnDemand
    };
    log_options.encryption = options.encryption.clone();
    log_options.pending_bytes = Budget::log_pending_bytes(options.cache_bytes);
    WriteAheadLog::open::<EngineError>(
        &Arc::clone(&replay.files.disk),
        &options.directory,
        log_options,
        catalogue.replay_from,
        &mut |lsn, record| replay.apply(lsn, &record),
    )
}

/// The state of the engine after the replay.
fn into_core(
    mut replay: Replay,
    pacer: Arc<IoPacer>,
    options: EngineOptions,
    catalogue: &Catalogue,
    log: WriteAheadLog,
    lock: DiskLock,
) -> EngineResult<EngineCore> {
    if replay.records > 0 {
        replay.tables.forget_row_counts();
    }
    let Lsn(replay_from) = catalogue.replay_from;
    let prepared = replay.take_prepared();
    // The threads of the replay have ended.
    let transactions = Arc::into_inner(replay.transactions)
        .ok_or_else(|| EngineError::Internal("a thread of the recovery has not ended".into()))?;
    let core = EngineCore {
        instance: catalogue.instance,
        log,
        log_sync: LogSyncPolicy::new(&options),
        log_stalls: Default::default(),
        counter_log: Default::default(),
        replay_from: AtomicU64::new(replay_from),
        transactions,
        aborted: AbortedLoad::new(options.aborted_ranges_max),
        prepared: Default::default(),
        backup_job: Default::default(),
        tables: Mutex::new(replay.tables),
        table_changes: Mutex::new(()),
        catalogue_writes: Mutex::new(()),
        temporary_changes: Mutex::new(()),
        unlogged_ids: UnloggedIds::default(),
        written: WrittenIndexes::new(replay.written),
        work: Default::default(),
        too_large: Default::default(),
        changed: Default::default(),
        failing: Default::default(),
        delays: Default::default(),
        job_threads: Arc::new(JobThreadCounts::new(options.background_threads)),
        running_jobs: RunningJobs::default(),
        pacer,
        budget: replay.budget,
        heap_meter: Default::default(),
        signals: Signals::new(options.background_threads),
        maintenance: Default::default(),
        closing_idle: Default::default(),
        checkpoint_queue: CheckpointQueue::new(options.background_threads),
        checkpoints: Default::default(),
        next_spill: Arc::default(),
        retained: Default::default(),
        counts: Default::default(),
        messages: replay.files.messages.clone(),
        files: replay.files,
        options,
        _lock: lock,
    };
    let recovered = &core.counts.recovered_records;
    recovered.store(replay.records, Ordering::Relaxed);
    core.budget.set_lock_bytes(core.options.lock_bytes_max);
    core.budget.set_sort_bytes_max(core.options.sort_bytes_max);
    core.apply_budget();
    if let Some(reports) = &core.options.wait_listener {
        core.transactions.set_wait_listener(Arc::clone(reports));
    }
    let prepared = core.prepared.restore(&core.transactions, prepared);
    if prepared > 0 {
        let text = format!("{prepared} prepared transactions wait for their coordinator");
        core.messages.note(&text);
    }
    Ok(core)
}

/// Aborts the transactions without a commit or prepare record, retains the records of unavailable
/// tables, removes unused files, and writes the catalogue.
fn finish(core: &EngineCore, unavailable: &BTreeMap<u64, StorageError>) -> EngineResult<()> {
    let ids = core.transactions.ids();
    let lost = ids.unowned_below(ids.next());
    ids.abort(lost.ranges());
    core.transactions.prune();
    for index in core.written.live() {
        FlushContext::from(core).note_change(&index);
    }
    find_moved(&core.files, &mut core.tables.lock())?;
    retain(core, unavailable)?;
    count_retained(core);
    settle_orphans(core)?;
    let records = core.counts.recovered_records.load(Ordering::Relaxed);
    if records > 0 {
        let lost = lost.len();
        let text = format!(
            "recovered {records} log records; {lost} statements were not committed, or wrote temporary tables only"
        );
        core.messages.note(&text);
    }
    let _changes = core.table_changes.lock();
    match CatalogueContext::from(core).write_now() {
        Err(EngineError::Storage(error)) if error.is_no_space() => {
            // Not fatal: the next start only has to replay more of the log.
            let text = format!(
                "the disk is full: tables can only be read, truncated and dropped: {error}"
            );
            core.messages.warning(&text);
            Ok(())
        }
        outcome => outcome,
    }
}
