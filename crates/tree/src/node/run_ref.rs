//! References from nodes to runs.
//!
//! A child normally owns its runs: all keys of a run are in the child's range. When a child is
//! split within the range of a run, both parts refer to the run, each clipped to its range. Merges
//! later replace the references; then the run's space is freed.
//!
//! Invariant: if a reference is not clipped, the complete run is in the child's range, and no other
//! child refers to it. So the range can grow (when a neighbour is dropped) without exposing other
//! entries. The numbers of references to runs that have several are in
//! [`SharedRuns`](crate::shared_runs).

use super::key_range::{KeyRange, max_upper, min_upper};
use crate::{RangeTombstone, Run, RunDescription};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use teak_base::WriteId;
use teak_base::bytes::key_successor;
use teak_base::visibility::Horizon;

/// The form of a run. The numbers are on disk and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RunForm {
    /// A run above the bottom, in the fast codec, which will be merged into lower levels.
    Upper = 0,
    /// Data of a leaf. There was no older data for its keys when it was installed.
    Bottom = 1,
}

impl RunForm {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Upper, Self::Bottom]
            .into_iter()
            .find(|form| *form as u8 == number)
    }
}

/// Identifies a run of a tree, as long as a version refers to it. A node that is read again has
/// other handles of the same runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RunId {
    /// The offset of the first index block.
    Block(u64),
    /// The number of a run that has range tombstones only. Taken from the numbers of children.
    Number(u64),
}

/// What is known about the writes of a run, apart from its description. It may change while the run
/// does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunMarks {
    /// Whether all write ids of the run are treated as settled.
    pub(crate) is_settled: bool,
    /// The run has no entry and no range tombstone of an aborted write below this id, and will
    /// never have one: all writes below were committed or aborted when the run was written or
    /// examined.
    pub(crate) purged_below: WriteId,
}

/// A run in at least one version of the tree.
#[derive(Debug)]
pub(crate) struct RunHandle {
    pub(crate) run: Arc<Run>,
    pub(crate) form: RunForm,
    id: RunId,
    /// The range of its entries and range tombstones.
    extent: KeyRange,
    /// See [`RunMarks`].
    settled: AtomicBool,
    purged_below: AtomicU64,
}

impl RunHandle {
    /// `number` identifies the run if it has no blocks.
    pub(crate) fn new(run: Run, form: RunForm, marks: RunMarks, number: u64) -> Self {
        let first = run.description().index.first();
        Self {
            extent: extent(run.description()),
            run: Arc::new(run),
            form,
            id: first.map_or(RunId::Number(number), |block| RunId::Block(block.offset)),
            settled: AtomicBool::new(marks.is_settled),
            purged_below: AtomicU64::new(marks.purged_below.0),
        }
    }

    /// The same run in another form. For a run that no version refers to yet.
    pub(crate) fn with_form(&self, form: RunForm) -> Self {
        let marks = self.marks();
        Self {
            run: Arc::clone(&self.run),
            form,
            id: self.id,
            extent: self.extent.clone(),
            settled: AtomicBool::new(marks.is_settled),
            purged_below: AtomicU64::new(marks.purged_below.0),
        }
    }

    pub(crate) fn id(&self) -> RunId {
        self.id
    }

    pub(crate) fn description(&self) -> &RunDescription {
        self.run.description()
    }

    pub(crate) fn extent(&self) -> &KeyRange {
        &self.extent
    }

    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(crate) fn marks(&self) -> RunMarks {
        RunMarks {
            is_settled: self.is_settled(),
            purged_below: WriteId(self.purged_below.load(Ordering::Relaxed)),
        }
    }

    /// The part of the range of write ids that may contain aborted ids, now or later; `None` if
    /// there is none.
    pub(crate) fn unpurged_ids(&self) -> Option<(WriteId, WriteId)> {
        let marks = self.marks();
        let (min, max) = self.description().write_ids?;
        let from = min.max(marks.purged_below);
        (!marks.is_settled && from <= max).then_some((from, max))
    }

    /// Whether [`RunHandle::mark_purged`] makes the range of unpurged ids smaller: no write of that
    /// range is aborted, as far as it is decided.
    pub(crate) fn can_be_marked_purged(&self, horizon: &dyn Horizon) -> bool {
        let decided = horizon.decided_below();
        self.unpurged_ids().is_some_and(|(from, max)| {
            let last = max.min(WriteId(decided.0.saturating_sub(1)));
            from < decided && !horizon.may_have_aborted(from, last)
        })
    }

    /// Records that the run has no entry of an aborted write below `decided`, the decided
    /// watermark. This remains true.
    pub(crate) fn mark_purged(&self, decided: WriteId) {
        self.purged_below.fetch_max(decided.0, Ordering::Relaxed);
    }

    /// The range of all write ids of the run; `None` when some entry is or may
    /// be settled.
    pub(crate) fn only_write_ids(&self) -> Option<(WriteId, WriteId)> {
        let only = self.description().only_write_ids();
        only.filter(|_| !self.is_settled())
    }

    /// Whether the run can be marked as settled once its writes are: it has one version of each
    /// key, and no range tombstone. A bottom run must also have no deletes.
    pub(crate) fn can_be_marked(&self) -> bool {
        let description = self.description();
        description.entries() == description.keys
            && (self.form == RunForm::Upper || description.puts == description.keys)
            && description.range_tombstones.is_empty()
    }

    /// Marks the run as settled: every current and later snapshot sees all its
    /// writes. This never becomes false again.
    pub(crate) fn mark_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }
}

/// The range of entries and range tombstones.
fn extent(description: &RunDescription) -> KeyRange {
    let mut lower: Option<&[u8]> = None;
    let mut upper: Option<&[u8]> = Some(&[]);
    let above_last;
    if description.entries() > 0 {
        lower = Some(&description.first_key);
        above_last = key_successor(&description.last_key);
        upper = Some(&above_last);
    }
    for tombstone in &description.range_tombstones {
        lower = Some(lower.map_or(&*tombstone.start, |lower| lower.min(&tombstone.start)));
        upper = max_upper(upper, tombstone_upper(&tombstone.end));
    }
    KeyRange::new(lower.unwrap_or_default(), upper)
}

/// The keys that a range tombstone deletes.
pub(crate) fn tombstone_range(tombstone: &RangeTombstone) -> KeyRange {
    KeyRange::new(&tombstone.start, tombstone_upper(&tombstone.end))
}

/// Converts a range tombstone's end to an upper bound.
fn tombstone_upper(end: &[u8]) -> Option<&[u8]> {
    (!end.is_empty()).then_some(end)
}

/// A child's reference to a run or to a part of it.
#[derive(Clone, Debug)]
pub(crate) struct RunRef {
    pub(crate) handle: Arc<RunHandle>,
    pub(crate) clip: Option<Arc<KeyRange>>,
}

impl RunRef {
    /// Refers to all of a run.
    pub(crate) fn whole(handle: Arc<RunHandle>) -> Self {
        Self { handle, clip: None }
    }

    /// The range that may contain entries or range tombstones.
    pub(crate) fn range(&self) -> KeyRange {
        match &self.clip {
            Some(clip) => clip.intersection(self.handle.extent()),
            None => self.handle.extent().clone(),
        }
    }

    /// The start of [`RunRef::range`].
    pub(crate) fn lower(&self) -> &[u8] {
        let lower = &*self.handle.extent.lower;
        self.clip
            .as_ref()
            .map_or(lower, |clip| lower.max(&clip.lower))
    }

    /// The end of [`RunRef::range`].
    pub(crate) fn upper(&self) -> Option<&[u8]> {
        let upper = self.handle.extent.upper.as_deref();
        match &self.clip {
            Some(clip) => min_upper(clip.upper.as_deref(), upper),
            None => upper,
        }
    }

    /// Whether [`RunRef::range`] contains the key.
    #[inline]
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        self.handle.extent.contains(key) && self.clip.as_ref().is_none_or(|clip| clip.contains(key))
    }

    /// The part within `range`; `None` when it is empty.
    pub(crate) fn clipped(&self, range: &KeyRange) -> Option<RunRef> {
        let own = self.range();
        if !own.overlaps(range) {
            return None;
        }
        if range.covers(&own) {
            return Some(self.clone());
        }
        Some(RunRef {
            handle: Arc::clone(&self.handle),
            clip: Some(Arc::new(match &self.clip {
                Some(clip) => clip.intersection(range),
                None => range.clone(),
            })),
        })
    }

    pub(crate) fn is_same_run(&self, other: &RunRef) -> bool {
        self.handle.id == other.handle.id
    }

    /// Estimates this reference's share of a count of the whole run: half, if the reference is
    /// clipped.
    pub(crate) fn share(&self, count: u64) -> u64 {
        if self.clip.is_some() {
            count / 2
        } else {
            count
        }
    }

    /// The size by which merges are planned.
    pub(crate) fn merge_bytes(&self) -> u64 {
        self.share(self.handle.description().merge_bytes())
    }
}
