//! Moving entries down: choosing jobs, running them without locks, installing
//! their results.
//!
//! The life of a job:
//! 1. Planning, under the install lock, claims a memtable or a child, and
//!    keeps the version as of then. Claims are exclusive, so a run is consumed
//!    by one job at most, and always together with all that is older in its
//!    child.
//! 2. Running merges the claimed runs and writes new ones. No lock is held;
//!    other jobs go on above, below and beside.
//! 3. Installing, under the lock, replaces exactly the claimed runs in the then
//!    current root. New runs are placed by key range, so it does not matter
//!    what has been split or dropped meanwhile. What arrived at the child
//!    after step 1 is newer and stays in front.
//! 4. A job that fails or is dropped leaves the tree as it was: the claim and
//!    the space are given back.

mod bulk;
mod child;
mod divide;
mod install;
mod job;
mod leaf;
mod memtable;
mod output;
mod partition;
mod plan;

pub use bulk::{BulkLoad, PausedLoad};
pub(crate) use install::InstallState;
pub use job::{FlushJob, FlushReport, JobKind};

use crate::node::{KeyRange, RunRef};
use crate::source::{Source, run_tombstones};
use crate::{RangeTombstone, ReadMode};
use teak_base::WriteId;
use teak_base::visibility::{Horizon, WriteRangeStatus, WriteStatus};

/// Whether everything with ids in such a range was rolled back; `None` stands
/// for what has no such range.
fn is_aborted(horizon: &dyn Horizon, only: Option<(WriteId, WriteId)>) -> bool {
    only.is_some_and(|(least, greatest)| {
        horizon.range_status(least, greatest) == WriteRangeStatus::Aborted
    })
}

/// Sources of a merge, newest first, with their range tombstones.
pub(crate) struct Inputs {
    pub(crate) sources: Vec<Source>,
    pub(crate) tombstones: Vec<Vec<RangeTombstone>>,
}

impl Inputs {
    /// The runs of a child, newest first. Runs that a newer, settled range
    /// tombstone covers wholly are left out, and so never read.
    fn of_runs(runs: &[RunRef], horizon: &dyn Horizon) -> Self {
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
                    let end = Some(tombstone.end.as_slice()).filter(|end| !end.is_empty());
                    deleted.push(KeyRange::new(&tombstone.start, end));
                }
            }
            inputs.sources.push(Source::run(run, ReadMode::Sequential));
            inputs.tombstones.push(tombstones);
        }
        inputs
    }
}
