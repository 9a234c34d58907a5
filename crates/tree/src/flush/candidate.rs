//! A child that planning has chosen for a job.

use super::report::JobKind;
use crate::node::{Child, KeyRange};
use std::sync::Arc;

/// An unclaimed child that a job could work on.
pub(super) struct Candidate {
    pub(super) child: Arc<Child>,
    pub(super) range: KeyRange,
    pub(super) kind: JobKind,
}

/// A child that was chosen for a reason other than a due job.
pub(super) fn candidate(child: &Arc<Child>, range: KeyRange, kind: JobKind) -> Candidate {
    Candidate {
        child: Arc::clone(child),
        range,
        kind,
    }
}
