//! The range locks of one index, by owner.

use super::intervals::IntervalSet;
use crate::lock_types::{BlockerKind, Blocking, RangeLockKind, Resized};
use std::collections::HashMap;
use teak_base::TransactionId;

/// The range locks of one transaction.
#[derive(Debug, Default)]
pub(super) struct OwnedRanges {
    gaps: IntervalSet,
    writes: IntervalSet,
}

impl OwnedRanges {
    /// Whether these locks block a write of the key by another transaction.
    pub(super) fn block(&self, key: &[u8], is_insert: bool) -> bool {
        self.blocking(key, is_insert).is_some()
    }

    /// The kind of the lock that blocks a write of the key by another transaction.
    fn blocking(&self, key: &[u8], is_insert: bool) -> Option<BlockerKind> {
        if self.writes.covers(key) {
            Some(BlockerKind::WriteRange)
        } else if is_insert && self.gaps.covers(key) {
            Some(BlockerKind::Gap)
        } else {
            None
        }
    }

    pub(super) fn has_write_locks(&self) -> bool {
        !self.writes.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.gaps.bytes + self.writes.bytes
    }

    pub(super) fn by_kind(&self) -> [(&IntervalSet, RangeLockKind); 2] {
        [
            (&self.gaps, RangeLockKind::Gap),
            (&self.writes, RangeLockKind::Write),
        ]
    }
}

/// The range locks of all transactions.
#[derive(Default)]
pub(super) struct HeldRanges {
    by_owner: HashMap<TransactionId, OwnedRanges>,
}

/// The effect of adding a range lock.
pub(super) struct Added {
    /// Whether it is the owner's first range lock in this index.
    pub is_first: bool,
    /// Whether it is the owner's first write range lock in this index.
    pub is_first_write_lock: bool,
    pub resized: Resized,
}

impl HeldRanges {
    /// The number of owners.
    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TransactionId, &OwnedRanges)> {
        self.by_owner.iter()
    }

    pub(super) fn of(&self, owner: TransactionId) -> Option<&OwnedRanges> {
        self.by_owner.get(&owner)
    }

    /// The transactions whose range locks block a write by `transaction`.
    pub(super) fn blockers(
        &self,
        key: &[u8],
        is_insert: bool,
        transaction: TransactionId,
    ) -> impl Iterator<Item = Blocking> {
        let others = self.by_owner.iter();
        let others = others.filter(move |(owner, _)| **owner != transaction);
        others.filter_map(move |(owner, owned)| {
            let kind = owned.blocking(key, is_insert)?;
            let transaction = *owner;
            Some(Blocking { transaction, kind })
        })
    }

    pub(super) fn blocks(&self, key: &[u8], is_insert: bool, transaction: TransactionId) -> bool {
        let mut blockers = self.blockers(key, is_insert, transaction);
        blockers.next().is_some()
    }

    /// Whether a write range lock of another transaction overlaps `low <= key < high`.
    pub(super) fn has_write_lock_of_others(
        &self,
        low: &[u8],
        high: &[u8],
        transaction: TransactionId,
    ) -> bool {
        let mut owners = self.by_owner.iter();
        owners.any(|(owner, owned)| *owner != transaction && owned.writes.overlaps(low, high))
    }

    /// A key of `low <= key < high` whose insertion by `transaction` is blocked.
    pub(super) fn blocked_key(
        &self,
        low: &[u8],
        high: &[u8],
        transaction: TransactionId,
    ) -> Option<Box<[u8]>> {
        let others = self.by_owner.iter();
        let others = others.filter(|(owner, _)| **owner != transaction);
        let mut kinds = others.flat_map(|(_, owned)| [&owned.gaps, &owned.writes]);
        kinds.find_map(|intervals| intervals.key_in(low, high).map(Into::into))
    }

    pub(super) fn add(
        &mut self,
        transaction: TransactionId,
        kind: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Added {
        let owners = self.by_owner.len();
        let owned = self.by_owner.entry(transaction).or_default();
        let before = owned.bytes();
        let had_write_locks = owned.has_write_locks();
        match kind {
            RangeLockKind::Gap => owned.gaps.add(low, high),
            RangeLockKind::Write => owned.writes.add(low, high),
        }
        let is_first_write_lock = !had_write_locks && owned.has_write_locks();
        let resized = Resized::of(before, owned.bytes());
        Added {
            is_first: self.by_owner.len() > owners,
            is_first_write_lock,
            resized,
        }
    }

    /// Replaces the locks of each kind by one interval; `None` when no kind has
    /// more than one.
    pub(super) fn merge(&mut self, transaction: TransactionId) -> Option<Resized> {
        let owned = self.by_owner.get_mut(&transaction)?;
        let before = owned.bytes();
        let merged = [owned.gaps.merge_all(), owned.writes.merge_all()];
        merged
            .contains(&true)
            .then(|| Resized::of(before, owned.bytes()))
    }

    pub(super) fn remove(&mut self, transaction: TransactionId) -> Option<OwnedRanges> {
        self.by_owner.remove(&transaction)
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_owner.values().map(OwnedRanges::bytes).sum()
    }
}
