//! The garbage of a child: entries that merges can drop.

use super::key_range::KeyRange;
use super::run_ref::{RunForm, RunRef, tombstone_range};
use super::summary::{Summary, ratio};
use crate::TreeOptions;
use teak_base::WriteId;

/// A job is due when one in so many entries of a child and of the nodes below it is garbage. An
/// update of an indexed column writes a delete and a put. At this share, such updates make a leaf
/// due when its pending entries are as many as the others, as other writes do.
const GARBAGE_SHARE: u64 = 4;
/// Minimum garbage that makes a job due, unless it frees large values: as many entries as fill a
/// leaf if each has this size.
const GARBAGE_ENTRY_BYTES: u64 = 4096;
/// The minimum of the settled watermark: no write has a smaller id.
pub(crate) const WATERMARK_MIN: WriteId = WriteId(1);

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

/// The settled watermark from which on a merge can drop everything in a range because a range
/// tombstone of `newer` covers all of it. `None` if none does.
fn covered_at(newer: &[RunRef], range: &KeyRange) -> Option<WriteId> {
    let covers = |run: &&RunRef| {
        let mut tombstones = run.handle.description().range_tombstones.iter();
        // A clipped reference deletes only keys within its clip.
        let clip = run.clip.as_deref();
        clip.is_none_or(|clip| clip.covers(range))
            && tombstones.any(|tombstone| tombstone_range(tombstone).covers(range))
    };
    newer.iter().filter(covers).map(droppable_at).min()
}

/// The entries that range tombstones of newer runs delete, with the settled watermark from which on
/// merges can drop them, apart from the garbage of their own run. Only tombstones that cover all of
/// a run, or all of the child, are considered.
fn covered(runs: &[RunRef], below: u64, range: &KeyRange) -> Vec<(WriteId, u64)> {
    let has_tombstones = |run: &RunRef| !run.handle.description().range_tombstones.is_empty();
    let Some(newest) = runs.iter().position(has_tombstones) else {
        return Vec::new();
    };
    let older = runs.iter().enumerate().skip(newest + 1);
    let older = older.filter_map(|(place, run)| {
        let newer = runs.get(..place).unwrap_or_default();
        let entries = run.share(run.handle.description().entries());
        let covered_at = covered_at(newer, &run.range())?;
        Some((covered_at, entries.saturating_sub(garbage(run))))
    });
    let below = covered_at(runs, range).map(|covered_at| (covered_at, below));
    older.chain(below).collect()
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
/// garbage, or push down a range tombstone over enough entries. `None` if the child has little
/// garbage. `range` contains the keys of the child.
pub(crate) fn garbage_due_at(
    runs: &[RunRef],
    below: Option<&Summary>,
    range: &KeyRange,
    options: &TreeOptions,
) -> Option<WriteId> {
    let contents = Contents::of(runs, below);
    let mut by_watermark = covered(runs, below.map_or(0, |below| below.entries), range);
    let all: u64 = by_watermark.iter().map(|(_, entries)| entries).sum();
    if !contents.is_due(all + runs.iter().map(garbage).sum::<u64>(), options) {
        return None;
    }
    let own = runs.iter().map(|run| (droppable_at(run), garbage(run)));
    by_watermark.extend(own);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{RunHandle, RunMarks};
    use crate::{PageCache, RangeTombstone, Run, RunDescription};
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
        garbage_due_at(&runs, None, &KeyRange::all(), &options())
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

    fn tombstone_run(start: &[u8], end: &[u8], id: u64) -> RunRef {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let file = BlockFile::create(&disk, Path::new("/t"), FileId(1), &[]).unwrap();
        let tombstone = RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            write_id: WriteId(id),
        };
        let description = RunDescription {
            write_ids: Some((WriteId(id), WriteId(id))),
            range_tombstones: vec![tombstone],
            ..RunDescription::default()
        };
        let run = Run::open(&file, &Arc::new(PageCache::new(0)), description);
        let handle = RunHandle::new(run, RunForm::Upper, RunMarks::default(), 1);
        RunRef::whole(Arc::new(handle))
    }

    #[test]
    fn entries_below_a_range_tombstone_are_garbage_if_it_covers_all_of_them() {
        let range = KeyRange::new(b"c", Some(b"m"));
        let below = Summary {
            entries: 1000,
            ..Summary::default()
        };
        let due_at = |start: &[u8], end: &[u8], below: Option<&Summary>| {
            let runs = [tombstone_run(start, end, 7)];
            garbage_due_at(&runs, below, &range, &options())
        };
        assert_eq!(due_at(b"", b"", Some(&below)), Some(WriteId(8)));
        assert_eq!(due_at(b"c", b"m", Some(&below)), Some(WriteId(8)));
        assert_eq!(due_at(b"d", b"m", Some(&below)), None);
        assert_eq!(due_at(b"c", b"l", Some(&below)), None);
        assert_eq!(due_at(b"", b"", None), None);
        // Older runs of the same child, but not newer ones.
        let bottom = run(RunForm::Bottom, [120, 0, 120], 0);
        let all = KeyRange::all();
        let older = [tombstone_run(b"", b"", 7), bottom.clone()];
        assert_eq!(
            garbage_due_at(&older, None, &all, &options()),
            Some(WriteId(8))
        );
        let newer = [bottom, tombstone_run(b"", b"", 7)];
        assert_eq!(garbage_due_at(&newer, None, &all, &options()), None);
    }

    #[test]
    fn older_versions_in_bottom_runs_are_garbage() {
        let bottom = run(RunForm::Bottom, [100, 0, 60], 7);
        let runs = std::slice::from_ref(&bottom);
        assert_eq!(
            garbage_due_at(runs, None, &KeyRange::all(), &options()),
            Some(WriteId(8))
        );
        // They are less than a quarter of the entries on and below the child.
        let below = Summary {
            entries: 61,
            ..Summary::default()
        };
        assert_eq!(
            garbage_due_at(runs, Some(&below), &KeyRange::all(), &options()),
            None
        );
        bottom.handle.mark_settled();
        assert_eq!(
            garbage_due_at(runs, None, &KeyRange::all(), &options()),
            Some(WATERMARK_MIN)
        );
        let upper = run(RunForm::Upper, [100, 0, 60], 7);
        assert_eq!(
            garbage_due_at(&[upper], None, &KeyRange::all(), &options()),
            None
        );
    }
}
