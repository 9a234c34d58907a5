//! Counts of a tree's jobs and checkpoints.

use crate::{FlushReport, JobKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the tree was opened.
#[derive(Debug, Default)]
pub(crate) struct TreeCounters {
    pub(crate) memtable_flushes: AtomicU64,
    pub(crate) child_flushes: AtomicU64,
    pub(crate) leaf_merges: AtomicU64,
    pub(crate) other_jobs: AtomicU64,
    pub(crate) entries_merged: AtomicU64,
    pub(crate) raw_bytes_flushed: AtomicU64,
    pub(crate) raw_bytes_loaded: AtomicU64,
    pub(crate) raw_bytes_written: AtomicU64,
    /// The part of `raw_bytes_written` that jobs wrote although they were not due.
    pub(crate) raw_bytes_optional: AtomicU64,
    pub(crate) stored_bytes_written: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

impl TreeCounters {
    pub(crate) fn count(&self, kind: JobKind, report: &FlushReport) {
        let add = |counter: &AtomicU64, count: u64| {
            counter.fetch_add(count, Ordering::Relaxed);
        };
        let jobs = match kind {
            JobKind::Memtable => &self.memtable_flushes,
            JobKind::Child => &self.child_flushes,
            JobKind::Leaf => &self.leaf_merges,
            JobKind::Consolidate | JobKind::Mark | JobKind::Relocate => &self.other_jobs,
        };
        add(jobs, 1);
        if kind == JobKind::Memtable {
            add(&self.raw_bytes_flushed, report.raw_bytes_written);
        }
        add(&self.entries_merged, report.entries_read);
        add(&self.raw_bytes_written, report.raw_bytes_written);
        add(&self.stored_bytes_written, report.stored_bytes_written);
    }

    /// Counts a job that was not due, in addition to [`TreeCounters::count`].
    pub(crate) fn count_optional(&self, report: &FlushReport) {
        self.raw_bytes_optional
            .fetch_add(report.raw_bytes_written, Ordering::Relaxed);
    }
}
