//! Ranges of one index that transactions hold.
//!
//! Marks: what locking reads have looked at. Nobody but their owner inserts
//! there until the owner ends, so a repeated look finds no row that was not
//! there before. A mark may also keep others from changing the rows within,
//! which spares a long scan a lock for each. Owners do not stand in each other's
//! way: only a writer meets a mark. An owner's marks are kept as few disjoint
//! ranges, so a scan of any length costs one entry.
//!
//! A reader marks first, waits until the writes under way are done, and reads
//! then; a writer looks for marks while the reader's wait covers it. So either
//! the reader sees the write or the writer sees the mark.
//!
//! Row ranges: what a transaction that held too many row locks has instead, one
//! per index. A row in it is locked as if by name. It stops requests that come
//! later; who had locked or written a row of it before keeps that, and the owner
//! waits for him where they meet. An exclusive one never overlaps a mark of
//! another that keeps writes off, for its owner writes there without looking.
//!
//! Lock order: the wait graph, then a shard of row locks, then one index's
//! ranges, then a transaction's bell.

use crate::hash::LockId;
use crate::ranges::{Ranges, bytes_of};
use crate::report::{LockExtent, LockReport};
use crate::row_locks::LockMode;
use crate::shared::{TransactionId, TransactionShared};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::FileId;

/// What a mark keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Inserting a key. What is there is locked row by row.
    Insertions,
    /// Also changing or deleting what is there.
    Writes,
}

/// The marks of one owner.
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
        self.insertions.bytes + self.writes.bytes
    }
}

struct Waiter {
    transaction: Arc<TransactionShared>,
    key: Box<[u8]>,
    is_insertion: bool,
}

/// All rows `low <= key < high`.
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

    fn join(&mut self, other: RowRange) {
        self.mode = self.mode.max(other.mode);
        if other.low < self.low {
            self.low = other.low;
        }
        if other.high > self.high {
            self.high = other.high;
        }
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.low, Some(&self.high))
    }
}

#[derive(Default)]
struct State {
    owners: HashMap<TransactionId, Owned>,
    waiters: Vec<Waiter>,
    /// At most one per transaction.
    rows: Vec<(TransactionId, RowRange)>,
    /// Row locks whose queues a range of rows stops.
    stopped: Vec<LockId>,
}

impl State {
    fn held_by_others(&self, key: &[u8], is_insertion: bool, transaction: TransactionId) -> bool {
        let mut owners = self.owners.iter();
        owners.any(|(owner, owned)| *owner != transaction && owned.covers(key, is_insertion))
    }

    /// Whether a row range may be there beside what others have.
    fn has_room_for(&self, wanted: &RowRange, transaction: TransactionId) -> bool {
        let mut rows = self.rows.iter();
        let rows_conflict = rows.any(|(owner, range)| {
            *owner != transaction && range.mode.conflicts(wanted.mode) && range.overlaps(wanted)
        });
        let mut owners = self.owners.iter();
        let marks_conflict = wanted.mode == LockMode::Exclusive
            && owners.any(|(owner, owned)| {
                *owner != transaction && owned.writes.overlaps(&wanted.low, &wanted.high)
            });
        !rows_conflict && !marks_conflict
    }

    fn stops_row(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
        self.rows.iter().any(|(owner, range)| {
            *owner != transaction && range.mode.conflicts(mode) && range.covers(key)
        })
    }
}

/// How a change of ranges changed their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resized {
    pub before: u64,
    pub after: u64,
}

impl Resized {
    fn of(before: usize, after: usize) -> Self {
        Self {
            before: before as u64,
            after: after as u64,
        }
    }
}

/// The ranges of one index.
pub struct RangeLocks {
    file: FileId,
    /// Owners of marks; an insertion that reads zero need not look.
    count: AtomicUsize,
    /// Those whose marks keep any write off; so for other writes.
    keeping_writes: AtomicUsize,
    /// Row ranges; whoever wants a row and reads zero need not look.
    row_ranges: AtomicUsize,
    state: Mutex<State>,
}

impl RangeLocks {
    /// The ranges of the index in `file`.
    #[must_use]
    pub fn new(file: FileId) -> Self {
        Self {
            file,
            count: AtomicUsize::new(0),
            keeping_writes: AtomicUsize::new(0),
            row_ranges: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    /// The index.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Whether anybody has marked a range.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) != 0
    }

    /// Whether anybody holds a range of either kind.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.any() || self.any_rows()
    }

    /// Whether anybody holds a range in place of rows.
    #[must_use]
    pub fn any_rows(&self) -> bool {
        self.row_ranges.load(Ordering::SeqCst) != 0
    }

    /// Whether a mark of another transaction keeps this one from inserting the
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
    ) -> (bool, Resized) {
        let mut state = self.state.lock();
        let owners = state.owners.len();
        let owned = state.owners.entry(transaction).or_default();
        let before = owned.bytes();
        match keeps {
            Keeps::Insertions => owned.insertions.add(low, high),
            Keeps::Writes => {
                if owned.writes.is_empty() {
                    self.keeping_writes.fetch_add(1, Ordering::SeqCst);
                }
                owned.writes.add(low, high);
            }
        }
        let resized = Resized::of(before, owned.bytes());
        let is_first = state.owners.len() > owners;
        self.count.store(state.owners.len(), Ordering::SeqCst);
        (is_first, resized)
    }

    /// Makes one range of a transaction's marks of each kind, if it has several.
    pub(crate) fn join(&self, transaction: TransactionId) -> Option<Resized> {
        let mut state = self.state.lock();
        let owned = state.owners.get_mut(&transaction)?;
        let before = owned.bytes();
        let joined = [owned.insertions.join(), owned.writes.join()];
        joined
            .contains(&true)
            .then(|| Resized::of(before, owned.bytes()))
    }

    /// Gives up all marks of a transaction and wakes whom they may
    /// have stopped. Returns their bytes.
    pub(crate) fn release(&self, transaction: TransactionId) -> u64 {
        let mut state = self.state.lock();
        let Some(owned) = state.owners.remove(&transaction) else {
            return 0;
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
        owned.bytes() as u64
    }

    /// Whether a row range of another transaction stops a lock of the row.
    #[inline]
    #[must_use]
    pub fn stops_row(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
        self.row_ranges.load(Ordering::SeqCst) != 0
            && self.state.lock().stops_row(key, transaction, mode)
    }

    /// The same for the first of a lock's queue; lists the lock if so, to be
    /// looked at again when a row range goes.
    pub(crate) fn stops_queued(
        &self,
        key: &[u8],
        transaction: TransactionId,
        mode: LockMode,
        lock: LockId,
    ) -> bool {
        if self.row_ranges.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let stopped = state.stops_row(key, transaction, mode);
        if stopped && !state.stopped.contains(&lock) {
            state.stopped.push(lock);
        }
        stopped
    }

    /// Adds the owners of row ranges that stop a lock of the row.
    pub(crate) fn add_row_stoppers(
        &self,
        key: &[u8],
        transaction: TransactionId,
        mode: LockMode,
        blockers: &mut SmallVec<[TransactionId; 4]>,
    ) {
        if self.row_ranges.load(Ordering::SeqCst) == 0 {
            return;
        }
        let state = self.state.lock();
        let stopping = state.rows.iter().filter(|(owner, range)| {
            *owner != transaction && range.mode.conflicts(mode) && range.covers(key)
        });
        blockers.extend(stopping.map(|(owner, _)| *owner));
    }

    /// Gives a transaction a row range, joined with the one it may have. `None`
    /// when it would conflict with what another has. The range that it has then.
    pub(crate) fn widen(
        &self,
        transaction: TransactionId,
        wanted: RowRange,
    ) -> Option<(RowRange, Resized)> {
        let mut state = self.state.lock();
        let own = state
            .rows
            .iter()
            .position(|(owner, _)| *owner == transaction);
        let old = own.and_then(|place| state.rows.get(place));
        let before = old.map_or(0, |(_, range)| range.bytes());
        let joined = match old {
            Some((_, range)) => {
                let mut joined = range.clone();
                joined.join(wanted);
                joined
            }
            None => wanted,
        };
        if !state.has_room_for(&joined, transaction) {
            return None;
        }
        let resized = Resized::of(before, joined.bytes());
        state.rows.retain(|(owner, _)| *owner != transaction);
        state.rows.push((transaction, joined.clone()));
        self.row_ranges.store(state.rows.len(), Ordering::SeqCst);
        Some((joined, resized))
    }

    /// Gives up a transaction's row range. Returns its bytes and the locks whose
    /// queues must be looked at again.
    pub(crate) fn release_rows(&self, transaction: TransactionId) -> (u64, Vec<LockId>) {
        let mut state = self.state.lock();
        let rows = state.rows.iter();
        let bytes = rows
            .filter(|(owner, _)| *owner == transaction)
            .map(|(_, range)| range.bytes() as u64)
            .sum();
        state.rows.retain(|(owner, _)| *owner != transaction);
        self.row_ranges.store(state.rows.len(), Ordering::SeqCst);
        (bytes, std::mem::take(&mut state.stopped))
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

    /// The ranges held, copied.
    #[must_use]
    pub fn list(&self) -> Vec<LockReport> {
        if !self.in_use() {
            return Vec::new();
        }
        let state = self.state.lock();
        let report = |transaction, extent, mode| LockReport {
            transaction,
            file: self.file,
            extent,
            mode,
        };
        let mut list = Vec::new();
        for (owner, owned) in &state.owners {
            for (ranges, keeps) in [
                (&owned.insertions, Keeps::Insertions),
                (&owned.writes, Keeps::Writes),
            ] {
                for (low, high) in &ranges.by_low {
                    let (low, high) = (low.clone(), high.clone());
                    let extent = LockExtent::Range { low, high, keeps };
                    list.push(report(*owner, extent, LockMode::Shared));
                }
            }
        }
        for (owner, range) in &state.rows {
            let (low, high) = (range.low.clone(), range.high.clone());
            list.push(report(*owner, LockExtent::Rows { low, high }, range.mode));
        }
        list
    }

    /// Bytes that the ranges take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        if !self.in_use() {
            return 0;
        }
        let state = self.state.lock();
        let insertions: usize = state.owners.values().map(Owned::bytes).sum();
        let rows: usize = state.rows.iter().map(|(_, range)| range.bytes()).sum();
        insertions + rows
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
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);

    #[test]
    fn ranges_stop_others_and_not_their_owner() {
        let locks = RangeLocks::new(FileId(1));
        assert!(!locks.blocks(b"b", true, OTHER));
        assert!(locks.mark(ME, Keeps::Insertions, b"b", Some(b"d")).0);
        assert!(!locks.mark(ME, Keeps::Insertions, b"x", None).0);
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
        let locks = RangeLocks::new(FileId(1));
        for n in 0u32..1000 {
            let (low, high) = (n.to_be_bytes(), (n + 1).to_be_bytes());
            locks.mark(ME, Keeps::Insertions, &low, Some(&high));
        }
        assert!(locks.memory_bytes() < 2 * crate::ranges::RANGE_BYTES);
        assert!(locks.blocks(&999u32.to_be_bytes(), true, OTHER));
        assert!(!locks.blocks(&1000u32.to_be_bytes(), true, OTHER));
    }

    #[test]
    fn waiters_are_rung_when_what_stopped_them_goes() {
        let locks = RangeLocks::new(FileId(1));
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

    fn rows(low: &[u8], high: &[u8], mode: LockMode) -> RowRange {
        RowRange {
            low: low.into(),
            high: high.into(),
            mode,
        }
    }

    #[test]
    fn row_ranges_stop_later_locks_of_others_by_their_mode() {
        let locks = RangeLocks::new(FileId(1));
        assert!(!locks.stops_row(b"c", OTHER, LockMode::Exclusive));
        assert!(
            locks
                .widen(ME, rows(b"b", b"f", LockMode::Shared))
                .is_some()
        );
        assert!(!locks.stops_row(b"c", OTHER, LockMode::Shared));
        assert!(locks.stops_row(b"c", OTHER, LockMode::Exclusive));
        assert!(!locks.stops_row(b"f", OTHER, LockMode::Exclusive));
        assert!(!locks.stops_row(b"c", ME, LockMode::Exclusive));
        // Shared ranges overlap, but none becomes exclusive then.
        assert!(
            locks
                .widen(OTHER, rows(b"a", b"c", LockMode::Shared))
                .is_some()
        );
        assert!(
            locks
                .widen(ME, rows(b"d", b"h", LockMode::Exclusive))
                .is_none()
        );
        let (_, stopped) = locks.release_rows(OTHER);
        assert!(stopped.is_empty());
        let (joined, resized) = locks
            .widen(ME, rows(b"d", b"h", LockMode::Exclusive))
            .unwrap();
        assert_eq!((&*joined.low, &*joined.high), (&b"b"[..], &b"h"[..]));
        assert_eq!(resized.after, locks.memory_bytes() as u64);
        assert!(locks.stops_queued(b"g", OTHER, LockMode::Shared, LockId(7)));
        assert!(locks.stops_queued(b"g", OTHER, LockMode::Shared, LockId(7)));
        assert_eq!(locks.release_rows(ME).1, [LockId(7)]);
        assert_eq!(locks.memory_bytes(), 0);
    }

    #[test]
    fn ranges_that_keep_writes_stop_changes_too() {
        let locks = RangeLocks::new(FileId(1));
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
        // Whoever holds rows by a range writes them without looking.
        let exclusive = |low: &[u8], high: &[u8]| rows(low, high, LockMode::Exclusive);
        assert!(locks.widen(OTHER, exclusive(b"b", b"d")).is_none());
        assert!(locks.widen(OTHER, exclusive(b"d", b"x")).is_none());
        assert!(
            locks
                .widen(OTHER, rows(b"b", b"d", LockMode::Shared))
                .is_some()
        );
        locks.release_rows(OTHER);
        assert!(locks.widen(OTHER, exclusive(b"a", b"c")).is_some());
        locks.release_rows(OTHER);
        locks.release(ME);
        assert!(waiter.is_rung());
        assert!(!locks.blocks(b"d", false, OTHER));
        assert_eq!(locks.memory_bytes(), 0);
    }

    #[test]
    fn joined_ranges_are_one_that_holds_them_all() {
        let locks = RangeLocks::new(FileId(1));
        locks.mark(ME, Keeps::Insertions, b"b", Some(b"c"));
        assert_eq!(locks.join(ME), None);
        locks.mark(ME, Keeps::Insertions, b"m", Some(b"o"));
        let resized = locks.join(ME).unwrap();
        assert!(resized.after < resized.before);
        assert!(locks.blocks(b"f", true, OTHER) && locks.blocks(b"n", true, OTHER));
        assert!(!locks.blocks(b"o", true, OTHER) && !locks.blocks(b"a", true, OTHER));
        assert_eq!(locks.release(ME), resized.after);
    }

    proptest! {
        #[test]
        fn ranges_are_the_union_of_what_was_marked(
            marks in prop::collection::vec((0u8..60, prop::option::of(0u8..60)), 1..30),
        ) {
            let locks = RangeLocks::new(FileId(1));
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
            let bytes: usize = locks
                .list()
                .iter()
                .map(|lock| match &lock.extent {
                    LockExtent::Range { low, high, .. } => bytes_of(low, high.as_deref()),
                    _ => 0,
                })
                .sum();
            prop_assert_eq!(locks.memory_bytes(), bytes);
            for (key, covered) in covered.iter().enumerate() {
                prop_assert_eq!(locks.blocks(&[u8::try_from(key).unwrap()], true, OTHER), *covered);
            }
        }
    }
}
