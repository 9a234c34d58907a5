//! Compaction in idle time, and after large rollbacks.

use super::flusher::FlushContext;
use crate::core::index::Index;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{CommitSequence, FileId, Lsn};
use teak_tree::FlushJob;

/// Time without writes after which trees are compacted even if no job is due.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Indexes that one call examines.
const EXAMINED_MAX: usize = 256;

/// Detects idle time and chooses compaction jobs for it. Indexes of which a
/// large part was rolled back are compacted without waiting for idle time.
pub(super) struct IdleCompaction {
    log_end: Lsn,
    since: Instant,
    /// The oldest snapshot at the time when nothing was left to compact. A write or the end of this
    /// snapshot can make more compaction possible.
    finished: Option<CommitSequence>,
    /// The file that was examined last in this idle time.
    last: Option<FileId>,
}

impl IdleCompaction {
    pub(super) fn new() -> Self {
        Self {
            log_end: Lsn(0),
            since: Instant::now(),
            finished: None,
            last: None,
        }
    }

    pub(super) fn next_job(
        &mut self,
        context: &FlushContext<'_>,
    ) -> Option<(Arc<Index>, FlushJob)> {
        let end = context.log.end();
        if end != self.log_end {
            self.log_end = end;
            self.since = Instant::now();
            self.finished = None;
            self.last = None;
        }
        let now = Instant::now();
        for index in context.work.marked() {
            if !index.may_try(now) {
                continue;
            }
            let horizon = context.transactions.horizon();
            let job = index.tree.next_idle_job(&horizon);
            if let Some(job) = context.found(&index, job) {
                return Some((index, job));
            }
            // If the tree is not fully merged, running jobs may lead to more work.
            if index.tree.is_fully_merged() {
                context.work.compacted(&index);
            }
        }
        let oldest = context.transactions.oldest_snapshot();
        if self.since.elapsed() < IDLE_AFTER || self.finished == Some(oldest) {
            return None;
        }
        for _ in 0..EXAMINED_MAX {
            let Some(index) = context.written.after(self.last) else {
                self.last = None;
                self.finished = Some(oldest);
                return None;
            };
            if index.may_try(now) && index.tree.affords_optional_jobs() {
                if index.tree.memtable_is_large_part() {
                    context.freeze(&index);
                }
                let horizon = context.transactions.horizon();
                let job = index.tree.next_worthwhile_job(&horizon);
                if let Some(job) = context.found(&index, job) {
                    return Some((index, job));
                }
            }
            self.last = Some(index.entry.file);
        }
        None
    }
}
