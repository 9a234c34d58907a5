//! Caches the status of writes during one merge. The status of a write, compared with the oldest
//! snapshot, is kept in a small direct-mapped table, because neighbouring entries often have the
//! same few write ids.

use teak_base::WriteId;
use teak_base::visibility::{Horizon, WriteStatus};

/// The status of a write, relative to the oldest snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeStatus {
    /// Every current and later snapshot sees it.
    Settled,
    /// Committed, but not visible to every snapshot.
    Committed(u64),
    Active,
    Aborted,
}

const SLOTS: usize = 1024;

pub(crate) struct StatusCache<'a> {
    horizon: &'a dyn Horizon,
    snapshots: Vec<u64>,
    oldest_snapshot: Option<u64>,
    last: (WriteId, MergeStatus),
    slots: Vec<(WriteId, MergeStatus)>,
}

impl<'a> StatusCache<'a> {
    pub(crate) fn new(horizon: &'a dyn Horizon) -> Self {
        let snapshots: Vec<u64> = horizon.snapshots().iter().map(|s| s.0).collect();
        assert!(snapshots.is_sorted(), "snapshots must ascend");
        let settled = (WriteId::SETTLED, MergeStatus::Settled);
        Self {
            horizon,
            oldest_snapshot: snapshots.first().copied(),
            snapshots,
            last: settled,
            slots: vec![settled; SLOTS],
        }
    }

    #[inline]
    pub(crate) fn class(&mut self, id: WriteId) -> MergeStatus {
        if id.is_settled() {
            return MergeStatus::Settled;
        }
        if self.last.0 != id {
            self.last = self.lookup(id);
        }
        self.last.1
    }

    fn lookup(&mut self, id: WriteId) -> (WriteId, MergeStatus) {
        // The remainder is below SLOTS, so no bits are lost.
        #[allow(clippy::cast_possible_truncation)]
        let slot = (id.0 % SLOTS as u64) as usize;
        match self.slots.get_mut(slot) {
            Some(entry) if entry.0 == id => *entry,
            Some(entry) => {
                let class = match self.horizon.status(id) {
                    WriteStatus::Active(_) => MergeStatus::Active,
                    WriteStatus::Aborted => MergeStatus::Aborted,
                    WriteStatus::Committed(at) => match self.oldest_snapshot {
                        Some(oldest) if at.0 <= oldest => MergeStatus::Settled,
                        _ => MergeStatus::Committed(at.0),
                    },
                };
                *entry = (id, class);
                *entry
            }
            None => (id, MergeStatus::Active),
        }
    }

    /// Whether some snapshot sees a version that committed at `at`, given that newer versions
    /// committed at `newer` or later. Later snapshots, above the newest one, may see it, too.
    ///
    /// `at` is not always below `newer`: a transaction may write a key several times, and the delete
    /// of a range tombstone that was applied to a key in an earlier merge is found again below the
    /// older entries of its run.
    #[inline]
    pub(crate) fn is_needed(&self, at: u64, newer: u64) -> bool {
        if at >= newer {
            return false;
        }
        match self.snapshots.last() {
            Some(&last) if at <= last => {
                let first = self.snapshots.partition_point(|&snapshot| snapshot < at);
                self.snapshots
                    .get(first)
                    .is_some_and(|&snapshot| snapshot < newer)
            }
            _ => true,
        }
    }
}
