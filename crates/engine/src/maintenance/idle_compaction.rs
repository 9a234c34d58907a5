//! Compaction in idle time, and after large rollbacks.

use super::flusher::FlushContext;
use crate::core::index::Index;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{CommitSequence, Lsn};
use teak_tree::FlushJob;

/// Time without writes after which trees are compacted even if no job is due.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Detects idle time and chooses compaction jobs for it. Indexes of which a
/// large part was rolled back are compacted without waiting for idle time.
pub(super) struct IdleCompaction {
    log_end: Lsn,
    since: Instant,
    /// The oldest snapshot at the time when nothing was left to compact. A write or the end of this
    /// snapshot can make more compaction possible.
    finished: Option<CommitSequence>,
}

fn is_marked(index: &Arc<Index>) -> bool {
    index.compact_soon.load(Ordering::Relaxed)
}

impl IdleCompaction {
    pub(super) fn new() -> Self {
        Self {
            log_end: Lsn(0),
            since: Instant::now(),
            finished: None,
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
        }
        let oldest = context.transactions.oldest_snapshot();
        let is_idle = self.since.elapsed() >= IDLE_AFTER && self.finished != Some(oldest);
        if !is_idle && !context.written.read().iter().any(is_marked) {
            return None;
        }
        let now = Instant::now();
        let mut horizon = None;
        for index in context.written.snapshot() {
            let marked = is_marked(&index);
            if !(is_idle || marked) || !index.may_try(now) {
                continue;
            }
            if is_idle && index.tree.memtable_is_large_part() {
                context.freeze(&index);
            }
            let horizon = horizon.get_or_insert_with(|| context.transactions.horizon());
            if let Some(job) = index.tree.next_idle_job(&*horizon) {
                return Some((index, job));
            }
            // If the tree is not fully merged, running jobs may lead to more work.
            if marked && index.tree.is_fully_merged() {
                index.compact_soon.store(false, Ordering::Relaxed);
            }
        }
        if is_idle {
            self.finished = Some(oldest);
        }
        None
    }
}
