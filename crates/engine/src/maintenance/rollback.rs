//! Rollback, and clean-up after large rollbacks.

use super::flusher::FlushContext;
use teak_base::WriteIdRanges;
use teak_transactions::Transaction;

/// Minimum number of rows of a rollback that needs a clean-up.
const LARGE_ROLLBACK_ROWS: u64 = 10_000;

/// An index is cleaned up if at least one in this many of its entries was rolled back. A smaller
/// share hardly slows readers.
const LARGE_SHARE: u64 = 8;

/// Rolls a transaction back and ends it. Returns its writes.
pub(crate) fn abort(context: FlushContext<'_>, transaction: Transaction) -> WriteIdRanges {
    let rows = transaction.handle().rows_written();
    let aborted = context.transactions.abort(transaction);
    clean_up(context, rows, &aborted);
    aborted
}

/// Cleans up after the rollback of about `rows` rows: freezes memtables that may
/// have many aborted entries, and marks indexes that may have many for
/// compaction, which removes them.
pub(crate) fn clean_up(context: FlushContext<'_>, rows: u64, aborted: &WriteIdRanges) {
    let (Some(first), Some(last)) = (aborted.first(), aborted.last()) else {
        return;
    };
    if rows < LARGE_ROLLBACK_ROWS {
        return;
    }
    for index in context.written.live() {
        let tree = &index.tree;
        if !tree.may_hold(first, last) {
            continue;
        }
        if tree.memtable_entries() / LARGE_SHARE <= rows {
            context.freeze(&index);
        }
        if tree.entries() / LARGE_SHARE <= rows {
            context.work.compact_soon(&index);
        }
    }
    context.signals.wake_flushers();
}
