//! An immutable directory of the table: segments of atomic slots, and the ids
//! below which all writes are settled or aborted.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use teak_base::{CommitSequence, TransactionId, WriteStatus};

pub(super) const SEGMENT_IDS: u64 = 4096;

const TAG_BITS: u32 = 2;
const UNKNOWN: u64 = 0;
const ACTIVE: u64 = 1;
const COMMITTED: u64 = 2;
const ABORTED: u64 = 3;

pub(super) type Segment = Arc<[AtomicU64]>;

pub(super) fn new_segment() -> Segment {
    (0..SEGMENT_IDS).map(|_| AtomicU64::new(UNKNOWN)).collect()
}

/// The slot value of a status: a tag in the low bits, and the transaction or the
/// commit sequence.
pub(super) fn encode(status: WriteStatus) -> u64 {
    match status {
        WriteStatus::Active(transaction) => (transaction.0 << TAG_BITS) | ACTIVE,
        WriteStatus::Committed(sequence) => (sequence.0 << TAG_BITS) | COMMITTED,
        WriteStatus::Aborted => ABORTED,
    }
}

fn decode(slot: u64) -> WriteStatus {
    match slot & ((1 << TAG_BITS) - 1) {
        COMMITTED => WriteStatus::Committed(CommitSequence(slot >> TAG_BITS)),
        ABORTED => WriteStatus::Aborted,
        // The id was allocated, but its slot has not been stored yet.
        _ => WriteStatus::Active(TransactionId(slot >> TAG_BITS)),
    }
}

pub(super) struct Directory {
    /// Every id below is committed for all snapshots, or is in `aborted`.
    pub(super) below: u64,
    /// Aborted ids below `below`, ascending.
    pub(super) aborted: Arc<[u64]>,
    /// Number of the first segment held.
    pub(super) first: u64,
    pub(super) segments: Vec<Segment>,
}

impl Directory {
    pub(super) fn slot(&self, id: u64) -> Option<&AtomicU64> {
        let segment = (id / SEGMENT_IDS).checked_sub(self.first)?;
        let segment = self.segments.get(usize::try_from(segment).ok()?)?;
        segment.get(usize::try_from(id % SEGMENT_IDS).ok()?)
    }

    /// Whether the slot of `id` was set.
    pub(super) fn is_known(&self, id: u64) -> bool {
        self.slot(id)
            .is_some_and(|slot| slot.load(Ordering::Acquire) != UNKNOWN)
    }

    pub(super) fn status(&self, id: u64) -> WriteStatus {
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
        decode(slot)
    }
}
