//! Totals of a subtree, computed once when its child or node is created. Planning, estimates and
//! statistics read them.

use super::run_ref::{RunForm, RunRef};
use crate::TreeOptions;
use teak_base::WriteId;

/// The merge of a leaf in idle time writes at most about this many bytes for each byte that is pending or not settled.
const IDLE_MERGE_FACTOR: u64 = 8;

/// The runs of an inner child are moved down in idle time from this part of the bytes below it on. With
/// fewer bytes, many leaves would get tiny runs.
const IDLE_FLUSH_PART: u64 = 64;

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
    /// Whether a child is worth a job in idle time (see [`is_worth_idle_job`]).
    pub(crate) holds_idle_work: bool,
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

    /// Whether pending runs should be merged with each other and not with the bottom runs: they are
    /// small compared with these, or so many that writers are slowed, or soon will be.
    pub(crate) fn prefers_consolidation(&self, leaf: u64, options: &TreeOptions) -> bool {
        if self.pending_runs < 2 {
            return false;
        }
        let is_crowded = run_load(self.pending_runs, true, options) >= CROWDED;
        match is_crowded {
            true => self.pending_bytes < self.bottom_bytes,
            // Between a half and a quarter of the bottom runs.
            false => self.pending_bytes * (8 + jitter(leaf, 8)) < self.bottom_bytes * 4,
        }
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

/// The number of runs, relative to the number at which a job is due, from which a child is crowded.
const CROWDED: f64 = 1.5;

/// A number from 0 to `max` for a child with this id. All children of a node get runs of the same size at the same
/// time. So that their large jobs are not due at the same time, too, the thresholds of children differ.
fn jitter(child: u64, max: u64) -> u64 {
    (child.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (max + 1)
}

/// Whether the runs of an inner child should be merged with each other and not moved down: they are
/// small, or so many that writers are slowed, or soon will be.
pub(crate) fn prefers_consolidation(runs: &[RunRef], child: u64, options: &TreeOptions) -> bool {
    let load = run_load(runs.len() as u64, false, options);
    let bytes: u64 = runs.iter().map(RunRef::merge_bytes).sum();
    let buffer = options.child_buffer_bytes;
    match load {
        CROWDED.. => bytes < buffer,
        // Between three and five eighths of the buffer.
        1.0.. => bytes < buffer / 32 * (12 + jitter(child, 8)),
        _ => false,
    }
}

/// A leaf is tiny if its runs have at most `leaf_bytes` divided by this number: about a page.
const TINY_LEAF: u64 = 128;
/// The number of pending runs at which the merge of a tiny leaf is due. It writes about as much as a
/// flush, and the description of a run takes more memory than its rows in the file.
const TINY_LEAF_RUNS_MAX: u32 = 2;

/// Number of range tombstones of a child that makes a job due, because they slow readers.
const RANGE_TOMBSTONES_MAX: u64 = 16;

// Counts beyond 2^53 lose precision, which is acceptable for a priority.
#[allow(clippy::cast_precision_loss)]
pub(super) fn ratio(value: u64, limit: u64) -> f64 {
    value as f64 / limit.max(1) as f64
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

/// Whether a job on the child may run in idle time although it is not due: the merge of a leaf, if the
/// pending runs are a [large part](is_large_part), or the flush of an inner child.
pub(crate) fn is_worth_idle_job(runs: &[RunRef], below: Option<&Summary>) -> bool {
    match below {
        Some(below) => {
            let bytes: u64 = runs.iter().map(RunRef::merge_bytes).sum();
            bytes > 0 && bytes.saturating_mul(IDLE_FLUSH_PART) >= below.merge_bytes
        }
        None => is_large_part(runs, |run| run.handle.form == RunForm::Upper),
    }
}

/// Whether the selected runs have at least one in [`IDLE_MERGE_FACTOR`] of all bytes or entries.
pub(crate) fn is_large_part(runs: &[RunRef], is_selected: impl Fn(&RunRef) -> bool) -> bool {
    let is_large = |size: &dyn Fn(&RunRef) -> u64| {
        let all: u64 = runs.iter().map(size).sum();
        let selected = runs.iter().filter(|run| is_selected(run));
        let part: u64 = selected.map(size).sum();
        part > 0 && part.saturating_mul(IDLE_MERGE_FACTOR) >= all
    };
    is_large(&RunRef::merge_bytes) || is_large(&|run| run.share(run.handle.description().entries()))
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
        summary.holds_idle_work |= is_worth_idle_job(runs, below);
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
            total.holds_idle_work |= summary.holds_idle_work;
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
}
