//! The input of a running job.

use super::claim::Claim;
use super::threads::JobThreads;
use crate::TreeOptions;
use crate::node::{ChildId, KeyRange, RunRef};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::sync::Arc;
use teak_base::visibility::Horizon;

/// A claimed child, and those of its runs that the job consumes or replaces.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) id: ChildId,
    pub(super) range: KeyRange,
    /// As they were when the child was claimed, newest first.
    pub(super) runs: Vec<RunRef>,
}

impl Target {
    pub(super) fn merge_bytes(&self) -> u64 {
        self.runs.iter().map(RunRef::merge_bytes).sum()
    }

    /// The number of entries. Estimated if runs are clipped.
    pub(super) fn entries(&self) -> u64 {
        let runs = self.runs.iter();
        runs.map(|run| run.share(run.handle.description().entries()))
            .sum()
    }
}

/// The input of a running job.
pub(super) struct JobContext<'a> {
    pub(super) tree: &'a Tree,
    /// The version that was current when the work was claimed.
    pub(super) version: &'a TreeVersion,
    pub(super) options: Arc<TreeOptions>,
    pub(super) horizon: &'a dyn Horizon,
    pub(super) claim: &'a Claim,
    /// Runs the parts of a divided merge.
    pub(super) threads: &'a dyn JobThreads,
}
