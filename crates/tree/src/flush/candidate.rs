//! A child that planning has chosen for a job.

use super::report::JobKind;
use crate::node::{Child, KeyRange, RunForm, RunRef};
use std::sync::Arc;

/// An unclaimed child that a job could work on.
pub(super) struct Candidate {
    pub(super) child: Arc<Child>,
    pub(super) range: KeyRange,
    pub(super) kind: JobKind,
    /// Whether the merge of a leaf is limited to [`touched_runs`].
    pub(super) is_partial: bool,
}

/// A child that was chosen for a reason other than a due job.
pub(super) fn candidate(child: &Arc<Child>, range: KeyRange, kind: JobKind) -> Candidate {
    Candidate {
        child: Arc::clone(child),
        range,
        kind,
        is_partial: false,
    }
}

/// The pending runs of a leaf, and those bottom runs that are not wholly before or after all of
/// them. All runs if none is pending.
pub(super) fn touched_runs(runs: &[RunRef]) -> Vec<RunRef> {
    let pending = runs.iter().filter(|run| run.handle.form == RunForm::Upper);
    let Some(hull) = pending.map(RunRef::range).reduce(|a, b| a.hull(&b)) else {
        return runs.to_vec();
    };
    let is_touched =
        |run: &&RunRef| run.handle.form == RunForm::Upper || run.range().overlaps(&hull);
    runs.iter().filter(is_touched).cloned().collect()
}
