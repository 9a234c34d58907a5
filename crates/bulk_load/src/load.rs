//! Building a tree from entries: sorted here, or added in key order.

use crate::cancel::{CHECK_ENTRIES, Interrupted};
use crate::entries::{EntryReader, entry_bytes_max, put_entry};
use crate::error::{BulkLoadError, BulkLoadResult, LoadError};
use crate::progress::SortProgress;
use crate::sorter::{Sorter, SorterOptions};
use crate::source::Source;
use std::fmt;
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
        let load = tree.bulk_load(self.load);
        load.finish().map_err(BulkLoadError::Index)
    }
}

/// What a caller does during the last step of a build.
pub trait LoadObserver {
    /// The error of its functions; it ends the build.
    type Error;

    /// Called before each entry.
    ///
    /// # Errors
    /// Any.
    fn check(&mut self) -> Result<(), Self::Error>;

    /// So many entries were written: one, or all that were written while they were added.
    fn written(&mut self, entries: u64);

    /// An entry has the same key as one that was written. If the result is `Ok`, it is left out.
    ///
    /// # Errors
    /// Any.
    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
}

/// Leaves that were written before the end of the input.
#[derive(Default)]
struct WrittenLeaves {
    load: PausedLoad,
    last: Option<Vec<u8>>,
    entries: u64,
}

/// Builds a tree that [waits for a base](Tree::await_base) from entries in any order.
///
/// Entries that are added in key order are neither sorted nor spilled: when they have filled the
/// memory, they are written as leaves. If an entry comes later that is not in order, these leaves
/// are read again by the merge, like a spill file, and freed.
pub struct SortedLoad {
    sorter: Sorter,
    leaves: WrittenLeaves,
}

impl fmt::Debug for SortedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedLoad").finish_non_exhaustive()
    }
}

impl SortedLoad {
    /// A build without entries.
    #[must_use]
    pub fn new(options: SorterOptions) -> Self {
        Self {
            sorter: Sorter::new(options),
            leaves: WrittenLeaves::default(),
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
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        if self.sorter.needs_buffer(key, value) {
            self.sorter.end_buffer(interrupted)?;
            if self.sorter.is_nearly_full() {
                self.write_ordered(tree, interrupted)?;
            }
            self.sorter.free_memory(interrupted)?;
        }
        self.sorter.push(key, value, interrupted)
    }

    /// Writes the entries in memory as leaves, if all entries so far are in order. Not less than
    /// two leaves at a time, so that most leaves have their full size.
    fn write_ordered(&mut self, tree: &Tree, interrupted: &Interrupted) -> BulkLoadResult<()> {
        let leaves = &mut self.leaves;
        if !self.sorter.is_ordered_after(leaves.last.as_deref())
            || (self.sorter.run_bytes() as u64) < 2 * tree.options().leaf_bytes
        {
            return Ok(());
        }
        let Some(run) = self.sorter.take_ordered() else {
            return Ok(());
        };
        leaves.last = Some(run.last().to_vec());
        let mut load = tree.bulk_load(std::mem::take(&mut leaves.load));
        let mut source = Source::memory(run);
        while source.advance()?.is_some() {
            if leaves.entries.is_multiple_of(CHECK_ENTRIES) && interrupted() {
                return Err(BulkLoadError::Interrupted);
            }
            if let Some((key, value)) = source.entry() {
                load.push(key, value).map_err(BulkLoadError::Index)?;
            }
            leaves.entries += 1;
        }
        leaves.load = load.pause().map_err(BulkLoadError::Index)?;
        Ok(())
    }

    /// Sorts the entries, writes them as the leaf data of the tree, and installs this base.
    ///
    /// # Errors
    /// Errors of sorting, writing and of the observer.
    pub fn finish<O: LoadObserver>(
        mut self,
        tree: &Tree,
        interrupted: &Interrupted,
        observer: &mut O,
    ) -> Result<(), LoadError<O::Error>> {
        self.sorter.end_input(interrupted)?;
        let mut leaves = self.leaves;
        let mut again = None;
        if leaves.entries > 0 {
            if self.sorter.is_ordered_after(leaves.last.as_deref()) {
                observer.written(leaves.entries);
            } else {
                again = Some(Source::Loaded(leaves.load.into_entries()));
                leaves = WrittenLeaves::default();
            }
        }
        let mut sorted = self.sorter.finish_with(again, interrupted)?;
        let mut load = tree.bulk_load(leaves.load);
        let mut last = leaves.last;
        while let Some((key, value)) = sorted.entry() {
            observer.check().map_err(LoadError::Caller)?;
            if last.as_deref() == Some(key) {
                let accepted = observer.duplicate(key, value);
                accepted.map_err(LoadError::Caller)?;
            } else {
                replace(&mut last, key);
                load.push(key, value).map_err(BulkLoadError::Index)?;
                observer.written(1);
            }
            sorted.advance(interrupted)?;
        }
        load.finish().map_err(BulkLoadError::Index)?;
        Ok(())
    }
}

/// Copies the key into the memory of the last one.
#[inline]
fn replace(last: &mut Option<Vec<u8>>, key: &[u8]) {
    let last = last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(key);
}
