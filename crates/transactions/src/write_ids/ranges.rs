//! Ranges of ids, consumed from the front.

use super::builder::PieceBuilder;
use super::piece::{CHUNK_IDS, Run, new_chunk};
use crate::sync::atomic::Ordering;
use teak_base::{WriteId, WriteIdRange};

impl Run {
    pub(super) fn range(self) -> WriteIdRange {
        WriteIdRange {
            first: WriteId(self.first),
            count: self.end - self.first,
        }
    }
}

/// The rest of a list of ranges.
#[derive(Clone)]
pub(super) struct RangeCursor<'a> {
    ranges: &'a [WriteIdRange],
    /// Ids of the first range that were consumed.
    skip: u64,
}

impl<'a> RangeCursor<'a> {
    pub(super) fn new(ranges: &'a [WriteIdRange]) -> Self {
        Self { ranges, skip: 0 }
    }

    pub(super) fn first(&self) -> Option<u64> {
        let range = self.ranges.first()?;
        Some(range.first.0 + self.skip)
    }

    /// The end of the first range.
    fn end(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.end().0)
    }

    /// Consumes `count` ids. The first range must contain all of them.
    pub(super) fn advance(&mut self, count: u64) {
        self.skip += count;
        if let Some((first, rest)) = self.ranges.split_first()
            && self.skip >= first.count
        {
            self.ranges = rest;
            self.skip = 0;
        }
    }
}

/// The runs of a piece, with `word` for the ids in `ids`, which are consumed up to
/// the end of the piece. No id in `ids` is before the piece.
pub(super) fn overlay(runs: &[Run], ids: &mut RangeCursor<'_>, word: u64) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::with_capacity(runs.len() + 2);
    let mut push = |first: u64, end: u64, word: u64| match out.last_mut() {
        Some(last) if last.word == word => last.end = end,
        _ => out.push(Run { first, end, word }),
    };
    for run in runs {
        let mut at = run.first;
        while at < run.end {
            match ids.first() {
                Some(id) if id < run.end => {
                    if at < id {
                        push(at, id, run.word);
                    }
                    let end = ids.end().min(run.end);
                    push(id, end, word);
                    ids.advance(end - id);
                    at = end;
                }
                _ => {
                    push(at, run.end, run.word);
                    at = run.end;
                }
            }
        }
    }
    out
}

impl PieceBuilder {
    /// Adds the runs of a piece; as a chunk if they are exactly the ids of one.
    pub(super) fn push_piece(&mut self, runs: &[Run]) {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return;
        };
        if first.first % CHUNK_IDS == 0 && last.end - first.first == CHUNK_IDS {
            self.push_chunk(runs, || chunk_of(runs));
            return;
        }
        for run in runs {
            self.push(*run);
        }
    }
}

/// A chunk with the status of `runs`.
fn chunk_of(runs: &[Run]) -> super::piece::Chunk {
    let chunk = new_chunk();
    let words = runs
        .iter()
        .flat_map(|run| (run.first..run.end).map(|_| run.word));
    for (slot, word) in chunk.iter().zip(words) {
        slot.store(word, Ordering::Relaxed);
    }
    chunk
}
