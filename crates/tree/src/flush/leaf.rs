//! Merge of a leaf: merges its pending runs and the bottom runs that they overlap, or all its runs,
//! into bottom runs, drops garbage, and splits the leaf if it is too large.

use super::context::{JobContext, Target};
use super::inputs::Inputs;
use super::install::JobOutcome;
use super::output::{RunOutput, Sink, Written};
use super::report::FlushReport;
use crate::TreeOptions;
use crate::merge::{MergeLevel, Merger};
use crate::node::separator;
use teak_base::StorageResult;

/// Merges the runs of the target: all pending runs that the leaf had when it was claimed, and at
/// least those bottom runs that may have older versions of their keys.
pub(super) fn merge(job: &JobContext<'_>, target: &Target) -> StorageResult<FlushReport> {
    let options = &job.options;
    let inputs = Inputs::of_runs(&target.runs, job.horizon);
    let input_bytes = target.merge_bytes();
    let input_entries = target.entries();
    let purged_below = job.horizon.decided_below();
    let mut merger = Merger::new(job.horizon, inputs.sources, &inputs.tombstones);
    let mut written = Written::default();
    let level = MergeLevel::Bottom;
    let cut_bytes = part_bytes(input_bytes, options);
    let mut output = RunOutput::new(
        job.tree,
        options,
        purged_below,
        level,
        cut_bytes,
        input_bytes,
    );
    merger.seek(None)?;
    let mut more = true;
    while more {
        let mut sink = Sink {
            output: &mut output,
            written: &mut written,
        };
        more = merger.merge_part(None, input_entries / ESTIMATES + 1, level, &mut sink)?;
        let (finished, current) = output.merge_bytes();
        let read = merger.entries_read();
        let total = scaled(finished + current, input_entries.max(read), read);
        output.set_cut_bytes(part_bytes(total - finished, options));
    }
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

/// How often a merge estimates the size of its output. The size of the input is no estimate: if all
/// rows were updated, half of the entries are dropped.
const ESTIMATES: u64 = 64;

/// Target size of the next part when `left` bytes remain to be written, so that all parts have about
/// equal sizes, close to the size of a leaf.
fn part_bytes(left: u64, options: &TreeOptions) -> u64 {
    let leaf_bytes = options.leaf_bytes;
    if left <= options.leaf_bytes_max() {
        // The rest remains one part, even if it is somewhat larger than estimated.
        return options.leaf_bytes_max() + leaf_bytes / 4;
    }
    let parts = (left + leaf_bytes / 2) / leaf_bytes.max(1);
    left / parts.max(1)
}

/// `value * numerator / denominator`, where the denominator is not larger than the numerator.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    let scaled = product / u128::from(denominator.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_about_equal() {
        let options = TreeOptions {
            leaf_bytes: 100,
            ..TreeOptions::default()
        };
        assert_eq!(part_bytes(150, &options), 175);
        assert_eq!(part_bytes(160, &options), 80);
        assert_eq!(part_bytes(240, &options), 120);
        assert_eq!(part_bytes(260, &options), 86);
    }

    #[test]
    fn the_output_is_estimated_from_the_entries_read() {
        assert_eq!(scaled(50, 100, 25), 200);
        assert_eq!(scaled(50, 100, 100), 50);
        assert_eq!(scaled(0, 0, 0), 0);
        assert_eq!(scaled(u64::MAX, 2, 1), u64::MAX);
    }
}
