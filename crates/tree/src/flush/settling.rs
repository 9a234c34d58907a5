//! Choosing children whose runs contain write ids that are now settled or aborted.
//!
//! A run is marked as settled, without being rewritten, if all its writes are settled and it has
//! one version of each key (see `RunHandle::can_be_marked`). A run that may contain entries of
//! aborted writes is marked as purged if no write of its range of ids is aborted. Other runs are
//! merged, which replaces settled ids by zero and drops aborted entries. The output of a merge is
//! purged of all writes that were aborted when it began, so a run is merged at most once for the
//! same aborted writes, even while a snapshot prevents its writes from being settled.

use super::candidate::{Candidate, candidate};
use super::report::JobKind;
use super::search::{Found, Search};
use crate::node::{Child, ChildId, KeyRange, Node, RunHandle, RunRef};
use std::collections::HashSet;
use teak_base::WriteId;
use teak_base::visibility::{Horizon, WriteRangeStatus};

/// Finds an unclaimed leaf with a run that is not marked as settled although
/// all of its write ids are settled or aborted. A leaf that must be merged for this has to be worth it.
pub(super) fn find_unsettled(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
    horizon: &dyn Horizon,
    is_worth_merge: &dyn Fn(&Child) -> bool,
) -> Found<Candidate> {
    for (child, child_range) in node.children_with_ranges(range) {
        if child.summary.write_ids.is_none() {
            continue;
        }
        if let Some(below) = search.below(child, &child_range)? {
            let found = find_unsettled(
                &below,
                &child_range,
                claimed,
                search,
                horizon,
                is_worth_merge,
            )?;
            if found.is_some() {
                return Ok(found);
            }
        } else if child.is_leaf()
            && !claimed.contains(&child.id)
            && let Some(kind) = unsettled_kind(child, horizon)
            && (kind == JobKind::Mark || is_worth_merge(child))
        {
            return Ok(Some(candidate(child, child_range, kind)));
        }
    }
    Ok(None)
}

fn unsettled_kind(leaf: &Child, horizon: &dyn Horizon) -> Option<JobKind> {
    let mut kind = None;
    for run in &leaf.runs {
        let Some((min, max)) = unsettled_ids(&run.handle) else {
            continue;
        };
        match horizon.range_status(min, max) {
            WriteRangeStatus::Settled if run.handle.can_be_marked() => {
                kind = kind.or(Some(JobKind::Mark));
            }
            WriteRangeStatus::Settled
            | WriteRangeStatus::SettledOrAborted
            | WriteRangeStatus::Aborted => {
                return Some(JobKind::Leaf);
            }
            WriteRangeStatus::Unsettled => {}
        }
    }
    kind
}

/// The range of the unsettled ids of a run; `None` if it has none or is marked as settled.
fn unsettled_ids(run: &RunHandle) -> Option<(WriteId, WriteId)> {
    let ids = run.description().write_ids;
    ids.filter(|_| !run.is_settled())
}

/// Finds an unclaimed child with a run that may contain ids of aborted writes below `below`. All
/// writes below `below` are decided.
///
/// Marking a run for one child also marks it for others that share it, but their totals still
/// have its ids. If only such totals are left, a job that marks nothing computes them again.
pub(super) fn find_older(
    node: &Node,
    range: &KeyRange,
    claimed: &HashSet<ChildId>,
    search: &Search,
    horizon: &dyn Horizon,
    below: WriteId,
) -> Found<Candidate> {
    let is_older = |oldest: Option<WriteId>| oldest.is_some_and(|oldest| oldest < below);
    let has_older = |run: &RunRef| is_older(run.handle.unpurged_ids().map(|(oldest, _)| oldest));
    for (child, child_range) in node.children_with_ranges(range) {
        if !is_older(child.summary.oldest_unpurged) {
            continue;
        }
        let is_free = !claimed.contains(&child.id);
        let has_older = child.runs.iter().any(has_older);
        if is_free && has_older {
            let kind = older_kind(child, horizon);
            if kind != JobKind::Child || search.below(child, &child_range)?.is_some() {
                return Ok(Some(candidate(child, child_range, kind)));
            }
        }
        let link = child.below.as_ref();
        if !link.is_some_and(|link| is_older(link.summary().oldest_unpurged)) {
            if is_free && !has_older {
                return Ok(Some(candidate(child, child_range, JobKind::Mark)));
            }
        } else if let Some(node) = search.below(child, &child_range)? {
            let found = find_older(&node, &child_range, claimed, search, horizon, below)?;
            if found.is_some() {
                return Ok(found);
            }
            if !is_older(node.summary.oldest_unpurged) {
                let mut below = node.children_with_ranges(&child_range);
                if let Some((child, range)) = below.find(|(child, _)| !claimed.contains(&child.id))
                {
                    return Ok(Some(candidate(child, range, JobKind::Mark)));
                }
            }
        }
    }
    Ok(None)
}

/// [`JobKind::Mark`] if at least one of the runs can be marked. A later job merges the other runs.
fn older_kind(child: &Child, horizon: &dyn Horizon) -> JobKind {
    let is_settled = |run: &RunHandle| {
        let ids = unsettled_ids(run);
        ids.is_some_and(|(min, max)| horizon.range_status(min, max) == WriteRangeStatus::Settled)
    };
    let can_be_marked = child.runs.iter().any(|run| {
        let run = &run.handle;
        run.can_be_marked_purged(horizon) || (run.can_be_marked() && is_settled(run))
    });
    match (can_be_marked, child.is_leaf()) {
        (true, _) => JobKind::Mark,
        (false, true) => JobKind::Leaf,
        (false, false) => JobKind::Child,
    }
}
