//! Moving the runs of a child, and the separate values of their entries: to holes before an offset,
//! so that the end of the file can be truncated, or because they are encrypted with another key.
//!
//! Only unclipped runs with a single reference are moved. If a run is clipped, or several children
//! refer to it since a split, the runs of the child are merged or flushed instead (see `plan`),
//! which removes this reference.

use super::context::{JobContext, Target};
use super::install::{JobOutcome, Relocated};
use super::output::Written;
use super::report::FlushReport;
use crate::Run;
use crate::node::{RunForm, RunHandle, RunRef};
use crate::run::{MovedBlocks, RelocateOptions};
use std::sync::Arc;
use teak_base::StorageResult;
use teak_block_file::WrittenBlocks;

/// Moves the runs one after the other. Stops when there is no hole for a run's blocks.
pub(super) fn run(
    job: &JobContext<'_>,
    target: &Target,
    moved: MovedBlocks,
) -> StorageResult<FlushReport> {
    let mut report = FlushReport::default();
    let mut written = Written::default();
    let mut relocated = Vec::new();
    for old in &target.runs {
        let handle = &old.handle;
        let written_with = &job.options;
        let (codec, value_planes) = match handle.form {
            RunForm::Upper => (written_with.upper_codec, 0),
            RunForm::Bottom => (written_with.codec, written_with.value_planes),
        };
        let options = RelocateOptions {
            moved,
            codec,
            value_planes,
            has_columns: handle.form == RunForm::Bottom,
            columns: written_with.columns.clone(),
        };
        let Some(copy) = handle.run.relocate(options)? else {
            match moved {
                MovedBlocks::After(_) => break,
                MovedBlocks::OtherKey(_) => continue,
            }
        };
        report.runs_moved += 1;
        let bytes = copy.written.iter().map(WrittenBlocks::bytes);
        report.bytes_relocated += bytes.sum::<u64>();
        written.blocks.extend(copy.written);
        let tree = job.tree;
        let run = Run::open(&tree.file, &tree.cache, copy.description);
        // Only runs with blocks are moved, which need no number.
        let new = RunHandle::new(run, handle.form, handle.marks(), 0);
        relocated.push(Relocated {
            old: old.clone(),
            new: RunRef::whole(Arc::new(new)),
            freed: copy.freed,
        });
    }
    if relocated.is_empty() {
        return Ok(report);
    }
    job.install(JobOutcome {
        written,
        relocated: Some((target.clone(), relocated)),
        ..JobOutcome::default()
    })?;
    Ok(report)
}
