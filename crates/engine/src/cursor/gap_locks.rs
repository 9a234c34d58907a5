//! Gap locks of scans and lookups: no other transaction inserts into an
//! interval that a locking read has read.
//!
//! A move of a scan over an interval that has not been locked:
//! 1. The cursor moves further ahead, by more rows each time, to lock a longer
//!    interval.
//! 2. The interval is locked. Then the scan waits for the writes of the index
//!    that have already checked for range locks.
//! 3. The move is repeated, and finds the rows that those writes have inserted.
//!
//! A range lock can block all writes of the rows within it, without a lock for
//! each row:
//! 1. A transaction that locks a row to write it checks for range locks after
//!    it has acquired the row lock, and waits for them. Its write of that row does
//!    not check again. A write of a row that the transaction has neither locked
//!    nor written checks for range locks under its write guards.
//! 2. A scan locks the interval, then checks whether any other transaction
//!    holds row locks. If none does, every later row lock sees the range lock,
//!    and the versions that the scan reads are the newest.
//! 3. Otherwise a shared scan acquires and releases the lock of each row that it
//!    reads. When it has acquired the lock, a transaction that locked the row
//!    before the interval was locked has ended, and the scan sees its write.
//!    An exclusive scan always locks each row.

use super::bounds::{Bounds, Motion};
use super::position::{IndexPosition, no_tree};
use crate::core::index::Index;
use crate::error::EngineResult;
use crate::transaction::EngineTransaction;
use std::borrow::Cow;
use std::sync::Arc;
use teak_base::bytes::key_successor;
use teak_transactions::RangeLockKind;

/// Maximum number of rows that a scan locks ahead of its position.
const LOOKAHEAD_ROWS_MAX: usize = 64;

/// A completed move: its start, and whether it ended on a key within the bounds.
#[derive(Clone, Copy)]
pub(super) struct Move<'a> {
    pub motion: Motion,
    pub from: Option<&'a [u8]>,
    pub is_on_key: bool,
}

/// The keys `low <= key < high`; without `high`, all keys from `low`.
struct Interval<'a> {
    low: Cow<'a, [u8]>,
    high: Option<Cow<'a, [u8]>>,
}

impl<'a> Interval<'a> {
    /// From the start of a move to its end, the key found included. `end` is that
    /// key, or `None` when the move ended at the bounds.
    fn of_move(
        bounds: &'a Bounds,
        motion: Motion,
        from: Option<&'a [u8]>,
        end: Option<&'a [u8]>,
    ) -> Self {
        match motion {
            Motion::Forward => Self {
                low: Cow::Borrowed(bounds.start_forward(from).unwrap_or_default()),
                high: match end {
                    Some(key) => Some(Cow::Owned(key_successor(key))),
                    None => bounds.upper().map(Cow::Borrowed),
                },
            },
            Motion::Backward => Self {
                low: Cow::Borrowed(end.or(bounds.lower()).unwrap_or_default()),
                high: bounds.start_backward(from).map(Cow::Borrowed),
            },
        }
    }

    /// Whether the interval can contain no key.
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| self.low >= *high)
    }
}

/// The interval that a cursor has locked last in its index. Earlier intervals
/// remain locked, but are not stored.
#[derive(Debug, Default)]
pub(super) struct LockedInterval {
    low: Vec<u8>,
    /// `None`: the interval extends to the end of the index.
    high: Option<Vec<u8>>,
    /// Number of rows that the last extension locked ahead of the position; `None` before the
    /// first.
    lookahead_rows: Option<usize>,
    /// Whether no other transaction held a row lock of any table, and no row range of this index
    /// was locked, when the parts of the interval were locked.
    had_no_row_locks: bool,
}

impl LockedInterval {
    pub(super) fn had_no_row_locks(&self) -> bool {
        self.had_no_row_locks
    }

    /// Whether the locked interval contains `low <= key < high`.
    fn covers(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        self.lookahead_rows.is_some()
            && *self.low <= *low
            && match (&self.high, high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(locked), Some(high)) => **locked >= *high,
            }
    }

    /// The number of rows to lock beyond the next one. Zero for the first move: a scan that stops
    /// early must not lock rows that it has not returned.
    fn next_lookahead_rows(&self) -> usize {
        self.lookahead_rows
            .map_or(0, |rows| (rows * 2 + 1).min(LOOKAHEAD_ROWS_MAX))
    }

    /// Records that `low <= key < high` is locked. Extends the interval if both touch, otherwise
    /// replaces it.
    fn add(&mut self, low: &[u8], high: Option<&[u8]>, had_no_row_locks: bool) {
        let touches = self.lookahead_rows.is_some()
            && high.is_none_or(|high| *self.low <= *high)
            && self.high.as_deref().is_none_or(|end| low <= end);
        if !touches {
            self.low = low.to_vec();
            self.high = high.map(<[u8]>::to_vec);
            self.lookahead_rows = Some(0);
            self.had_no_row_locks = had_no_row_locks;
            return;
        }
        self.had_no_row_locks &= had_no_row_locks;
        if *low < *self.low {
            self.low = low.to_vec();
        }
        self.high = match (self.high.take(), high) {
            (Some(end), Some(high)) => Some(if *end < *high { high.to_vec() } else { end }),
            _ => None,
        };
        self.lookahead_rows = Some(self.next_lookahead_rows());
    }

    /// Locks the interval of a move, unless it is locked. `false` if it had to be locked: the move
    /// must then be repeated.
    pub(super) fn cover_move(
        &mut self,
        position: &mut IndexPosition,
        transaction: &mut EngineTransaction,
        kind: RangeLockKind,
        made: Move<'_>,
    ) -> EngineResult<bool> {
        if self.covers_move(position, made)? {
            return Ok(true);
        }
        let made = self.look_ahead(position, transaction, made)?;
        if !self.lock_interval(position, transaction, kind, made)? {
            return Ok(true);
        }
        if let (Some(view), Some(tree)) = (&position.view, &mut position.tree) {
            // Discards a conflicting write that the lookahead found: the repeated move must find it
            // itself.
            let _ = view.take_conflicting_write();
            tree.set_visibility(Arc::clone(view));
        }
        Ok(false)
    }

    fn covers_move(&self, position: &IndexPosition, made: Move<'_>) -> EngineResult<bool> {
        let interval = interval_of(position, made)?;
        Ok(self.covers(&interval.low, interval.high.as_deref()))
    }

    /// Moves the tree's cursor ahead by the next lookahead, but not beyond the bounds.
    fn look_ahead<'a>(
        &self,
        position: &mut IndexPosition,
        transaction: &EngineTransaction,
        mut made: Move<'a>,
    ) -> EngineResult<Move<'a>> {
        for _ in 0..self.next_lookahead_rows() {
            if !made.is_on_key {
                break;
            }
            let tree = position.tree()?;
            let moved = match made.motion {
                Motion::Forward => tree.next(),
                Motion::Backward => tree.previous(),
            };
            made.is_on_key = transaction.core.checked(&position.index, moved)?
                && position.is_within(made.motion);
        }
        Ok(made)
    }

    /// Locks the interval of a move, and waits for writes of the index that have already checked
    /// for range locks. `false` if the interval is empty: nothing was locked.
    fn lock_interval(
        &mut self,
        position: &IndexPosition,
        transaction: &mut EngineTransaction,
        kind: RangeLockKind,
        made: Move<'_>,
    ) -> EngineResult<bool> {
        let interval = interval_of(position, made)?;
        let (low, high) = (&*interval.low, interval.high.as_deref());
        if interval.is_empty() {
            self.add(low, high, true);
            return Ok(false);
        }
        lock_range(transaction, &position.index, kind, (low, high))?;
        let context = transaction.context()?;
        let row_locks = context.core.transactions.locks();
        let had_no_row_locks = !row_locks.any_held_by_others(context.transaction.locks_held());
        // The order of these reads matters: a lock escalation adds its range lock before it
        // releases the row locks.
        self.add(
            low,
            high,
            had_no_row_locks && !position.index.ranges.has_row_ranges(),
        );
        position.index.tree.wait_for_writers();
        Ok(true)
    }
}

fn interval_of<'a>(position: &'a IndexPosition, made: Move<'a>) -> EngineResult<Interval<'a>> {
    let Some(tree) = &position.tree else {
        return Err(no_tree());
    };
    let end = made.is_on_key.then(|| tree.key());
    Ok(Interval::of_move(
        &position.bounds,
        made.motion,
        made.from,
        end,
    ))
}

fn lock_range(
    transaction: &mut EngineTransaction,
    index: &Index,
    kind: RangeLockKind,
    range: (&[u8], Option<&[u8]>),
) -> EngineResult<()> {
    let context = transaction.context()?;
    let timeout = context.remaining_timeout(&mut None);
    let transactions = &context.core.transactions;
    transactions.lock_range(context.transaction, &index.ranges, kind, range, timeout)?;
    Ok(())
}

/// Locks a key that a lookup has not found against insertion, and waits for writes of the index
/// that have already checked for range locks. The lookup must be repeated.
pub(super) fn lock_absent_key(
    transaction: &mut EngineTransaction,
    index: &Index,
    key: &[u8],
) -> EngineResult<()> {
    let next = key_successor(key);
    lock_range(transaction, index, RangeLockKind::Gap, (key, Some(&next)))?;
    index.tree.wait_for_writers();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_grows_where_it_is_touched_and_moves_elsewhere() {
        let mut locked = LockedInterval::default();
        assert!(!locked.covers(b"a", Some(b"b")));
        locked.add(b"c", Some(b"e"), true);
        assert!(locked.covers(b"c", Some(b"e")));
        assert!(!locked.covers(b"b", Some(b"e")));
        assert!(!locked.covers(b"c", None));
        locked.add(b"e", Some(b"g"), true);
        locked.add(b"b", Some(b"c"), true);
        assert!(locked.covers(b"b", Some(b"g")));
        locked.add(b"x", None, true);
        assert!(locked.covers(b"y", None));
        assert!(!locked.covers(b"b", Some(b"c")));
    }

    #[test]
    fn the_lookahead_doubles_while_a_scan_continues() {
        let mut locked = LockedInterval::default();
        let mut lookaheads = Vec::new();
        for n in 0u8..9 {
            lookaheads.push(locked.next_lookahead_rows());
            locked.add(&[n], Some(&[n + 1]), true);
        }
        assert_eq!(lookaheads, [0, 1, 3, 7, 15, 31, 63, 64, 64]);
    }
}
