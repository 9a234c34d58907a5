//! Counts since the engine was opened.

use crate::transaction::RowCounts;
use teak_tree::FlushReport;
use std::sync::atomic::{AtomicU64, Ordering};

/// The engine's own counts; those of its parts are asked of them.
#[derive(Debug, Default)]
pub(crate) struct EngineCounts {
    pub rows_inserted: AtomicU64,
    pub rows_updated: AtomicU64,
    pub rows_deleted: AtomicU64,
    pub log_commits: AtomicU64,
    pub flushes: AtomicU64,
    pub flush_bytes_in: AtomicU64,
    pub flush_bytes_out: AtomicU64,
    pub flush_failures: AtomicU64,
    pub checkpoints: AtomicU64,
    pub recovered_records: AtomicU64,
}

impl EngineCounts {
    pub(crate) fn add_flush(&self, report: &FlushReport) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flush_bytes_in
            .fetch_add(report.raw_bytes_written, Ordering::Relaxed);
        self.flush_bytes_out
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
