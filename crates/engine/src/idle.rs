//! Settling trees when there is nothing else to do, and after large rollbacks.

use crate::engine::Inner;
use crate::table::Index;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use teak_base::{CommitSequence, Lsn, WriteId};
use teak_transactions::Transaction;
use teak_tree::FlushJob;

/// How long nobody must have written before trees settle for its own sake.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Notices that nobody has written for a while, and lets the trees settle. Those
/// of which a large part was rolled back settle without a while's wait.
pub(crate) struct Idle {
    end: Lsn,
    since: Instant,
    /// Nothing more can settle until somebody writes or a snapshot ends.
    settled: Option<CommitSequence>,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self {
            end: Lsn(0),
            since: Instant::now(),
            settled: None,
        }
    }

    pub(crate) fn next_job(&mut self, inner: &Inner) -> Option<(Arc<Index>, FlushJob)> {
        let end = inner.log.end();
        if end != self.end {
            self.end = end;
            self.since = Instant::now();
            self.settled = None;
        }
        let oldest = inner.transactions.oldest_snapshot();
        let is_time = self.since.elapsed() >= IDLE_AFTER && self.settled != Some(oldest);
        let settles_soon = |index: &Arc<Index>| index.settles_soon.load(Ordering::Relaxed);
        if !is_time && !inner.written.read().iter().any(settles_soon) {
            return None;
        }
        let now = Instant::now();
        let mut horizon = None;
        for index in inner.written_indexes() {
            let soon = settles_soon(&index);
            if !(is_time || soon) || !index.may_try(now) {
                continue;
            }
            if is_time && index.tree.memtable_is_large_part() {
                crate::budget::freeze(inner, &index);
            }
            let horizon = horizon.get_or_insert_with(|| inner.transactions.horizon());
            if let Some(job) = index.tree.next_idle_job(&*horizon) {
                return Some((index, job));
            }
            // Else jobs under way may leave something to do.
            if soon && index.tree.is_at_rest() {
                index.settles_soon.store(false, Ordering::Relaxed);
            }
        }
        if is_time {
            self.settled = Some(oldest);
        }
        None
    }
}

/// Fewer rows undone are no large rollback.
const LARGE_ROLLBACK_ROWS: u64 = 10_000;

/// Where fewer of the entries were rolled back, readers hardly notice, and
/// rewriting the rest would not be worth it.
const LARGE_SHARE: u64 = 8;

/// Rolls a transaction back and ends it; returns its writes.
pub(crate) fn abort(inner: &Inner, transaction: Transaction) -> Vec<WriteId> {
    let rows = transaction.handle().rows_written();
    let aborted = inner.transactions.abort(transaction);
    clear_rollback(inner, rows, &aborted);
    aborted
}

/// After writes were rolled back, of about so many rows: what is in memory of
/// many goes to where it is dropped.
pub(crate) fn clear_rollback(inner: &Inner, rows: u64, aborted: &[WriteId]) {
    let (Some(first), Some(last)) = (aborted.first(), aborted.last()) else {
        return;
    };
    if rows < LARGE_ROLLBACK_ROWS {
        return;
    }
    for index in inner.written_indexes() {
        let tree = &index.tree;
        if index.is_gone() || !tree.may_hold(*first, *last) {
            continue;
        }
        if tree.memtable_entries() / LARGE_SHARE <= rows {
            crate::budget::freeze(inner, &index);
        }
        if tree.entries() / LARGE_SHARE <= rows {
            index.settles_soon.store(true, Ordering::Relaxed);
        }
    }
    inner.background.wake_flushers();
}
