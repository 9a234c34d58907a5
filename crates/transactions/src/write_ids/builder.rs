//! Building pieces from runs of ids, in ascending order.
//!
//! The first committed status of a piece becomes its base. A piece ends where a
//! list of exceptions is full, or a chunk follows that is stored by id.

use super::piece::{CHUNK_IDS, Chunk, Packed, Piece, Run, Span, Uniform};
use super::status_word::{ABORTED, is_committed};
use std::sync::Arc;

/// Maximum number of aborted ranges in a piece.
const ABORTED_MAX: usize = 512;
/// Maximum number of other exceptions in a piece.
const OTHERS_MAX: usize = 128;
/// Maximum number of runs of a chunk that is stored as runs. A chunk with more is stored by id.
const CHUNK_RUNS_MAX: usize = (CHUNK_IDS / 16) as usize + 1;
/// Maximum number of different statuses in a packed chunk.
const PALETTE_MAX: usize = 64;

/// A piece and its first id. It ends where the next begins.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) piece: Piece,
}

#[derive(Default)]
pub(super) struct PieceBuilder {
    entries: Vec<Entry>,
    open: Option<OpenPiece>,
}

struct OpenPiece {
    first: u64,
    base: Option<u64>,
    aborted: Vec<Span>,
    others: Vec<(Span, u64)>,
    /// A run that begins at this id extends the last of `others` if it has the same status: only
    /// aborted ids are in between.
    others_end: u64,
}

impl OpenPiece {
    fn new(first: u64) -> Self {
        Self {
            first,
            base: None,
            aborted: Vec::new(),
            others: Vec::new(),
            others_end: first,
        }
    }

    /// Adds a run; false if it does not fit.
    fn add(&mut self, run: Run) -> bool {
        if self.base == Some(run.word) {
            return true;
        }
        let (offset, count) = (run.first - self.first, run.end - run.first);
        let (Ok(offset), Ok(count), Ok(_)) = (
            u32::try_from(offset),
            u32::try_from(count),
            u32::try_from(offset + count),
        ) else {
            let may_be_base = self.base.is_none();
            if may_be_base {
                self.base = Some(run.word);
            }
            return may_be_base;
        };
        let span = Span { offset, count };
        if run.word == ABORTED {
            return self.add_aborted(span, run);
        }
        if self.base.is_none() && is_committed(run.word) {
            self.base = Some(run.word);
            return true;
        }
        let is_full = self.others.len() >= OTHERS_MAX;
        match self.others.last_mut() {
            Some((last, word)) if *word == run.word && self.others_end == run.first => {
                last.count = offset + count - last.offset;
            }
            _ if is_full => return false,
            _ => self.others.push((span, run.word)),
        }
        self.others_end = run.end;
        true
    }

    fn add_aborted(&mut self, span: Span, run: Run) -> bool {
        let is_full = self.aborted.len() >= ABORTED_MAX;
        match self.aborted.last_mut() {
            Some(last) if last.end() == u64::from(span.offset) => last.count += span.count,
            _ if is_full => return false,
            _ => self.aborted.push(span),
        }
        if self.others_end == run.first {
            self.others_end = run.end;
        }
        true
    }

    fn close(mut self) -> Entry {
        let base = self.base.or_else(|| {
            let (_, word) = self.others.first()?;
            Some(*word)
        });
        match base {
            None => self.aborted.clear(),
            Some(base) => self.others.retain(|(_, word)| *word != base),
        }
        Entry {
            first: self.first,
            piece: Piece::Uniform(Arc::new(Uniform {
                base: base.unwrap_or(ABORTED),
                aborted: self.aborted.into(),
                others: self.others.into(),
            })),
        }
    }
}

impl PieceBuilder {
    /// Adds a run that begins where the previous one ended.
    pub(super) fn push(&mut self, run: Run) {
        let open = self.open.get_or_insert_with(|| OpenPiece::new(run.first));
        if open.add(run) {
            return;
        }
        let mut next = OpenPiece::new(run.first);
        next.add(run);
        let full = std::mem::replace(open, next);
        self.entries.push(full.close());
    }

    /// Adds the runs of a chunk. `chunk` returns its slots.
    pub(super) fn push_chunk(&mut self, runs: &[Run], chunk: impl FnOnce() -> Chunk) {
        let first = runs.first().map_or(0, |run| run.first);
        if runs.len() <= CHUNK_RUNS_MAX {
            for run in runs {
                self.push(*run);
            }
            return;
        }
        self.close();
        let piece = match pack(first, runs) {
            Some(packed) => Piece::Packed(Arc::new(packed)),
            None => Piece::Whole(chunk()),
        };
        self.entries.push(Entry { first, piece });
    }

    fn close(&mut self) {
        self.entries.extend(self.open.take().map(OpenPiece::close));
    }

    pub(super) fn finish(mut self) -> Vec<Entry> {
        self.close();
        self.entries
    }
}

/// The packed form of a chunk; `None` when it has too many different statuses.
fn pack(first: u64, runs: &[Run]) -> Option<Packed> {
    let mut palette: Vec<u64> = Vec::new();
    let mut indexes_of_runs = Vec::with_capacity(runs.len());
    for run in runs {
        let index = palette.iter().position(|word| *word == run.word);
        indexes_of_runs.push(index.unwrap_or(palette.len()) as u64);
        if index.is_none() {
            palette.push(run.word);
        }
        if palette.len() > PALETTE_MAX {
            return None;
        }
    }
    let bits: u32 = match palette.len() {
        0..=2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        _ => 8,
    };
    let words = (CHUNK_IDS * u64::from(bits)).div_ceil(64);
    let mut indexes = vec![0u64; usize::try_from(words).unwrap_or(0)];
    for (run, index) in runs.iter().zip(indexes_of_runs) {
        for offset in run.first - first..run.end - first {
            let bit = offset * u64::from(bits);
            let at = usize::try_from(bit / 64).unwrap_or(usize::MAX);
            if let Some(word) = indexes.get_mut(at) {
                *word |= index << (bit % 64);
            }
        }
    }
    Some(Packed {
        palette: palette.into(),
        bits,
        indexes: indexes.into(),
    })
}
