//! Statistics.

/// Declares the statistics once: their documentation, names, and conversion.
macro_rules! statistics {
    ($(#[$outer:meta])* $name:ident from $source:ty { $($(#[$doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl From<$source> for $name {
            fn from(found: $source) -> Self {
                Self { $($field: found.$field,)* }
            }
        }
    };
}

statistics! {
    /// Counts since the database was opened, and sizes now.
    ///
    /// ```
    /// # fn main() -> teak::Result<()> {
    /// # let db = teak::Database::in_memory()?;
    /// db.table("t")?.insert("key", "value")?;
    /// assert_eq!(db.statistics().rows_inserted, 1);
    /// # Ok(())
    /// # }
    /// ```
    Statistics from teak_engine::EngineStatistics {
        /// Memory budget in bytes.
        cache_bytes_limit,
        /// Bytes of it in use.
        cache_bytes_used,
        /// Bytes in use by memtables.
        memtable_bytes,
        /// Page reads that found the page in the cache.
        cache_hits,
        /// Page reads that did not.
        cache_misses,
        /// Blocks read from index files.
        blocks_read,
        /// Blocks written to index files.
        blocks_written,
        /// Bytes read from index files.
        bytes_read,
        /// Bytes written to index files.
        bytes_written,
        /// Syncs of index files.
        data_syncs,
        /// Bytes of log records before compression.
        log_bytes_appended,
        /// Bytes written to the log.
        log_bytes_written,
        /// Syncs of the log.
        log_syncs,
        /// Commit records.
        log_commits,
        /// Flush and merge jobs completed.
        flushes,
        /// Bytes that these jobs wrote, before compression.
        flush_bytes_in,
        /// Bytes that these jobs wrote to files.
        flush_bytes_out,
        /// Checkpoints.
        checkpoints,
        /// Compaction debt: uncompressed bytes that are due to be merged into a lower level.
        pending_flush_bytes,
        /// Filter checks.
        filter_checks,
        /// Filter checks that avoided a read.
        filter_negatives,
        /// Writes that were delayed by backpressure.
        writer_stalls,
        /// Total time of these delays, in microseconds.
        writer_stall_microseconds,
        /// Lock waits.
        lock_waits,
        /// Lock waits that timed out.
        lock_timeouts,
        /// Deadlocks.
        deadlocks,
        /// Transactions that wait for a lock now.
        transactions_waiting,
        /// Writes and locks refused because the row had changed after the transaction's snapshot.
        snapshot_conflicts,
        /// Explicit row locks that are held.
        row_locks,
        /// Memory of row and range locks, in bytes.
        lock_bytes,
        /// Limit of that memory, in bytes.
        lock_bytes_limit,
        /// Times that the row locks of a transaction in an index were replaced by a range lock.
        lock_escalations,
        /// Locks refused because of the memory limit.
        lock_refusals,
        /// Transactions that run now.
        transactions_active,
        /// Committed transactions with writes.
        transactions_committed,
        /// Rolled back transactions with writes.
        transactions_rolled_back,
        /// Rows inserted, committed or not.
        rows_inserted,
        /// Rows updated.
        rows_updated,
        /// Rows deleted.
        rows_deleted,
        /// Open tables.
        open_tables,
        /// Indexes of open tables.
        indexes,
        /// Log records replayed when the engine was opened.
        recovered_records,
        /// Write ids of rolled back transactions whose entries are not yet removed.
        aborted_ids,
    }
}

statistics! {
    /// Sizes of one index of a table.
    IndexStatistics from teak_engine::IndexStatistics {
        /// Estimated number of live entries.
        entries,
        /// Size of the file in bytes.
        disk_bytes,
        /// Bytes of the entries on disk before compression.
        raw_bytes,
        /// Bytes in memory that have not been flushed.
        memtable_bytes,
        /// Number of levels of the tree.
        height,
        /// Number of sorted runs.
        runs,
        /// Number of delete markers on disk.
        tombstones,
    }
}
