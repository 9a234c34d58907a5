//! The table of write ids: from each id to its status, see [`WriteStatus`].
//!
//! Ids are allocated once, in ascending order. Readers take no lock: an atomic pointer names an
//! immutable directory of segments of atomic slots. The directory also contains the settled
//! watermark and the aborted ids below it, so a lookup sees a consistent pair.
//!
//! Pruning bounds the table:
//! 1. Start at the settled watermark. Advance over each id that is aborted, or
//!    committed at or before the oldest live snapshot. Collect the aborted ids.
//! 2. Publish a directory with the new watermark and the aborted ids, without the segments below
//!    the watermark.
//! 3. `forget_aborted` removes the aborted ids that no run contains any more.

mod directory;

use self::directory::{Directory, SEGMENT_IDS, encode, new_segment};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use arc_swap::ArcSwap;
use std::sync::Arc;
use teak_base::{CommitSequence, TransactionId, WriteId, WriteRangeStatus, WriteStatus};

/// The table of write ids.
pub struct WriteIdTable {
    directory: ArcSwap<Directory>,
    next: AtomicU64,
    /// Serialises growth and pruning of the directory.
    change: Mutex<()>,
}

impl WriteIdTable {
    /// Creates a table. The first id to allocate is `next` (at least 1). Ids below `below` are
    /// settled, except the `aborted` ones; ids from `below` to `next` start as committed at
    /// sequence 0 unless set otherwise.
    #[must_use]
    pub fn new(below: WriteId, next: WriteId, aborted: &[WriteId]) -> Self {
        let next = next.0.max(1);
        let below = below.0.clamp(1, next);
        let mut settled: Vec<u64> = aborted.iter().map(|id| id.0).collect();
        settled.sort_unstable();
        settled.dedup();
        let above = settled.split_off(settled.partition_point(|id| *id < below));
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
                let committed = WriteStatus::Committed(CommitSequence(0));
                slot.store(encode(committed), Ordering::Relaxed);
            }
        }
        for id in above {
            if let Some(slot) = directory.slot(id) {
                slot.store(encode(WriteStatus::Aborted), Ordering::Relaxed);
            }
        }
        Self {
            directory: ArcSwap::from_pointee(directory),
            next: AtomicU64::new(next),
            change: Mutex::new(()),
        }
    }

    /// Allocates the next id, active for `transaction`.
    pub fn allocate(&self, transaction: TransactionId) -> WriteId {
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        self.set(id, WriteStatus::Active(transaction));
        WriteId(id)
    }

    /// Registers an id found in the log during recovery: it becomes active for
    /// `transaction` unless its status is known, and is never allocated again.
    pub fn adopt(&self, id: WriteId, transaction: TransactionId) {
        let directory = self.directory.load();
        if id.0 < directory.below {
            return;
        }
        self.next.fetch_max(id.0 + 1, Ordering::AcqRel);
        let known = directory.is_known(id.0);
        drop(directory);
        if !known {
            self.set(id.0, WriteStatus::Active(transaction));
        }
    }

    /// Makes an id active again, regardless of its status. Recovery needs it
    /// for ids that were active when the catalogue was written.
    pub fn reactivate(&self, id: WriteId, transaction: TransactionId) {
        self.set(id.0, WriteStatus::Active(transaction));
    }

    fn set(&self, id: u64, status: WriteStatus) {
        let value = encode(status);
        if let Some(slot) = self.directory.load().slot(id) {
            // Sequentially consistent, because it is ordered with the count in `write_waits`.
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
            self.set(id.0, WriteStatus::Committed(sequence));
        }
    }

    /// Marks ids aborted.
    pub fn abort(&self, ids: &[WriteId]) {
        for id in ids {
            self.set(id.0, WriteStatus::Aborted);
        }
    }

    /// The status of `id`. The settled id (zero) is committed.
    #[must_use]
    pub fn status(&self, id: WriteId) -> WriteStatus {
        self.directory.load().status(id.0)
    }

    /// The status of all ids from `min` to `max`, both included, for readers at or after `oldest`.
    /// Returns `Unsettled` if too many of them are above the settled watermark.
    #[must_use]
    pub fn range_status(
        &self,
        min: WriteId,
        max: WriteId,
        oldest: CommitSequence,
    ) -> WriteRangeStatus {
        const CHECKED_IDS_MAX: u64 = 4096;
        let directory = self.directory.load();
        let aborted_before = |end: u64| directory.aborted.partition_point(|id| *id < end);
        let registered = aborted_before(max.0.saturating_add(1)) - aborted_before(min.0);
        let mut aborted = registered as u64;
        let first = min.0.max(directory.below);
        if max.0.saturating_sub(first) >= CHECKED_IDS_MAX && first <= max.0 {
            return WriteRangeStatus::Unsettled;
        }
        for id in first..=max.0 {
            match directory.status(id) {
                WriteStatus::Committed(at) if at <= oldest => {}
                WriteStatus::Aborted => aborted += 1,
                _ => return WriteRangeStatus::Unsettled,
            }
        }
        WriteRangeStatus::of(aborted, min, max)
    }

    /// The transaction that writes under `id`, if it is active.
    #[must_use]
    pub fn active_owner(&self, id: WriteId) -> Option<TransactionId> {
        match self.status(id) {
            WriteStatus::Active(owner) => Some(owner),
            _ => None,
        }
    }

    /// The next id to allocate.
    #[must_use]
    pub fn next(&self) -> WriteId {
        WriteId(self.next.load(Ordering::Acquire))
    }

    /// The settled watermark: every id below is aborted, or committed and visible to
    /// every snapshot.
    #[must_use]
    pub fn settled_below(&self) -> WriteId {
        WriteId(self.directory.load().below)
    }

    /// Active ids below `next`, ascending. The caller must have read `next`
    /// before the call.
    #[must_use]
    pub fn active_below(&self, next: WriteId) -> Vec<WriteId> {
        let directory = self.directory.load();
        (directory.below..next.0)
            .filter(|id| matches!(directory.status(*id), WriteStatus::Active(_)))
            .map(WriteId)
            .collect()
    }

    /// All registered aborted ids below `next`, ascending.
    #[must_use]
    pub fn aborted_below(&self, next: WriteId) -> Vec<WriteId> {
        let directory = self.directory.load();
        let above =
            (directory.below..next.0).filter(|id| directory.status(*id) == WriteStatus::Aborted);
        directory
            .aborted
            .iter()
            .copied()
            .chain(above)
            .map(WriteId)
            .collect()
    }

    /// Registered aborted ids below the settled watermark.
    #[must_use]
    pub fn aborted_settled(&self) -> usize {
        self.directory.load().aborted.len()
    }

    /// Advances the settled watermark over all ids that are aborted, or visible to every snapshot
    /// at or after `oldest`. Returns the new watermark.
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
        let dropped = usize::try_from(first - old.first).unwrap_or(0);
        self.directory.store(Arc::new(Directory {
            below,
            aborted,
            first,
            segments: old.segments.get(dropped..).unwrap_or_default().to_vec(),
        }));
        WriteId(below)
    }

    /// Removes aborted ids below `oldest_kept`. The caller ensures that no run or memtable contains
    /// them and no reader can find them.
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

    /// Memory of the table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let directory = self.directory.load();
        directory.segments.len() as u64 * SEGMENT_IDS * 8 + directory.aborted.len() as u64 * 8
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
