//! Counts since the engine was opened, and sizes at one moment.

use crate::core::index::Index;
use crate::core::tables::Tables;
use crate::engine::Engine;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the engine was opened, and sizes at one moment.
#[allow(missing_docs)] // The names say it; see SHOW STATUS in the manual.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    pub cache_bytes_limit: u64,
    pub cache_bytes_used: u64,
    pub page_cache_bytes: u64,
    pub page_cache_bytes_limit: u64,
    pub memtable_bytes: u64,
    pub memtable_frozen_bytes: u64,
    pub memtable_bytes_limit: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub blocks_read: u64,
    pub blocks_written: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub data_syncs: u64,
    pub log_bytes_appended: u64,
    pub log_bytes_written: u64,
    pub log_bytes_kept: u64,
    pub log_syncs: u64,
    pub log_commits: u64,
    pub flushes: u64,
    pub flush_bytes_in: u64,
    pub flush_bytes_out: u64,
    pub flush_failures: u64,
    pub checkpoints: u64,
    pub pending_flush_bytes: u64,
    pub filter_checks: u64,
    pub filter_negatives: u64,
    pub writer_stalls: u64,
    pub writer_stall_microseconds: u64,
    pub lock_waits: u64,
    pub lock_timeouts: u64,
    pub deadlocks: u64,
    pub snapshot_conflicts: u64,
    pub lock_bytes: u64,
    pub lock_bytes_limit: u64,
    pub lock_escalations: u64,
    pub lock_refusals: u64,
    pub row_locks: u64,
    pub snapshots: u64,
    pub write_id_table_bytes: u64,
    pub transactions_active: u64,
    pub transactions_waiting: u64,
    pub transactions_committed: u64,
    pub transactions_rolled_back: u64,
    pub rows_inserted: u64,
    pub rows_updated: u64,
    pub rows_deleted: u64,
    pub tables: u64,
    pub open_tables: u64,
    pub indexes: u64,
    pub recovered_records: u64,
    pub aborted_ids: u64,
}

/// The open indexes of all tables, with the names of their tables.
pub(crate) fn open_indexes(tables: &Mutex<Tables>) -> Vec<(Arc<str>, Arc<Index>)> {
    let slots: Vec<_> = {
        let tables = tables.lock();
        tables
            .by_id
            .values()
            .map(|state| Arc::clone(&state.slot))
            .collect()
    };
    let mut open = Vec::new();
    for slot in slots {
        // A table that is being opened now is left out.
        let table = slot.try_lock().and_then(|slot| slot.clone());
        if let Some(table) = table {
            let name = table.name();
            for index in table.indexes.load().iter() {
                open.push((Arc::clone(&name), Arc::clone(index)));
            }
        }
    }
    open
}

impl Engine {
    /// Counts and sizes.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let core = &self.core;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &core.counts;
        let cache = core.files.cache.statistics();
        let log = core.log.statistics();
        let transactions = core.transactions.counts();
        let memtables = core.written.memtable_use();
        let mut found = Statistics {
            cache_bytes_limit: core.budget.total(),
            cache_bytes_used: cache.bytes + memtables.active + memtables.frozen,
            page_cache_bytes: cache.bytes,
            page_cache_bytes_limit: core.budget.page_cache_bytes(),
            memtable_bytes: memtables.active + memtables.frozen,
            memtable_frozen_bytes: memtables.frozen,
            memtable_bytes_limit: core.budget.memtable_quota(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            blocks_read: load(&counts.closed.blocks_read),
            blocks_written: load(&counts.closed.blocks_written),
            bytes_read: load(&counts.closed.bytes_read),
            bytes_written: load(&counts.closed.bytes_written),
            data_syncs: load(&counts.closed.syncs),
            log_bytes_appended: log.raw_bytes,
            log_bytes_written: log.written_bytes,
            log_bytes_kept: log.segments_bytes,
            log_syncs: log.syncs,
            log_commits: load(&counts.log_commits),
            flushes: load(&counts.flushes),
            flush_bytes_in: load(&counts.flush_bytes_in),
            flush_bytes_out: load(&counts.flush_bytes_out),
            flush_failures: load(&counts.flush_failures),
            checkpoints: load(&counts.checkpoints),
            filter_checks: cache.filter_checks,
            filter_negatives: cache.filter_negatives,
            writer_stalls: load(&core.budget.stalls),
            writer_stall_microseconds: load(&core.budget.stall_microseconds),
            lock_waits: transactions.lock_waits,
            lock_timeouts: transactions.lock_timeouts,
            deadlocks: transactions.deadlocks,
            snapshot_conflicts: load(&counts.conflicts),
            lock_bytes: transactions.lock_bytes,
            lock_bytes_limit: transactions.lock_bytes_max,
            lock_escalations: transactions.lock_escalations,
            lock_refusals: transactions.lock_refusals,
            row_locks: core.transactions.locks().count(),
            snapshots: core.transactions.snapshots().count(),
            write_id_table_bytes: core.transactions.ids().memory_bytes(),
            transactions_active: transactions.active,
            transactions_waiting: transactions.waiting,
            transactions_committed: transactions.committed,
            transactions_rolled_back: transactions.rolled_back,
            rows_inserted: load(&counts.rows_inserted),
            rows_updated: load(&counts.rows_updated),
            rows_deleted: load(&counts.rows_deleted),
            tables: core.tables.lock().by_id.len() as u64,
            recovered_records: load(&counts.recovered_records),
            aborted_ids: core.transactions.ids().aborted_settled() as u64,
            ..Statistics::default()
        };
        let mut last_table: Option<Arc<str>> = None;
        for (table, index) in open_indexes(&core.tables) {
            found.indexes += 1;
            if last_table.as_ref() != Some(&table) {
                found.open_tables += 1;
                last_table = Some(table);
            }
            let file = index.tree.file_statistics();
            found.blocks_read += file.blocks_read;
            found.blocks_written += file.blocks_written;
            found.bytes_read += file.bytes_read;
            found.bytes_written += file.bytes_written;
            found.data_syncs += file.syncs;
            found.pending_flush_bytes += index.tree.pending_work_bytes();
        }
        found
    }
}
