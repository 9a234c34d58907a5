//! Partitions the output of a merge among the children of a node.
//!
//! For each child, in key order:
//! 1. The tail of the batch is the part after the end of the child's data, where no older data
//!    exists. If it is long enough, or the child has no data, it is written as bottom runs, in the
//!    codec of the table, directly to a leaf. So data that is inserted in key order is not
//!    rewritten by flushes. While a bulk load is expected to add older data, there is no tail.
//! 2. The rest becomes a run (or several, if it is large) for the child, in the fast codec.

use super::inputs::Inputs;
use super::output::{RunOutput, Sink, Written};
use crate::TreeOptions;
use crate::merge::{MergeLevel, Merger};
use crate::node::{Child, EndOfData, KeyRange, RunRef};
use crate::source::Source;
use crate::tree::Tree;
use teak_base::StorageResult;
use teak_base::visibility::Horizon;

/// A run to be placed in a child or a leaf.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) run: RunRef,
    pub(super) level: MergeLevel,
}

/// A merge whose output is partitioned among the children of a node.
pub(super) struct Partitioner<'a> {
    merger: Merger<'a, Source>,
    upper: RunOutput<'a>,
    bottom: RunOutput<'a>,
    tail_bytes_min: u64,
    /// Whether a bulk load will add older data below all runs.
    pub(super) awaits_base: bool,
    pub(super) parts: Vec<Part>,
    pub(super) written: Written,
}

impl<'a> Partitioner<'a> {
    /// `input_bytes` and the number of `children` determine the expected size of the runs, for
    /// which extents are reserved.
    pub(super) fn new(
        tree: &'a Tree,
        options: &TreeOptions,
        horizon: &'a dyn Horizon,
        inputs: Inputs,
        input_bytes: u64,
        children: usize,
    ) -> Self {
        let expected = input_bytes / children.max(1) as u64;
        let purged_below = horizon.decided_below();
        Self {
            merger: Merger::new(horizon, inputs.sources, &inputs.tombstones),
            upper: RunOutput::new(
                tree,
                options,
                purged_below,
                MergeLevel::Upper,
                options.run_bytes_max,
                expected,
            ),
            bottom: RunOutput::new(
                tree,
                options,
                purged_below,
                MergeLevel::Bottom,
                options.leaf_bytes,
                input_bytes,
            ),
            tail_bytes_min: options.bottom_run_bytes_min(),
            awaits_base: false,
            parts: Vec::new(),
            written: Written::default(),
        }
    }

    /// Moves to the start of `range`.
    pub(super) fn seek(&mut self, range: &KeyRange) -> StorageResult<()> {
        self.merger.seek(Some(&range.lower))
    }

    pub(super) fn entries_read(&self) -> u64 {
        self.merger.entries_read()
    }

    /// Writes the entries of a child. `bytes_from` returns the size of the batch, as planning
    /// counts it, from a key to the end of the range. It may stop counting at the given limit.
    pub(super) fn child(
        &mut self,
        child: &Child,
        range: &KeyRange,
        bytes_from: &dyn Fn(&[u8], u64) -> StorageResult<u64>,
    ) -> StorageResult<()> {
        let upper = range.upper.as_deref();
        match self.tail_start(child, range, bytes_from)? {
            Some(tail) => {
                if *tail > *range.lower {
                    self.write(range, Some(&tail), MergeLevel::Upper)?;
                }
                self.write(&KeyRange::new(&tail, upper), upper, MergeLevel::Bottom)
            }
            None => self.write(range, upper, MergeLevel::Upper),
        }
    }

    /// The start of the tail that is written as bottom runs; `None`: there is no such tail.
    fn tail_start(
        &self,
        child: &Child,
        range: &KeyRange,
        bytes_from: &dyn Fn(&[u8], u64) -> StorageResult<u64>,
    ) -> StorageResult<Option<Vec<u8>>> {
        if self.awaits_base {
            return Ok(None);
        }
        let start = match child.end_of_data() {
            EndOfData::Empty => return Ok(Some(range.lower.to_vec())),
            EndOfData::Unbounded => return Ok(None),
            EndOfData::Before(start) => start,
        };
        if range.ends_at_or_before(&start) {
            return Ok(None);
        }
        let bytes = bytes_from(&start, self.tail_bytes_min)?;
        Ok((bytes >= self.tail_bytes_min && bytes > 0).then_some(start))
    }

    /// Writes the entries from the merge's position to before `until`, and the range tombstones
    /// from the start of `range` to `until`.
    fn write(
        &mut self,
        range: &KeyRange,
        until: Option<&[u8]>,
        level: MergeLevel,
    ) -> StorageResult<()> {
        let output = match level {
            MergeLevel::Upper => &mut self.upper,
            MergeLevel::Bottom => &mut self.bottom,
        };
        let mut sink = Sink {
            output,
            written: &mut self.written,
        };
        self.merger.merge_until(until, level, &mut sink)?;
        let tombstones = self
            .merger
            .retained_tombstones(Some(&range.lower), until, level);
        let runs = sink.output.take(tombstones, sink.written)?;
        self.parts
            .extend(runs.into_iter().map(|run| Part { run, level }));
        Ok(())
    }
}
