//! The result of a sort, in batches: a worker merges the next batch while the caller uses the
//! current one.

use crate::cancel::{CHECK_ENTRIES, CancelOnDrop, Interrupted};
use crate::entries::EntryReader;
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::memory::MemoryReservation;
use crate::merge::Merge;
use crate::progress::{SortCounts, SortProgress};
use crate::workers::{Background, Workers};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A batch, and the merge after it.
struct Filled {
    merge: Box<Merge>,
    batch: Vec<u8>,
    entries: BulkLoadResult<u64>,
}

/// Receives an entry.
pub(crate) type OnEntry<'a> = dyn FnMut(&[u8], &[u8]) -> BulkLoadResult<()> + 'a;

/// What a sort needs to run tasks.
pub(crate) struct SortTasks {
    pub(crate) cancel: CancelOnDrop,
    pub(crate) workers: Arc<dyn Workers>,
    pub(crate) counts: Arc<SortCounts>,
}

/// All entries of a sort in the order of their keys. Entries with equal keys are in any order.
/// Dropping it removes the spill files.
pub struct SortedEntries {
    // The first field: dropped before the tasks, which it stops.
    tasks: SortTasks,
    current: EntryReader,
    /// The task that fills the next batch; it has the merge.
    next: Option<Background<Filled>>,
    merge: Option<Box<Merge>>,
    batch_bytes: usize,
    calls: u64,
    /// Returned after the memory is freed.
    _memory: Option<Box<dyn MemoryReservation>>,
}

impl fmt::Debug for SortedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedEntries").finish_non_exhaustive()
    }
}

impl SortedEntries {
    /// Positions at the first entry.
    pub(crate) fn new(
        merge: Merge,
        batch_bytes: usize,
        tasks: SortTasks,
        memory: Option<Box<dyn MemoryReservation>>,
        interrupted: &Interrupted,
    ) -> BulkLoadResult<Self> {
        let mut sorted = Self {
            tasks,
            current: EntryReader::default(),
            next: None,
            merge: Some(Box::new(merge)),
            batch_bytes,
            calls: 0,
            _memory: memory,
        };
        sorted.advance(interrupted)?;
        Ok(sorted)
    }

    /// The current entry. `None` at the end.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.current.entry()
    }

    /// How far the sort is.
    #[must_use]
    pub fn progress(&self) -> SortProgress {
        self.tasks.counts.read()
    }

    /// Moves to the next entry.
    ///
    /// # Errors
    /// `Spill`, `Interrupted`, `Internal`; the entries are then unusable.
    #[inline]
    pub fn advance(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        self.calls += 1;
        if self.calls.is_multiple_of(CHECK_ENTRIES) && interrupted() {
            return Err(BulkLoadError::Interrupted);
        }
        if self.current.advance()? {
            return Ok(());
        }
        self.next_batch(interrupted)
    }

    #[cold]
    fn next_batch(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        let mut used = std::mem::take(&mut self.current).into_empty();
        let filled = match (self.next.take(), self.merge.take()) {
            (Some(next), _) => next.wait(interrupted)?,
            (None, Some(merge)) => {
                let batch = std::mem::take(&mut used);
                self.fill(merge, batch, interrupted)
            }
            (None, None) => return Ok(()),
        };
        let merged = filled.entries?;
        let counts = &self.tasks.counts;
        counts.merged.fetch_add(merged, Ordering::Relaxed);
        if !filled.merge.is_at_end() {
            self.begin_next(filled.merge, used);
        }
        self.current = EntryReader::new(filled.batch);
        self.current.advance()?;
        Ok(())
    }

    /// Fills a batch on this thread.
    fn fill(&self, mut merge: Box<Merge>, mut batch: Vec<u8>, interrupted: &Interrupted) -> Filled {
        let entries = merge.fill(&mut batch, self.batch_bytes, interrupted);
        Filled {
            merge,
            batch,
            entries,
        }
    }

    /// Fills the next batch on a worker. Without one, this thread fills it later.
    fn begin_next(&mut self, mut merge: Box<Merge>, mut batch: Vec<u8>) {
        let Some(worker) = self.tasks.workers.claim() else {
            self.merge = Some(merge);
            return;
        };
        let (cancelled, bytes) = (self.tasks.cancel.flag(), self.batch_bytes);
        self.next = Some(Background::start(worker, move || {
            let entries = merge.fill(&mut batch, bytes, &|| cancelled.is_set());
            Filled {
                merge,
                batch,
                entries,
            }
        }));
    }

    /// Passes all entries to `on_entry`.
    pub(crate) fn pass_all(
        mut self,
        interrupted: &Interrupted,
        on_entry: &mut OnEntry<'_>,
    ) -> BulkLoadResult<()> {
        while let Some((key, value)) = self.entry() {
            on_entry(key, value)?;
            self.advance(interrupted)?;
        }
        Ok(())
    }
}
