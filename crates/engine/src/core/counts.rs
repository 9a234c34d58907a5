//! Counts since the engine was opened.

use super::index::Index;
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

/// Counts since the engine was opened. The log, the page cache and the
/// transaction manager have separate counts.
#[derive(Debug, Default)]
pub(crate) struct EngineCounts {
    pub rows_inserted: AtomicU64,
    pub rows_updated: AtomicU64,
    pub rows_deleted: AtomicU64,
    pub log_commits: AtomicU64,
    /// Times of logging and syncing commits.
    pub commit_times: StripedHistogram,
    /// Times of statements of the server.
    pub statement_times: StripedHistogram,
    pub flushes: AtomicU64,
    pub flush_bytes_uncompressed: AtomicU64,
    pub flush_bytes_written: AtomicU64,
    pub flush_failures: AtomicU64,
    pub recovered_records: AtomicU64,
    /// Writes and locks refused because the row had changed after the snapshot.
    pub conflicts: AtomicU64,
    /// Counts of files that were closed.
    pub closed: ClosedFiles,
}

#[derive(Debug, Default)]
pub(crate) struct ClosedFiles {
    pub blocks_read: AtomicU64,
    pub blocks_written: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    pub bytes_moved: AtomicU64,
    pub syncs: AtomicU64,
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

    /// Adds the counts of a file that is being closed or dropped.
    pub(crate) fn add_closed(&self, index: &Index) {
        let file = index.tree.file_statistics();
        for (count, new) in [
            (&self.closed.blocks_read, file.blocks_read),
            (&self.closed.blocks_written, file.blocks_written),
            (&self.closed.bytes_read, file.bytes_read),
            (&self.closed.bytes_written, file.bytes_written),
            (&self.closed.bytes_moved, file.bytes_moved),
            (&self.closed.syncs, index.data_syncs(file.syncs)),
        ] {
            count.fetch_add(new, Ordering::Relaxed);
        }
    }
}
