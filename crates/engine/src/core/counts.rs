//! Counts since the engine was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::latency::StripedHistogram;
use teak_tree::FlushReport;

/// Rows written by one transaction since they were last added to the counts.
#[derive(Debug, Default)]
pub(crate) struct RowCounts {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// Counts since the engine was opened. The log, the page cache, the index
/// files and the transaction manager have separate counts.
#[derive(Debug, Default)]
pub(crate) struct EngineCounts {
    pub rows_inserted: AtomicU64,
    pub rows_updated: AtomicU64,
    pub rows_deleted: AtomicU64,
    pub bulk_loads: AtomicU64,
    pub bulk_load_rows: AtomicU64,
    pub log_commits: AtomicU64,
    /// Times of logging and syncing commits.
    pub commit_times: StripedHistogram,
    /// Times of statements of the server.
    pub statement_times: StripedHistogram,
    pub flushes: AtomicU64,
    pub flush_bytes_uncompressed: AtomicU64,
    pub flush_bytes_written: AtomicU64,
    pub flush_failures: AtomicU64,
    /// How often a flush or a checkpoint has failed because a disk was full.
    pub full_disks: AtomicU64,
    pub recovered_records: AtomicU64,
    /// Writes and locks refused because the row had changed after the snapshot.
    pub conflicts: AtomicU64,
}

impl EngineCounts {
    pub(crate) fn add_flush(&self, report: &FlushReport) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_bytes_uncompressed
            .fetch_add(report.raw_bytes_written, Ordering::Relaxed);
        self.flush_bytes_written
            .fetch_add(report.stored_bytes_written, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: &RowCounts) {
        for (count, new) in [
            (&self.rows_inserted, rows.inserted),
            (&self.rows_updated, rows.updated),
            (&self.rows_deleted, rows.deleted),
        ] {
            if new > 0 {
                count.fetch_add(new, Ordering::Relaxed);
            }
        }
    }
}
