//! What a sort has at its end: sorted sequences of entries, which are merged as a whole, or by ranges of
//! keys on several threads.

use crate::batches::{SortTasks, SortedEntries};
use crate::cancel::Interrupted;
use crate::error::BulkLoadResult;
use crate::key_range::Sample;
use crate::memory::{MemoryReservation, Piece};
use crate::merge::Merge;
use crate::source::{MemoryRun, Source};
use crate::spill::Spill;
use std::sync::Arc;
use teak_tree::PausedLoad;

/// Maximum size of a batch of merged entries, in bytes.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Sorted entries, which several threads may read.
pub(crate) enum Sequence {
    Memory(Vec<Arc<Piece>>),
    Spill(Arc<Spill>),
    /// Entries that were written as runs before others turned out not to follow them.
    Loaded(Arc<PausedLoad>),
}

impl Sequence {
    pub(crate) fn memory(run: MemoryRun) -> Self {
        Self::Memory(run.into_pieces())
    }

    /// Frees the memory of entries as they are merged.
    fn into_source(self) -> Source {
        match self {
            Self::Memory(pieces) => Source::memory(pieces.into()),
            Self::Spill(spill) => Source::spill(spill),
            Self::Loaded(load) => Source::loaded(load),
        }
    }

    /// The entries, from a key on or from some entry before it.
    pub(crate) fn source(&self, from: Option<&[u8]>) -> BulkLoadResult<Source> {
        let from = from.unwrap_or_default();
        let mut source = match self {
            Self::Memory(pieces) => {
                let is_before = |piece: &Arc<Piece>| piece.first_key() < from;
                // Entries with the key may be at the end of the piece before.
                let first = pieces.partition_point(is_before).saturating_sub(1);
                Source::memory(pieces.iter().skip(first).cloned().collect())
            }
            Self::Spill(spill) => Source::spill(Arc::clone(spill)),
            Self::Loaded(load) => Source::loaded(Arc::clone(load)),
        };
        source.skip_before(from)?;
        Ok(source)
    }

    fn add_samples(&self, samples: &mut Vec<Sample>) {
        match self {
            Self::Memory(pieces) => samples.extend(
                pieces
                    .iter()
                    .map(|piece| Sample::new(piece.first_key(), piece.bytes().len() as u64)),
            ),
            Self::Spill(spill) => samples.extend(spill.samples()),
            Self::Loaded(load) => {
                samples.extend(load.runs().map(|(key, bytes)| Sample::new(key, bytes)));
            }
        }
    }

    /// Memory for reading it once, in bytes.
    fn read_bytes(&self) -> usize {
        match self {
            Self::Spill(spill) => spill.read_bytes(),
            _ => 0,
        }
    }
}

/// All entries of a sort.
pub(crate) struct SortedSequences {
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) tasks: SortTasks,
    /// Memory of entries.
    pub(crate) held: usize,
    /// Returned after the memory is freed.
    pub(crate) memory: Box<dyn MemoryReservation>,
}

/// Size of the batches of a merge.
pub(crate) fn batch_bytes(budget: usize) -> usize {
    BATCH_BYTES_MAX.min(budget / 16)
}

impl SortedSequences {
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for sequence in &self.sequences {
            sequence.add_samples(&mut samples);
        }
        samples
    }

    /// The number of ranges that can be merged at the same time, at least one.
    pub(crate) fn concurrent_max(&self) -> usize {
        let read_bytes: usize = self.sequences.iter().map(Sequence::read_bytes).sum();
        let left = self.memory.bytes().saturating_sub(self.held);
        left.checked_div(read_bytes).unwrap_or(usize::MAX).max(1)
    }

    /// All entries in the order of keys.
    pub(crate) fn into_entries(self, interrupted: &Interrupted) -> BulkLoadResult<SortedEntries> {
        let Self {
            sequences,
            tasks,
            memory,
            ..
        } = self;
        let sources = sequences.into_iter().map(Sequence::into_source);
        let merge = Merge::new(sources.collect())?;
        let bytes = batch_bytes(memory.bytes());
        SortedEntries::new(merge, bytes, tasks, Some(memory), interrupted)
    }
}
