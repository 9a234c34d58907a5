//! Statistics of an engine: counts since it was opened, and sizes at one moment.

use crate::core::delays::{DelayCause, DelayCounts};
use crate::core::index::Index;
use crate::core::tables::Tables;
use crate::engine::Engine;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use teak_base::latency::Latencies;

/// Statistics of an engine. Fields marked *count* only grow while the engine is
/// open; the others are values at the moment of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStatistics {
    /// The memory budget, in bytes.
    pub cache_bytes_limit: u64,
    /// Memory of the page cache and the memtables, in bytes.
    pub cache_bytes_used: u64,
    /// All memory of the engine, in bytes: of the parts that have counters and, if
    /// the engine has its own allocator, of everything else.
    pub memory_bytes: u64,
    /// Memory of pages, index blocks and separate values that cursors and merges use and that are
    /// not in the page cache, in bytes.
    pub uncached_block_bytes: u64,
    /// Memory of the nodes of open trees, in bytes.
    pub node_bytes: u64,
    /// The nodes' share of the budget, in bytes.
    pub node_bytes_limit: u64,
    /// Nodes of open trees in memory.
    pub nodes_in_memory: u64,
    /// Nodes read from index files when they were needed. *Count.*
    pub node_reads: u64,
    /// Nodes evicted from memory. *Count.*
    pub node_evictions: u64,
    /// Memory of the buffers of the log, in bytes.
    pub log_buffer_bytes: u64,
    /// Memory that is reserved for sorts, in bytes.
    pub sort_bytes: u64,
    /// Memory of dropped memtables that is kept for later memtables, in bytes.
    pub memtable_spare_bytes: u64,
    /// Memory of the page cache, in bytes.
    pub page_cache_bytes: u64,
    /// The page cache's share of the budget, in bytes.
    pub page_cache_bytes_limit: u64,
    /// Memory of all memtables, in bytes.
    pub memtable_bytes: u64,
    /// Memory of frozen memtables, which wait to be flushed, in bytes.
    pub memtable_frozen_bytes: u64,
    /// Memory of flushed memtables that readers still use, in bytes.
    pub memtable_retired_bytes: u64,
    /// The memtables' share of the budget, in bytes.
    pub memtable_bytes_limit: u64,
    /// Lookups in the page cache that found the block. *Count.*
    pub cache_hits: u64,
    /// Lookups in the page cache that did not find the block. *Count.*
    pub cache_misses: u64,
    /// Blocks read from index files. *Count.*
    pub blocks_read: u64,
    /// Blocks that the operating system was asked to read from index files before they were needed.
    /// *Count.*
    pub blocks_prefetched: u64,
    /// Blocks written to index files. *Count.*
    pub blocks_written: u64,
    /// Bytes read from index files. *Count.*
    pub bytes_read: u64,
    /// Bytes written to index files. *Count.*
    pub bytes_written: u64,
    /// Syncs of index files. *Count.*
    pub data_syncs: u64,
    /// Length of the index files of open tables, in bytes.
    pub file_bytes: u64,
    /// Bytes of the live blocks in these files.
    pub live_bytes: u64,
    /// Bytes of the free extents in these files, which later writes use.
    pub free_bytes: u64,
    /// Bytes of freed blocks in these files that are pinned by readers.
    pub pinned_bytes: u64,
    /// Bytes of blocks moved to make files smaller. *Count.*
    pub bytes_moved: u64,
    /// Time that background jobs waited because of the limit of their I/O, or for reads of
    /// statements, in microseconds. *Count.*
    pub io_throttled_microseconds: u64,
    /// Bytes that jobs which settle old write ids have read and written. *Count.*
    pub settled_bytes: u64,
    /// Bytes that compaction in idle time and after rollbacks has read and written. *Count.*
    pub idle_compaction_bytes: u64,
    /// Bytes that the threads of statements have read and written to rewrite tables within the limit of
    /// background jobs. *Count.*
    pub rebuilding_bytes: u64,
    /// Bytes of log records, before compression. *Count.*
    pub log_bytes_appended: u64,
    /// Bytes written to log files. *Count.*
    pub log_bytes_written: u64,
    /// Size of the log files that are kept, in bytes.
    pub log_bytes_kept: u64,
    /// Size of the log as its bound counts it, in bytes: of its files, or of the
    /// uncompressed records that recovery would read, if that is more.
    pub log_bytes_used: u64,
    /// The bound of the log's size, in bytes.
    pub log_bytes_limit: u64,
    /// Times that writers were slowed because the log was long. *Count.*
    pub log_slowdowns: u64,
    /// Times that a writer was stopped because the log had reached its bound.
    /// *Count.*
    pub log_stops: u64,
    /// Total time during which at least one writer was stopped because of the log's
    /// bound, in microseconds. *Count.*
    pub log_stop_microseconds: u64,
    /// Times of commits with writes. *Counts.*
    pub commit_times: Latencies,
    /// Times of the statements that were reported by [`Engine::count_statement`]. *Counts.*
    pub statement_times: Latencies,
    /// Syncs of the log. *Count.*
    pub log_syncs: u64,
    /// Commit records appended. *Count.*
    pub log_commits: u64,
    /// Flush and merge jobs completed. *Count.*
    pub flushes: u64,
    /// Uncompressed bytes of the entries that these jobs wrote. *Count.*
    pub flush_bytes_uncompressed: u64,
    /// Bytes that these jobs stored on disk. *Count.*
    pub flush_bytes_written: u64,
    /// Flush and merge jobs that failed. *Count.*
    pub flush_failures: u64,
    /// Threads that took parts of large flushes from the thread of the job. *Count.*
    pub flush_helpers: u64,
    /// Rounds of checkpoints completed. *Count.*
    pub checkpoints: u64,
    /// Checkpoints of index files completed. *Count.*
    pub checkpointed_indexes: u64,
    /// Checkpoints of index files that failed. *Count.*
    pub checkpoint_failures: u64,
    /// Duration of the last round of checkpoints, in microseconds.
    pub checkpoint_microseconds_last: u64,
    /// Duration of the longest round of checkpoints, in microseconds.
    pub checkpoint_microseconds_max: u64,
    /// Longest time that freezing a memtable or installing the result of a flush
    /// waited for locks, in microseconds.
    pub freeze_wait_microseconds_max: u64,
    /// Compaction debt: bytes of upper runs in children where flushes or merges are due.
    pub pending_flush_bytes: u64,
    /// Number of checks of a key against a filter. *Count.*
    pub filter_checks: u64,
    /// Checks in which the filter excluded the key, so that no page was read. *Count.*
    pub filter_negatives: u64,
    /// Times that a writer was delayed, stops included. *Count.*
    pub writer_stalls: u64,
    /// Total time that writers were delayed, stops included, in microseconds. *Count.*
    pub writer_stall_microseconds: u64,
    /// The longest delay of a writer, in microseconds.
    pub writer_stall_longest_microseconds: u64,
    /// Times that a writer stopped because a bound was reached. *Count.*
    pub writer_stops: u64,
    /// Writers that are stopped now.
    pub writers_stopped: u64,
    /// Delays of writers because of memory.
    pub delays_memory: DelayCounts,
    /// Delays of writers because an index has much to merge.
    pub delays_debt: DelayCounts,
    /// Delays of writers because a child of an index has many runs.
    pub delays_runs: DelayCounts,
    /// Delays of writers because of the length of the log.
    pub delays_log: DelayCounts,
    /// Delays of writers because of the number of aborted write ids.
    pub delays_aborted: DelayCounts,
    /// Maximum number of upper runs of one child, in all open indexes.
    pub child_runs_max: u64,
    /// Lock requests that had to wait. *Count.*
    pub lock_waits: u64,
    /// Lock waits that timed out. *Count.*
    pub lock_timeouts: u64,
    /// Deadlocks found; in each, the wait of one transaction failed. *Count.*
    pub deadlocks: u64,
    /// Writes and locking reads that failed because the row had changed after the snapshot.
    /// *Count.*
    pub snapshot_conflicts: u64,
    /// Memory of row and range locks, in bytes.
    pub lock_bytes: u64,
    /// Limit of the memory for locks, in bytes.
    pub lock_bytes_limit: u64,
    /// Times that the row locks or the range locks of a transaction in an index were replaced by
    /// ranges. *Count.*
    pub lock_escalations: u64,
    /// Lock requests refused because the memory for locks was full. *Count.*
    pub lock_refusals: u64,
    /// Explicit row locks that are held.
    pub row_locks: u64,
    /// Snapshots in use.
    pub snapshots: u64,
    /// Memory of the table of write ids, in bytes.
    pub write_id_bytes: u64,
    /// Number of write ids since the oldest one that is active or that some snapshot does not see.
    pub write_ids_unsettled: u64,
    /// Chunks of the table of write ids in which each id has a slot.
    pub write_id_chunks: u64,
    /// Smaller pieces of the table of write ids, which have replaced such chunks.
    pub write_id_pieces: u64,
    /// The next write id.
    pub next_write_id: u64,
    /// Open transactions.
    pub transactions_active: u64,
    /// Transactions that wait for a lock.
    pub transactions_waiting: u64,
    /// Transactions committed. *Count.*
    pub transactions_committed: u64,
    /// Transactions rolled back. *Count.*
    pub transactions_rolled_back: u64,
    /// Rows inserted. *Count.*
    pub rows_inserted: u64,
    /// Bulk loads that were finished. *Count.*
    pub bulk_loads: u64,
    /// Rows that bulk loads have inserted; also in `rows_inserted`. *Count.*
    pub bulk_load_rows: u64,
    /// Rows updated. *Count.*
    pub rows_updated: u64,
    /// Rows deleted. *Count.*
    pub rows_deleted: u64,
    /// Tables that exist, temporary ones included.
    pub tables: u64,
    /// Tables whose files are open.
    pub open_tables: u64,
    /// Indexes of open tables.
    pub indexes: u64,
    /// Log records replayed when the engine was opened.
    pub recovered_records: u64,
    /// Aborted write ids whose entries may still be in an index.
    pub aborted_ids: u64,
    /// Ranges of these ids, without those among the newest ids.
    pub aborted_ranges: u64,
    /// The number of such ranges at which writers stop.
    pub aborted_ranges_limit: u64,
    /// Tables that cannot be used until their files can be read.
    pub unavailable_tables: u64,
    /// Tables that reject writes because one of their files cannot be written.
    pub read_only_tables: u64,
    /// Bytes of the log records that are retained for unavailable and read-only tables.
    pub retained_bytes: u64,
    /// Index files in the directory `#teak_orphans` when the engine was opened.
    pub orphan_files: u64,
    /// Bytes of these files.
    pub orphan_bytes: u64,
}

impl EngineStatistics {
    /// Delays of writers by cause.
    #[must_use]
    pub fn delays(&self, cause: DelayCause) -> DelayCounts {
        match cause {
            DelayCause::Memory => self.delays_memory,
            DelayCause::Debt => self.delays_debt,
            DelayCause::Runs => self.delays_runs,
            DelayCause::Log => self.delays_log,
            DelayCause::Aborted => self.delays_aborted,
        }
    }
}

/// The indexes of all open tables, with the names of the tables.
pub(crate) fn open_indexes(tables: &Mutex<Tables>) -> Vec<(Arc<str>, Arc<Index>)> {
    let slots: Vec<_> = {
        let tables = tables.lock();
        let states = tables.by_id.values();
        states.map(|state| Arc::clone(&state.slot)).collect()
    };
    let mut open = Vec::new();
    for slot in slots {
        // Skips a table whose slot another thread has locked, for example to open its files.
        let table = slot.try_lock().and_then(|slot| slot.clone());
        if let Some(table) = table
            && let Some(indexes) = table.open_indexes()
        {
            let name = table.name();
            for index in indexes.iter() {
                open.push((Arc::clone(&name), Arc::clone(index)));
            }
        }
    }
    open
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// # Monitoring
impl Engine {
    /// Counts a statement of a database server, which took `time`, for
    /// [`EngineStatistics::statement_times`].
    pub fn count_statement(&self, time: Duration) {
        self.core.counts.statement_times.record(time);
    }

    /// Statistics of the engine.
    #[must_use]
    pub fn statistics(&self) -> EngineStatistics {
        let mut statistics = EngineStatistics::default();
        self.add_memory(&mut statistics);
        self.add_log(&mut statistics);
        self.add_flushing(&mut statistics);
        self.add_transactions(&mut statistics);
        self.add_files(&mut statistics);
        statistics
    }

    fn add_memory(&self, statistics: &mut EngineStatistics) {
        let core = &self.core;
        let cache = core.files.cache.statistics();
        let memtables = core.files.cache.memtables().used();
        let memory = core.memory().measure();
        statistics.memory_bytes = memory.total();
        statistics.uncached_block_bytes = memory.uncached_blocks;
        statistics.node_bytes = memory.nodes;
        let nodes = core.files.cache.nodes().statistics();
        statistics.node_bytes_limit = nodes.bytes_max;
        statistics.nodes_in_memory = nodes.loaded;
        statistics.node_reads = nodes.reads;
        statistics.node_evictions = nodes.evictions;
        statistics.log_buffer_bytes = memory.log;
        statistics.sort_bytes = memory.sorts;
        statistics.memtable_spare_bytes = memory.memtables_spare;
        statistics.cache_bytes_limit = core.budget.total();
        statistics.cache_bytes_used = cache.bytes + memtables.total();
        statistics.page_cache_bytes = cache.bytes;
        statistics.page_cache_bytes_limit = cache.capacity_bytes;
        statistics.memtable_bytes = memtables.total();
        statistics.memtable_frozen_bytes = memtables.frozen;
        statistics.memtable_retired_bytes = memtables.retired;
        statistics.memtable_bytes_limit = core.budget.memtable_quota();
        statistics.cache_hits = cache.hits;
        statistics.cache_misses = cache.misses;
        statistics.filter_checks = cache.filter_checks;
        statistics.filter_negatives = cache.filter_negatives;
        let freezes = core.files.cache.lock_times().freezes();
        statistics.freeze_wait_microseconds_max = freezes.longest_microseconds;
    }

    fn add_log(&self, statistics: &mut EngineStatistics) {
        let log = self.core.log.statistics();
        let counts = &self.core.counts;
        statistics.log_bytes_appended = log.raw_bytes;
        statistics.log_bytes_written = log.written_bytes;
        statistics.log_bytes_kept = log.segments_bytes;
        statistics.log_syncs = log.syncs;
        statistics.commit_times = counts.commit_times.read();
        statistics.statement_times = counts.statement_times.read();
        let used = self.core.log.log_use();
        statistics.log_bytes_used = used.bytes;
        statistics.log_bytes_limit = used.bytes_max;
        let stalls = &self.core.log_stalls;
        statistics.log_slowdowns = load(&stalls.slowdowns);
        statistics.log_stops = self.core.delays.counts(DelayCause::Log).stops;
        let stopped = stalls.stopped().as_micros();
        statistics.log_stop_microseconds = u64::try_from(stopped).unwrap_or(u64::MAX);
        statistics.log_commits = load(&counts.log_commits);
        let checkpoints = &self.core.checkpoints;
        statistics.checkpoints = load(&checkpoints.rounds);
        statistics.checkpointed_indexes = load(&checkpoints.indexes);
        statistics.checkpoint_failures = load(&checkpoints.failures);
        statistics.checkpoint_microseconds_last = load(&checkpoints.last_microseconds);
        statistics.checkpoint_microseconds_max = load(&checkpoints.longest_microseconds);
        statistics.recovered_records = load(&counts.recovered_records);
    }

    fn add_flushing(&self, statistics: &mut EngineStatistics) {
        let counts = &self.core.counts;
        statistics.flushes = load(&counts.flushes);
        statistics.flush_bytes_uncompressed = load(&counts.flush_bytes_uncompressed);
        statistics.flush_bytes_written = load(&counts.flush_bytes_written);
        statistics.flush_failures = load(&counts.flush_failures);
        statistics.flush_helpers = load(&self.core.job_threads.helpers);
        let io = self.core.pacer.counts();
        statistics.io_throttled_microseconds = io.throttled_microseconds;
        statistics.settled_bytes = io.settled_bytes;
        statistics.idle_compaction_bytes = io.idle_compaction_bytes;
        statistics.rebuilding_bytes = io.rebuilding_bytes;
        let delays = &self.core.delays;
        statistics.delays_memory = delays.counts(DelayCause::Memory);
        statistics.delays_debt = delays.counts(DelayCause::Debt);
        statistics.delays_runs = delays.counts(DelayCause::Runs);
        statistics.delays_log = delays.counts(DelayCause::Log);
        statistics.delays_aborted = delays.counts(DelayCause::Aborted);
        for cause in DelayCause::ALL {
            let counts = statistics.delays(cause);
            statistics.writer_stalls += counts.times.count();
            statistics.writer_stall_microseconds += counts.times.total_microseconds;
            statistics.writer_stops += counts.stops;
            statistics.writers_stopped += counts.stopped_now;
            let longest = &mut statistics.writer_stall_longest_microseconds;
            *longest = (*longest).max(counts.times.longest_microseconds);
        }
    }

    fn add_transactions(&self, statistics: &mut EngineStatistics) {
        let transactions = &self.core.transactions;
        let found = transactions.counts();
        statistics.lock_waits = found.lock_waits;
        statistics.lock_timeouts = found.lock_timeouts;
        statistics.deadlocks = found.deadlocks;
        statistics.lock_bytes = found.lock_bytes;
        statistics.lock_bytes_limit = found.lock_bytes_max;
        statistics.lock_escalations = found.lock_escalations;
        statistics.lock_refusals = found.lock_refusals;
        statistics.row_locks = transactions.locks().count();
        statistics.snapshots = transactions.snapshots().count();
        statistics.transactions_active = found.active;
        statistics.transactions_waiting = found.waiting;
        statistics.transactions_committed = found.committed;
        statistics.transactions_rolled_back = found.rolled_back;
        let ids = transactions.ids().counts();
        statistics.write_id_bytes = ids.bytes;
        statistics.write_ids_unsettled = ids.unsettled;
        statistics.write_id_chunks = ids.whole_chunks;
        statistics.write_id_pieces = ids.pieces;
        statistics.next_write_id = transactions.ids().next().0;
        statistics.aborted_ids = ids.aborted;
        statistics.aborted_ranges = ids.aborted_ranges;
        statistics.aborted_ranges_limit = self.core.options.aborted_ranges_max;
        let retained = &self.core.retained;
        statistics.unavailable_tables = retained.unavailable_tables();
        statistics.read_only_tables = load(&retained.read_only_tables);
        statistics.retained_bytes = retained.bytes();
        statistics.orphan_files = load(&retained.orphan_files);
        statistics.orphan_bytes = load(&retained.orphan_bytes);
        let counts = &self.core.counts;
        statistics.snapshot_conflicts = load(&counts.conflicts);
        statistics.rows_inserted = load(&counts.rows_inserted);
        statistics.bulk_loads = load(&counts.bulk_loads);
        statistics.bulk_load_rows = load(&counts.bulk_load_rows);
        statistics.rows_updated = load(&counts.rows_updated);
        statistics.rows_deleted = load(&counts.rows_deleted);
    }

    /// Adds the counts of open and closed files, and the sizes of open ones.
    fn add_files(&self, statistics: &mut EngineStatistics) {
        let counts = self.core.files.counts.sum();
        statistics.tables = self.core.tables.lock().by_id.len() as u64;
        statistics.blocks_read = counts.blocks_read;
        statistics.blocks_prefetched = counts.blocks_prefetched;
        statistics.blocks_written = counts.blocks_written;
        statistics.bytes_read = counts.bytes_read;
        statistics.bytes_written = counts.bytes_written;
        statistics.data_syncs = counts.syncs;
        statistics.bytes_moved = counts.bytes_moved;
        let mut last_table: Option<Arc<str>> = None;
        for (table, index) in open_indexes(&self.core.tables) {
            statistics.indexes += 1;
            if last_table.as_ref() != Some(&table) {
                statistics.open_tables += 1;
                last_table = Some(table);
            }
            let file = index.tree.file_statistics();
            statistics.file_bytes += file.file_bytes;
            statistics.live_bytes += file.live_bytes;
            statistics.free_bytes += file.free_bytes;
            statistics.pinned_bytes += file.pinned_bytes;
            let backlog = index.tree.backlog();
            statistics.pending_flush_bytes += backlog.due_bytes;
            statistics.child_runs_max = statistics.child_runs_max.max(backlog.child_runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Codec, EngineOptions, FilterKeys, IndexDefinition, IndexNumber, Isolation, RowEntry,
        TableDefinition,
    };
    use teak_disk::MemoryDisk;

    #[test]
    fn counts_of_files_include_tables_that_another_thread_is_using() {
        let mut options = EngineOptions::new("/data");
        options.background_threads = 0;
        let engine = Engine::open(Arc::new(MemoryDisk::new()), options).expect("a new engine");
        let rows = IndexDefinition {
            label: "rows".into(),
            codec: Codec::None,
            page_bytes: 0,
            encryption_key: None,
            filter_keys: FilterKeys::Whole,
            value_fixed_bytes: 0,
            columns: Default::default(),
        };
        let definition = TableDefinition {
            name: "./db/t".into(),
            indexes: vec![rows],
            metadata: Vec::new(),
        };
        engine.create_table(&definition).expect("a new name");
        let table = engine.open_table("./db/t").expect("it exists");
        let row = RowEntry {
            index: IndexNumber::ROWS,
            unique: true,
            key: b"key",
            value: b"value",
        };
        let mut transaction = engine.begin(Isolation::ReadCommitted);
        transaction.insert(&table, &[row]).expect("no conflict");
        transaction.commit().expect("no disk errors");
        engine.checkpoint().expect("no disk errors");
        let before = engine.statistics();
        let slot = crate::core::opening::slot_of(&engine.core.tables, table.table.id);
        let slot = slot.expect("it exists");
        let _opening = slot.lock();
        let now = engine.statistics();
        assert!(before.blocks_written > 0 && before.data_syncs > 0);
        assert_eq!(now.blocks_written, before.blocks_written);
        assert_eq!(now.data_syncs, before.data_syncs);
    }
}
