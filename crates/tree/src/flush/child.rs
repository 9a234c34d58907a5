//! Flushes of an inner child: its runs are pushed down to the children of the node below it. Many
//! small runs are merged in place instead.

use super::context::{JobContext, Target};
use super::divided::{Batch, Divided};
use super::inputs::Inputs;
use super::install::JobOutcome;
use super::output::{RunOutput, Sink, Written};
use super::partition::Part;
use super::report::FlushReport;
use crate::merge::{MergeLevel, Merger};
use crate::node::{KeyRange, Node, RunRef};
use std::ops::Bound;
use teak_base::StorageResult;

/// Merges all runs that the child had when it was claimed, and writes the result to the next level.
/// Parts without older data go to leaves (see `partition`).
pub(super) fn push_down(
    job: &JobContext<'_>,
    target: &Target,
    below: &Node,
) -> StorageResult<FlushReport> {
    if can_move_whole(target, below) {
        let report = FlushReport {
            runs_moved: target.runs.len() as u64,
            ..FlushReport::default()
        };
        let parts = target.runs.iter().map(|run| Part {
            run: run.clone(),
            level: MergeLevel::Upper,
        });
        job.install(JobOutcome {
            parts: parts.collect(),
            parent: target.id,
            consumed: Some(target.clone()),
            ..JobOutcome::default()
        })?;
        return Ok(report);
    }
    let children: Vec<_> = below.children_with_ranges(&target.range).collect();
    let batch = Batch {
        weights: vec![1; children.len()],
        children,
        awaits_base: false,
        bytes: target.merge_bytes(),
        inputs: &|| Inputs::of_runs(&target.runs, job.horizon),
        bytes_from: &|start, range, _| bytes_from(&target.runs, start, range),
    };
    let Divided {
        written,
        parts,
        entries_read,
    } = batch.write(job)?;
    let report = written.report(entries_read);
    job.install(JobOutcome {
        written,
        parts,
        parent: target.id,
        consumed: Some(target.clone()),
        ..JobOutcome::default()
    })?;
    Ok(report)
}

/// Whether the runs can be moved without rewriting: they do not overlap, and each fits into one
/// inner child below. If the children below are leaves, runs are always merged, so that a tail is
/// written as bottom runs.
fn can_move_whole(target: &Target, below: &Node) -> bool {
    if below.height == 1 {
        return false;
    }
    let mut ranges: Vec<KeyRange> = target.runs.iter().map(RunRef::range).collect();
    ranges.sort_by(|a, b| a.lower.cmp(&b.lower));
    let disjoint = ranges.windows(2).all(|pair| match pair {
        [a, b] => a.ends_at_or_before(&b.lower),
        _ => true,
    });
    disjoint
        && ranges.iter().all(|range| {
            let position = below.child_position(&range.lower);
            below.child_range(position, &target.range).covers(range)
        })
}

/// Estimates the size of the runs, as planning counts it, from `start` to the end of the range.
fn bytes_from(runs: &[RunRef], start: &[u8], range: &KeyRange) -> StorageResult<u64> {
    let upper = match range.upper.as_deref() {
        Some(upper) => Bound::Excluded(upper),
        None => Bound::Unbounded,
    };
    let mut bytes = 0;
    for run in runs {
        let description = run.handle.description();
        let entries = run
            .handle
            .run
            .estimate(Bound::Included(start), upper, None)?;
        bytes += entries * description.merge_bytes() / description.entries().max(1);
    }
    Ok(bytes)
}

/// Merges adjacent runs of a child; the result remains in the child.
pub(super) fn consolidate(job: &JobContext<'_>, target: &Target) -> StorageResult<FlushReport> {
    let options = &job.options;
    let inputs = Inputs::of_runs(&target.runs, job.horizon);
    let purged_below = job.horizon.decided_below();
    let mut merger = Merger::new(job.horizon, inputs.sources, &inputs.tombstones);
    let mut written = Written::default();
    let level = MergeLevel::Upper;
    let mut output = RunOutput::new(
        job.tree,
        options,
        purged_below,
        level,
        options.run_bytes_max,
        target.merge_bytes(),
    );
    merger.seek(None)?;
    let mut sink = Sink {
        output: &mut output,
        written: &mut written,
    };
    merger.merge_until(None, level, &mut sink)?;
    let upper = target.range.upper.as_deref();
    let tombstones = merger.retained_tombstones(Some(&target.range.lower), upper, level);
    let runs = output.take(tombstones, &mut written)?;
    let report = written.report(merger.entries_read());
    job.install(JobOutcome {
        written,
        consumed: Some(target.clone()),
        replacements: runs,
        ..JobOutcome::default()
    })?;
    Ok(report)
}
