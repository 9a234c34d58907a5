//! The forms in which the table stores the status of consecutive ids.

use super::status_word::{ABORTED, UNKNOWN};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Ids in a chunk. A chunk begins at a multiple of this number.
#[cfg(not(feature = "schedules"))]
pub(super) const CHUNK_IDS: u64 = 4096;
#[cfg(feature = "schedules")]
pub(super) const CHUNK_IDS: u64 = 4;

/// The slots of a chunk, one for each id.
pub(super) type Chunk = Arc<[AtomicU64]>;

pub(super) fn new_chunk() -> Chunk {
    (0..CHUNK_IDS).map(|_| AtomicU64::new(UNKNOWN)).collect()
}

/// Consecutive ids of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) word: u64,
}

/// Ids of a piece, relative to its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u32,
    pub(super) count: u32,
}

impl Span {
    pub(super) fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.count)
    }
}

/// One status, and exceptions from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Uniform {
    /// The status of all ids that are in none of the lists.
    pub(super) base: u64,
    /// The aborted ids, ascending.
    pub(super) aborted: Box<[Span]>,
    /// Ids of other statuses, ascending. Ids that are in `aborted` too are aborted.
    pub(super) others: Box<[(Span, u64)]>,
}

/// A chunk of few different statuses: their list, and an index into it for each id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) palette: Box<[u64]>,
    /// Bits of an index: 1, 2, 4 or 8.
    pub(super) bits: u32,
    pub(super) indexes: Box<[u64]>,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Uniform(Arc<Uniform>),
    Packed(Arc<Packed>),
    /// A chunk of too many statuses. Its slots may still change.
    Whole(Chunk),
}

fn slot_of(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Uniform {
    fn word(&self, offset: u64) -> u64 {
        let after = self
            .aborted
            .partition_point(|span| u64::from(span.offset) <= offset);
        let span = after.checked_sub(1).and_then(|at| self.aborted.get(at));
        if span.is_some_and(|span| offset < span.end()) {
            return ABORTED;
        }
        let after = self
            .others
            .partition_point(|(span, _)| u64::from(span.offset) <= offset);
        match after.checked_sub(1).and_then(|at| self.others.get(at)) {
            Some((span, word)) if offset < span.end() => *word,
            _ => self.base,
        }
    }

    /// Calls `each` for the runs of a piece of `count` ids.
    fn runs(&self, count: u64, each: &mut dyn FnMut(u64, u64, u64)) {
        let mut aborted = self.aborted.iter().peekable();
        let mut others = self.others.iter().peekable();
        let mut at = 0;
        while at < count {
            while aborted.next_if(|span| span.end() <= at).is_some() {}
            while others.next_if(|(span, _)| span.end() <= at).is_some() {}
            let aborted_at = aborted.peek().map_or(count, |span| u64::from(span.offset));
            if aborted_at <= at {
                let end = aborted.peek().map_or(count, |span| span.end());
                each(at, end.min(count), ABORTED);
                at = end;
                continue;
            }
            let (end, word) = match others.peek() {
                Some((span, word)) if u64::from(span.offset) <= at => (span.end(), *word),
                Some((span, _)) => (u64::from(span.offset), self.base),
                None => (count, self.base),
            };
            let end = end.min(aborted_at).min(count);
            each(at, end, word);
            at = end;
        }
    }
}

impl Packed {
    fn word(&self, offset: u64) -> u64 {
        let bit = offset * u64::from(self.bits);
        let indexes = self.indexes.get(slot_of(bit / 64)).copied();
        let index = (indexes.unwrap_or(0) >> (bit % 64)) & ((1 << self.bits) - 1);
        self.palette.get(slot_of(index)).copied().unwrap_or(UNKNOWN)
    }
}

/// Calls `each` for the runs of equal words of a chunk.
fn chunk_runs(word: impl Fn(u64) -> u64, each: &mut dyn FnMut(u64, u64, u64)) {
    let (mut first, mut current) = (0, word(0));
    for offset in 1..CHUNK_IDS {
        let next = word(offset);
        if next != current {
            each(first, offset, current);
            (first, current) = (offset, next);
        }
    }
    each(first, CHUNK_IDS, current);
}

/// The status of an id of a chunk. Sequentially consistent: pairs with
/// [`super::WriteIdTable::set`].
fn slot_word(chunk: &Chunk, offset: u64) -> u64 {
    let slot = chunk.get(slot_of(offset));
    slot.map_or(UNKNOWN, |slot| slot.load(Ordering::SeqCst))
}

impl Piece {
    pub(super) fn slot(&self, offset: u64) -> Option<&AtomicU64> {
        match self {
            Self::Whole(chunk) => chunk.get(slot_of(offset)),
            Self::Uniform(_) | Self::Packed(_) => None,
        }
    }

    #[inline]
    pub(super) fn word(&self, offset: u64) -> u64 {
        match self {
            Self::Uniform(uniform) => uniform.word(offset),
            Self::Packed(packed) => packed.word(offset),
            Self::Whole(chunk) => slot_word(chunk, offset),
        }
    }

    /// Calls `each` for the runs of a piece of the ids from `first` to before
    /// `end`, in order.
    pub(super) fn runs(&self, first: u64, end: u64, each: &mut dyn FnMut(Run)) {
        let mut each = |from: u64, to: u64, word: u64| {
            each(Run {
                first: first + from,
                end: first + to,
                word,
            });
        };
        match self {
            Self::Uniform(uniform) => uniform.runs(end - first, &mut each),
            Self::Packed(packed) => chunk_runs(|offset| packed.word(offset), &mut each),
            Self::Whole(chunk) => chunk_runs(|offset| slot_word(chunk, offset), &mut each),
        }
    }

    /// An upper bound of the work of reading its runs.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Uniform(uniform) => 1 + 2 * (uniform.aborted.len() + uniform.others.len()) as u64,
            Self::Packed(_) | Self::Whole(_) => CHUNK_IDS,
        }
    }

    /// Whether `changes` may return true for the status of an id. Aborted ids may be skipped.
    pub(super) fn any_word(&self, changes: impl Fn(u64) -> bool) -> bool {
        match self {
            Self::Uniform(uniform) => {
                changes(uniform.base) || uniform.others.iter().any(|(_, word)| changes(*word))
            }
            Self::Packed(packed) => packed.palette.iter().any(|word| changes(*word)),
            Self::Whole(_) => true,
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Uniform(uniform) => {
                size_of::<Uniform>()
                    + size_of_val(&*uniform.aborted)
                    + size_of_val(&*uniform.others)
            }
            Self::Packed(packed) => {
                size_of::<Packed>() + size_of_val(&*packed.palette) + size_of_val(&*packed.indexes)
            }
            Self::Whole(chunk) => size_of_val(&**chunk),
        };
        bytes as u64
    }
}

impl Piece {
    /// The number of ranges of aborted ids; zero for a chunk whose slots may
    /// change.
    pub(super) fn aborted_ranges(&self) -> u64 {
        match self {
            Self::Uniform(uniform) => {
                uniform.aborted.len() as u64 + u64::from(uniform.base == ABORTED)
            }
            Self::Packed(packed) => {
                let mut ranges = 0;
                chunk_runs(|offset| packed.word(offset), &mut |_, _, word| {
                    ranges += u64::from(word == ABORTED);
                });
                ranges
            }
            Self::Whole(_) => 0,
        }
    }

    pub(super) fn has_aborted(&self) -> bool {
        match self {
            Self::Uniform(uniform) => !uniform.aborted.is_empty() || uniform.base == ABORTED,
            Self::Packed(packed) => packed.palette.contains(&ABORTED),
            Self::Whole(_) => true,
        }
    }

    /// Whether the piece and the next have the same base, and few exceptions.
    pub(super) fn can_merge_with(&self, next: &Self) -> bool {
        const EXCEPTIONS_MAX: usize = 64;
        match (self, next) {
            (Self::Uniform(a), Self::Uniform(b)) => {
                let exceptions = |piece: &Uniform| piece.aborted.len() + piece.others.len();
                a.base == b.base && exceptions(a) + exceptions(b) <= EXCEPTIONS_MAX
            }
            _ => false,
        }
    }
}
