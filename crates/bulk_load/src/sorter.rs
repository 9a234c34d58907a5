//! The sort: buffers, sorted entries in memory, spill files. The top of the crate lists the steps.
//!
//! Memory, of `budget` bytes in total:
//! - the buffer that the caller fills, of at most [`Sorter::buffer_bytes`], and at most one empty
//!   buffer;
//! - two such sizes for each buffer that a worker sorts: its entries, and their copy in order;
//! - sorted entries, also those that a worker is writing to a spill file.
//!
//! Before the caller starts the next buffer, it makes sure that these fit into the budget. The last
//! merge needs [`Spill::read_bytes`] for each spill file and two batches. One entry that is larger
//! than a buffer, and the blocks of spill files that are being written, 200 KiB for each thread, are
//! not counted.

use crate::batches::{SortTasks, SortedEntries};
use crate::cancel::{CHECK_ENTRIES, CancelOnDrop, Interrupted};
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::memory::{HeldBytes, MemoryReservation};
use crate::merge::Merge;
use crate::progress::{SortCounts, SortProgress};
use crate::sequences::{Sequence, SortedSequences, batch_bytes};
use crate::sort_buffer::{SortBuffer, SortedBuffer};
use crate::source::{MemoryRun, Source};
use crate::spill::{Spill, SpillDirectory, SpillWriter};
use crate::workers::{Background, Worker, Workers};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::bytes::Malformed;

/// Maximum size of a sort buffer, in bytes. A sort of a buffer cannot be interrupted, so buffers are
/// small.
const SORT_BUFFER_BYTES_MAX: usize = 8 << 20;

/// Number of sort buffers that the budget contains at least.
const BUFFERS_MIN: usize = 16;

/// Maximum number of buffers that workers sort at the same time.
const SORTING_MAX: usize = 8;

/// Maximum number of spill files that are read at the same time, with a large budget.
const SPILLS_MAX: usize = 128;

/// Maximum number of spill files that are read at the same time, with a small budget.
const SPILLS_MIN: usize = 16;

/// What a sort needs.
pub struct SorterOptions {
    /// Where to create spill files.
    pub directory: SpillDirectory,
    /// The memory.
    pub memory: Box<dyn MemoryReservation>,
    /// Threads.
    pub workers: Arc<dyn Workers>,
}

impl fmt::Debug for SorterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SorterOptions").finish_non_exhaustive()
    }
}

/// The result of sorting a buffer, which is then empty.
type Sorted = (Result<Option<SortedBuffer>, Malformed>, SortBuffer);

/// A spill file and the number of its entries.
type Spilled = BulkLoadResult<(Spill, u64)>;

/// Sorts entries by key. Dropping it removes its spill files.
pub struct Sorter {
    // The first field: dropped before the tasks, which it stops.
    tasks: SortTasks,
    directory: SpillDirectory,
    budget: usize,
    active: SortBuffer,
    spare: Option<SortBuffer>,
    /// Buffers that workers sort, in the order in which they were filled.
    sorting: VecDeque<Background<Sorted>>,
    /// Sorted entries in memory that no task writes to a spill file.
    runs: Vec<MemoryRun>,
    /// The memory of all sorted entries.
    held: HeldBytes,
    spilling: Option<Background<Spilled>>,
    spills: Vec<Spill>,
    entries: u64,
    /// Returned after the memory is freed.
    memory: Box<dyn MemoryReservation>,
}

impl fmt::Debug for Sorter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorter").finish_non_exhaustive()
    }
}

impl Sorter {
    /// A sort without entries.
    #[must_use]
    pub fn new(options: SorterOptions) -> Self {
        let budget = options.memory.bytes();
        Self {
            tasks: SortTasks {
                cancel: CancelOnDrop::default(),
                workers: options.workers,
                counts: Arc::default(),
            },
            directory: options.directory,
            budget,
            active: SortBuffer::new(buffer_bytes(budget)),
            spare: None,
            sorting: VecDeque::new(),
            runs: Vec::new(),
            held: HeldBytes::default(),
            spilling: None,
            spills: Vec::new(),
            entries: 0,
            memory: options.memory,
        }
    }

    /// The number of entries added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// How far the sort is.
    #[must_use]
    pub fn progress(&self) -> SortProgress {
        self.tasks.counts.read()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `Spill`, `Interrupted`, `Internal`; the sort is then unusable.
    #[inline]
    pub fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        if self.needs_buffer(key, value) {
            self.end_buffer(interrupted)?;
            self.free_memory(interrupted)?;
        }
        self.push(key, value, interrupted)
    }

    /// Whether the active buffer must be ended before an entry is added.
    #[inline]
    pub(crate) fn needs_buffer(&self, key: &[u8], value: &[u8]) -> bool {
        !self.active.has_space(key, value) && !self.active.is_empty()
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        if self.entries.is_multiple_of(CHECK_ENTRIES) && interrupted() {
            return Err(BulkLoadError::Interrupted);
        }
        self.active.push(key, value)?;
        self.entries += 1;
        Ok(())
    }

    /// Size of a sort buffer, in bytes.
    fn buffer_bytes(&self) -> usize {
        buffer_bytes(self.budget)
    }

    /// Memory in use, if the active buffer is full.
    fn used(&self) -> usize {
        let buffers = 1 + usize::from(self.spare.is_some()) + 2 * self.sorting.len();
        buffers * self.buffer_bytes() + self.held.load(Ordering::Relaxed)
    }

    /// Has the entries of the active buffer sorted, on a worker if there is one.
    pub(crate) fn end_buffer(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        self.take_sorted(false, interrupted)?;
        let next = self.spare.take();
        let next = next.unwrap_or_else(|| SortBuffer::new(self.buffer_bytes()));
        let mut full = std::mem::replace(&mut self.active, next);
        let count = &self.tasks.counts.added;
        count.fetch_add(full.len() as u64, Ordering::Relaxed);
        let sorting_max = (self.budget / self.buffer_bytes().max(1) / 4).min(SORTING_MAX);
        let worker = match full.is_ascending() || self.sorting.len() >= sorting_max {
            true => None,
            false => self.tasks.workers.claim(),
        };
        let held = Arc::clone(&self.held);
        let sort = move || (full.take_sorted(&held), full);
        let sorted = match worker {
            Some(worker) => Background::start(worker, sort),
            None => Background::ended(sort()),
        };
        self.sorting.push_back(sorted);
        self.take_sorted(false, interrupted)
    }

    /// Takes the results of sorted buffers, in their order. Waits for the first one if
    /// `waits`.
    fn take_sorted(&mut self, mut waits: bool, interrupted: &Interrupted) -> BulkLoadResult<()> {
        while let Some(mut first) = self.sorting.pop_front() {
            if !first.has_ended() && !waits {
                self.sorting.push_front(first);
                break;
            }
            waits = false;
            let (sorted, buffer) = first.wait(interrupted)?;
            self.spare = Some(buffer);
            if let Some(sorted) = sorted? {
                let rest = match self.runs.last_mut() {
                    Some(run) => run.append(sorted),
                    None => Some(sorted),
                };
                self.runs.extend(rest.map(MemoryRun::new));
            }
        }
        Ok(())
    }

    /// Takes the spill file of the task that writes one, if it has ended.
    fn take_spill(&mut self) -> BulkLoadResult<()> {
        if let Some(spilling) = &mut self.spilling
            && spilling.has_ended()
            && let Some(ended) = self.spilling.take()
        {
            self.keep_spill(ended.wait(&|| false)?)?;
        }
        Ok(())
    }

    fn keep_spill(&mut self, spilled: Spilled) -> BulkLoadResult<()> {
        let (spill, entries) = spilled?;
        let count = &self.tasks.counts.spilled;
        count.fetch_add(entries, Ordering::Relaxed);
        self.spills.push(spill);
        Ok(())
    }

    /// Memory of the sorted entries that no task writes.
    pub(crate) fn run_bytes(&self) -> usize {
        self.runs.iter().map(MemoryRun::bytes).sum()
    }

    /// Whether the next buffer needs memory that sorted entries use.
    fn is_short_of_memory(&self) -> bool {
        self.used() > self.budget
    }

    /// Whether it is time to free memory.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.used() > self.budget / 8 * 7
    }

    /// Frees memory until the active buffer fits into the budget.
    pub(crate) fn free_memory(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        self.take_spill()?;
        if self.spilling.is_none() && self.is_nearly_full() && !self.runs.is_empty() {
            self.begin_spill();
        }
        while self.is_short_of_memory() {
            if !self.sorting.is_empty() {
                self.take_sorted(true, interrupted)?;
                continue;
            }
            let is_small = self.run_bytes() < self.budget / 4;
            match &mut self.spilling {
                Some(spilling) if is_small => {
                    if spilling.wait_briefly(interrupted)? {
                        self.take_spill()?;
                    }
                }
                _ if self.runs.is_empty() => break,
                _ => {
                    let spilled = spill(self.take_runs(), &self.directory, interrupted);
                    self.keep_spill(spilled)?;
                }
            }
        }
        Ok(())
    }

    /// The sorted entries in memory, as a merge source.
    fn take_runs(&mut self) -> Vec<Source> {
        let runs = std::mem::take(&mut self.runs);
        runs.into_iter().map(Source::of_run).collect()
    }

    /// Merges the sorted entries in memory into a spill file, if there is a worker.
    fn begin_spill(&mut self) {
        if let Some(worker) = self.tasks.workers.claim() {
            let (sources, directory) = (self.take_runs(), self.directory.clone());
            let cancelled = self.tasks.cancel.flag();
            self.spilling = Some(Background::start(worker, move || {
                spill(sources, &directory, &|| cancelled.is_set())
            }));
        }
    }

    /// Whether all entries are in memory, and their keys ascend strictly from a key after `last` on.
    /// Buffers must have been ended.
    pub(crate) fn is_ordered_after(&self, last: Option<&[u8]>) -> bool {
        self.sorting.is_empty()
            && self.spills.is_empty()
            && self.spilling.is_none()
            && match self.runs.as_slice() {
                [] => true,
                [run] => run.is_strict_after(last),
                _ => false,
            }
    }

    /// The memory of the sort, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.budget
    }

    /// A thread for a task, if one is idle.
    pub(crate) fn claim_worker(&self) -> Option<Worker> {
        self.tasks.workers.claim()
    }

    /// Removes the entries of [`Sorter::is_ordered_after`].
    pub(crate) fn take_ordered(&mut self) -> Option<MemoryRun> {
        self.runs.pop()
    }

    /// Ends the input. Returns all entries in the order of keys.
    ///
    /// # Errors
    /// `Spill`, `Interrupted`, `Internal`.
    pub fn finish(self, interrupted: &Interrupted) -> BulkLoadResult<SortedEntries> {
        let sorted = self.finish_with(None, interrupted)?;
        sorted.into_entries(interrupted)
    }

    /// Sorts what is in buffers. No entries must be added afterwards.
    pub(crate) fn end_input(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        self.end_buffer(interrupted)?;
        while !self.sorting.is_empty() {
            self.take_sorted(true, interrupted)?;
        }
        self.active = SortBuffer::new(0);
        self.spare = None;
        Ok(())
    }

    /// As [`Sorter::finish`], with one more sequence, before the last merge.
    pub(crate) fn finish_with(
        mut self,
        other: Option<Sequence>,
        interrupted: &Interrupted,
    ) -> BulkLoadResult<SortedSequences> {
        self.end_input(interrupted)?;
        if let Some(spilling) = self.spilling.take() {
            let spilled = spilling.wait(interrupted)?;
            self.keep_spill(spilled)?;
        }
        let batch_bytes = batch_bytes(self.budget);
        // The merge needs memory for each spill file.
        let read_bytes: usize = self.spills.iter().map(Spill::read_bytes).sum();
        let spills_bytes = read_bytes + 2 * batch_bytes;
        let merge_bytes = self.held.load(Ordering::Relaxed) + spills_bytes;
        if !self.spills.is_empty() && merge_bytes > self.budget && !self.runs.is_empty() {
            let spilled = spill(self.take_runs(), &self.directory, interrupted);
            self.keep_spill(spilled)?;
        }
        self.merge_spills(batch_bytes, interrupted)?;
        let spills = self.spills.drain(..).map(Arc::new).map(Sequence::Spill);
        let runs = self.runs.drain(..).map(Sequence::memory);
        let sequences = runs.chain(spills).chain(other).collect();
        let held = self.held.load(Ordering::Relaxed);
        let Self { tasks, memory, .. } = self;
        Ok(SortedSequences {
            sequences,
            tasks,
            held,
            memory,
        })
    }

    /// Merges spill files until so many are left that one merge can read all of them.
    fn merge_spills(
        &mut self,
        batch_bytes: usize,
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        let files = self.spills.len().max(1);
        let read_bytes: usize = self.spills.iter().map(Spill::read_bytes).sum();
        let average = (read_bytes / files).max(1);
        let spills_max = (self.budget / 2 / average).clamp(SPILLS_MIN, SPILLS_MAX);
        while self.spills.len() > spills_max {
            // The last of these merges reads `spills_max` files, so the final one does, too.
            let merged = spills_max.min(self.spills.len() - spills_max + 1);
            let spills = self.spills.drain(..merged).map(Arc::new);
            let sources = spills.map(Source::spill).collect();
            let tasks = SortTasks {
                cancel: CancelOnDrop::default(),
                workers: Arc::clone(&self.tasks.workers),
                counts: Arc::new(SortCounts::default()),
            };
            let merge = Merge::new(sources)?;
            let sorted = SortedEntries::new(merge, batch_bytes, tasks, None, interrupted)?;
            let mut writer = SpillWriter::create(&self.directory).map_err(BulkLoadError::Spill)?;
            let spilled = &self.tasks.counts.spilled;
            sorted.pass_all(interrupted, &mut |key, value| {
                spilled.fetch_add(1, Ordering::Relaxed);
                writer.push(key, value).map_err(BulkLoadError::Spill)
            })?;
            self.spills
                .push(writer.finish().map_err(BulkLoadError::Spill)?);
        }
        Ok(())
    }
}

fn buffer_bytes(budget: usize) -> usize {
    SORT_BUFFER_BYTES_MAX.min(budget / BUFFERS_MIN)
}

/// Merges sources into a spill file.
fn spill(sources: Vec<Source>, directory: &SpillDirectory, stop: &dyn Fn() -> bool) -> Spilled {
    Merge::new(sources)?.spill(directory, stop)
}
