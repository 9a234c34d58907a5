//! Changing the indexes and the metadata of a table in place.
//!
//! An [`Alteration`] goes through four steps:
//! 1. *Begin*: files of the new indexes are made, durable with their names, and
//!    the indexes stand behind the table's own, where writers reach them. No
//!    transaction that wrote the table may be open then.
//! 2. *Fill*: the caller reads the rows at one snapshot, taken after step 1, and
//!    adds their entries, in any order. Whoever writes rows meanwhile writes
//!    the entries of the new indexes too; these are newer than what is added.
//! 3. *Build*: the entries are sorted and written as leaf data behind those of
//!    the writers, not through the log; then the file is made durable.
//! 4. *Commit*: nobody writes any more. What the writers left in memory is
//!    flushed and made durable, and one log record gives one or several tables
//!    their new indexes and metadata. Then the dropped files are removed.
//!
//! Until the record is durable the tables are as before: dropping an alteration
//! removes the new files, and after a crash recovery does, for no table has
//! them. From the record on recovery takes the new files, which hold all that
//! was logged for them before it.

mod commit;
mod promised;
mod segment;
mod sorter;
mod spill;

pub(crate) use spill::is_spill;

use crate::engine::{Engine, Inner};
use crate::error::{EngineError, EngineResult};
use crate::name::TableName;
use crate::table::Index;
use crate::tables::{INDEXES_MAX, IndexDefinition, TableHandle, check_index};
use crate::transaction::Duplicate;
use crate::{background, checkpoint};
use sorter::{Interrupted, Sorter, SpillPlace};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_transactions::WaitError;

/// Most memory that sorting takes, in bytes.
const SORT_BYTES_MAX: u64 = 256 << 20;

/// Entries between two reports of progress.
const PROGRESS_ENTRIES: u64 = 16 * 1024;

/// An index to add.
#[derive(Clone, Debug)]
pub struct AddedIndex {
    /// Its file and form.
    pub definition: IndexDefinition,
    /// Whether two entries of one key are refused.
    pub unique: bool,
}

/// An index of the altered table.
#[derive(Clone, Debug)]
pub enum PlannedIndex {
    /// One that the table has, by its number. The definition's label is its
    /// name from now on, the rest concerns what is written from now on.
    Kept(u32, IndexDefinition),
    /// One of those that were added.
    Added(u32),
}

/// What a table is to be.
#[derive(Clone, Debug)]
pub struct AlterationPlan {
    /// The indexes in their new order; those that are left out are dropped. The
    /// first is the table's first.
    pub indexes: Vec<PlannedIndex>,
    /// Replaces the table's metadata.
    pub metadata: Vec<u8>,
}

struct Added {
    index: Arc<Index>,
    unique: bool,
    /// Gone once the index is built.
    sorter: Option<Sorter>,
}

/// A change of one table under way; see the top of the file. Dropping it undoes
/// what was done.
pub struct Alteration {
    handle: TableHandle,
    added: Vec<Added>,
    /// The number of the first added index while it is built.
    first: u32,
    interrupted: Box<Interrupted>,
    duplicate: Duplicate,
    /// The files are the table's, or may be: nothing is undone any more.
    ended: bool,
}

impl Engine {
    /// Begins to alter a table. `interrupted` is asked now and then by what
    /// takes long.
    ///
    /// # Errors
    /// `InvalidArgument` when the table is being altered already, or the new
    /// indexes are none; `Wait(Timeout)` when a prepared transaction that no
    /// handle owns has written the table; `NoSpace`, `Io`.
    pub fn begin_alteration(
        &self,
        table: &TableHandle,
        added: &[AddedIndex],
        interrupted: Box<dyn Fn() -> bool + Send>,
    ) -> EngineResult<Alteration> {
        let inner = &self.inner;
        for index in added {
            check_index(&index.definition)?;
        }
        let handle = table.share();
        let core = Arc::clone(&handle.table);
        if core.altering.swap(true, Ordering::AcqRel) {
            return Err(EngineError::InvalidArgument(
                "the table is being altered already".into(),
            ));
        }
        let mut alteration = Alteration {
            handle,
            added: Vec::new(),
            first: 0,
            interrupted,
            duplicate: Duplicate::default(),
            ended: false,
        };
        if let Some(rows) = core.indexes.load().first()
            && let Some((least, greatest)) = rows.tree.write_id_range()
            && !added.is_empty()
        {
            let writes = inner.prepared.orphaned_writes(least, greatest);
            if promised::holds(rows, writes, &*alteration.interrupted)? {
                return Err(WaitError::Timeout.into());
            }
        }
        let _changes = inner.table_changes.lock();
        if !inner.tables.lock().by_id.contains_key(&core.id) {
            return Err(EngineError::NoSuchTable {
                name: core.name().to_string(),
            });
        }
        let count = core.indexes.load().len();
        if count + added.len() > INDEXES_MAX {
            return Err(EngineError::InvalidArgument(format!(
                "a table has at most {INDEXES_MAX} indexes"
            )));
        }
        alteration.first = u32::try_from(count).unwrap_or(u32::MAX);
        let name = TableName::parse(&core.name())?;
        let definitions: Vec<IndexDefinition> =
            added.iter().map(|index| index.definition.clone()).collect();
        let entries = inner.index_entries(&name, definitions.into_iter())?;
        let trees = inner.create_files(&entries)?;
        let place = SpillPlace {
            disk: Arc::clone(&inner.disk),
            directory: inner.directory().to_path_buf(),
            next: Arc::clone(&inner.next_spill),
        };
        let budget = (inner.budget.total() / 8).min(SORT_BYTES_MAX);
        let budget = usize::try_from(budget).unwrap_or(usize::MAX) / added.len().max(1);
        for ((entry, tree), wanted) in entries.into_iter().zip(trees).zip(added) {
            tree.await_base();
            alteration.added.push(Added {
                index: Arc::new(Index::new(entry, tree, &core.damaged)),
                unique: wanted.unique,
                sorter: Some(Sorter::new(place.clone(), budget)),
            });
        }
        let mut indexes = (**core.indexes.load()).clone();
        indexes.extend(
            alteration
                .added
                .iter()
                .map(|added| Arc::clone(&added.index)),
        );
        core.building.store(added.len(), Ordering::Release);
        core.indexes.store(Arc::new(indexes));
        Ok(alteration)
    }
}

impl Alteration {
    /// The number by which writers of rows reach an added index meanwhile.
    #[must_use]
    pub fn index(&self, added: u32) -> u32 {
        self.first + added
    }

    /// The entry that an index has twice, after `DuplicateKey`. Its index is
    /// the number of the added one.
    #[must_use]
    pub fn duplicate(&self) -> &Duplicate {
        &self.duplicate
    }

    /// Adds the entry of a row to an added index.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index, or it is built;
    /// `Wait(Interrupted)`; those of writing spilled entries.
    pub fn add(&mut self, added: u32, key: &[u8], value: &[u8]) -> EngineResult<()> {
        let place = usize::try_from(added).unwrap_or(usize::MAX);
        let sorter = self.added.get_mut(place).and_then(|a| a.sorter.as_mut());
        let Some(sorter) = sorter else {
            return Err(EngineError::InvalidArgument(format!(
                "no added index {added} takes entries"
            )));
        };
        sorter.add(key, value, &*self.interrupted)
    }

    /// Sorts what was added and writes it. `progress` hears now and then how
    /// many entries of how many are written.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`Alteration::duplicate`] tells which;
    /// `Wait(Interrupted)`, `Storage`. The alteration is then of no use.
    pub fn build(&mut self, progress: &mut dyn FnMut(u64, u64)) -> EngineResult<()> {
        let inner = Arc::clone(&self.handle.inner);
        let sorters = self.added.iter().filter_map(|added| added.sorter.as_ref());
        let total = sorters.map(Sorter::entries).sum();
        let mut done = 0;
        for (number, added) in (0u32..).zip(&mut self.added) {
            let Some(sorter) = added.sorter.take() else {
                continue;
            };
            let mut merge = sorter.finish(&*self.interrupted)?;
            let index = &added.index;
            let mut load = index.tree.bulk_load();
            let mut last: Option<Vec<u8>> = None;
            while let Some((key, value)) = merge.entry(&*self.interrupted)? {
                match &mut last {
                    Some(last) if last.as_slice() == key => {
                        if !added.unique {
                            return Err(EngineError::InvalidArgument(
                                "an index that is not unique was given a key twice".into(),
                            ));
                        }
                        self.duplicate = Duplicate {
                            index: number,
                            key: key.to_vec(),
                            value: value.to_vec(),
                        };
                        return Err(EngineError::DuplicateKey);
                    }
                    Some(last) => {
                        last.clear();
                        last.extend_from_slice(key);
                    }
                    None => last = Some(key.to_vec()),
                }
                inner.checked(index, load.push(key, value))?;
                merge.advance()?;
                done += 1;
                if done % PROGRESS_ENTRIES == 0 {
                    progress(done, total);
                }
            }
            inner.checked(index, load.finish())?;
            // Not for durability yet: what is written now need not be written
            // when writers wait.
            make_durable(&inner, index)?;
            // Older snapshots would see rows that were not there for them.
            let born = inner.transactions.newest();
            index.born.store(born.0, Ordering::Release);
        }
        progress(done, total);
        Ok(())
    }

    /// Gives the table its own indexes back.
    fn undo(&mut self) {
        let core = &self.handle.table;
        let inner = &self.handle.inner;
        if !self.added.is_empty() {
            let own = usize::try_from(self.first).unwrap_or(usize::MAX);
            let indexes: Vec<Arc<Index>> = core.indexes.load().iter().take(own).cloned().collect();
            core.indexes.store(Arc::new(indexes));
            core.building.store(0, Ordering::Release);
            for added in &self.added {
                added.index.gone.store(true, Ordering::Release);
            }
            inner.unlist_gone();
            inner.background.announce_room();
        }
        if !self.ended {
            let paths: Vec<_> = self
                .added
                .iter()
                .map(|a| a.index.entry.path.clone())
                .collect();
            inner.remove_files(&paths);
        }
        self.added.clear();
    }
}

impl Drop for Alteration {
    fn drop(&mut self) {
        self.undo();
        self.handle.table.altering.store(false, Ordering::Release);
    }
}

/// Brings everything that an index has into its file, durably.
fn make_durable(inner: &Inner, index: &Arc<Index>) -> EngineResult<()> {
    crate::budget::freeze(inner, index);
    background::flush_index(inner, index)?;
    checkpoint::checkpoint_index(inner, index)
}
