//! Marking what a locking read looks at, so that no row slips in.
//!
//! Mark first, wait until the insertions under way are done, then read: a move
//! over a stretch that is not marked yet is repeated once it is.
//!
//! A range may also keep the rows within as they are, without a lock for each:
//! 1. Who locks a row to write it looks for ranges once the lock is held, and
//!    waits for them. So it writes later without looking.
//! 2. A scan marks, then looks whether anybody has locked a row. If not, every
//!    later lock sees the mark, and what the scan meets is the newest.
//! 3. If so, it takes and gives back the lock of each row that it meets: who
//!    locked it before the mark has written and ended by then.

use super::{Cursor, Motion, ReadMode, earlier, later, no_tree};
use crate::error::EngineResult;
use crate::transaction::EngineTransaction;
use std::sync::Arc;
use teak_base::bytes::key_successor;
use teak_transactions::{LockMode, RangeLockKind, TransactionId};

/// Rows that a scan marks ahead at most.
const REACH_MAX: usize = 64;

/// The stretch of one index that a cursor has marked last.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    low: Vec<u8>,
    /// `None`: to the end of the index.
    high: Option<Vec<u8>>,
    /// How many rows the last extension reached ahead.
    reach: Option<usize>,
    /// Nobody else had locked a row when the stretch was marked.
    alone: bool,
}

impl Marks {
    /// Whether the stretch holds `low <= key < high`.
    pub(crate) fn cover(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        self.reach.is_some()
            && *self.low <= *low
            && match (&self.high, high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(marked), Some(high)) => **marked >= *high,
            }
    }

    /// How many rows to mark ahead of the next: none at first, for a scan that
    /// stops early must not have locked what it never saw.
    pub(crate) fn next_reach(&self) -> usize {
        self.reach.map_or(0, |reach| (reach * 2 + 1).min(REACH_MAX))
    }

    /// Notes that `low <= key < high` is marked: the stretch grows, or another
    /// begins.
    pub(crate) fn add(&mut self, low: &[u8], high: Option<&[u8]>, alone: bool) {
        let touches = self.reach.is_some()
            && high.is_none_or(|high| *self.low <= *high)
            && self.high.as_deref().is_none_or(|end| low <= end);
        if !touches {
            self.low = low.to_vec();
            self.high = high.map(<[u8]>::to_vec);
            self.reach = Some(0);
            self.alone = alone;
            return;
        }
        self.alone &= alone;
        if *low < *self.low {
            self.low = low.to_vec();
        }
        self.high = match (self.high.take(), high) {
            (Some(end), Some(high)) => Some(if *end < *high { high.to_vec() } else { end }),
            _ => None,
        };
        self.reach = Some(self.next_reach());
    }
}

impl Cursor {
    /// What the ranges that scans mark keep others from.
    pub(super) fn keeps(&self) -> RangeLockKind {
        if self.keeps_rows && self.place == 0 && !self.skip_locked {
            RangeLockKind::Write
        } else {
            RangeLockKind::Gap
        }
    }

    /// Whether the range that a scan marked keeps the row that it met, so that
    /// the row's lock may go once it is read.
    pub(super) fn is_kept_by_range(&self) -> bool {
        self.mode == ReadMode::Shared && self.keeps() == RangeLockKind::Write
    }

    /// Whether that row needs no lock at all: nobody can have locked it to
    /// write it before the range was marked, so what was met is the newest. A
    /// row that is newer than the snapshot is found out by locking it.
    pub(super) fn needs_no_lock(&self, transaction: &EngineTransaction) -> bool {
        self.is_kept_by_range()
            && !transaction.snapshot_isolation
            && self.marks.as_ref().is_some_and(|marks| marks.alone)
    }

    /// Whether another transaction's range keeps this row from being written by
    /// whom it is locked for.
    pub(super) fn is_kept_by_another(&self, key: &[u8], mode: LockMode, me: TransactionId) -> bool {
        mode == LockMode::Exclusive && self.index.ranges.blocks(key, false, me)
    }

    /// Whether nobody can insert any more between where a move began and where
    /// it ended. If not, that is so afterwards, and the move must be repeated.
    pub(super) fn is_marked(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        from: Option<&[u8]>,
        moved: bool,
    ) -> EngineResult<bool> {
        if self.skip_locked {
            // Whoever passes over rows does not expect to find the same again.
            return Ok(true);
        }
        let Some(mut marks) = self.marks.take() else {
            return Ok(true);
        };
        let marked = self.extend_marks(transaction, &mut marks, motion, from, moved);
        self.marks = Some(marks);
        marked
    }

    fn extend_marks(
        &mut self,
        transaction: &mut EngineTransaction,
        marks: &mut Marks,
        motion: Motion,
        from: Option<&[u8]>,
        moved: bool,
    ) -> EngineResult<bool> {
        let stands = moved && self.within(motion);
        let keeps = self.keeps();
        let Some(tree) = &mut self.tree else {
            return Err(no_tree());
        };
        let (lower, upper) = (self.lower.as_deref(), self.upper.as_deref());
        let edge = match motion {
            Motion::Forward => later(from, lower).unwrap_or_default(),
            Motion::Backward => earlier(from, upper).unwrap_or_default(),
        };
        let covered = match motion {
            Motion::Forward if stands => marks.cover(edge, Some(&key_successor(tree.key()))),
            Motion::Forward => marks.cover(edge, upper),
            Motion::Backward => {
                let low = if stands {
                    tree.key()
                } else {
                    lower.unwrap_or_default()
                };
                let high = earlier(from, upper);
                marks.cover(low, high)
            }
        };
        if covered {
            return Ok(true);
        }
        // A long scan marks further ahead each time than before.
        let mut stands = stands;
        for _ in 0..marks.next_reach() {
            if !stands {
                break;
            }
            let further = match motion {
                Motion::Forward => tree.next(),
                Motion::Backward => tree.previous(),
            };
            stands = transaction.inner.checked(&self.index, further)?
                && match motion {
                    Motion::Forward => upper.is_none_or(|upper| tree.key() < upper),
                    Motion::Backward => lower.is_none_or(|lower| tree.key() >= lower),
                };
        }
        let behind = stands.then(|| key_successor(tree.key()));
        let (low, high) = match motion {
            Motion::Forward => (edge, behind.as_deref().or(upper)),
            Motion::Backward => {
                let low = if stands {
                    tree.key()
                } else {
                    lower.unwrap_or_default()
                };
                (low, earlier(from, upper))
            }
        };
        if high.is_none_or(|high| low < high) {
            let parts = transaction.parts()?;
            let ranges = &self.index.ranges;
            let transactions = &parts.inner.transactions;
            let timeout = parts.remaining(&mut None);
            transactions.lock_range(parts.core, ranges, keeps, (low, high), timeout)?;
            let alone = !transactions
                .locks()
                .any_held_by_others(parts.core.locks_held());
            // Ranges in place of rows come before the rows' locks go.
            marks.add(low, high, alone && !ranges.has_row_ranges());
            self.index.tree.wait_for_writers();
        } else {
            // Bounds that no key can lie between.
            marks.add(low, high, true);
            return Ok(true);
        }
        if let (Some(view), Some(tree)) = (&self.view, &mut self.tree) {
            // What was met ahead must be met again, not remembered.
            let _ = view.take_conflicting_write();
            tree.set_visibility(Arc::clone(view));
        }
        Ok(false)
    }

    /// Lets nobody insert a key that was looked for in vain. True when that is
    /// new, and the look must be repeated.
    pub(super) fn mark_absent(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<bool> {
        if self.marks.is_none() || self.skip_locked {
            return Ok(false);
        }
        let parts = transaction.parts()?;
        let ranges = &self.index.ranges;
        let transactions = &parts.inner.transactions;
        let behind = key_successor(key);
        let (range, timeout) = ((key, Some(&*behind)), parts.remaining(&mut None));
        transactions.lock_range(parts.core, ranges, RangeLockKind::Gap, range, timeout)?;
        self.index.tree.wait_for_writers();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretch_grows_where_it_is_touched_and_moves_elsewhere() {
        let mut marks = Marks::default();
        assert!(!marks.cover(b"a", Some(b"b")));
        marks.add(b"c", Some(b"e"), true);
        assert!(marks.cover(b"c", Some(b"e")));
        assert!(!marks.cover(b"b", Some(b"e")));
        assert!(!marks.cover(b"c", None));
        marks.add(b"e", Some(b"g"), true);
        marks.add(b"b", Some(b"c"), true);
        assert!(marks.cover(b"b", Some(b"g")));
        marks.add(b"x", None, true);
        assert!(marks.cover(b"y", None));
        assert!(!marks.cover(b"b", Some(b"c")));
    }

    #[test]
    fn reach_doubles_while_a_scan_goes_on() {
        let mut marks = Marks::default();
        let mut reaches = Vec::new();
        for n in 0u8..9 {
            reaches.push(marks.next_reach());
            marks.add(&[n], Some(&[n + 1]), true);
        }
        assert_eq!(reaches, [0, 1, 3, 7, 15, 31, 63, 64, 64]);
    }
}
