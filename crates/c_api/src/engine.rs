//! Opening, closing and asking the engine.

use crate::arguments::{Context, exclusive, out, reference, store, teak_slice};
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, call};
use ::teak_engine::{Engine, EngineOptions, Level, Owner, PageCounts, WaitListener};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, LimitedDisk, RealDisk};

/// An open engine. Its calls may come from any thread.
pub struct teak_engine {
    pub(crate) engine: Engine,
}

/// How an engine is opened.
#[repr(C)]
pub struct teak_engine_options {
    /// The data directory: catalogue and log live here.
    pub directory: teak_slice,
    /// The whole memory budget, at least 1 MiB.
    pub cache_bytes: u64,
    /// A log file that reached this size is followed by a new one; 0 = default 64 MiB.
    pub log_segment_bytes: u64,
    /// Checkpoint pressure starts beyond; 0 = default 512 MiB.
    pub log_bytes_max: u64,
    /// Flushing threads; 0 = number of cores.
    pub background_threads: u32,
    /// Seconds between checkpoints; 0 = default 60.
    pub checkpoint_period_seconds: u32,
    /// 1 = commits are durable on return; 0 = within log_sync_period_milliseconds.
    pub commit_sync: u32,
    /// When the log is synced after commits that did not wait for it; 0 = default 1000; TEAK_NEVER = only when it goes on in
    /// another file, or by a checkpoint.
    pub log_sync_period_milliseconds: u32,
    /// How long a transaction waits for a row, unless it says otherwise.
    pub lock_timeout_milliseconds: u32,
    /// What row and range locks may take, in bytes; 0 = an eighth of cache_bytes.
    pub lock_bytes_max: u64,
    /// Files that are kept open at most; 0 = all that are in use.
    pub open_files: u32,
    /// Called, from any thread, with a level (0 note, 1 warning, 2 error) and one sentence; may be NULL.
    pub log_message: Option<
        unsafe extern "C" fn(context: *mut c_void, level: u32, text: *const c_char, len: usize),
    >,
    /// Handed to log_message.
    pub log_context: *mut c_void,
    /// Called when a transaction begins to wait for another, with their owners (see teak_transaction_set_owner), in the waiter's
    /// thread; may be NULL. The holder does not end before the call returns: it must neither wait for that nor call the engine.
    pub wait_begins: Option<unsafe extern "C" fn(waiter: *mut c_void, holder: *mut c_void)>,
}

/// Hands reports of waits to C.
struct Reports(unsafe extern "C" fn(waiter: *mut c_void, holder: *mut c_void));

impl WaitListener for Reports {
    fn wait_begins(&self, waiter: Owner, holder: Owner) {
        let pointer = std::ptr::with_exposed_provenance_mut;
        // SAFETY: the callback lives as long as the engine; owners are what
        // teak_transaction_set_owner was given, and neither transaction has ended.
        unsafe { (self.0)(pointer(waiter.0), pointer(holder.0)) };
    }
}

/// A period that never ends.
pub const TEAK_NEVER: u32 = u32::MAX;

fn log_sync_period(milliseconds: u32) -> Duration {
    match milliseconds {
        TEAK_NEVER => Duration::ZERO,
        some => Duration::from_millis(some.into()),
    }
}

unsafe fn options_of(options: &teak_engine_options) -> Result<EngineOptions, Failure> {
    // SAFETY: the struct's slices are the caller's promise.
    let directory = unsafe { options.directory.text("the directory") }?;
    if directory.is_empty() {
        return Err(Failure::invalid("the directory is empty"));
    }
    let mut chosen = EngineOptions::new(directory);
    chosen.cache_bytes = options.cache_bytes;
    if options.log_segment_bytes != 0 {
        chosen.log_segment_bytes = options.log_segment_bytes;
    }
    if options.log_bytes_max != 0 {
        chosen.log_bytes_max = options.log_bytes_max;
    }
    if options.background_threads != 0 {
        chosen.background_threads = usize::try_from(options.background_threads).unwrap_or(1);
    }
    if options.checkpoint_period_seconds != 0 {
        chosen.checkpoint_period = Duration::from_secs(options.checkpoint_period_seconds.into());
    }
    chosen.lock_bytes_max = options.lock_bytes_max;
    chosen.commit_sync = options.commit_sync != 0;
    if options.log_sync_period_milliseconds != 0 {
        chosen.log_sync_period = log_sync_period(options.log_sync_period_milliseconds);
    }
    chosen.lock_timeout = Duration::from_millis(options.lock_timeout_milliseconds.into());
    if let Some(log_message) = options.log_message {
        let context = Context(options.log_context);
        chosen.messages = Some(Arc::new(move |level, text: &str| {
            let Context(context) = { context };
            let level = match level {
                Level::Note => 0,
                Level::Warning => 1,
                Level::Error => 2,
            };
            // SAFETY: the callback and its context live as long as the engine.
            unsafe { log_message(context, level, text.as_ptr().cast(), text.len()) };
        }));
    }
    if let Some(wait_begins) = options.wait_begins {
        chosen.wait_listener = Some(Arc::new(Reports(wait_begins)));
    }
    Ok(chosen)
}

/// Opens the engine of a data directory, recovering what a crash left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_open(
    options: *const teak_engine_options,
    engine: *mut *mut teak_engine,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let given = unsafe { reference(options, "options") }?;
        // SAFETY: as above.
        let options = unsafe { options_of(given) }?;
        let engine = out(engine, "engine")?;
        let disk: Arc<dyn Disk> = match usize::try_from(given.open_files) {
            Ok(limit) if limit > 0 => Arc::new(LimitedDisk::new(Arc::new(RealDisk), limit)),
            _ => Arc::new(RealDisk),
        };
        let opened = Engine::open(disk, options)?;
        let handle = Box::into_raw(Box::new(teak_engine { engine: opened }));
        // SAFETY: checked above.
        unsafe { store(engine, handle) };
        Ok(TEAK_OK)
    })
}

/// Flushes, checkpoints and closes. All tables and transactions must be closed. Frees the handle even on error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_close(engine: *mut teak_engine) -> teak_status {
    call(|| {
        // SAFETY: a handle, which the caller gives up.
        let engine = unsafe { Box::from_raw(exclusive(engine, "engine")?) };
        engine.engine.close()?;
        Ok(TEAK_OK)
    })
}

/// Changes the memory budget, at once for the page cache, as flushing proceeds for the rest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_cache_bytes(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?
            .engine
            .set_cache_bytes(bytes)?;
        Ok(TEAK_OK)
    })
}

/// Bounds what row and range locks take, in bytes; 0 = an eighth of the memory budget.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_lock_bytes_max(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?
            .engine
            .set_lock_bytes_max(bytes);
        Ok(TEAK_OK)
    })
}

/// Chooses whether commits are durable on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_commit_sync(
    engine: *mut teak_engine,
    sync: bool,
) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?
            .engine
            .set_commit_sync(sync);
        Ok(TEAK_OK)
    })
}

/// When the log is synced after commits that did not wait for it; TEAK_NEVER = only when it goes on in another file, or by a
/// checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_log_sync_period(
    engine: *mut teak_engine,
    milliseconds: u32,
) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?
            .engine
            .set_log_sync_period(log_sync_period(milliseconds));
        Ok(TEAK_OK)
    })
}

/// Makes everything committed durable in the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_flush_log(engine: *mut teak_engine) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?.engine.flush_log()?;
        Ok(TEAK_OK)
    })
}

/// Flushes every memtable to its file and checkpoints every index; waits until done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_checkpoint(engine: *mut teak_engine) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        unsafe { reference(engine, "engine") }?
            .engine
            .checkpoint()?;
        Ok(TEAK_OK)
    })
}

/// Counts since the engine was opened, and sizes at this moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_engine_statistics {
    /// The memory budget.
    pub cache_bytes_limit: u64,
    /// Of which in use.
    pub cache_bytes_used: u64,
    /// Of which by memtables.
    pub memtable_bytes: u64,
    /// Pages found in the page cache.
    pub cache_hits: u64,
    /// Pages not found there.
    pub cache_misses: u64,
    /// Blocks read from index files.
    pub blocks_read: u64,
    /// Blocks written to them.
    pub blocks_written: u64,
    /// Bytes read from index files.
    pub bytes_read: u64,
    /// Bytes written to them.
    pub bytes_written: u64,
    /// Syncs of index files.
    pub data_syncs: u64,
    /// Bytes of log records, before compression.
    pub log_bytes_appended: u64,
    /// Bytes written to the log.
    pub log_bytes_written: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Commit records.
    pub log_commits: u64,
    /// Background jobs done: flushes and merges.
    pub flushes: u64,
    /// Raw bytes that they wrote, before compression.
    pub flush_bytes_in: u64,
    /// Bytes that they wrote to files.
    pub flush_bytes_out: u64,
    /// Checkpoints done.
    pub checkpoints: u64,
    /// Raw bytes that wait to be pushed down.
    pub pending_flush_bytes: u64,
    /// Filters asked.
    pub filter_checks: u64,
    /// Filters that spared a read.
    pub filter_negatives: u64,
    /// Times that a writer was slowed.
    pub writer_stalls: u64,
    /// For how long in all.
    pub writer_stall_microseconds: u64,
    /// Waits for a row.
    pub lock_waits: u64,
    /// Of which timed out.
    pub lock_timeouts: u64,
    /// Circles of waiting transactions that were broken.
    pub deadlocks: u64,
    /// Transactions that wait at this moment.
    pub transactions_waiting: u64,
    /// Rows refused because they changed after the transaction's snapshot.
    pub snapshot_conflicts: u64,
    /// Rows locked one by one.
    pub row_locks: u64,
    /// Bytes that row and range locks take.
    pub lock_bytes: u64,
    /// Bytes that they may take.
    pub lock_bytes_limit: u64,
    /// Times that a transaction's locks in one index became a range.
    pub lock_escalations: u64,
    /// Locks refused for want of memory.
    pub lock_refusals: u64,
    /// Transactions that run.
    pub transactions_active: u64,
    /// Transactions committed with writes.
    pub transactions_committed: u64,
    /// Transactions rolled back with writes.
    pub transactions_rolled_back: u64,
    /// Rows inserted, committed or not.
    pub rows_inserted: u64,
    /// Rows updated.
    pub rows_updated: u64,
    /// Rows deleted.
    pub rows_deleted: u64,
    /// Open tables.
    pub open_tables: u64,
    /// Their indexes.
    pub indexes: u64,
    /// Log records read when the engine was opened.
    pub recovered_records: u64,
    /// Rolled-back writes still listed.
    pub aborted_ids: u64,
}

/// Pages that the calling thread has looked at since it began.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_page_counts {
    /// Asked for, cached or not.
    pub accessed: u64,
    /// Read from disk.
    pub read: u64,
}

/// What the calling thread has looked at: a statement's share is the difference between two calls.
#[unsafe(no_mangle)]
pub extern "C" fn teak_thread_get_page_counts() -> teak_page_counts {
    let counts = PageCounts::of_thread();
    teak_page_counts {
        accessed: counts.accessed,
        read: counts.read,
    }
}

/// Counts and sizes for SHOW STATUS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_statistics(
    engine: *mut teak_engine,
    counters: *mut teak_engine_statistics,
) -> teak_status {
    call(|| {
        // SAFETY: a handle.
        let found = unsafe { reference(engine, "engine") }?.engine.statistics();
        let counters = out(counters, "counters")?;
        let translated = teak_engine_statistics {
            cache_bytes_limit: found.cache_bytes_limit,
            cache_bytes_used: found.cache_bytes_used,
            memtable_bytes: found.memtable_bytes,
            cache_hits: found.cache_hits,
            cache_misses: found.cache_misses,
            blocks_read: found.blocks_read,
            blocks_written: found.blocks_written,
            bytes_read: found.bytes_read,
            bytes_written: found.bytes_written,
            data_syncs: found.data_syncs,
            log_bytes_appended: found.log_bytes_appended,
            log_bytes_written: found.log_bytes_written,
            log_syncs: found.log_syncs,
            log_commits: found.log_commits,
            flushes: found.flushes,
            flush_bytes_in: found.flush_bytes_in,
            flush_bytes_out: found.flush_bytes_out,
            checkpoints: found.checkpoints,
            pending_flush_bytes: found.pending_flush_bytes,
            filter_checks: found.filter_checks,
            filter_negatives: found.filter_negatives,
            writer_stalls: found.writer_stalls,
            writer_stall_microseconds: found.writer_stall_microseconds,
            lock_waits: found.lock_waits,
            lock_timeouts: found.lock_timeouts,
            deadlocks: found.deadlocks,
            transactions_waiting: found.transactions_waiting,
            snapshot_conflicts: found.snapshot_conflicts,
            row_locks: found.row_locks,
            lock_bytes: found.lock_bytes,
            lock_bytes_limit: found.lock_bytes_limit,
            lock_escalations: found.lock_escalations,
            lock_refusals: found.lock_refusals,
            transactions_active: found.transactions_active,
            transactions_committed: found.transactions_committed,
            transactions_rolled_back: found.transactions_rolled_back,
            rows_inserted: found.rows_inserted,
            rows_updated: found.rows_updated,
            rows_deleted: found.rows_deleted,
            open_tables: found.open_tables,
            indexes: found.indexes,
            recovered_records: found.recovered_records,
            aborted_ids: found.aborted_ids,
        };
        // SAFETY: checked above.
        unsafe { store(counters, translated) };
        Ok(TEAK_OK)
    })
}

/// Human-readable report for SHOW ENGINE TEAK STATUS, through the callback (once).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_status_text(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        let text = unsafe { reference(engine, "engine") }?.engine.status_text();
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { sink(context, text.as_ptr().cast(), text.len()) };
        Ok(TEAK_OK)
    })
}
