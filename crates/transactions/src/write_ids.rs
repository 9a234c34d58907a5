//! What became of each write: the table from write id to active, committed at
//! a sequence, or aborted.
//!
//! Readers take no lock: one atomic pointer names an immutable directory of
//! segments of atomics. The directory also says below which id everything is
//! settled, and which of those ids are aborted, so a lookup always sees both
//! halves from one moment. Ids are handed out once, in ascending order.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use arc_swap::ArcSwap;
use std::sync::Arc;
use teak_base::TransactionId;
use teak_base::{CommitSequence, WriteId};
use teak_base::{WriteRangeStatus, WriteStatus};

const SEGMENT_IDS: u64 = 4096;

const TAG_BITS: u32 = 2;
const UNKNOWN: u64 = 0;
const ACTIVE: u64 = 1;
const COMMITTED: u64 = 2;
const ABORTED: u64 = 3;

type Segment = Arc<[AtomicU64]>;

struct Directory {
    /// Every id below is committed for all snapshots, or listed in `aborted`.
    below: u64,
    /// Aborted ids below `below`, ascending.
    aborted: Arc<[u64]>,
    /// Number of the first segment held.
    first: u64,
    segments: Vec<Segment>,
}

impl Directory {
    fn slot(&self, id: u64) -> Option<&AtomicU64> {
        let segment = (id / SEGMENT_IDS).checked_sub(self.first)?;
        let segment = self.segments.get(usize::try_from(segment).ok()?)?;
        segment.get(usize::try_from(id % SEGMENT_IDS).ok()?)
    }

    fn status(&self, id: u64) -> WriteStatus {
        if id < self.below {
            return if self.aborted.binary_search(&id).is_ok() {
                WriteStatus::Aborted
            } else {
                WriteStatus::Committed(CommitSequence(0))
            };
        }
        let slot = self
            .slot(id)
            .map_or(UNKNOWN, |slot| slot.load(Ordering::Acquire));
        match slot & ((1 << TAG_BITS) - 1) {
            COMMITTED => WriteStatus::Committed(CommitSequence(slot >> TAG_BITS)),
            ABORTED => WriteStatus::Aborted,
            // An id that was handed out an instant ago is not stored yet.
            _ => WriteStatus::Active(TransactionId(slot >> TAG_BITS)),
        }
    }
}

/// The table of write ids.
pub struct WriteIdTable {
    directory: ArcSwap<Directory>,
    next: AtomicU64,
    /// Serialises growth and pruning of the directory.
    change: Mutex<()>,
}

fn new_segment() -> Segment {
    (0..SEGMENT_IDS).map(|_| AtomicU64::new(UNKNOWN)).collect()
}

impl WriteIdTable {
    /// A table that hands out `next` first (at least 1). Ids below `below` are
    /// settled, except the `aborted` ones; ids from `below` to `next` start
    /// as committed at sequence 0 unless set otherwise.
    #[must_use]
    pub fn new(below: WriteId, next: WriteId, aborted: &[WriteId]) -> Self {
        let next = next.0.max(1);
        let below = below.0.clamp(1, next);
        let mut settled: Vec<u64> = aborted.iter().map(|id| id.0).collect();
        settled.sort_unstable();
        settled.dedup();
        let open = settled.split_off(settled.partition_point(|id| *id < below));
        let first = below / SEGMENT_IDS;
        let segments = (first..=next / SEGMENT_IDS)
            .map(|_| new_segment())
            .collect();
        let directory = Directory {
            below,
            aborted: settled.into(),
            first,
            segments,
        };
        for id in below..next {
            if let Some(slot) = directory.slot(id) {
                slot.store(COMMITTED, Ordering::Relaxed);
            }
        }
        for id in open {
            if let Some(slot) = directory.slot(id) {
                slot.store(ABORTED, Ordering::Relaxed);
            }
        }
        Self {
            directory: ArcSwap::from_pointee(directory),
            next: AtomicU64::new(next),
            change: Mutex::new(()),
        }
    }

    /// Hands out the next id, active for `transaction`.
    pub fn allocate(&self, transaction: TransactionId) -> WriteId {
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        self.set(id, (transaction.0 << TAG_BITS) | ACTIVE);
        WriteId(id)
    }

    /// Notes an id met in the log during recovery: it becomes active for
    /// `transaction` unless its fate is known, and is never handed out again.
    pub fn adopt(&self, id: WriteId, transaction: TransactionId) {
        let directory = self.directory.load();
        if id.0 < directory.below {
            return;
        }
        self.next.fetch_max(id.0 + 1, Ordering::AcqRel);
        let known = directory
            .slot(id.0)
            .is_some_and(|slot| slot.load(Ordering::Acquire) != UNKNOWN);
        drop(directory);
        if !known {
            self.set(id.0, (transaction.0 << TAG_BITS) | ACTIVE);
        }
    }

    /// Makes an id active again, whatever it was: recovery of ids that were
    /// active when the catalogue was written.
    pub fn reactivate(&self, id: WriteId, transaction: TransactionId) {
        self.set(id.0, (transaction.0 << TAG_BITS) | ACTIVE);
    }

    fn set(&self, id: u64, value: u64) {
        if let Some(slot) = self.directory.load().slot(id) {
            // Sequentially consistent: pairs with the waiters' count, see `waits`.
            slot.store(value, Ordering::SeqCst);
            return;
        }
        let _change = self.change.lock();
        let old = self.directory.load_full();
        if id < old.below {
            return;
        }
        if let Some(slot) = old.slot(id) {
            slot.store(value, Ordering::SeqCst);
            return;
        }
        let mut segments = old.segments.clone();
        while old.first + segments.len() as u64 <= id / SEGMENT_IDS {
            segments.push(new_segment());
        }
        let grown = Directory {
            below: old.below,
            aborted: Arc::clone(&old.aborted),
            first: old.first,
            segments,
        };
        if let Some(slot) = grown.slot(id) {
            slot.store(value, Ordering::SeqCst);
        }
        self.directory.store(Arc::new(grown));
    }

    /// Marks ids committed at `sequence`. The caller makes the sequence
    /// visible to readers afterwards.
    pub fn commit(&self, ids: &[WriteId], sequence: CommitSequence) {
        for id in ids {
            self.set(id.0, (sequence.0 << TAG_BITS) | COMMITTED);
        }
    }

    /// Marks ids aborted.
    pub fn abort(&self, ids: &[WriteId]) {
        for id in ids {
            self.set(id.0, ABORTED);
        }
    }

    /// What became of `id`. Settled (zero) ids are committed.
    #[must_use]
    pub fn status(&self, id: WriteId) -> WriteStatus {
        self.directory.load().status(id.0)
    }

    /// What became of all ids from `least` to `greatest`, for readers at or
    /// after `oldest`. Gives up on many that are not settled.
    #[must_use]
    pub fn range_status(
        &self,
        least: WriteId,
        greatest: WriteId,
        oldest: CommitSequence,
    ) -> WriteRangeStatus {
        const ASKED_MAX: u64 = 4096;
        let directory = self.directory.load();
        let listed_to = |end: u64| directory.aborted.partition_point(|id| *id < end);
        let listed = listed_to(greatest.0.saturating_add(1)) - listed_to(least.0);
        let mut aborted = listed as u64;
        let open = least.0.max(directory.below);
        if greatest.0.saturating_sub(open) >= ASKED_MAX && open <= greatest.0 {
            return WriteRangeStatus::Unsettled;
        }
        for id in open..=greatest.0 {
            match directory.status(id) {
                WriteStatus::Committed(at) if at <= oldest => {}
                WriteStatus::Aborted => aborted += 1,
                _ => return WriteRangeStatus::Unsettled,
            }
        }
        WriteRangeStatus::of(aborted, least, greatest)
    }

    /// The transaction that runs under `id`, if it is undecided.
    #[must_use]
    pub fn active_owner(&self, id: WriteId) -> Option<TransactionId> {
        match self.status(id) {
            WriteStatus::Active(owner) => Some(owner),
            _ => None,
        }
    }

    /// The id that will be handed out next.
    #[must_use]
    pub fn next(&self) -> WriteId {
        WriteId(self.next.load(Ordering::Acquire))
    }

    /// Below this id nothing is undecided or hidden from a snapshot.
    #[must_use]
    pub fn settled_below(&self) -> WriteId {
        WriteId(self.directory.load().below)
    }

    /// Undecided ids below `next` (as read by the caller before), ascending.
    #[must_use]
    pub fn active_below(&self, next: WriteId) -> Vec<WriteId> {
        let directory = self.directory.load();
        (directory.below..next.0)
            .filter(|id| matches!(directory.status(*id), WriteStatus::Active(_)))
            .map(WriteId)
            .collect()
    }

    /// All listed aborted ids below `next`, ascending.
    #[must_use]
    pub fn aborted_below(&self, next: WriteId) -> Vec<WriteId> {
        let directory = self.directory.load();
        let open =
            (directory.below..next.0).filter(|id| directory.status(*id) == WriteStatus::Aborted);
        directory
            .aborted
            .iter()
            .copied()
            .chain(open)
            .map(WriteId)
            .collect()
    }

    /// How many aborted ids are listed below the settled mark.
    #[must_use]
    pub fn aborted_settled(&self) -> usize {
        self.directory.load().aborted.len()
    }

    /// Moves the settled mark up over everything that is aborted or that every
    /// snapshot at or after `oldest` sees. Returns the new mark.
    pub fn prune(&self, oldest: CommitSequence) -> WriteId {
        let _change = self.change.lock();
        let old = self.directory.load_full();
        let next = self.next.load(Ordering::Acquire);
        let mut below = old.below;
        let mut newly_aborted = Vec::new();
        while below < next {
            match old.status(below) {
                WriteStatus::Committed(sequence) if sequence <= oldest => {}
                WriteStatus::Aborted => newly_aborted.push(below),
                _ => break,
            }
            below += 1;
        }
        if below == old.below {
            return WriteId(below);
        }
        let aborted = if newly_aborted.is_empty() {
            Arc::clone(&old.aborted)
        } else {
            old.aborted.iter().copied().chain(newly_aborted).collect()
        };
        let first = below / SEGMENT_IDS;
        let gone = usize::try_from(first - old.first).unwrap_or(0);
        self.directory.store(Arc::new(Directory {
            below,
            aborted,
            first,
            segments: old.segments.get(gone..).unwrap_or_default().to_vec(),
        }));
        WriteId(below)
    }

    /// Forgets aborted ids below `oldest_kept`: no container holds them any
    /// more and no reader that could meet them lives.
    pub fn forget_aborted(&self, oldest_kept: WriteId) {
        let _change = self.change.lock();
        let old = self.directory.load_full();
        let limit = oldest_kept.0.min(old.below);
        let keep = old.aborted.partition_point(|id| *id < limit);
        if keep == 0 {
            return;
        }
        self.directory.store(Arc::new(Directory {
            below: old.below,
            aborted: old.aborted.get(keep..).unwrap_or_default().into(),
            first: old.first,
            segments: old.segments.clone(),
        }));
    }

    /// Bytes held by the table.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let directory = self.directory.load();
        directory.segments.len() as u64 * SEGMENT_IDS * 8 + directory.aborted.len() as u64 * 8
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWNER: TransactionId = TransactionId(5);

    fn fresh() -> WriteIdTable {
        WriteIdTable::new(WriteId(1), WriteId(1), &[])
    }

    #[test]
    fn fates_survive_pruning() {
        let table = fresh();
        let ids: Vec<WriteId> = (0..10_000).map(|_| table.allocate(OWNER)).collect();
        for (n, id) in ids.iter().enumerate() {
            match n % 3 {
                0 => table.abort(&[*id]),
                _ => table.commit(&[*id], CommitSequence(n as u64 + 1)),
            }
        }
        assert_eq!(table.prune(CommitSequence(9000)), WriteId(9002));
        for (n, id) in ids.iter().enumerate() {
            match (n % 3, table.status(*id)) {
                (0, fate) => assert_eq!(fate, WriteStatus::Aborted),
                (_, WriteStatus::Committed(CommitSequence(0))) => assert!(id.0 < 9002),
                (_, fate) => assert_eq!(fate, WriteStatus::Committed(CommitSequence(n as u64 + 1))),
            }
        }
        assert_eq!(table.aborted_below(table.next()).len(), 3334);
    }

    #[test]
    fn an_undecided_id_holds_the_mark() {
        let table = fresh();
        let first = table.allocate(OWNER);
        let second = table.allocate(OWNER);
        table.commit(&[second], CommitSequence(1));
        assert_eq!(table.prune(CommitSequence(1)), first);
        assert_eq!(table.active_below(table.next()), [first]);
        assert_eq!(table.active_owner(first), Some(OWNER));
        table.abort(&[first]);
        assert_eq!(table.prune(CommitSequence(1)), WriteId(3));
    }

    #[test]
    fn forgotten_ids_count_as_settled() {
        let table = fresh();
        let id = table.allocate(OWNER);
        let kept = table.allocate(OWNER);
        table.abort(&[id, kept]);
        table.prune(CommitSequence(0));
        table.forget_aborted(kept);
        assert_eq!(table.status(id), WriteStatus::Committed(CommitSequence(0)));
        assert_eq!(table.status(kept), WriteStatus::Aborted);
    }

    #[test]
    fn recovery_restores_what_was_undecided() {
        let table = WriteIdTable::new(WriteId(5), WriteId(9), &[WriteId(2), WriteId(6)]);
        table.reactivate(WriteId(7), OWNER);
        table.adopt(WriteId(6), OWNER);
        table.adopt(WriteId(50_000), OWNER);
        assert_eq!(table.status(WriteId(2)), WriteStatus::Aborted);
        assert_eq!(table.status(WriteId(6)), WriteStatus::Aborted);
        assert_eq!(table.status(WriteId(7)), WriteStatus::Active(OWNER));
        assert_eq!(
            table.status(WriteId(8)),
            WriteStatus::Committed(CommitSequence(0))
        );
        assert_eq!(table.status(WriteId(50_000)), WriteStatus::Active(OWNER));
        assert_eq!(table.next(), WriteId(50_001));
    }

    #[test]
    fn readers_never_see_a_wrong_fate_while_the_table_is_pruned() {
        let table = fresh();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..60_000u64 {
                    let id = table.allocate(OWNER);
                    if n % 7 == 0 {
                        table.abort(&[id]);
                    } else {
                        table.commit(&[id], CommitSequence(n));
                    }
                    if n % 1000 == 0 {
                        table.prune(CommitSequence(n));
                    }
                }
            });
            while !writer.is_finished() {
                let next = table.next().0;
                for id in next.saturating_sub(9000).max(1)..next {
                    let aborted = table.status(WriteId(id)) == WriteStatus::Aborted;
                    if aborted {
                        assert_eq!(id % 7, 0);
                    } else if id + 1 < next {
                        assert_ne!(id % 7, 0, "id {id}");
                    }
                }
            }
        });
    }

    proptest! {
        #[test]
        fn table_agrees_with_a_plain_map(steps in proptest::collection::vec(0u8..4, 1..300)) {
            let table = fresh();
            let mut model: Vec<(WriteId, WriteStatus)> = Vec::new();
            let mut sequence = 0;
            for step in steps {
                match step {
                    0 | 1 => model.push((table.allocate(OWNER), WriteStatus::Active(OWNER))),
                    2 => {
                        if let Some(open) = model.iter_mut().find(|(_, fate)| matches!(fate, WriteStatus::Active(_))) {
                            sequence += 1;
                            table.commit(&[open.0], CommitSequence(sequence));
                            open.1 = WriteStatus::Committed(CommitSequence(sequence));
                        }
                    }
                    _ => {
                        if let Some(open) = model.iter_mut().rev().find(|(_, fate)| matches!(fate, WriteStatus::Active(_))) {
                            table.abort(&[open.0]);
                            open.1 = WriteStatus::Aborted;
                        }
                        table.prune(CommitSequence(sequence / 2));
                    }
                }
                for (id, fate) in &model {
                    let found = table.status(*id);
                    let settled = found == WriteStatus::Committed(CommitSequence(0))
                        && matches!(fate, WriteStatus::Committed(s) if s.0 <= sequence / 2);
                    prop_assert!(found == *fate || settled);
                }
            }
        }
    }
}
