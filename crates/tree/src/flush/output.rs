//! Output of a job. A run ends at the first new key after it has reached its target size.

use super::report::FlushReport;
use crate::merge::{MergeLevel, MergeSink};
use crate::node::{RunForm, RunHandle, RunMarks, RunRef};
use crate::tree::Tree;
use crate::{
    FinishedRun, PageColumns, RangeTombstone, Run, RunWriter, RunWriterOptions, SeparateOptions,
    StoredValue, TreeOptions,
};
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};
use teak_block_file::WrittenBlocks;

/// The blocks of finished runs that no version refers to yet, and counts of these runs. Dropping it
/// frees the blocks.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) blocks: Vec<WrittenBlocks>,
    pub(super) runs: u64,
    pub(super) entries: u64,
    pub(super) raw_bytes: u64,
    pub(super) stored_bytes: u64,
    /// Offsets of the separate values whose references were copied.
    pub(super) copied: HashSet<u64>,
}

impl Written {
    /// Adds the runs of another part of the job.
    pub(super) fn add(&mut self, part: Self) {
        self.blocks.extend(part.blocks);
        self.runs += part.runs;
        self.entries += part.entries;
        self.raw_bytes += part.raw_bytes;
        self.stored_bytes += part.stored_bytes;
        self.copied.extend(part.copied);
    }

    /// The report of a job that has read `entries_read` entries and written these runs.
    pub(super) fn report(&self, entries_read: u64) -> FlushReport {
        FlushReport {
            entries_read,
            entries_written: self.entries,
            raw_bytes_written: self.raw_bytes,
            stored_bytes_written: self.stored_bytes,
            runs_written: self.runs,
            ..FlushReport::default()
        }
    }
}

/// Writes runs of one form.
pub(super) struct RunOutput<'a> {
    tree: &'a Tree,
    writer: RunWriter<'a>,
    form: RunForm,
    /// Target size of a run, as planning counts it.
    cut_bytes: u64,
    marks: RunMarks,
    finished: Vec<RunRef>,
}

impl<'a> RunOutput<'a> {
    /// Creates an output for runs of `level`, each of at most about `cut_bytes`. `expected_bytes`
    /// is the expected size of all of them, uncompressed. `purged_below` is the decided watermark of
    /// the merge that writes the runs: it drops the entries of aborted writes.
    pub(super) fn new(
        tree: &'a Tree,
        options: &TreeOptions,
        purged_below: WriteId,
        level: MergeLevel,
        cut_bytes: u64,
        expected_bytes: u64,
    ) -> Self {
        let (form, codec) = match level {
            MergeLevel::Upper => (RunForm::Upper, options.upper_codec),
            MergeLevel::Bottom => (RunForm::Bottom, options.codec),
        };
        let writer_options = RunWriterOptions {
            page_bytes: options.page_bytes as usize,
            page_bytes_min: options.page_bytes_min(),
            codec,
            // The estimated size after compression.
            expected_bytes: expected_bytes.min(cut_bytes) / 2,
            filter_keys: options.filter_keys,
            is_upper: form == RunForm::Upper,
            value_planes: match level {
                MergeLevel::Upper => 0,
                MergeLevel::Bottom => options.value_planes,
            },
            columns: match level {
                MergeLevel::Upper => PageColumns::default(),
                MergeLevel::Bottom => options.columns.clone(),
            },
            separate: Some(SeparateOptions {
                bytes_min: options.separate_value_bytes as usize,
                codec: options.codec,
            }),
        };
        Self {
            tree,
            writer: RunWriter::new(&tree.file, &tree.cache, writer_options),
            form,
            cut_bytes,
            marks: RunMarks {
                is_settled: false,
                purged_below,
            },
            finished: Vec::new(),
        }
    }

    /// Changes the target size of the current run and those after it.
    pub(super) fn set_cut_bytes(&mut self, cut_bytes: u64) {
        self.cut_bytes = cut_bytes;
    }

    /// The sizes of the finished runs and of the current one, as planning counts them.
    pub(super) fn merge_bytes(&self) -> (u64, u64) {
        let finished = self.finished.iter().map(RunRef::merge_bytes).sum();
        (finished, self.writer.merge_bytes())
    }

    /// Ends the current run and returns all finished runs in key order. `tombstones` are older than
    /// all entries, so they go into the last run: where the returned runs overlap (only their
    /// tombstones can), the last is the oldest.
    pub(super) fn take(
        &mut self,
        tombstones: Vec<RangeTombstone>,
        written: &mut Written,
    ) -> StorageResult<Vec<RunRef>> {
        for tombstone in tombstones {
            self.writer.add_range_tombstone(tombstone);
        }
        self.end_run(written)?;
        Ok(std::mem::take(&mut self.finished))
    }

    fn end_run(&mut self, written: &mut Written) -> StorageResult<()> {
        if let Some(finished) = self.writer.finish()? {
            self.keep(finished, written);
        }
        Ok(())
    }

    fn keep(&mut self, finished: FinishedRun, written: &mut Written) {
        let FinishedRun {
            description,
            written: blocks,
            separate_bytes_written,
            copied,
        } = finished;
        written.runs += 1;
        written.entries += description.entries();
        written.raw_bytes += description.raw_bytes + separate_bytes_written;
        written.stored_bytes += blocks.iter().map(WrittenBlocks::bytes).sum::<u64>();
        written.copied.extend(copied);
        written.blocks.extend(blocks);
        let number = match description.index.is_empty() {
            true => self.tree.install.lock().take_child_id().0,
            false => 0,
        };
        let run = Run::open(&self.tree.file, &self.tree.cache, description);
        let handle = RunHandle::new(run, self.form, self.marks, number);
        self.finished.push(RunRef::whole(Arc::new(handle)));
    }
}

/// A run output, with the blocks and counts of its finished runs.
pub(super) struct Sink<'a, 'b> {
    pub(super) output: &'b mut RunOutput<'a>,
    pub(super) written: &'b mut Written,
}

impl MergeSink for Sink<'_, '_> {
    #[inline]
    fn note_cached(&mut self, is_cached: bool) {
        self.output.writer.note_cached(is_cached);
    }

    #[inline]
    fn push(
        &mut self,
        key: &[u8],
        id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
        starts_key: bool,
    ) -> StorageResult<()> {
        if starts_key && self.output.writer.merge_bytes() >= self.output.cut_bytes {
            self.output.end_run(self.written)?;
        }
        self.output.writer.push_stored(key, id, operation, value)
    }
}
