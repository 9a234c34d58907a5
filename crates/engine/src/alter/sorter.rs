//! Sorting the entries of a new index: in memory if they fit, otherwise by
//! external merge sort.
//!
//! 1. Collect entries in a sort buffer. When it is full, sort them and copy them in order. A sort
//!    cannot be interrupted, so buffers are small.
//! 2. When the sorted entries and the next buffer would exceed the memory budget, merge the sorted
//!    entries into a spill file.
//! 3. At the end, while there are too many spill files to read at the same time, merge some of them
//!    into one. Then merge the spill files and the entries in memory in one pass.

use super::entries::{EntryReader, malformed};
use super::sort_buffer::{Prefix, SortBuffer, prefix_of};
use super::spill::{Spill, SpillReader, SpillWriter};
use crate::error::{EngineError, EngineResult};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};
use teak_disk::Disk;
use teak_transactions::WaitError;

/// Maximum size of a sort buffer, in bytes.
const SORT_BUFFER_BYTES_MAX: usize = 8 << 20;

/// Maximum number of spill files that are read at the same time, with a large budget.
const SPILLS_MAX: usize = 128;

/// Maximum number of spill files that are read at the same time, with a small budget.
const SPILLS_MIN: usize = 16;

/// Memory for reading one spill file, in bytes.
const SPILL_READ_BYTES: usize = 128 << 10;

/// Entries between two checks for an interrupt.
const INTERRUPT_CHECK_ENTRIES: u64 = 1024;

/// Returns whether the operation must stop.
pub(crate) type Interrupted = dyn Fn() -> bool + Send;

/// Where the sorts of one engine create their spill files.
#[derive(Clone)]
pub(crate) struct SpillDirectory {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    /// The number of the next spill file.
    pub next: Arc<AtomicU64>,
}

/// Sorts entries.
pub(crate) struct Sorter {
    directory: SpillDirectory,
    budget: usize,
    active: SortBuffer,
    /// The sorted entries of earlier buffers.
    sorted: Vec<Vec<u8>>,
    sorted_bytes: usize,
    spills: Vec<Spill>,
    entries: u64,
}

impl Sorter {
    /// `budget`: maximum memory, in bytes.
    pub(crate) fn new(directory: SpillDirectory, budget: usize) -> Self {
        Self {
            directory,
            budget,
            active: SortBuffer::default(),
            sorted: Vec::new(),
            sorted_bytes: 0,
            spills: Vec::new(),
            entries: 0,
        }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        interrupted: &Interrupted,
    ) -> EngineResult<()> {
        let bytes = self.active.memory() + key.len() + value.len();
        if bytes > self.buffer_bytes() && !self.active.is_empty() {
            self.end_buffer()?;
            // The next buffer, and the copy of its entries in order.
            if self.sorted_bytes + 2 * self.buffer_bytes() > self.budget {
                self.spill_sorted(interrupted)?;
            }
        }
        if !self.active.push(key, value) {
            return Err(EngineError::Internal("an entry is too large".into()));
        }
        self.entries += 1;
        Ok(())
    }

    /// Size from which the active buffer is sorted.
    fn buffer_bytes(&self) -> usize {
        SORT_BUFFER_BYTES_MAX.min(self.budget / 8)
    }

    /// Sorts the entries of the active buffer.
    fn end_buffer(&mut self) -> EngineResult<()> {
        let sorted = self.active.take_sorted().map_err(malformed)?;
        self.sorted_bytes += sorted.len();
        self.sorted.push(sorted);
        Ok(())
    }

    /// Merges the sorted entries in memory into a spill file.
    fn spill_sorted(&mut self, interrupted: &Interrupted) -> EngineResult<()> {
        let sorted = std::mem::take(&mut self.sorted);
        self.sorted_bytes = 0;
        let sources = sorted.into_iter().map(Source::memory).collect();
        let spill = self.spill(sources, interrupted)?;
        self.spills.push(spill);
        Ok(())
    }

    /// Merges sources into a spill file.
    fn spill(&self, sources: Vec<Source>, interrupted: &Interrupted) -> EngineResult<Spill> {
        let number = self.directory.next.fetch_add(1, AtomicOrdering::Relaxed);
        let mut writer = SpillWriter::create(&self.directory.disk, &self.directory.path, number)?;
        let mut merge = Merge::new(sources)?;
        while let Some((key, value)) = merge.entry(interrupted)? {
            writer.push(key, value)?;
            merge.advance()?;
        }
        Ok(writer.finish()?)
    }

    /// Ends the input. Returns all entries in the order of keys.
    pub(crate) fn finish(mut self, interrupted: &Interrupted) -> EngineResult<Merge> {
        self.end_buffer()?;
        self.active = SortBuffer::default();
        // The merge needs memory for each spill file.
        let merge_bytes = self.sorted_bytes + self.spills.len() * SPILL_READ_BYTES;
        if !self.spills.is_empty() && merge_bytes > self.budget {
            self.spill_sorted(interrupted)?;
        }
        let spills_max = (self.budget / 2 / SPILL_READ_BYTES).clamp(SPILLS_MIN, SPILLS_MAX);
        while self.spills.len() > spills_max {
            let first: Vec<Spill> = self.spills.drain(..spills_max).collect();
            let sources = first.into_iter().map(Source::spill).collect();
            let merged = self.spill(sources, interrupted)?;
            self.spills.push(merged);
        }
        let spilled = self.spills.into_iter().map(Source::spill);
        let sources = spilled.chain(self.sorted.into_iter().map(Source::memory));
        Merge::new(sources.collect())
    }
}

/// Sorted entries, and a position in them.
enum Source {
    Memory(EntryReader),
    Spill(SpillReader),
}

impl Source {
    fn memory(sorted: Vec<u8>) -> Self {
        Self::Memory(EntryReader::new(sorted))
    }

    fn spill(spill: Spill) -> Self {
        Self::Spill(SpillReader::new(spill))
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Memory(reader) => reader.entry(),
            Self::Spill(reader) => reader.entry(),
        }
    }

    /// Moves to the next entry. Returns the prefix of its key, or `None` at the end.
    fn advance(&mut self) -> EngineResult<Option<Prefix>> {
        match self {
            Self::Memory(reader) => reader.advance().map_err(malformed)?,
            Self::Spill(reader) => reader.advance()?,
        };
        Ok(self.entry().map(|(key, _)| prefix_of(key)))
    }
}

/// A source that is not at its end. The order is reversed: the source with the smallest key is the
/// maximum of the heap.
struct Head {
    /// The prefix of the current key, which decides most comparisons.
    prefix: Prefix,
    source: Box<Source>,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_prefix = other.prefix.cmp(&self.prefix);
        by_prefix.then_with(|| {
            let (one, two) = (self.source.entry(), other.source.entry());
            two.map(|(key, _)| key).cmp(&one.map(|(key, _)| key))
        })
    }
}

/// The entries of several sources in the order of keys.
pub(crate) struct Merge {
    heads: BinaryHeap<Head>,
    /// Number of calls of `entry`, which checks for an interrupt at some of them.
    calls: u64,
}

impl Merge {
    fn new(sources: Vec<Source>) -> EngineResult<Self> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for mut source in sources {
            if let Some(prefix) = source.advance()? {
                let source = Box::new(source);
                heads.push(Head { prefix, source });
            }
        }
        Ok(Self { heads, calls: 0 })
    }

    /// The current entry. `None` at the end.
    pub(crate) fn entry(
        &mut self,
        interrupted: &Interrupted,
    ) -> EngineResult<Option<(&[u8], &[u8])>> {
        self.calls += 1;
        if self.calls.is_multiple_of(INTERRUPT_CHECK_ENTRIES) && interrupted() {
            return Err(WaitError::Interrupted.into());
        }
        Ok(self.heads.peek().and_then(|head| head.source.entry()))
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self) -> EngineResult<()> {
        if let Some(mut top) = self.heads.peek_mut() {
            match top.source.advance()? {
                Some(prefix) => top.prefix = prefix,
                None => drop(PeekMut::pop(top)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use std::path::Path;
    use teak_disk::MemoryDisk;

    fn sorted(entries: &[(Vec<u8>, Vec<u8>)], budget: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        disk.create_directories(Path::new("/d")).unwrap();
        let directory = SpillDirectory {
            disk: Arc::clone(&disk),
            path: "/d".into(),
            next: Arc::default(),
        };
        let never: &Interrupted = &|| false;
        let mut sorter = Sorter::new(directory, budget);
        for (key, value) in entries {
            sorter.add(key, value, never).unwrap();
        }
        assert_eq!(sorter.entries(), entries.len() as u64);
        let mut merge = sorter.finish(never).unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = merge.entry(never).unwrap() {
            found.push((key.to_vec(), value.to_vec()));
            merge.advance().unwrap();
        }
        drop(merge);
        assert_eq!(disk.list(Path::new("/d")).unwrap(), Vec::<PathBuf>::new());
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn entries_are_sorted_with_any_budget(
            entries: Vec<(Vec<u8>, Vec<u8>)>,
            budget in 0usize..2000,
        ) {
            let mut expected = entries.clone();
            expected.sort();
            let mut found = sorted(&entries, budget);
            prop_assert!(found.is_sorted_by_key(|(key, _)| key.clone()));
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn more_spills_than_are_merged_at_a_time_are_merged_in_steps() {
        let entries: Vec<_> = (0..5000u32)
            .map(|n| {
                (
                    n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec(),
                    vec![7; 20],
                )
            })
            .collect();
        let found = sorted(&entries, 300);
        assert_eq!(found.len(), entries.len());
        assert!(found.is_sorted());
    }

    #[test]
    fn an_interrupt_stops_the_merge() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let directory = SpillDirectory {
            disk,
            path: "/".into(),
            next: Arc::default(),
        };
        let mut sorter = Sorter::new(directory, 1 << 20);
        for n in 0..5000u32 {
            sorter.add(&n.to_be_bytes(), &[], &|| false).unwrap();
        }
        let mut merge = sorter.finish(&|| true).unwrap();
        let mut steps = 0;
        let error = loop {
            match merge.entry(&|| true) {
                Ok(Some(_)) => steps += 1,
                Ok(None) => unreachable!("the merge was interrupted earlier"),
                Err(error) => break error,
            }
            merge.advance().unwrap();
        };
        assert!(matches!(error, EngineError::Wait(WaitError::Interrupted)));
        assert!(steps < 2 * INTERRUPT_CHECK_ENTRIES);
    }
}
