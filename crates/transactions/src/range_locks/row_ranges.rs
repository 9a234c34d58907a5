//! Row ranges: the lock of all rows of an interval, which replaces single row
//! locks after escalation. Each transaction has at most one per index.

use super::intervals::interval_bytes;
use crate::lock_id::LockId;
use crate::lock_types::LockMode;
use teak_base::TransactionId;

/// All rows at `low <= key < high`.
#[derive(Clone, Debug)]
pub(crate) struct RowRange {
    pub low: Box<[u8]>,
    pub high: Box<[u8]>,
    pub mode: LockMode,
}

impl RowRange {
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.low <= *key && *key < *self.high
    }

    fn overlaps(&self, other: &RowRange) -> bool {
        *self.low < *other.high && *other.low < *self.high
    }

    /// The smallest range that contains both, in the stronger mode.
    pub(super) fn union(mut self, other: RowRange) -> Self {
        self.mode = self.mode.max(other.mode);
        if other.low < self.low {
            self.low = other.low;
        }
        if other.high > self.high {
            self.high = other.high;
        }
        self
    }

    pub(super) fn bytes(&self) -> usize {
        interval_bytes(&self.low, Some(&self.high))
    }
}

/// The row ranges of one index.
#[derive(Default)]
pub(super) struct RowRanges {
    by_owner: Vec<(TransactionId, RowRange)>,
    /// Row locks whose queues a row range blocks.
    blocked_locks: Vec<LockId>,
}

impl RowRanges {
    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(TransactionId, RowRange)> {
        self.by_owner.iter()
    }

    pub(super) fn of(&self, owner: TransactionId) -> Option<&RowRange> {
        let mut ranges = self.by_owner.iter();
        let found = ranges.find(|(other, _)| *other == owner);
        found.map(|(_, range)| range)
    }

    /// The transactions whose row ranges block a lock of the row.
    pub(super) fn blockers(
        &self,
        key: &[u8],
        transaction: TransactionId,
        mode: LockMode,
    ) -> impl Iterator<Item = TransactionId> {
        self.by_owner
            .iter()
            .filter(move |(owner, range)| {
                *owner != transaction && range.mode.conflicts(mode) && range.covers(key)
            })
            .map(|(owner, _)| *owner)
    }

    pub(super) fn blocks(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
        self.blockers(key, transaction, mode).next().is_some()
    }

    /// Whether a row range of another transaction conflicts with `wanted`.
    pub(super) fn conflict(&self, wanted: &RowRange, transaction: TransactionId) -> bool {
        self.by_owner.iter().any(|(owner, range)| {
            *owner != transaction && range.mode.conflicts(wanted.mode) && range.overlaps(wanted)
        })
    }

    /// Replaces the row range of a transaction.
    pub(super) fn set(&mut self, transaction: TransactionId, range: RowRange) {
        self.by_owner.retain(|(owner, _)| *owner != transaction);
        self.by_owner.push((transaction, range));
    }

    /// Removes a transaction's row range. Returns its memory in bytes.
    pub(super) fn remove(&mut self, transaction: TransactionId) -> usize {
        let bytes = self.of(transaction).map_or(0, RowRange::bytes);
        self.by_owner.retain(|(owner, _)| *owner != transaction);
        bytes
    }

    /// Records that a row range blocks the queue of a row lock.
    pub(super) fn note_blocked(&mut self, lock: LockId) {
        if !self.blocked_locks.contains(&lock) {
            self.blocked_locks.push(lock);
        }
    }

    pub(super) fn take_blocked(&mut self) -> Vec<LockId> {
        std::mem::take(&mut self.blocked_locks)
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_owner.iter().map(|(_, range)| range.bytes()).sum()
    }
}
