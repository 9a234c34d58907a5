//! Merge of a leaf: merges all its runs into bottom runs, drops garbage, and splits the leaf if it
//! is too large.

use super::context::{JobContext, Target};
use super::inputs::Inputs;
use super::install::JobOutcome;
use super::output::{RunOutput, Sink, Written};
use super::report::FlushReport;
use crate::merge::{MergeLevel, Merger};
use crate::node::separator;
use teak_base::StorageResult;

/// Merges all runs that the leaf had when it was claimed.
pub(super) fn merge(job: &JobContext<'_>, target: &Target) -> StorageResult<FlushReport> {
    let options = &job.options;
    let inputs = Inputs::of_runs(&target.runs, job.horizon);
    let input_bytes = target.merge_bytes();
    let mut merger = Merger::new(job.horizon, inputs.sources, &inputs.tombstones);
    let mut written = Written::default();
    let level = MergeLevel::Bottom;
    let cut_bytes = part_bytes(input_bytes, options.leaf_bytes, options.leaf_bytes_max());
    let mut output = RunOutput::new(job.tree, options, level, cut_bytes, input_bytes);
    merger.seek(None)?;
    let mut sink = Sink {
        output: &mut output,
        written: &mut written,
    };
    merger.merge_until(None, level, &mut sink)?;
    let runs = output.take(Vec::new(), &mut written)?;
    let cuts = runs.windows(2).filter_map(|pair| match pair {
        [before, after] => Some(separator(before.upper()?, after.lower())),
        _ => None,
    });
    let report = written.report(merger.entries_read());
    job.install(JobOutcome {
        written,
        consumed: Some(target.clone()),
        cuts: cuts.collect(),
        replacements: runs,
        ..JobOutcome::default()
    })?;
    Ok(report)
}

/// Target size of each part, so that all parts have about equal sizes, close to the size of a leaf.
fn part_bytes(total: u64, leaf_bytes: u64, leaf_bytes_max: u64) -> u64 {
    if total <= leaf_bytes_max {
        // The leaf remains one part even if the merge drops nothing.
        return leaf_bytes_max;
    }
    let parts = (total + leaf_bytes / 2) / leaf_bytes.max(1);
    total / parts.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_about_equal() {
        assert_eq!(part_bytes(150, 100, 150), 150);
        assert_eq!(part_bytes(160, 100, 150), 80);
        assert_eq!(part_bytes(240, 100, 150), 120);
        assert_eq!(part_bytes(260, 100, 150), 86);
    }
}
