//! Splits of a leaf that has grown. No data is moved: each part refers to the runs of its range.
//! Both parts refer to a run that extends across the cut, each clipped to its range.

use crate::node::{Child, Editor, Key, KeyRange, Replacement, RunRef, separator};
use std::sync::Arc;

/// Splits a leaf that is too large at gaps between its runs, into parts of about the target size. A
/// part without gaps may be larger. Does nothing if a job has claimed the leaf.
pub(super) fn divide_at_gaps(
    editor: &mut Editor<'_>,
    leaf: Arc<Child>,
    range: &KeyRange,
) -> Replacement {
    let bytes: u64 = leaf.runs.iter().map(RunRef::merge_bytes).sum();
    let whole = vec![(range.lower.clone(), Arc::clone(&leaf))];
    if !leaf.is_leaf()
        || leaf.runs.len() < 2
        || bytes <= editor.options().leaf_bytes_max()
        || editor.is_claimed(leaf.id)
    {
        return whole;
    }
    let cuts = gaps(&leaf.runs, editor.options().leaf_bytes);
    if cuts.is_empty() {
        return whole;
    }
    divide_at(editor, &leaf, range, &cuts)
}

/// The keys at which to split: gaps between runs, about `part_bytes` apart.
fn gaps(runs: &[RunRef], part_bytes: u64) -> Vec<Key> {
    let mut runs: Vec<&RunRef> = runs.iter().collect();
    runs.sort_by(|a, b| a.lower().cmp(b.lower()));
    let mut cuts = Vec::new();
    let mut bytes = 0;
    // The maximum end of the previous runs; `None`: no end.
    let mut end: Option<&[u8]> = Some(&[]);
    for run in runs {
        let reached = bytes + run.merge_bytes();
        if let Some(end) = end
            && end <= run.lower()
            && bytes > 0
            && reached > part_bytes
        {
            cuts.push(separator(end, run.lower()));
            bytes = 0;
        }
        bytes += run.merge_bytes();
        end = match (end, run.upper()) {
            (Some(end), Some(upper)) => Some(end.max(upper)),
            _ => None,
        };
    }
    cuts
}

/// Splits a leaf at ascending keys within its range.
pub(super) fn divide_at(
    editor: &mut Editor<'_>,
    leaf: &Arc<Child>,
    range: &KeyRange,
    cuts: &[Key],
) -> Replacement {
    let lowers = std::iter::once(&range.lower).chain(cuts);
    let uppers = cuts.iter().map(Some).chain([range.upper.as_ref()]);
    let mut parts = Vec::new();
    for (position, (lower, upper)) in lowers.zip(uppers).enumerate() {
        let part = KeyRange {
            lower: lower.clone(),
            upper: upper.cloned(),
        };
        let runs: Vec<RunRef> = leaf
            .runs
            .iter()
            .filter_map(|run| run.clipped(&part))
            .collect();
        let child = if position == 0 {
            Child::new(leaf.id, runs, None, &part, editor.options())
        } else {
            editor.new_child(runs, None, &part)
        };
        parts.push((lower.clone(), child));
    }
    parts
}
