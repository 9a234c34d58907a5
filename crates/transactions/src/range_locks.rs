//! Ranges of one index that locking reads have looked at. Nobody but their
//! owner inserts there until the owner ends, so a repeated look finds no row
//! that was not there before. A range may also keep others from changing the
//! rows within, which spares a long scan a lock for each.
//!
//! Owners do not stand in each other's way: only a writer meets a range. An
//! owner's ranges are kept as few disjoint ones, so a scan of any length costs
//! one entry.
//!
//! A reader marks first, waits until the writes under way are done, and reads
//! then; a writer looks for ranges while the reader's wait covers it. So either
//! the reader sees the write or the writer sees the range.
//!
//! Lock order: the wait graph, then one index's ranges, then a transaction's
//! bell.

use crate::transaction::{TransactionId, TransactionShared};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a range keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Inserting a key. What is there is locked row by row.
    Insertions,
    /// Also changing or deleting what is there.
    Writes,
}

/// Bytes that a range costs besides its keys.
const RANGE_BYTES: usize = 96;

/// Disjoint ranges by first key; the value is the first key behind, `None` when
/// the range has no end.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<Box<[u8]>, Option<Box<[u8]>>>);

impl Ranges {
    fn covers(&self, key: &[u8]) -> bool {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let before = self.0.range::<[u8], _>(up_to).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// Adds a range, joining what it overlaps or touches.
    fn add(&mut self, low: &[u8], high: Option<&[u8]>) {
        let mut start: Box<[u8]> = low.into();
        let mut end: Option<Box<[u8]>> = high.map(Into::into);
        let up_to = (Bound::Unbounded, Bound::Included(low));
        if let Some((before, before_end)) = self.0.range::<[u8], _>(up_to).next_back()
            && before_end
                .as_deref()
                .is_none_or(|before_end| before_end >= low)
        {
            start.clone_from(before);
            end = later_end(end, before_end.clone());
        }
        loop {
            let next = self
                .0
                .range::<[u8], _>((Bound::Included(&*start), Bound::Unbounded))
                .next();
            let Some((key, next_end)) = next else {
                break;
            };
            if end.as_deref().is_some_and(|end| **key > *end) {
                break;
            }
            end = later_end(end, next_end.clone());
            let key = key.clone();
            self.0.remove(&key);
        }
        self.0.insert(start, end);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(low, high)| RANGE_BYTES + low.len() + high.as_ref().map_or(0, |high| high.len()))
            .sum()
    }
}

fn later_end(a: Option<Box<[u8]>>, b: Option<Box<[u8]>>) -> Option<Box<[u8]>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        _ => None,
    }
}

/// The ranges of one owner.
#[derive(Debug, Default)]
struct Owned {
    insertions: Ranges,
    writes: Ranges,
}

impl Owned {
    fn covers(&self, key: &[u8], is_insertion: bool) -> bool {
        self.writes.covers(key) || (is_insertion && self.insertions.covers(key))
    }

    fn bytes(&self) -> usize {
        self.insertions.bytes() + self.writes.bytes()
    }
}

struct Waiter {
    transaction: Arc<TransactionShared>,
    key: Box<[u8]>,
    is_insertion: bool,
}

#[derive(Default)]
struct State {
    owners: HashMap<TransactionId, Owned>,
    waiters: Vec<Waiter>,
}

impl State {
    fn held_by_others(&self, key: &[u8], is_insertion: bool, transaction: TransactionId) -> bool {
        let mut owners = self.owners.iter();
        owners.any(|(owner, owned)| *owner != transaction && owned.covers(key, is_insertion))
    }
}

/// The ranges of one index.
#[derive(Default)]
pub struct RangeLocks {
    /// Owners in the state; an insertion that reads zero need not look.
    count: AtomicUsize,
    /// Those that keep others from any write; so for other writes.
    keeping_writes: AtomicUsize,
    state: Mutex<State>,
}

impl RangeLocks {
    /// Whether anybody has marked a range.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) != 0
    }

    /// Whether a range of another transaction keeps this one from inserting the
    /// key, or from another write of it.
    #[must_use]
    pub fn blocks(&self, key: &[u8], is_insertion: bool, transaction: TransactionId) -> bool {
        let owners = if is_insertion {
            &self.count
        } else {
            &self.keeping_writes
        };
        owners.load(Ordering::SeqCst) != 0
            && self
                .state
                .lock()
                .held_by_others(key, is_insertion, transaction)
    }

    /// Marks `low <= key < high` for a transaction. True when it is the
    /// transaction's first in this index.
    pub(crate) fn mark(
        &self,
        transaction: TransactionId,
        keeps: Keeps,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> bool {
        let mut state = self.state.lock();
        let before = state.owners.len();
        let owned = state.owners.entry(transaction).or_default();
        match keeps {
            Keeps::Insertions => owned.insertions.add(low, high),
            Keeps::Writes => {
                if owned.writes.is_empty() {
                    self.keeping_writes.fetch_add(1, Ordering::SeqCst);
                }
                owned.writes.add(low, high);
            }
        }
        let is_first = state.owners.len() > before;
        self.count.store(state.owners.len(), Ordering::SeqCst);
        is_first
    }

    /// Gives up all ranges of a transaction and wakes whom they may have
    /// stopped.
    pub(crate) fn release(&self, transaction: TransactionId) {
        let mut state = self.state.lock();
        let Some(owned) = state.owners.remove(&transaction) else {
            return;
        };
        self.count.store(state.owners.len(), Ordering::SeqCst);
        if !owned.writes.is_empty() {
            self.keeping_writes.fetch_sub(1, Ordering::SeqCst);
        }
        for waiter in &state.waiters {
            if owned.covers(&waiter.key, waiter.is_insertion) {
                waiter.transaction.ring();
            }
        }
    }

    /// Lists the bell unless nothing covers the key by now. False then.
    pub(crate) fn enlist(
        &self,
        key: &[u8],
        is_insertion: bool,
        transaction: &Arc<TransactionShared>,
    ) -> bool {
        let mut state = self.state.lock();
        if !state.held_by_others(key, is_insertion, transaction.id()) {
            return false;
        }
        transaction.arm();
        state.waiters.push(Waiter {
            transaction: Arc::clone(transaction),
            key: key.into(),
            is_insertion,
        });
        true
    }

    pub(crate) fn delist(&self, transaction: TransactionId) {
        let mut state = self.state.lock();
        state
            .waiters
            .retain(|waiter| waiter.transaction.id() != transaction);
    }

    /// Whom a waiting transaction waits for.
    pub(crate) fn blockers(&self, transaction: TransactionId) -> SmallVec<[TransactionId; 4]> {
        let state = self.state.lock();
        let waiter = state
            .waiters
            .iter()
            .find(|waiter| waiter.transaction.id() == transaction);
        let Some(waiter) = waiter else {
            return SmallVec::new();
        };
        let owners = state.owners.iter();
        owners
            .filter(|(owner, _)| **owner != transaction)
            .filter(|(_, owned)| owned.covers(&waiter.key, waiter.is_insertion))
            .map(|(owner, _)| *owner)
            .collect()
    }

    /// Bytes that the ranges take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        if !self.any() {
            return 0;
        }
        let state = self.state.lock();
        state.owners.values().map(Owned::bytes).sum()
    }
}

impl std::fmt::Debug for RangeLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RangeLocks({} owners)",
            self.count.load(Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);

    #[test]
    fn ranges_stop_others_and_not_their_owner() {
        let locks = RangeLocks::default();
        assert!(!locks.blocks(b"b", true, OTHER));
        assert!(locks.mark(ME, Keeps::Insertions, b"b", Some(b"d")));
        assert!(!locks.mark(ME, Keeps::Insertions, b"x", None));
        for (key, blocked) in [
            (&b"a"[..], false),
            (b"b", true),
            (b"c", true),
            (b"d", false),
        ] {
            assert_eq!(locks.blocks(key, true, OTHER), blocked, "{key:?}");
            assert!(!locks.blocks(key, true, ME));
        }
        assert!(locks.blocks(b"zzz", true, OTHER));
        locks.release(ME);
        assert!(!locks.any());
        assert!(!locks.blocks(b"c", true, OTHER));
        assert_eq!(locks.memory_bytes(), 0);
    }

    #[test]
    fn a_growing_scan_stays_one_range() {
        let locks = RangeLocks::default();
        for n in 0u32..1000 {
            let (low, high) = (n.to_be_bytes(), (n + 1).to_be_bytes());
            locks.mark(ME, Keeps::Insertions, &low, Some(&high));
        }
        assert!(locks.memory_bytes() < 2 * RANGE_BYTES);
        assert!(locks.blocks(&999u32.to_be_bytes(), true, OTHER));
        assert!(!locks.blocks(&1000u32.to_be_bytes(), true, OTHER));
    }

    #[test]
    fn waiters_are_rung_when_what_stopped_them_goes() {
        let locks = RangeLocks::default();
        let waiter = Arc::new(TransactionShared::new(OTHER));
        assert!(!locks.enlist(b"c", true, &waiter));
        locks.mark(ME, Keeps::Insertions, b"a", Some(b"m"));
        locks.mark(TransactionId(3), Keeps::Insertions, b"x", None);
        assert!(locks.enlist(b"c", true, &waiter));
        assert_eq!(locks.blockers(OTHER).as_slice(), [ME]);
        locks.release(TransactionId(3));
        assert!(!waiter.is_rung());
        locks.release(ME);
        assert!(waiter.is_rung());
        locks.delist(OTHER);
        assert!(locks.blockers(OTHER).is_empty());
    }

    #[test]
    fn ranges_that_keep_writes_stop_changes_too() {
        let locks = RangeLocks::default();
        locks.mark(ME, Keeps::Insertions, b"a", Some(b"c"));
        locks.mark(ME, Keeps::Writes, b"c", Some(b"e"));
        for (key, changes, inserts) in [
            (&b"b"[..], false, true),
            (b"c", true, true),
            (b"e", false, false),
        ] {
            assert_eq!(locks.blocks(key, false, OTHER), changes, "{key:?}");
            assert_eq!(locks.blocks(key, true, OTHER), inserts, "{key:?}");
            assert!(!locks.blocks(key, false, ME));
        }
        let waiter = Arc::new(TransactionShared::new(OTHER));
        assert!(!locks.enlist(b"b", false, &waiter));
        assert!(locks.enlist(b"d", false, &waiter));
        assert_eq!(locks.blockers(OTHER).as_slice(), [ME]);
        locks.release(ME);
        assert!(waiter.is_rung());
        assert!(!locks.blocks(b"d", false, OTHER));
    }

    proptest! {
        #[test]
        fn ranges_are_the_union_of_what_was_marked(
            marks in prop::collection::vec((0u8..60, prop::option::of(0u8..60)), 1..30),
        ) {
            let locks = RangeLocks::default();
            let mut covered = [false; 64];
            for (low, high) in marks {
                if high.is_some_and(|high| high <= low) {
                    continue;
                }
                locks.mark(ME, Keeps::Insertions, &[low], high.as_ref().map(std::slice::from_ref));
                for key in low..high.unwrap_or(64) {
                    covered[usize::from(key)] = true;
                }
            }
            for (key, covered) in covered.iter().enumerate() {
                prop_assert_eq!(locks.blocks(&[u8::try_from(key).unwrap()], true, OTHER), *covered);
            }
        }
    }
}
