//! Statistics and the status report.

use crate::boundary::{Extensible, Versioned, boundary, first_version_bytes, write_versioned};
use crate::handles::teak_engine;
use crate::status::teak_status;
use ::teak_engine::{DelayCounts, LATENCY_BUCKETS, Latencies};
use std::ffi::{c_char, c_void};

/// Length of teak_latencies.buckets.
pub const TEAK_LATENCY_BUCKETS: usize = 24;
const _: () = assert!(TEAK_LATENCY_BUCKETS == LATENCY_BUCKETS);

/// A histogram of the durations of operations.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_latencies {
    /// Element 0 counts times below 1 microsecond, element n times below 2^n microseconds that
    /// are not in an earlier element, and the last one all longer times.
    pub buckets: [u64; TEAK_LATENCY_BUCKETS],
    /// Sum of all times, in microseconds.
    pub total_microseconds: u64,
    /// The longest time, in microseconds.
    pub longest_microseconds: u64,
    /// Half of the operations took at most this time, in microseconds. The value may be up to twice
    /// the exact one.
    pub p50_microseconds: u64,
    /// 99 % of the operations took at most this time; accuracy as for p50_microseconds.
    pub p99_microseconds: u64,
    /// 99.9 % of the operations took at most this time; accuracy as for p50_microseconds.
    pub p999_microseconds: u64,
}

impl From<Latencies> for teak_latencies {
    fn from(times: Latencies) -> Self {
        Self {
            buckets: times.buckets,
            total_microseconds: times.total_microseconds,
            longest_microseconds: times.longest_microseconds,
            p50_microseconds: times.quantile_microseconds(500),
            p99_microseconds: times.quantile_microseconds(990),
            p999_microseconds: times.quantile_microseconds(999),
        }
    }
}

/// Delays of writers because of one cause.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_delays {
    /// The delays, stops included.
    pub times: teak_latencies,
    /// Delays during which the bound was reached, so that the writer stopped.
    pub stops: u64,
    /// Writers that are stopped now.
    pub stopped_now: u64,
}

impl From<DelayCounts> for teak_delays {
    fn from(delays: DelayCounts) -> Self {
        Self {
            times: delays.times.into(),
            stops: delays.stops,
            stopped_now: delays.stopped_now,
        }
    }
}

/// Counts since the engine was opened, and sizes now. Fields are added at the end in later
/// versions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_engine_statistics {
    /// sizeof(teak_engine_statistics), set by the caller.
    pub struct_size: usize,
    /// Memory budget in bytes.
    pub cache_bytes_limit: u64,
    /// Memory of the page cache and the memtables, in bytes.
    pub cache_bytes_used: u64,
    /// Bytes in use by memtables.
    pub memtable_bytes: u64,
    /// Lookups in the page cache that found the block.
    pub cache_hits: u64,
    /// Lookups in the page cache that did not find the block.
    pub cache_misses: u64,
    /// Blocks read from index files.
    pub blocks_read: u64,
    /// Blocks written to index files.
    pub blocks_written: u64,
    /// Bytes read from index files.
    pub bytes_read: u64,
    /// Bytes written to index files.
    pub bytes_written: u64,
    /// Syncs of index files.
    pub data_syncs: u64,
    /// Bytes of log records before compression.
    pub log_bytes_appended: u64,
    /// Bytes written to the log.
    pub log_bytes_written: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Commit records.
    pub log_commits: u64,
    /// Flush and merge jobs completed.
    pub flushes: u64,
    /// Uncompressed bytes of the entries that these jobs wrote.
    pub flush_bytes_uncompressed: u64,
    /// Bytes that these jobs wrote to files.
    pub flush_bytes_written: u64,
    /// Rounds of checkpoints.
    pub checkpoints: u64,
    /// Compaction debt: uncompressed bytes that are due to be merged into a lower level.
    pub pending_flush_bytes: u64,
    /// Filter checks.
    pub filter_checks: u64,
    /// Filter checks that avoided a read.
    pub filter_negatives: u64,
    /// Delays of writers by backpressure, stops included.
    pub writer_stalls: u64,
    /// Total time of these delays, in microseconds.
    pub writer_stall_microseconds: u64,
    /// Lock waits.
    pub lock_waits: u64,
    /// Lock waits that timed out.
    pub lock_timeouts: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Transactions that wait for a lock now.
    pub transactions_waiting: u64,
    /// Writes and locks refused because the row had changed after the transaction's snapshot.
    pub snapshot_conflicts: u64,
    /// Explicit row locks that are held.
    pub row_locks: u64,
    /// Memory of row and range locks, in bytes.
    pub lock_bytes: u64,
    /// Limit of that memory, in bytes.
    pub lock_bytes_limit: u64,
    /// Lock escalations: times that the locks of a transaction in an index were replaced by ranges.
    pub lock_escalations: u64,
    /// Locks refused because of the memory limit.
    pub lock_refusals: u64,
    /// Transactions that run now.
    pub transactions_active: u64,
    /// Committed transactions with writes.
    pub transactions_committed: u64,
    /// Rolled back transactions with writes.
    pub transactions_rolled_back: u64,
    /// Rows inserted, committed or not.
    pub rows_inserted: u64,
    /// Rows updated.
    pub rows_updated: u64,
    /// Rows deleted.
    pub rows_deleted: u64,
    /// Tables whose files are open.
    pub open_tables: u64,
    /// Indexes of open tables.
    pub indexes: u64,
    /// Log records replayed when the engine was opened.
    pub recovered_records: u64,
    /// Aborted write ids (of transactions, statements and savepoints that were rolled back) whose
    /// entries may still be in an index.
    pub aborted_ids: u64,
    /// Size of the log in bytes: the larger of the size of its files and the uncompressed size of
    /// the records that recovery would read.
    pub log_bytes_used: u64,
    /// The bound of the log's size, in bytes.
    pub log_bytes_limit: u64,
    /// Times that a writer was slowed, but not stopped, because the log exceeded half of its bound.
    pub log_slowdowns: u64,
    /// Times that a writer was stopped because the log was near its bound.
    pub log_stops: u64,
    /// Total time during which at least one writer was stopped because of the log, in microseconds.
    pub log_stop_microseconds: u64,
    /// Number of write ids since the oldest one that is active or that some snapshot does not see.
    pub write_ids_unsettled: u64,
    /// Chunks of the table of write ids. A chunk has a slot for each of its ids.
    pub write_id_chunks: u64,
    /// Smaller pieces of the table of write ids, which have replaced chunks.
    pub write_id_pieces: u64,
    /// Memory of the table of write ids, in bytes.
    pub write_id_bytes: u64,
    /// Length of the open index files, in bytes.
    pub file_bytes: u64,
    /// Bytes of live blocks in these files.
    pub live_bytes: u64,
    /// Bytes of free extents in these files, which later writes use.
    pub free_bytes: u64,
    /// Bytes of replaced blocks in these files that readers still need.
    pub pinned_bytes: u64,
    /// Bytes of blocks that were moved within files to make the files smaller.
    pub bytes_moved: u64,
    /// Memory of flushed memtables that readers still use, in bytes.
    pub memtable_retired_bytes: u64,
    /// Maximum number of upper runs of one child, in all open indexes.
    pub child_runs_max: u64,
    /// The longest delay of a write, in microseconds.
    pub writer_stall_longest_microseconds: u64,
    /// Times that backpressure stopped a writer, instead of only delaying it.
    pub writer_stops: u64,
    /// Writers that are stopped now.
    pub writers_stopped: u64,
    /// Checkpoints of index files.
    pub checkpointed_indexes: u64,
    /// Checkpoints of index files that failed.
    pub checkpoint_failures: u64,
    /// Duration of the last round of checkpoints, in microseconds.
    pub checkpoint_microseconds_last: u64,
    /// Duration of the longest round of checkpoints, in microseconds.
    pub checkpoint_microseconds_max: u64,
    /// Longest time that freezing a memtable, or installing the result of a flush, waited for
    /// locks, in microseconds.
    pub freeze_wait_microseconds_max: u64,
    /// Times of commits with writes.
    pub commit_times: teak_latencies,
    /// Times of the statements that were reported by teak_engine_count_statement() of
    /// teak_server.h.
    pub statement_times: teak_latencies,
    /// All memory of the engine, in bytes.
    pub memory_bytes: u64,
    /// Bytes of pages, index blocks and separate values that are in use and not in the page cache.
    pub uncached_block_bytes: u64,
    /// Bytes of the nodes of open indexes.
    pub node_bytes: u64,
    /// Bytes of the buffers of the log.
    pub log_buffer_bytes: u64,
    /// Bytes reserved for sorts of new indexes.
    pub sort_bytes: u64,
    /// Memory of dropped memtables that is kept for later memtables, in bytes.
    pub memtable_spare_bytes: u64,
    /// Tables that cannot be used until their files can be read.
    pub unavailable_tables: u64,
    /// Bytes of the log records that are retained for unavailable and read-only tables.
    pub retained_bytes: u64,
    /// Index files in the directory `#teak_orphans` when the engine was opened.
    pub orphan_files: u64,
    /// Bytes of these files.
    pub orphan_bytes: u64,
    /// Tables that refuse writes because one of their files cannot be written or synced.
    pub read_only_tables: u64,
    /// Ranges of aborted write ids, without those among the newest ids. Writers stop when there are
    /// too many of them.
    pub aborted_ranges: u64,
    /// Nodes of open indexes in memory.
    pub nodes_in_memory: u64,
    /// Nodes read from index files when they were needed.
    pub node_reads: u64,
    /// Nodes evicted from memory.
    pub node_evictions: u64,
    /// Time that background jobs waited because of the limit of their I/O, or for reads of
    /// statements, in microseconds.
    pub io_throttled_microseconds: u64,
    /// Bytes that the settling of old write ids has read and written.
    pub settled_bytes: u64,
    /// Bytes that compaction in idle time and after rollbacks has read and written.
    pub idle_compaction_bytes: u64,
    /// Blocks that the operating system was asked to read from index files before they were needed.
    pub blocks_prefetched: u64,
    /// Loads that teak_load_finish() has added to a table.
    pub bulk_loads: u64,
    /// The rows of these loads; also in `rows_inserted`.
    pub bulk_load_rows: u64,
    /// Bytes read and written by the threads of alterations within teak_alteration_begin_io().
    pub rebuilding_bytes: u64,
    /// Memory of the page cache, in bytes.
    pub page_cache_bytes: u64,
    /// Limit of that memory, in bytes. It is what the other users of memory leave of the budget.
    pub page_cache_bytes_limit: u64,
    /// Memory of frozen memtables, which wait to be flushed, in bytes.
    pub memtable_frozen_bytes: u64,
    /// The memtables' share of the budget, in bytes.
    pub memtable_bytes_limit: u64,
    /// The nodes' share of the budget, in bytes.
    pub node_bytes_limit: u64,
    /// Size of the log files, in bytes.
    pub log_bytes_kept: u64,
    /// Flush and merge jobs that failed.
    pub flush_failures: u64,
    /// Threads that took parts of large flushes from the thread of the job.
    pub flush_helpers: u64,
    /// Snapshots in use.
    pub snapshots: u64,
    /// Tables that exist, temporary ones included.
    pub tables: u64,
    /// The number of aborted_ranges at which writers stop.
    pub aborted_ranges_limit: u64,
    /// Delays of writers because of the memory of memtables.
    pub delays_memory: teak_delays,
    /// Delays of writers because an index has much to merge.
    pub delays_debt: teak_delays,
    /// Delays of writers because a child of an index has many runs.
    pub delays_runs: teak_delays,
    /// Delays of writers because of the length of the log.
    pub delays_log: teak_delays,
    /// Delays of writers because of the number of aborted write ids.
    pub delays_aborted: teak_delays,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Extensible for teak_engine_statistics {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, aborted_ids, 352);
}

// SAFETY: the first field is `struct_size`.
unsafe impl Versioned for teak_engine_statistics {}

/// Copies the named fields, which have the same names in Rust and C.
macro_rules! translated {
    ($found:ident: $($field:ident),*; $($converted:ident),* $(,)?) => {
        teak_engine_statistics {
            struct_size: size_of::<teak_engine_statistics>(),
            $($field: $found.$field,)*
            $($converted: $found.$converted.into(),)*
        }
    };
}

/// Reads the statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_statistics(
    engine: *mut teak_engine,
    statistics: *mut teak_engine_statistics,
) -> teak_status {
    boundary!([reference(engine)] {
        let found = engine.engine.statistics();
        let translated = translated!(found:
            cache_bytes_limit,
            cache_bytes_used,
            memtable_bytes,
            cache_hits,
            cache_misses,
            blocks_read,
            blocks_prefetched,
            bulk_loads,
            bulk_load_rows,
            blocks_written,
            bytes_read,
            bytes_written,
            data_syncs,
            log_bytes_appended, log_bytes_written, log_syncs, log_commits,
            flushes, flush_bytes_uncompressed, flush_bytes_written,
            checkpoints,
            checkpointed_indexes,
            checkpoint_failures,
            checkpoint_microseconds_last,
            checkpoint_microseconds_max,
            freeze_wait_microseconds_max,
            pending_flush_bytes,
            filter_checks,
            filter_negatives,
            writer_stalls,
            writer_stall_microseconds,
            lock_waits,
            lock_timeouts,
            deadlocks,
            transactions_waiting,
            snapshot_conflicts,
            row_locks,
            lock_bytes,
            lock_bytes_limit,
            lock_escalations,
            lock_refusals,
            transactions_active,
            transactions_committed,
            transactions_rolled_back,
            rows_inserted, rows_updated, rows_deleted,
            open_tables,
            indexes,
            recovered_records,
            aborted_ids,
            aborted_ranges,
            unavailable_tables,
            retained_bytes,
            orphan_files, orphan_bytes,
            read_only_tables,
            log_bytes_used,
            log_bytes_limit,
            log_slowdowns,
            log_stops,
            log_stop_microseconds,
            write_ids_unsettled,
            write_id_chunks, write_id_pieces, write_id_bytes,
            file_bytes,
            live_bytes,
            free_bytes,
            pinned_bytes,
            bytes_moved,
            memtable_retired_bytes,
            child_runs_max,
            writer_stall_longest_microseconds,
            writer_stops,
            writers_stopped,
            memory_bytes,
            uncached_block_bytes,
            node_bytes,
            log_buffer_bytes,
            sort_bytes,
            memtable_spare_bytes,
            nodes_in_memory, node_reads, node_evictions,
            io_throttled_microseconds,
            settled_bytes,
            idle_compaction_bytes, rebuilding_bytes,
            page_cache_bytes, page_cache_bytes_limit,
            memtable_frozen_bytes, memtable_bytes_limit,
            node_bytes_limit,
            log_bytes_kept,
            flush_failures, flush_helpers,
            snapshots,
            tables,
            aborted_ranges_limit;
            commit_times,
            statement_times,
            delays_memory, delays_debt, delays_runs, delays_log, delays_aborted,
        );
        // SAFETY: the contract of `boundary`.
        unsafe { write_versioned(statistics, &translated, "statistics") }
    })
}

/// Calls `sink` once, with a readable report of `len` bytes on memory, log, flushes, locks and
/// transactions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_status_text(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        let text = engine.engine.status_text();
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { sink(context, text.as_ptr().cast(), text.len()) };
        Ok(())
    })
}
