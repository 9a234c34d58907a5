//! Totals of a subtree, computed once when its child or node is created. Planning, estimates and
//! statistics read them.

use super::run_ref::{RunForm, RunRef};
use crate::TreeOptions;
use teak_base::WriteId;

/// Totals of a subtree. Half of the entries and bytes of a clipped run are counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) runs: u64,
    pub(crate) leaves: u64,
    pub(crate) nodes: u64,
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    pub(crate) range_tombstones: u64,
    /// Estimated rows: keys in bottom runs, plus puts minus deletes in upper
    /// runs.
    pub(crate) rows: i64,
    /// The size by which merges are planned.
    pub(crate) merge_bytes: u64,
    /// Uncompressed bytes, with separate values.
    pub(crate) raw_bytes: u64,
    /// Bytes in the file, with separate values.
    pub(crate) stored_bytes: u64,
    /// Pages of runs.
    pub(crate) pages: u64,
    /// Number of separate values.
    pub(crate) separate_values: u64,
    /// Bytes of the separate values in the file.
    pub(crate) separate_bytes: u64,
    /// One past the last byte, in the file, of the blocks of any run and of its separate values.
    pub(crate) blocks_end: u64,
    /// The size of upper runs by which merges are planned.
    pub(crate) upper_bytes: u64,
    /// The size, by which merges are planned, of upper runs in children where a job is due.
    pub(crate) due_bytes: u64,
    /// Minimum and maximum unsettled write id.
    pub(crate) write_ids: Option<(WriteId, WriteId)>,
    /// The minimum id that a run may contain although its write is aborted, or may be later. Within
    /// `write_ids`.
    pub(crate) oldest_unpurged: Option<WriteId>,
    /// Maximum urgency of a job in the subtree, apart from garbage. A job is due at 1.0 and above.
    pub(crate) due: f64,
    /// The minimum of [`Child::garbage_due_at`](super::Child) in the subtree.
    pub(crate) garbage_due_at: Option<WriteId>,
    /// Whether an inner child has runs.
    pub(crate) holds_buffered: bool,
    /// Whether a leaf has pending upper runs.
    pub(crate) holds_pending: bool,
    /// Maximum number of upper runs of an inner child.
    pub(crate) inner_runs: u64,
    /// Maximum number of pending runs of a leaf.
    pub(crate) leaf_runs: u64,
}

/// The runs of a leaf by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafShape {
    /// The size of bottom runs by which merges are planned.
    pub(crate) bottom_bytes: u64,
    pub(crate) bottom_runs: u64,
    /// The size of pending runs, which a merge will combine with the bottom runs.
    pub(crate) pending_bytes: u64,
    pub(crate) pending_runs: u64,
}

impl LeafShape {
    pub(crate) fn of(runs: &[RunRef]) -> Self {
        let mut shape = Self::default();
        for run in runs {
            match run.handle.form {
                RunForm::Bottom => {
                    shape.bottom_bytes += run.merge_bytes();
                    shape.bottom_runs += 1;
                }
                RunForm::Upper => {
                    shape.pending_bytes += run.merge_bytes();
                    shape.pending_runs += 1;
                }
            }
        }
        shape
    }

    /// Whether there are several pending runs that are small compared with the
    /// bottom runs, so that merging only them is cheaper.
    pub(crate) fn is_fragmented(&self) -> bool {
        self.pending_runs >= 2 && self.pending_bytes * 3 < self.bottom_bytes
    }

    fn due(&self, options: &TreeOptions) -> f64 {
        if self.pending_runs == 0 {
            // Many tiny bottom runs should be joined.
            return ratio(self.bottom_runs, 4 * u64::from(options.leaf_runs_max));
        }
        let against = self.bottom_bytes.max(options.leaf_bytes / 4);
        let is_tiny = self.bottom_bytes + self.pending_bytes <= options.leaf_bytes / TINY_LEAF;
        let runs_max = match is_tiny {
            true => TINY_LEAF_RUNS_MAX,
            false => options.leaf_runs_max,
        };
        ratio(self.pending_bytes, against).max(ratio(self.pending_runs, u64::from(runs_max)))
    }
}

/// A leaf is tiny if its runs have at most `leaf_bytes` divided by this number: about a page.
const TINY_LEAF: u64 = 128;
/// The number of pending runs at which the merge of a tiny leaf is due. It writes about as much as a
/// flush, and the description of a run takes more memory than its rows in the file.
const TINY_LEAF_RUNS_MAX: u32 = 2;

/// A job is due when one in so many entries of a child and of the nodes below it is garbage. An
/// update of an indexed column writes a delete and a put. At this share, such updates make a leaf
/// due when its pending entries are as many as the others, as other writes do.
const GARBAGE_SHARE: u64 = 4;
/// Minimum garbage that makes a job due, unless it frees large values: as many entries as fill a
/// leaf if each has this size.
const GARBAGE_ENTRY_BYTES: u64 = 4096;
/// The minimum of the settled watermark: no write has a smaller id.
pub(crate) const WATERMARK_MIN: WriteId = WriteId(1);
/// Number of range tombstones of a child that makes a job due, because they slow readers.
const RANGE_TOMBSTONES_MAX: u64 = 16;

// Counts beyond 2^53 lose precision, which is acceptable for a priority.
#[allow(clippy::cast_precision_loss)]
fn ratio(value: u64, limit: u64) -> f64 {
    value as f64 / limit.max(1) as f64
}

/// The garbage of a run: the entries that merges can drop once every snapshot sees the writes of the
/// run. These are deletes, and in a bottom run also the older versions of its keys, which the last
/// merge had to retain.
fn garbage(run: &RunRef) -> u64 {
    let description = run.handle.description();
    let older = match run.handle.form {
        RunForm::Upper => 0,
        RunForm::Bottom => description.entries().saturating_sub(description.keys),
    };
    run.share(description.deletes + older)
}

/// The settled watermark from which on a merge can drop the garbage of a run.
fn droppable_at(run: &RunRef) -> WriteId {
    let ids = run.handle.description().write_ids;
    let ids = ids.filter(|_| !run.handle.is_settled());
    ids.map_or(WATERMARK_MIN, |(_, max)| WriteId(max.0.saturating_add(1)))
}

/// The entries on and below a child, and the bytes of their separate values in the file.
struct Contents {
    entries: u64,
    separate_bytes: u64,
}

impl Contents {
    fn of(runs: &[RunRef], below: Option<&Summary>) -> Self {
        let mut contents = Self {
            entries: below.map_or(0, |below| below.entries),
            separate_bytes: below.map_or(0, |below| below.separate_bytes),
        };
        for run in runs {
            let description = run.handle.description();
            contents.entries += run.share(description.entries());
            contents.separate_bytes += run.share(description.separate.stored_bytes);
        }
        contents
    }

    /// Whether a job is due if so many of the entries are garbage that can be dropped. Little
    /// garbage makes it due only if it frees as much as a leaf.
    // As in `ratio`.
    #[allow(clippy::cast_precision_loss)]
    fn is_due(&self, garbage: u64, options: &TreeOptions) -> bool {
        let freed_bytes = ratio(garbage, self.entries) * self.separate_bytes as f64;
        let is_little = garbage < options.leaf_bytes / GARBAGE_ENTRY_BYTES
            && freed_bytes < options.leaf_bytes as f64;
        garbage > 0 && !is_little && GARBAGE_SHARE.saturating_mul(garbage) >= self.entries
    }
}

/// The settled watermark from which on a job on the child itself is due because it can drop enough
/// garbage. `None` if the child has little garbage.
pub(crate) fn garbage_due_at(
    runs: &[RunRef],
    below: Option<&Summary>,
    options: &TreeOptions,
) -> Option<WriteId> {
    let contents = Contents::of(runs, below);
    if !contents.is_due(runs.iter().map(garbage).sum(), options) {
        return None;
    }
    let mut by_watermark: Vec<(WriteId, u64)> = runs
        .iter()
        .map(|run| (droppable_at(run), garbage(run)))
        .collect();
    by_watermark.sort_unstable();
    let mut droppable = 0;
    let due_at = by_watermark.iter().find(|(_, garbage)| {
        droppable += garbage;
        contents.is_due(droppable, options)
    });
    due_at.map(|(watermark, _)| *watermark)
}

/// Whether a job would be due if this number of the entries on and below a child were garbage that can
/// be dropped.
pub(crate) fn is_garbage_due(garbage: u64, total: &Summary, options: &TreeOptions) -> bool {
    let contents = Contents {
        entries: total.entries,
        separate_bytes: total.separate_bytes,
    };
    contents.is_due(garbage, options)
}

/// Number of upper runs.
pub(crate) fn upper_runs(runs: &[RunRef]) -> u64 {
    let is_upper = |run: &&RunRef| run.handle.form == RunForm::Upper;
    runs.iter().filter(is_upper).count() as u64
}

/// The number of upper runs, relative to the number at which a job is due.
pub(crate) fn run_load(upper_runs: u64, is_leaf: bool, options: &TreeOptions) -> f64 {
    let due_at = match is_leaf {
        true => options.leaf_runs_max,
        false => options.child_runs_max,
    };
    ratio(upper_runs, u64::from(due_at))
}

/// Urgency of a job on the child itself, apart from garbage. The job is due at 1.0 and above.
pub(crate) fn own_due(runs: &[RunRef], is_leaf: bool, options: &TreeOptions) -> f64 {
    let range_tombstones = runs
        .iter()
        .map(|run| run.handle.description().range_tombstones.len() as u64);
    let due = ratio(range_tombstones.sum(), RANGE_TOMBSTONES_MAX);
    due.max(match is_leaf {
        true => LeafShape::of(runs).due(options),
        false => due_inner(runs, options),
    })
}

/// The size of the upper runs that a job on the child would process; at least one.
fn waiting_bytes(runs: &[RunRef], is_leaf: bool) -> u64 {
    let bytes = if is_leaf {
        LeafShape::of(runs).pending_bytes
    } else {
        runs.iter().map(RunRef::merge_bytes).sum()
    };
    bytes.max(1)
}

fn due_inner(runs: &[RunRef], options: &TreeOptions) -> f64 {
    let bytes = runs.iter().map(RunRef::merge_bytes).sum();
    ratio(bytes, options.child_buffer_bytes).max(run_load(runs.len() as u64, false, options))
}

impl Summary {
    pub(crate) fn of_child(
        runs: &[RunRef],
        below: Option<&Summary>,
        own_due: f64,
        garbage_due_at: Option<WriteId>,
    ) -> Self {
        let mut summary = match below {
            Some(below) => Summary {
                holds_buffered: below.holds_buffered || !runs.is_empty(),
                ..below.clone()
            },
            None => Summary {
                leaves: 1,
                holds_pending: runs.iter().any(|run| run.handle.form == RunForm::Upper),
                ..Summary::default()
            },
        };
        let own_runs = match below {
            Some(_) => &mut summary.inner_runs,
            None => &mut summary.leaf_runs,
        };
        *own_runs = (*own_runs).max(upper_runs(runs));
        summary.due = summary.due.max(own_due);
        summary.garbage_due_at = earlier(summary.garbage_due_at, garbage_due_at);
        if own_due >= 1.0 {
            add(&mut summary.due_bytes, waiting_bytes(runs, below.is_none()));
        }
        for run in runs {
            summary.add_run(run, below.is_none());
        }
        summary
    }

    fn add_run(&mut self, run: &RunRef, in_leaf: bool) {
        let description = run.handle.description();
        let count = |value: u64| i64::try_from(run.share(value)).unwrap_or(i64::MAX);
        let separate = &description.separate;
        for (total, value) in [
            (&mut self.runs, 1),
            (&mut self.entries, run.share(description.entries())),
            (&mut self.deletes, run.share(description.deletes)),
            (
                &mut self.range_tombstones,
                description.range_tombstones.len() as u64,
            ),
            (&mut self.merge_bytes, run.merge_bytes()),
            (
                &mut self.raw_bytes,
                run.share(description.raw_bytes + separate.raw_bytes),
            ),
            (
                &mut self.stored_bytes,
                run.share(description.stored_bytes + separate.stored_bytes),
            ),
            (&mut self.pages, run.share(description.index.pages())),
            (&mut self.separate_values, run.share(separate.count)),
            (&mut self.separate_bytes, run.share(separate.stored_bytes)),
        ] {
            add(total, value);
        }
        self.blocks_end = self.blocks_end.max(description.blocks_end);
        let rows = if in_leaf && run.handle.form == RunForm::Bottom {
            count(description.keys)
        } else {
            add(&mut self.upper_bytes, run.merge_bytes());
            count(description.puts).saturating_sub(count(description.deletes))
        };
        self.add_rows(rows);
        if !run.handle.is_settled() {
            self.write_ids = join_ids(self.write_ids, description.write_ids);
            let unpurged = run.handle.unpurged_ids().map(|(oldest, _)| oldest);
            self.oldest_unpurged = earlier(self.oldest_unpurged, unpurged);
        }
    }

    fn add_rows(&mut self, rows: i64) {
        self.rows = self.rows.saturating_add(rows).clamp(-ROWS_MAX, ROWS_MAX);
    }

    /// Maximum number of upper runs of a child.
    pub(crate) fn child_runs(&self) -> u64 {
        self.inner_runs.max(self.leaf_runs)
    }

    /// The same, relative to the number at which a job is due.
    pub(crate) fn run_load(&self, options: &TreeOptions) -> f64 {
        let inner = run_load(self.inner_runs, false, options);
        inner.max(run_load(self.leaf_runs, true, options))
    }

    pub(crate) fn of_node<'a>(children: impl Iterator<Item = &'a Summary>) -> Self {
        let mut total = Summary {
            nodes: 1,
            ..Summary::default()
        };
        for summary in children {
            for (total, value) in [
                (&mut total.runs, summary.runs),
                (&mut total.leaves, summary.leaves),
                (&mut total.nodes, summary.nodes),
                (&mut total.entries, summary.entries),
                (&mut total.deletes, summary.deletes),
                (&mut total.range_tombstones, summary.range_tombstones),
                (&mut total.merge_bytes, summary.merge_bytes),
                (&mut total.raw_bytes, summary.raw_bytes),
                (&mut total.stored_bytes, summary.stored_bytes),
                (&mut total.pages, summary.pages),
                (&mut total.separate_values, summary.separate_values),
                (&mut total.separate_bytes, summary.separate_bytes),
                (&mut total.upper_bytes, summary.upper_bytes),
                (&mut total.due_bytes, summary.due_bytes),
            ] {
                add(total, value);
            }
            total.add_rows(summary.rows);
            total.blocks_end = total.blocks_end.max(summary.blocks_end);
            total.write_ids = join_ids(total.write_ids, summary.write_ids);
            total.oldest_unpurged = earlier(total.oldest_unpurged, summary.oldest_unpurged);
            total.due = total.due.max(summary.due);
            total.garbage_due_at = earlier(total.garbage_due_at, summary.garbage_due_at);
            total.inner_runs = total.inner_runs.max(summary.inner_runs);
            total.leaf_runs = total.leaf_runs.max(summary.leaf_runs);
            total.holds_buffered |= summary.holds_buffered;
            total.holds_pending |= summary.holds_pending;
        }
        total
    }
}

/// The maximum of a total. Real ones are far smaller; damaged files cause no overflow.
pub(super) const TOTAL_MAX: u64 = 1 << 60;
const ROWS_MAX: i64 = 1 << 60;

fn add(total: &mut u64, value: u64) {
    *total = total.saturating_add(value).min(TOTAL_MAX);
}

/// The smaller of two ids or watermarks.
fn earlier(a: Option<WriteId>, b: Option<WriteId>) -> Option<WriteId> {
    a.into_iter().chain(b).min()
}

/// The smallest range that contains both ranges.
pub(crate) fn join_ids(
    a: Option<(WriteId, WriteId)>,
    b: Option<(WriteId, WriteId)>,
) -> Option<(WriteId, WriteId)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{RunHandle, RunMarks};
    use crate::{PageCache, Run, RunDescription};
    use std::path::Path;
    use std::sync::Arc;
    use teak_base::FileId;
    use teak_block_file::BlockFile;
    use teak_disk::{Disk, MemoryDisk};

    /// A run with these numbers of puts, deletes and keys. The maximum write id is zero if all
    /// entries are settled.
    fn run(form: RunForm, [puts, deletes, keys]: [u64; 3], id_max: u64) -> RunRef {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let file = BlockFile::create(&disk, Path::new("/t"), FileId(1), &[]).unwrap();
        let description = RunDescription {
            puts,
            deletes,
            keys,
            write_ids: (id_max > 0).then_some((WriteId(1), WriteId(id_max))),
            ..RunDescription::default()
        };
        let run = Run::open(&file, &Arc::new(PageCache::new(0)), description);
        RunRef::whole(Arc::new(RunHandle::new(run, form, RunMarks::default(), 1)))
    }

    /// When a leaf of 120 settled rows is due because of these runs of deletes.
    fn due_at(deletes: &[(u64, u64)]) -> Option<WriteId> {
        let upper = deletes.iter();
        let upper = upper.map(|(deletes, id)| run(RunForm::Upper, [0, *deletes, *deletes], *id));
        let bottom = run(RunForm::Bottom, [120, 0, 120], 0);
        let runs: Vec<RunRef> = upper.chain([bottom]).collect();
        garbage_due_at(&runs, None, &options())
    }

    /// Fewer than 40 deletes do not make a leaf due.
    fn options() -> TreeOptions {
        TreeOptions {
            leaf_bytes: 40 * GARBAGE_ENTRY_BYTES,
            ..TreeOptions::default()
        }
    }

    #[test]
    fn garbage_makes_a_leaf_due_once_a_quarter_of_the_entries_can_be_dropped() {
        assert_eq!(due_at(&[]), None);
        assert_eq!(due_at(&[(39, 5)]), None);
        assert_eq!(due_at(&[(40, 5)]), Some(WriteId(6)));
        assert_eq!(due_at(&[(40, 0)]), Some(WATERMARK_MIN));
        // The newer deletes are needed, too.
        assert_eq!(due_at(&[(20, 9), (20, 5)]), Some(WriteId(10)));
        // The older ones suffice.
        assert_eq!(due_at(&[(10, 9), (50, 5)]), Some(WriteId(6)));
        assert_eq!(due_at(&[(50, u64::MAX)]), Some(WriteId(u64::MAX)));
    }

    #[test]
    fn a_tiny_leaf_is_merged_at_its_second_pending_run() {
        let options = TreeOptions::default();
        let due = |bytes, pending_runs| {
            let shape = LeafShape {
                bottom_bytes: bytes,
                bottom_runs: 1,
                pending_bytes: 100,
                pending_runs,
            };
            shape.due(&options) >= 1.0
        };
        let tiny = options.leaf_bytes / TINY_LEAF - 100;
        assert!(!due(tiny, 1));
        assert!(due(tiny, 2));
        assert!(!due(tiny + 1, 2));
        assert!(due(tiny + 1, u64::from(options.leaf_runs_max)));
    }

    #[test]
    fn older_versions_in_bottom_runs_are_garbage() {
        let bottom = run(RunForm::Bottom, [100, 0, 60], 7);
        let runs = std::slice::from_ref(&bottom);
        assert_eq!(garbage_due_at(runs, None, &options()), Some(WriteId(8)));
        // They are less than a quarter of the entries on and below the child.
        let below = Summary {
            entries: 61,
            ..Summary::default()
        };
        assert_eq!(garbage_due_at(runs, Some(&below), &options()), None);
        bottom.handle.mark_settled();
        assert_eq!(garbage_due_at(runs, None, &options()), Some(WATERMARK_MIN));
        let upper = run(RunForm::Upper, [100, 0, 60], 7);
        assert_eq!(garbage_due_at(&[upper], None, &options()), None);
    }
}
