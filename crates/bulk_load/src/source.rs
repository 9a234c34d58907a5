//! Sources of a merge: sorted entries in memory, in a spill file, or in leaves of a tree.

use crate::entries::EntryPosition;
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::memory::Piece;
use crate::prefix::{Prefix, prefix_of};
use crate::sort_buffer::SortedBuffer;
use crate::spill::{Spill, SpillReader};
use std::collections::VecDeque;
use std::sync::Arc;
use teak_tree::{LoadedEntries, PausedLoad};

/// Sorted entries in memory: those of one buffer, or of several whose entries are in order.
#[derive(Debug)]
pub(crate) struct MemoryRun {
    pieces: VecDeque<Piece>,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether the keys are known to ascend strictly.
    is_strict: bool,
}

impl MemoryRun {
    pub(crate) fn new(sorted: SortedBuffer) -> Self {
        Self {
            pieces: sorted.pieces.into(),
            first: sorted.first,
            last: sorted.last,
            is_strict: sorted.is_strict,
        }
    }

    /// Appends the entries of a buffer if they are in order after these. Returns them otherwise.
    pub(crate) fn append(&mut self, sorted: SortedBuffer) -> Option<SortedBuffer> {
        if sorted.first < self.last {
            return Some(sorted);
        }
        self.is_strict &= sorted.is_strict && sorted.first > self.last;
        self.pieces.extend(sorted.pieces);
        self.last = sorted.last;
        None
    }

    /// Whether the keys are known to ascend strictly, from a key after `last` on.
    pub(crate) fn is_strict_after(&self, last: Option<&[u8]>) -> bool {
        self.is_strict && last.is_none_or(|last| self.first.as_slice() > last)
    }

    /// The last key.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    pub(crate) fn into_pieces(self) -> Vec<Arc<Piece>> {
        self.pieces.into_iter().map(Arc::new).collect()
    }

    /// Memory of the entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes().len()).sum()
    }
}

/// Sorted entries, and a position in them.
#[derive(Debug)]
pub(crate) enum Source {
    Memory {
        pieces: VecDeque<Arc<Piece>>,
        position: EntryPosition,
    },
    Spill(SpillReader),
    Loaded(Box<Loaded>),
}

/// Entries in leaves of a tree that no version refers to.
#[derive(Debug)]
pub(crate) struct Loaded {
    entries: LoadedEntries,
    /// Dropped after the entries: it frees the blocks.
    _load: Arc<PausedLoad>,
}

impl Source {
    pub(crate) fn memory(pieces: VecDeque<Arc<Piece>>) -> Self {
        Self::Memory {
            pieces,
            position: EntryPosition::default(),
        }
    }

    pub(crate) fn of_run(run: MemoryRun) -> Self {
        Self::memory(run.into_pieces().into())
    }

    pub(crate) fn spill(spill: Arc<Spill>) -> Self {
        Self::Spill(SpillReader::new(spill))
    }

    pub(crate) fn loaded(load: Arc<PausedLoad>) -> Self {
        Self::Loaded(Box::new(Loaded {
            entries: load.read(),
            _load: load,
        }))
    }

    /// Skips entries with smaller keys, but maybe not all. Called before the first `advance`.
    pub(crate) fn skip_before(&mut self, key: &[u8]) -> BulkLoadResult<()> {
        match self {
            Self::Memory { .. } => {}
            Self::Spill(reader) => reader.skip_before(key),
            Self::Loaded(loaded) => loaded.entries.seek(key).map_err(BulkLoadError::Index)?,
        }
        Ok(())
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Memory { pieces, position } => position.entry(pieces.front()?.bytes()),
            Self::Spill(reader) => reader.entry(),
            Self::Loaded(loaded) => loaded.entries.entry(),
        }
    }

    /// Moves to the next entry. Returns the prefix of its key, or `None` at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> BulkLoadResult<Option<Prefix>> {
        match self {
            Self::Memory { pieces, position } => {
                while let Some(piece) = pieces.front() {
                    if position.advance(piece.bytes())? {
                        break;
                    }
                    // Frees its memory.
                    pieces.pop_front();
                    *position = EntryPosition::default();
                }
            }
            Self::Spill(reader) => {
                reader.advance().map_err(BulkLoadError::Spill)?;
            }
            Self::Loaded(loaded) => {
                loaded.entries.advance().map_err(BulkLoadError::Index)?;
            }
        }
        Ok(self.entry().map(|(key, _)| prefix_of(key)))
    }
}
