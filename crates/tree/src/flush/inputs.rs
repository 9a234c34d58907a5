//! The sources of a merge.

use crate::node::{KeyRange, RunRef, tombstone_range};
use crate::source::{Source, run_tombstones};
use crate::{RangeTombstone, ReadPattern};
use teak_base::WriteId;
use teak_base::visibility::{Horizon, WriteRangeStatus, WriteStatus};

/// Whether all writes of the id range `only` are aborted. `None` means that some entries may be
/// settled, so the result is false.
pub(super) fn is_aborted(horizon: &dyn Horizon, only: Option<(WriteId, WriteId)>) -> bool {
    only.is_some_and(|(min, max)| horizon.range_status(min, max) == WriteRangeStatus::Aborted)
}

/// Sources of a merge, newest first, with their range tombstones.
pub(crate) struct Inputs {
    pub(crate) sources: Vec<Source>,
    pub(crate) tombstones: Vec<Vec<RangeTombstone>>,
}

impl Inputs {
    /// The runs of a child, newest first. Runs that a newer, settled range tombstone covers
    /// completely are omitted, so the merge does not read them.
    pub(super) fn of_runs(runs: &[RunRef], horizon: &dyn Horizon) -> Self {
        let oldest = horizon.snapshots().first().copied();
        let is_settled = |id: WriteId| {
            id.is_settled()
                || match horizon.status(id) {
                    WriteStatus::Committed(at) => oldest.is_some_and(|oldest| at <= oldest),
                    WriteStatus::Active(_) | WriteStatus::Aborted => false,
                }
        };
        let mut inputs = Self {
            sources: Vec::new(),
            tombstones: Vec::new(),
        };
        let mut deleted: Vec<KeyRange> = Vec::new();
        for run in runs {
            let range = run.range();
            if deleted.iter().any(|deleted| deleted.covers(&range)) {
                continue;
            }
            let tombstones = run_tombstones(run);
            for tombstone in &tombstones {
                if is_settled(tombstone.write_id) {
                    deleted.push(tombstone_range(tombstone));
                }
            }
            inputs
                .sources
                .push(Source::run(run, ReadPattern::Sequential));
            inputs.tombstones.push(tombstones);
        }
        inputs
    }
}
