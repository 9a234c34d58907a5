//! Ranges of one index that transactions hold.
//!
//! Marks: what locking reads have looked at. Nobody but their owner inserts
//! there until the owner ends, so a repeated look finds no row that was not
//! there before. A mark may also keep others from changing the rows within,
//! which spares a long scan a lock for each. Marks do not stand in each other's
//! way: only a writer meets a mark, and who wants to mark where a writer waits
//! already goes behind it (see `range_waits`). An owner's marks are kept as few
//! disjoint ranges, so a scan of any length costs one entry.
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
use crate::range_waits::{RangeWaits, Wish};
use crate::ranges::{Ranges, bytes_of};
use crate::report::{LockExtent, LockReport};
use crate::row_locks::LockMode;
use crate::shared::TransactionHandle;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::wait_listener::Blockers;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::FileId;
use teak_base::TransactionId;

/// What a mark keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLockKind {
    /// Inserting a key. What is there is locked row by row.
    Gap,
    /// Also changing or deleting what is there.
    Write,
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

/// Whether a transaction's own marks cover a key, against insertions or any write.
fn covered_by(own: Option<&Owned>) -> impl Fn(&[u8], bool) -> bool {
    move |key, is_insertion| own.is_some_and(|own| own.covers(key, is_insertion))
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
    waits: RangeWaits,
    /// At most one per transaction.
    rows: Vec<(TransactionId, RowRange)>,
    /// Row locks whose queues a range of rows stops.
    stopped: Vec<LockId>,
}

impl State {
    /// Whose marks keep a transaction from a write.
    fn stoppers(
        &self,
        key: &[u8],
        is_insertion: bool,
        transaction: TransactionId,
    ) -> impl Iterator<Item = TransactionId> {
        let owners = self.owners.iter();
        owners
            .filter(move |(owner, owned)| **owner != transaction && owned.covers(key, is_insertion))
            .map(|(owner, _)| *owner)
    }

    fn held_by_others(&self, key: &[u8], is_insertion: bool, transaction: TransactionId) -> bool {
        let mut stoppers = self.stoppers(key, is_insertion, transaction);
        stoppers.next().is_some()
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

    fn blocks_row(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
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
        self.any() || self.has_row_ranges()
    }

    /// Whether anybody holds a range in place of rows.
    #[must_use]
    pub fn has_row_ranges(&self) -> bool {
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

    /// Marks `low <= key < high` for a transaction, whoever waits there to
    /// write. True when it is the transaction's first in this index.
    pub(crate) fn mark(
        &self,
        transaction: TransactionId,
        keeps: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> (bool, Resized) {
        self.add_mark(&mut self.state.lock(), transaction, keeps, low, high)
    }

    /// The same behind whoever waits there to write. `None` when somebody does:
    /// the transaction's bell is armed then, and [`RangeLocks::withdraw`] must
    /// follow unless it asks again.
    pub(crate) fn mark_in_turn(
        &self,
        transaction: &Arc<TransactionHandle>,
        keeps: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<(bool, Resized)> {
        let mut state = self.state.lock();
        let State { owners, waits, .. } = &mut *state;
        let own = owners.get(&transaction.id());
        let may_mark = waits.is_empty() || {
            let wanted = Wish {
                keeps,
                low: low.into(),
                high: high.map(Into::into),
            };
            waits.may_mark(transaction, wanted, covered_by(own))
        };
        may_mark.then(|| self.add_mark(&mut state, transaction.id(), keeps, low, high))
    }

    /// A transaction that was to mark in its turn does not.
    pub(crate) fn withdraw(&self, transaction: TransactionId) {
        self.state.lock().waits.withdraw(transaction);
    }

    fn add_mark(
        &self,
        state: &mut State,
        transaction: TransactionId,
        keeps: RangeLockKind,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> (bool, Resized) {
        let owners = state.owners.len();
        let owned = state.owners.entry(transaction).or_default();
        let before = owned.bytes();
        match keeps {
            RangeLockKind::Gap => owned.insertions.add(low, high),
            RangeLockKind::Write => {
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
        let stopped = |key: &[u8], is_insertion| owned.covers(key, is_insertion);
        state.waits.wake_writers(stopped);
        owned.bytes() as u64
    }

    /// Whether a row range of another transaction stops a lock of the row.
    #[inline]
    #[must_use]
    pub fn blocks_row(&self, key: &[u8], transaction: TransactionId, mode: LockMode) -> bool {
        self.row_ranges.load(Ordering::SeqCst) != 0
            && self.state.lock().blocks_row(key, transaction, mode)
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
        let stopped = state.blocks_row(key, transaction, mode);
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
        blockers: &mut Blockers,
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

    /// Puts a writer in line unless no mark covers the key by now. False then.
    /// [`RangeLocks::leave`] must follow.
    pub(crate) fn enlist(
        &self,
        key: &[u8],
        is_insertion: bool,
        transaction: &Arc<TransactionHandle>,
    ) -> bool {
        let mut state = self.state.lock();
        let stopped = state.held_by_others(key, is_insertion, transaction.id());
        if stopped {
            state.waits.stop_writer(key, is_insertion, transaction);
        }
        stopped
    }

    /// A writer in line sleeps no more.
    pub(crate) fn awake(&self, transaction: TransactionId) {
        self.state.lock().waits.awake(transaction);
    }

    /// A writer has written or will not: its place in line is free.
    pub(crate) fn leave(&self, transaction: TransactionId) {
        self.state.lock().waits.leave(transaction);
    }

    /// Whom a waiting transaction waits for.
    pub(crate) fn blockers(&self, transaction: TransactionId) -> Blockers {
        let state = self.state.lock();
        if let Some((key, is_insertion)) = state.waits.asleep(transaction) {
            return state.stoppers(key, is_insertion, transaction).collect();
        }
        let own = state.owners.get(&transaction);
        state.waits.ahead_of_marker(transaction, covered_by(own))
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
            for (ranges, kind) in [
                (&owned.insertions, RangeLockKind::Gap),
                (&owned.writes, RangeLockKind::Write),
            ] {
                for (low, high) in &ranges.by_low {
                    let (low, high) = (low.clone(), high.clone());
                    let extent = LockExtent::Range { low, high, kind };
                    list.push(report(*owner, extent, LockMode::Shared));
                }
            }
        }
        for (owner, range) in &state.rows {
            let (low, high) = (range.low.clone(), range.high.clone());
            list.push(report(
                *owner,
                LockExtent::RowRange { low, high },
                range.mode,
            ));
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
mod tests;
