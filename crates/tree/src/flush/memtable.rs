//! Flush of the oldest frozen memtable into the children of the root.

use super::context::JobContext;
use super::divided::{Batch, Divided};
use super::inputs::{Inputs, is_aborted};
use super::install::JobOutcome;
use super::report::FlushReport;
use crate::node::{ChildId, KeyRange};
use crate::source::Source;
use crate::version::MemtableSlot;
use crate::{TreeOptions, VersionCursor};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use teak_base::StorageResult;

/// Writes a run (or several, if there are many entries) for each child of the root in whose range
/// the memtable has entries or range tombstones. Entries after the end of a child's data may be
/// written as bottom runs (see `partition`).
pub(super) fn run(job: &JobContext<'_>, slot: &Arc<MemtableSlot>) -> StorageResult<FlushReport> {
    if is_aborted(job.horizon, slot.memtable.only_write_ids()) {
        job.install(JobOutcome {
            flushed: Some(Arc::clone(slot)),
            ..JobOutcome::default()
        })?;
        return Ok(FlushReport::default());
    }
    let root = &job.version.root;
    let all = KeyRange::all();
    let children: Vec<_> = root.children_with_ranges(&all).collect();
    let weights = children.iter().map(|(_, range)| {
        let upper = range.upper.as_deref().map_or(Unbounded, Excluded);
        slot.memtable.estimate(Included(&range.lower), upper)
    });
    let batch = Batch {
        weights: weights.collect(),
        children,
        awaits_base: job.version.awaits_base,
        bytes: slot.memtable.bytes(),
        inputs: &|| Inputs {
            sources: vec![Source::memtable(slot)],
            tombstones: vec![slot.memtable.range_tombstones()],
        },
        bytes_from: &|start, range, limit| bytes_from(slot, &job.options, start, range, limit),
    };
    let Divided {
        written,
        parts,
        entries_read,
    } = batch.write(job)?;
    let report = written.report(entries_read);
    let outcome = JobOutcome {
        written,
        parts,
        parent: ChildId::ROOT,
        flushed: Some(Arc::clone(slot)),
        ..JobOutcome::default()
    };
    job.install(outcome)?;
    Ok(report)
}

/// The size of the memtable from `start` to the end of the range, as planning counts it, up to
/// `limit`.
fn bytes_from(
    slot: &MemtableSlot,
    options: &TreeOptions,
    start: &[u8],
    range: &KeyRange,
    limit: u64,
) -> StorageResult<u64> {
    let mut cursor = slot.memtable.cursor();
    let mut bytes = 0;
    cursor.seek(start)?;
    while cursor.valid() && bytes < limit && !range.ends_at_or_before(cursor.key()) {
        bytes += options.merge_bytes(cursor.key().len(), cursor.inline_value().len());
        cursor.next_version()?;
    }
    Ok(bytes)
}
