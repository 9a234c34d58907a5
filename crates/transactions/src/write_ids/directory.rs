//! An immutable directory of the table: pieces of the older ids, and chunks of
//! atomic slots for the newest.

use super::builder::Entry;
use super::piece::{CHUNK_IDS, Chunk, Run};
use super::status_word::{SETTLED, UNKNOWN};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Sums over pieces, so that reports need not visit all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PieceTotals {
    /// Ranges of aborted ids, without those in chunks.
    pub(super) aborted_ranges: u64,
    pub(super) bytes: u64,
}

impl PieceTotals {
    pub(super) fn of(pieces: &[Entry]) -> Self {
        let mut totals = Self::default();
        for entry in pieces {
            totals.aborted_ranges += entry.piece.aborted_ranges();
            totals.bytes += entry.piece.memory_bytes() + size_of::<Entry>() as u64;
        }
        totals
    }

    /// The sums after pieces were replaced.
    pub(super) fn replacing(self, removed: &[Entry], added: &[Entry]) -> Self {
        let (removed, added) = (Self::of(removed), Self::of(added));
        Self {
            aborted_ranges: self.aborted_ranges + added.aborted_ranges - removed.aborted_ranges,
            bytes: self.bytes + added.bytes - removed.bytes,
        }
    }
}

#[derive(Clone)]
pub(super) struct Directory {
    /// The ids before the chunks, in order. The first piece begins at id 0.
    pub(super) pieces: Arc<[Entry]>,
    pub(super) totals: PieceTotals,
    /// Number of the first chunk.
    pub(super) first_chunk: u64,
    pub(super) chunks: Vec<Chunk>,
}

impl Directory {
    /// The first id of the chunks.
    pub(super) fn chunks_from(&self) -> u64 {
        self.first_chunk * CHUNK_IDS
    }

    /// The first id after the chunks.
    pub(super) fn chunks_to(&self) -> u64 {
        (self.first_chunk + self.chunks.len() as u64) * CHUNK_IDS
    }

    /// The number of the piece that contains `id`, which must be before the chunks.
    pub(super) fn piece_of(&self, id: u64) -> usize {
        let after = self.pieces.partition_point(|entry| entry.first <= id);
        after.saturating_sub(1)
    }

    /// The end of a piece.
    pub(super) fn piece_end(&self, number: usize) -> u64 {
        let next = self.pieces.get(number + 1);
        next.map_or(self.chunks_from(), |next| next.first)
    }

    #[inline]
    fn chunk_slot(&self, id: u64) -> Option<&AtomicU64> {
        let chunk = (id / CHUNK_IDS).checked_sub(self.first_chunk)?;
        let chunk = self.chunks.get(usize::try_from(chunk).ok()?)?;
        chunk.get(usize::try_from(id % CHUNK_IDS).ok()?)
    }

    /// The slot of `id`, if it is in a chunk.
    #[inline]
    pub(super) fn slot(&self, id: u64) -> Option<&AtomicU64> {
        if id >= self.chunks_from() {
            return self.chunk_slot(id);
        }
        let entry = self.pieces.get(self.piece_of(id))?;
        entry.piece.slot(id - entry.first)
    }

    #[inline]
    pub(super) fn word(&self, id: u64) -> u64 {
        if id >= self.chunks_from() {
            let slot = self.chunk_slot(id);
            return slot.map_or(UNKNOWN, |slot| slot.load(Ordering::Acquire));
        }
        self.piece_word(id)
    }

    fn piece_word(&self, id: u64) -> u64 {
        let entry = self.pieces.get(self.piece_of(id));
        entry.map_or(SETTLED, |entry| entry.piece.word(id - entry.first))
    }

    /// Calls `each` for the runs of the ids from `first` to before `end`, in
    /// order, until it returns false.
    pub(super) fn runs(&self, first: u64, end: u64, each: &mut dyn FnMut(Run) -> bool) {
        let mut at = first;
        let from = self.chunks_from();
        let mut number = self.piece_of(first);
        while at < end.min(from) {
            let Some(entry) = self.pieces.get(number) else {
                break;
            };
            let piece_end = self.piece_end(number);
            let mut continues = true;
            entry.piece.runs(entry.first, piece_end, &mut |run| {
                let clipped = Run {
                    first: run.first.max(first),
                    end: run.end.min(end),
                    ..run
                };
                if continues && clipped.first < clipped.end {
                    continues = each(clipped);
                }
            });
            if !continues {
                return;
            }
            at = piece_end;
            number += 1;
        }
        let mut at = first.max(from);
        while at < end {
            let word = self.word(at);
            let mut run_end = at + 1;
            while run_end < end && self.word(run_end) == word {
                run_end += 1;
            }
            let run = Run {
                first: at,
                end: run_end,
                word,
            };
            if !each(run) {
                return;
            }
            at = run_end;
        }
    }
}
