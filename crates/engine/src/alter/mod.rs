//! Changing the indexes and the metadata of a table in place.
//!
//! An [`Alteration`] goes through four steps:
//! 1. *Begin*: files of the new indexes are made, durable with their names, and
//!    the indexes stand behind the table's own, where writers reach them. No
//!    transaction that wrote the table may be open then.
//! 2. *Fill*: the caller reads the rows at one snapshot, taken after step 1, and
//!    adds their entries, in any order, or in that of their keys to an index
//!    that asked for it. Whoever writes rows meanwhile writes the entries of
//!    the new indexes too; these are newer than what is added.
//! 3. *Build*: the entries are sorted and written as leaf data behind those of
//!    the writers, not through the log; then the file is made durable. What
//!    came in order is written while it comes.
//! 4. *Commit*: nobody writes any more. What the writers left in memory is
//!    flushed and made durable, and one log record gives one or several tables
//!    their new indexes and metadata. Then the dropped files are removed.
//!
//! Until the record is durable the tables are as before: dropping an alteration
//! removes the new files, and after a crash recovery does, for no table has
//! them. From the record on recovery takes the new files, which hold all that
//! was logged for them before it.

mod commit;
mod in_order;
mod promised;
mod segment;
mod sorter;
mod spill;

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::definition::{INDEXES_MAX, IndexDefinition, check_index};
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::checkpoint::checkpoint_index;
use crate::maintenance::flusher::FlushContext;
use crate::name::TableName;
use crate::table_handle::TableHandle;
use crate::tables::new_index_entries;
use crate::transaction::Duplicate;
use in_order::InOrder;
use sorter::{Interrupted, Merge, Sorter, SpillPlace};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_transactions::WaitError;
use teak_tree::PausedLoad;

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
    /// Whether its entries come in order of their keys, each key once: then
    /// they need no sorting, and no space for it.
    pub in_order: bool,
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
    /// first holds the rows: the table's first, or an added one.
    pub indexes: Vec<PlannedIndex>,
    /// Replaces the table's metadata.
    pub metadata: Vec<u8>,
}

/// What takes the entries of an added index.
enum Filling {
    Sorted(Sorter),
    InOrder(InOrder),
    Built,
}

impl Filling {
    fn entries(&self) -> u64 {
        match self {
            Self::Sorted(sorter) => sorter.entries(),
            Self::InOrder(in_order) => in_order.entries(),
            Self::Built => 0,
        }
    }
}

struct Added {
    index: Arc<Index>,
    unique: bool,
    filling: Filling,
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
        let inner = &self.core;
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
        let entries = new_index_entries(&inner.tables, &inner.log, &name, definitions.into_iter())?;
        let trees = inner.files.create(&entries)?;
        let place = SpillPlace {
            disk: Arc::clone(&inner.files.disk),
            directory: inner.files.directory.clone(),
            next: Arc::clone(&inner.next_spill),
        };
        let budget = (inner.budget.total() / 8).min(SORT_BYTES_MAX);
        let budget = usize::try_from(budget).unwrap_or(usize::MAX) / added.len().max(1);
        for ((entry, tree), wanted) in entries.into_iter().zip(trees).zip(added) {
            tree.await_base();
            alteration.added.push(Added {
                index: Arc::new(Index::new(entry, tree, &core.damaged)),
                unique: wanted.unique,
                filling: if wanted.in_order {
                    Filling::InOrder(InOrder::default())
                } else {
                    Filling::Sorted(Sorter::new(place.clone(), budget))
                },
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
    /// `InvalidArgument` when there is no such index, it is built, or the entry
    /// comes out of the order that was promised; `Wait(Interrupted)`; those of
    /// writing entries.
    pub fn add(&mut self, added: u32, key: &[u8], value: &[u8]) -> EngineResult<()> {
        let inner = &self.handle.inner;
        let place = usize::try_from(added).unwrap_or(usize::MAX);
        let found = self.added.get_mut(place);
        let (index, filling) = match found {
            Some(found) => (&found.index, &mut found.filling),
            None => return Err(takes_nothing(added)),
        };
        match filling {
            Filling::Sorted(sorter) => sorter.add(key, value, &*self.interrupted),
            Filling::InOrder(in_order) => in_order.add(inner, index, key, value),
            Filling::Built => Err(takes_nothing(added)),
        }
    }

    /// Sorts what was added and writes it. `progress` hears now and then how
    /// many entries of how many are written.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`Alteration::duplicate`] tells which;
    /// `Wait(Interrupted)`, `Storage`. The alteration is then of no use.
    pub fn build(&mut self, progress: &mut dyn FnMut(u64, u64)) -> EngineResult<()> {
        let inner = Arc::clone(&self.handle.inner);
        let total = self.added.iter().map(|added| added.filling.entries()).sum();
        let mut done = 0;
        for (number, added) in (0u32..).zip(&mut self.added) {
            let index = &added.index;
            match std::mem::replace(&mut added.filling, Filling::Built) {
                Filling::Built => continue,
                Filling::InOrder(in_order) => {
                    done += in_order.entries();
                    in_order.finish(&inner, index)?;
                }
                Filling::Sorted(sorter) => {
                    let merge = sorter.finish(&*self.interrupted)?;
                    let duplicate = load(
                        &inner,
                        index,
                        added.unique,
                        merge,
                        &*self.interrupted,
                        &mut || {
                            done += 1;
                            if done % PROGRESS_ENTRIES == 0 {
                                progress(done, total);
                            }
                        },
                    )?;
                    if let Some((key, value)) = duplicate {
                        self.duplicate = Duplicate {
                            index: number,
                            key,
                            value,
                        };
                        return Err(EngineError::DuplicateKey);
                    }
                }
            }
            // Not for durability yet: what is written now need not be written
            // when writers wait.
            make_durable(&inner, index)?;
            // Older snapshots would see rows that were not there for them.
            let born = inner.transactions.newest();
            index.created_at.store(born.0, Ordering::Release);
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
                added.index.dropped.store(true, Ordering::Release);
            }
            inner.written.remove_dropped();
            inner.signals.space_available();
        }
        if !self.ended {
            let paths: Vec<_> = self
                .added
                .iter()
                .map(|a| a.index.entry.path.clone())
                .collect();
            inner.files.remove(&paths);
        }
        self.added.clear();
    }
}

fn takes_nothing(added: u32) -> EngineError {
    EngineError::InvalidArgument(format!("no added index {added} takes entries"))
}

/// Writes sorted entries as an index's base. Returns the first key that comes
/// twice, which `unique` forbids.
fn load(
    inner: &EngineCore,
    index: &Index,
    unique: bool,
    mut merge: Merge,
    interrupted: &Interrupted,
    written: &mut dyn FnMut(),
) -> EngineResult<Option<(Vec<u8>, Vec<u8>)>> {
    let mut load = index.tree.bulk_load(PausedLoad::default());
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = merge.entry(interrupted)? {
        match &mut last {
            Some(last) if last.as_slice() == key => {
                if unique {
                    return Ok(Some((key.to_vec(), value.to_vec())));
                }
                return Err(EngineError::InvalidArgument(
                    "an index that is not unique was given a key twice".into(),
                ));
            }
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => last = Some(key.to_vec()),
        }
        inner.checked(index, load.push(key, value))?;
        merge.advance()?;
        written();
    }
    inner.checked(index, load.finish())?;
    Ok(None)
}

impl Drop for Alteration {
    fn drop(&mut self) {
        self.undo();
        self.handle.table.altering.store(false, Ordering::Release);
    }
}

/// Brings everything that an index has into its file, durably.
fn make_durable(inner: &EngineCore, index: &Arc<Index>) -> EngineResult<()> {
    let context = FlushContext::from(inner);
    context.freeze(index);
    context.flush_index(index)?;
    checkpoint_index(context, index)
}
