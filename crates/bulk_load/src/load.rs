//! Building a tree from entries: sorted here, or added in key order.

use crate::cancel::Interrupted;
use crate::entries::{EntryReader, entry_bytes_max, put_entry};
use crate::error::{BulkLoadError, BulkLoadResult, LoadError};
use crate::observer::LoadObserver;
use crate::progress::SortProgress;
use crate::range_writers::{LastKey, divided, write_ranges};
use crate::run_stream::{RunStream, write_part};
use crate::sequences::Sequence;
use crate::sorter::{Sorter, SorterOptions};
use std::fmt;
use std::sync::Arc;
use teak_tree::{PausedLoad, Tree};

/// Builds a tree that [waits for a base](Tree::await_base) from entries that are added in
/// ascending order of keys. They are gathered in memory and written one leaf at a time.
#[derive(Default)]
pub struct OrderedLoad {
    /// Entries not yet written: at most those of one leaf.
    gathered: Vec<u8>,
    last: Option<Vec<u8>>,
    load: PausedLoad,
    entries: u64,
}

impl OrderedLoad {
    /// The number of entries added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry. The tree is the same one in all calls.
    ///
    /// # Errors
    /// `NotInOrder`, which leaves the load usable; `Index`.
    pub fn add(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> BulkLoadResult<()> {
        if self.last.as_deref().is_some_and(|last| last >= key) {
            return Err(BulkLoadError::NotInOrder);
        }
        replace(&mut self.last, key);
        let bytes = self.gathered.len() + entry_bytes_max(key, value);
        if bytes as u64 > tree.options().leaf_bytes && !self.gathered.is_empty() {
            self.write(tree)?;
        }
        put_entry(&mut self.gathered, key, value);
        self.entries += 1;
        Ok(())
    }

    fn write(&mut self, tree: &Tree) -> BulkLoadResult<()> {
        let mut load = tree.bulk_load(std::mem::take(&mut self.load));
        let mut gathered = EntryReader::new(std::mem::take(&mut self.gathered));
        while gathered.advance()? {
            if let Some((key, value)) = gathered.entry() {
                load.push(key, value).map_err(BulkLoadError::Index)?;
            }
        }
        self.gathered = gathered.into_empty();
        self.load = load.pause().map_err(BulkLoadError::Index)?;
        Ok(())
    }

    /// Writes the remaining entries and installs the base.
    ///
    /// # Errors
    /// `Index`.
    pub fn finish(mut self, tree: &Tree) -> BulkLoadResult<()> {
        self.write(tree)?;
        tree.install_base(self.load);
        Ok(())
    }
}

/// Size of the parts of ordered entries that are passed to a worker, in bytes: this, or a quarter of
/// the memory if that is less.
const STREAM_BYTES_MAX: usize = 4 << 20;

/// Entries that were written before the end of the input.
#[derive(Default)]
struct WrittenRuns {
    /// While a worker writes it, this is empty.
    load: PausedLoad,
    stream: Option<RunStream>,
    last: Option<Vec<u8>>,
    entries: u64,
}

impl WrittenRuns {
    /// Waits until the worker has written the entries that it got.
    fn end_stream(&mut self, interrupted: &Interrupted) -> BulkLoadResult<()> {
        if let Some(stream) = self.stream.take() {
            self.load = stream.finish(interrupted)?;
        }
        Ok(())
    }
}

/// Writes entries in any order as runs of a tree: as its [base](Tree::await_base), or above its data
/// ([`Tree::begin_load`]). The caller installs them.
///
/// Entries that are added in key order are neither sorted nor spilled: a worker writes them while the
/// caller adds others or, without a worker, the caller does when they have filled the memory. If an
/// entry comes later that is not in order, what was written is read again by the merge, like a spill
/// file, and freed.
pub struct SortedLoad {
    sorter: Sorter,
    runs: WrittenRuns,
    /// The size of the entries.
    bytes: u64,
}

impl fmt::Debug for SortedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedLoad").finish_non_exhaustive()
    }
}

impl SortedLoad {
    /// A base without entries.
    #[must_use]
    pub fn new(options: SorterOptions) -> Self {
        Self::of(options, PausedLoad::default())
    }

    /// Continues a load that has no entries yet.
    #[must_use]
    pub fn of(options: SorterOptions, load: PausedLoad) -> Self {
        Self {
            sorter: Sorter::new(options),
            runs: WrittenRuns {
                load,
                ..WrittenRuns::default()
            },
            bytes: 0,
        }
    }

    /// The number of entries added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.sorter.entries()
    }

    /// How far the sort is.
    #[must_use]
    pub fn progress(&self) -> SortProgress {
        self.sorter.progress()
    }

    /// Adds an entry. The tree is the same one in all calls.
    ///
    /// # Errors
    /// `Spill`, `Index`, `Interrupted`, `Internal`; the build is then unusable.
    #[inline]
    pub fn add(
        &mut self,
        tree: &Arc<Tree>,
        key: &[u8],
        value: &[u8],
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        if self.sorter.needs_buffer(key, value) {
            self.sorter.end_buffer(interrupted)?;
            match self.is_in_order() {
                true => self.write_ordered(tree, interrupted)?,
                // Another load may use the thread.
                false => self.runs.end_stream(interrupted)?,
            }
            self.sorter.free_memory(interrupted)?;
        }
        self.bytes += entry_bytes_max(key, value) as u64;
        self.sorter.push(key, value, interrupted)
    }

    /// Whether all entries so far are in order.
    fn is_in_order(&self) -> bool {
        self.sorter.is_ordered_after(self.runs.last.as_deref())
    }

    /// Writes the entries in memory, which are in order. A worker gets them in parts. Without one, not
    /// less than two leaves are written at a time, so that most leaves have their full size.
    fn write_ordered(&mut self, tree: &Arc<Tree>, interrupted: &Interrupted) -> BulkLoadResult<()> {
        let (runs, sorter) = (&mut self.runs, &self.sorter);
        let (bytes, is_nearly_full) = (sorter.run_bytes(), sorter.is_nearly_full());
        let has_part = bytes >= STREAM_BYTES_MAX.min(sorter.memory_bytes() / 4);
        if runs.stream.is_none()
            && has_part
            && let Some(worker) = sorter.claim_worker()
        {
            let load = std::mem::take(&mut runs.load);
            runs.stream = Some(RunStream::start(worker, tree, load));
        }
        let is_due = match runs.stream {
            // If the worker is behind, the memory is full of parts for it.
            Some(_) => has_part || is_nearly_full,
            None => is_nearly_full && bytes as u64 >= 2 * tree.options().leaf_bytes,
        };
        if is_due {
            self.write_in_memory(tree, interrupted)?;
        }
        Ok(())
    }

    /// Writes the entries in memory, which are in order.
    fn write_in_memory(
        &mut self,
        tree: &Arc<Tree>,
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        let runs = &mut self.runs;
        let Some(part) = self.sorter.take_ordered() else {
            return Ok(());
        };
        runs.last = Some(part.last().to_vec());
        runs.entries = self.sorter.entries();
        match &mut runs.stream {
            Some(stream) => stream.push(part, interrupted),
            None => {
                let mut load = tree.bulk_load(std::mem::take(&mut runs.load));
                write_part(&mut load, part, interrupted)?;
                runs.load = load.pause().map_err(BulkLoadError::Index)?;
                Ok(())
            }
        }
    }

    /// Sorts the entries and writes them. The result is to be installed in the tree.
    ///
    /// # Errors
    /// Errors of sorting, writing and of the observer.
    pub fn finish<O: LoadObserver>(
        mut self,
        tree: &Arc<Tree>,
        interrupted: &Interrupted,
        observer: &mut O,
    ) -> Result<PausedLoad, LoadError<O::Error>> {
        self.sorter.end_input(interrupted)?;
        let is_in_order = self.is_in_order();
        if is_in_order && self.runs.stream.is_some() {
            self.write_in_memory(tree, interrupted)?;
        }
        let mut runs = self.runs;
        runs.end_stream(interrupted)?;
        let mut again = None;
        let mut entries = self.sorter.entries();
        if runs.entries > 0 {
            if is_in_order {
                observer.written(runs.entries);
                entries -= runs.entries;
            } else {
                let load = runs.load.without_entries();
                again = Some(Sequence::Loaded(Arc::new(runs.load)));
                runs = WrittenRuns {
                    load,
                    ..WrittenRuns::default()
                };
            }
        }
        let sorted = self.sorter.finish_with(again, interrupted)?;
        if let Some(division) = divided(&sorted, tree, &runs.load, self.bytes) {
            let (load, size) = ((tree, runs.load), (self.bytes, entries));
            return write_ranges(sorted, division, load, size, interrupted, observer);
        }
        let mut sorted = sorted.into_entries(interrupted)?;
        let mut load = tree.bulk_load(runs.load);
        load.expect_bytes(self.bytes, false);
        let mut last = LastKey::new(runs.last);
        while let Some((key, value)) = sorted.entry() {
            observer.check().map_err(LoadError::Caller)?;
            if last.replace(key) {
                load.push(key, value).map_err(BulkLoadError::Index)?;
                observer.written(1);
            } else {
                let accepted = observer.duplicate(key, value);
                accepted.map_err(LoadError::Caller)?;
            }
            sorted.advance(interrupted)?;
        }
        Ok(load.pause().map_err(BulkLoadError::Index)?)
    }
}

/// Copies the key into the memory of the last one.
#[inline]
fn replace(last: &mut Option<Vec<u8>>, key: &[u8]) {
    let last = last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(key);
}
