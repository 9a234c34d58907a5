//! Keeping the table small. Its memory depends on the number of live snapshots,
//! and of aborted and active ids, not on the number of ids.
//!
//! 1. All chunks except the newest few become pieces. All commits of one gap
//!    between live snapshots get the same sequence, see [`SnapshotGaps`], so few
//!    runs of equal status are left. This changes no answer: a live snapshot, or
//!    a later one, sees either all commits of the gap or none.
//! 2. Each step reads the next pieces again, because gaps join when a snapshot
//!    ends. Adjacent pieces that can be one are joined.
//! 3. The settled watermark advances over ids that are aborted, or visible to
//!    every snapshot.
//! 4. `forget_aborted` removes the aborted ids that no index contains any more.
//!
//! Each step is short, and locks the table only against other changes of the
//! directory. The thread that allocates the first id of a chunk runs one step, so
//! that chunks do not accumulate; the maintenance thread runs more of them.

use super::WriteIdTable;
use super::builder::{Entry, PieceBuilder};
use super::directory::Directory;
use super::piece::{CHUNK_IDS, Piece, Run};
use super::status_word::{ABORTED, SETTLED, SnapshotGaps};
use crate::sync::atomic::Ordering;
use std::ops::Range;
use std::sync::Arc;
use teak_base::{CommitSequence, WriteId, WriteIdRanges};

/// Number of the newest full chunks that are not replaced: most transactions end
/// while their ids are in these chunks.
const CHUNKS_KEPT: usize = if cfg!(feature = "schedules") { 1 } else { 4 };

/// Maximum number of chunks that one step replaces.
const STEP_CHUNKS: usize = 4;

/// A step reads pieces until their total [`Piece::cost`] reaches this.
const STEP_COST: u64 = 1 << 14;

/// Maximum number of steps in one call of `prune`.
const PRUNE_STEPS: usize = 256;

impl WriteIdTable {
    /// Compacts the table, and advances the settled watermark. `snapshots` are the
    /// live snapshots, ascending, and the newest published sequence last; each
    /// snapshot taken since is at least as new as that. Returns the new watermark.
    pub fn prune(&self, snapshots: &[CommitSequence]) -> WriteId {
        for _ in 0..PRUNE_STEPS {
            if !self.compact_step(snapshots) {
                break;
            }
        }
        self.advance_settled(snapshots)
    }

    /// One step. Returns false when it ended a pass over all pieces. `snapshots`
    /// as for [`WriteIdTable::prune`].
    pub fn compact_step(&self, snapshots: &[CommitSequence]) -> bool {
        let gaps = SnapshotGaps(snapshots);
        let mut turn = self.change.lock();
        let directory = self.directory.load_full();
        let full = usize::try_from(self.next().0 / CHUNK_IDS - directory.first_chunk);
        let full = full.unwrap_or(usize::MAX).min(directory.chunks.len());
        let excess = full.saturating_sub(CHUNKS_KEPT).min(STEP_CHUNKS);
        if excess > 0 {
            self.replace_chunks(&directory, excess, &gaps);
            return true;
        }
        *turn = self.compact_pieces(&directory, *turn, &gaps);
        *turn != 0
    }

    /// Replaces the first `count` chunks by pieces.
    fn replace_chunks(&self, old: &Directory, count: usize, gaps: &SnapshotGaps<'_>) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let mut builder = PieceBuilder::default();
        let last = old.pieces.len().saturating_sub(1);
        let mut kept = old.pieces.len();
        // The last piece may be extended.
        if let Some(entry) = old.pieces.get(last)
            && matches!(entry.piece, Piece::Uniform(_))
        {
            push_simplified(&mut builder, entry, old.piece_end(last), gaps);
            kept = last;
        }
        for (number, chunk) in (old.first_chunk..).zip(old.chunks.iter().take(count)) {
            let first = number * CHUNK_IDS;
            let entry = Entry {
                first,
                piece: Piece::Whole(Arc::clone(chunk)),
            };
            push_simplified(&mut builder, &entry, first + CHUNK_IDS, gaps);
        }
        let added = builder.finish();
        let removed = old.pieces.get(kept..).unwrap_or_default();
        let totals = old.totals.replacing(removed, &added);
        let kept = old.pieces.iter().take(kept).cloned();
        self.directory.store(Arc::new(Directory {
            pieces: kept.chain(added).collect(),
            totals,
            first_chunk: old.first_chunk + count as u64,
            chunks: old.chunks.get(count..).unwrap_or_default().to_vec(),
        }));
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Compacts some pieces from id `first` on. Returns where to continue, or zero
    /// at the end.
    fn compact_pieces(&self, old: &Directory, first: u64, gaps: &SnapshotGaps<'_>) -> u64 {
        let from = old.piece_of(first);
        let mut to = from;
        let mut cost = 0;
        while cost < STEP_COST
            && let Some(entry) = old.pieces.get(to)
        {
            cost += entry.piece.cost();
            to += 1;
        }
        let window = old.pieces.get(from..to).unwrap_or_default();
        if can_shrink(window, gaps) {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            let mut builder = PieceBuilder::default();
            for (number, entry) in (from..).zip(window) {
                push_simplified(&mut builder, entry, old.piece_end(number), gaps);
            }
            self.replace_pieces(old, from..to, builder.finish());
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        match old.pieces.get(to) {
            // The last piece of this window may be joined with the next.
            Some(next) if to > from + 1 => old.pieces.get(to - 1).map_or(next.first, |e| e.first),
            Some(next) => next.first,
            None => 0,
        }
    }

    /// Publishes a directory with `replacements` in place of the pieces of `range`.
    /// The caller must have locked the table.
    pub(super) fn replace_pieces(
        &self,
        old: &Directory,
        range: Range<usize>,
        replacements: Vec<Entry>,
    ) {
        let removed = old.pieces.get(range.clone()).unwrap_or_default();
        let totals = old.totals.replacing(removed, &replacements);
        let before = old.pieces.iter().take(range.start).cloned();
        let after = old.pieces.iter().skip(range.end).cloned();
        self.directory.store(Arc::new(Directory {
            pieces: before.chain(replacements).chain(after).collect(),
            totals,
            first_chunk: old.first_chunk,
            chunks: old.chunks.clone(),
        }));
    }

    fn advance_settled(&self, snapshots: &[CommitSequence]) -> WriteId {
        let gaps = SnapshotGaps(snapshots);
        let next = self.next().0;
        let before = self.settled.load(Ordering::Acquire);
        let mut settled = before;
        self.directory.load().runs(before, next, &mut |run| {
            let is_settled = matches!(gaps.simplify(run.word), SETTLED | ABORTED);
            if is_settled {
                settled = run.end;
            }
            is_settled
        });
        self.settled.fetch_max(settled, Ordering::AcqRel);
        WriteId(settled)
    }

    /// Removes aborted ids below `oldest_kept` and the decided watermark, except those
    /// in `kept`: their status becomes settled. The caller ensures that no index
    /// contains them any more and that no live reader can find them.
    pub fn forget_aborted(&self, oldest_kept: WriteId, kept: &WriteIdRanges) {
        let limit = oldest_kept.0.min(self.decided_below().0);
        let mut begin = 0;
        for range in kept.ranges() {
            self.forget_between(begin, limit.min(range.first.0));
            begin = range.end().0;
        }
        self.forget_between(begin, limit);
    }

    fn forget_between(&self, begin: u64, limit: u64) {
        let mut from = begin;
        while from < limit {
            from = self.forget_step(begin, from, limit);
        }
    }

    /// Removes the aborted ids from `begin` to `limit` in some pieces, from the
    /// piece of `first` on. Returns where to continue.
    fn forget_step(&self, begin: u64, first: u64, limit: u64) -> u64 {
        let _change = self.change.lock();
        let old = self.directory.load_full();
        let chunks_from = old.chunks_from();
        if first >= chunks_from {
            for id in first..limit {
                if let Some(slot) = old.slot(id)
                    && slot.load(Ordering::SeqCst) == ABORTED
                {
                    slot.store(SETTLED, Ordering::SeqCst);
                }
            }
            return limit;
        }
        let from = old.piece_of(first);
        let mut to = from;
        let mut cost = 0;
        let mut has_aborted = false;
        while cost < STEP_COST
            && let Some(entry) = old.pieces.get(to)
            && entry.first < limit
        {
            cost += entry.piece.cost();
            has_aborted |= entry.piece.has_aborted();
            to += 1;
        }
        let end = old.pieces.get(to).map_or(chunks_from, |next| next.first);
        if has_aborted {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            let mut builder = PieceBuilder::default();
            for (number, entry) in (from..to).zip(old.pieces.iter().skip(from)) {
                let mut runs = Vec::new();
                let piece_end = old.piece_end(number);
                entry.piece.runs(entry.first, piece_end, &mut |run| {
                    split_at(run, begin, &mut |run| {
                        split_at(run, limit, &mut |run| {
                            let is_between = begin <= run.first && run.end <= limit;
                            let is_forgotten = run.word == ABORTED && is_between;
                            let word = if is_forgotten { SETTLED } else { run.word };
                            runs.push(Run { word, ..run });
                        });
                    });
                });
                builder.push_piece(&joined(runs));
            }
            self.replace_pieces(&old, from..to, builder.finish());
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        end
    }
}

fn split_at(run: Run, limit: u64, each: &mut dyn FnMut(Run)) {
    if run.first < limit && limit < run.end {
        each(Run { end: limit, ..run });
        each(Run {
            first: limit,
            ..run
        });
    } else {
        each(run);
    }
}

/// Joins adjacent runs that have the same status.
fn joined(runs: Vec<Run>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if last.word == run.word => last.end = run.end,
            _ => out.push(run),
        }
    }
    out
}

/// Adds the runs of a piece, with one commit sequence for each gap between snapshots.
fn push_simplified(builder: &mut PieceBuilder, entry: &Entry, end: u64, gaps: &SnapshotGaps<'_>) {
    let mut runs = Vec::new();
    entry.piece.runs(entry.first, end, &mut |run| {
        runs.push(Run {
            word: gaps.simplify(run.word),
            ..run
        });
    });
    let runs = joined(runs);
    match &entry.piece {
        Piece::Whole(chunk) => builder.push_chunk(&runs, || Arc::clone(chunk)),
        Piece::Uniform(_) | Piece::Packed(_) => builder.push_piece(&runs),
    }
}

/// Whether compaction changes the sequence of a commit in the pieces, or can join two
/// of them.
fn can_shrink(window: &[Entry], gaps: &SnapshotGaps<'_>) -> bool {
    let changes = |word| gaps.simplify(word) != word;
    window.iter().any(|entry| entry.piece.any_word(changes))
        || window.windows(2).any(|pair| match pair {
            [a, b] => a.piece.can_merge_with(&b.piece),
            _ => false,
        })
}
