//! The status of one id in 64 bits: a tag in the low bits, and the transaction or
//! the commit sequence above. Also the rule by which compaction replaces commit
//! sequences by equal ones.

use teak_base::{CommitSequence, TransactionId, WriteStatus};

const TAG_BITS: u32 = 2;
const TAG: u64 = (1 << TAG_BITS) - 1;
const ACTIVE: u64 = 1;
const COMMITTED: u64 = 2;

/// No status has been stored: the id is not allocated, is being allocated, or was skipped.
pub(super) const UNKNOWN: u64 = 0;
pub(super) const ABORTED: u64 = 3;
/// Committed, and visible to every snapshot.
pub(super) const SETTLED: u64 = COMMITTED;

pub(super) fn encode(status: WriteStatus) -> u64 {
    match status {
        WriteStatus::Active(transaction) => (transaction.0 << TAG_BITS) | ACTIVE,
        WriteStatus::Committed(sequence) => (sequence.0 << TAG_BITS) | COMMITTED,
        WriteStatus::Aborted => ABORTED,
    }
}

#[inline]
pub(super) fn decode(word: u64) -> WriteStatus {
    match word & TAG {
        COMMITTED => WriteStatus::Committed(CommitSequence(word >> TAG_BITS)),
        ABORTED => WriteStatus::Aborted,
        _ => WriteStatus::Active(TransactionId(word >> TAG_BITS)),
    }
}

#[inline]
pub(super) fn is_committed(word: u64) -> bool {
    word & TAG == COMMITTED
}

#[inline]
pub(super) fn is_active(word: u64) -> bool {
    word & TAG < COMMITTED
}

/// The gaps between live snapshots. Two commits in one gap are visible to the same
/// live snapshots, and to all later ones.
pub(super) struct SnapshotGaps<'a>(pub(super) &'a [CommitSequence]);

impl SnapshotGaps<'_> {
    /// Returns the same status for all commits of a gap: the sequence of the snapshot at its end,
    /// or [`SETTLED`] up to the oldest snapshot. A commit after the newest sequence of the list
    /// keeps its sequence, because later snapshots may divide the commits after the list.
    #[inline]
    pub(super) fn simplify(&self, word: u64) -> u64 {
        if !is_committed(word) || word == SETTLED {
            return word;
        }
        let sequence = CommitSequence(word >> TAG_BITS);
        match self.0.partition_point(|snapshot| *snapshot < sequence) {
            0 => SETTLED,
            first => self
                .0
                .get(first)
                .map_or(word, |snapshot| encode(WriteStatus::Committed(*snapshot))),
        }
    }
}
