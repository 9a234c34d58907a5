//! Changing the indexes and the metadata of a table in place.
//!
//! An [`Alteration`] has four steps:
//! 1. *Begin*: create the files of the new indexes, durable with their names, and
//!    append the indexes to the table's own, so that writers write to them. No
//!    transaction that has written the table may be active then.
//! 2. *Fill*: the caller reads the rows from one snapshot, taken after step 1, and
//!    adds their entries: in any order, or by key where the index was added with
//!    [`EntryOrder::ByKey`]. Concurrent writers also write the entries of the new
//!    indexes. These are newer than the entries that the caller adds.
//! 3. *Build*: sort the added entries and write them as leaf data, older than the
//!    writers' entries, without logging them; then make the file durable. Entries
//!    added by key are written while they arrive.
//! 4. *Commit*: no writer is active any more. Flush what the writers left in
//!    memory and make it durable. One log record gives one or several tables their
//!    new indexes and metadata. Then remove the files of dropped indexes.
//!
//! Before the record is durable the tables are unchanged: dropping an alteration
//! removes the new files, and after a crash recovery removes them, because no
//! table has them. After the record recovery uses the new files, which contain
//! everything that was logged for them before it.

mod begin;
mod commit;
mod fill;
mod ordered_load;
mod prepared_writes;
mod sort_buffer;
mod sorter;
mod spill;

use self::ordered_load::OrderedLoad;
use self::sorter::{Interrupted, Sorter};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::definition::IndexDefinition;
use crate::error::EngineResult;
use crate::index_number::IndexNumber;
use crate::maintenance::checkpoint::checkpoint_index;
use crate::maintenance::flusher::FlushContext;
use crate::table_handle::TableHandle;
use crate::transaction::Duplicate;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The order in which the entries of a new index are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOrder {
    /// Any order. The engine sorts the entries.
    Any,
    /// Strictly ascending by key. The entries need no sorting, and no memory or
    /// space for it.
    ByKey,
}

/// An index to add.
#[derive(Clone, Debug)]
pub struct AddedIndex {
    /// Its file and format.
    pub definition: IndexDefinition,
    /// Whether two entries with the same key cause a duplicate-key error.
    pub unique: bool,
    /// The order in which its entries are added.
    pub entry_order: EntryOrder,
}

/// An index of the altered table.
#[derive(Clone, Debug)]
pub enum PlannedIndex {
    /// An existing index, by its number. The label of the definition becomes its
    /// name; the other fields apply to what is written from now on.
    Kept(IndexNumber, IndexDefinition),
    /// An added index, by its position among those.
    Added(u32),
}

/// A table as it will be after the alteration.
#[derive(Clone, Debug)]
pub struct AlterationPlan {
    /// The indexes in their new order. Indexes that are left out are dropped. The
    /// first contains the rows: the table's first index, or an added one.
    pub indexes: Vec<PlannedIndex>,
    /// Replaces the table's metadata.
    pub metadata: Vec<u8>,
}

/// Receives the entries of an added index.
enum Filling {
    AnyOrder(Sorter),
    ByKey(OrderedLoad),
    Built,
}

impl Filling {
    fn entries(&self) -> u64 {
        match self {
            Self::AnyOrder(sorter) => sorter.entries(),
            Self::ByKey(load) => load.entries(),
            Self::Built => 0,
        }
    }
}

struct Added {
    index: Arc<Index>,
    unique: bool,
    filling: Filling,
}

/// A change of one table in progress; see the top of the file. Dropping it undoes
/// the change.
pub struct Alteration {
    handle: TableHandle,
    added: Vec<Added>,
    /// The number of the first added index while it is built.
    first_added: IndexNumber,
    interrupted: Box<Interrupted>,
    duplicate: Duplicate,
    /// The table has the new files, or may have them after a failed sync: they
    /// are not removed any more.
    is_committed: bool,
}

impl Alteration {
    /// The number that writers of rows use for an added index before the
    /// commit.
    #[must_use]
    pub fn index(&self, added: u32) -> IndexNumber {
        self.first_added.plus(added)
    }

    /// The entry with the duplicate key, after `DuplicateKey`. Its index is the
    /// position of the index among the added ones.
    #[must_use]
    pub fn duplicate(&self) -> &Duplicate {
        &self.duplicate
    }

    /// Restores the table's own indexes.
    fn undo(&mut self) {
        let table = &self.handle.table;
        let core = &self.handle.core;
        if !self.added.is_empty() {
            let own = usize::try_from(self.first_added.0).unwrap_or(usize::MAX);
            let indexes: Vec<Arc<Index>> = table.indexes.load().iter().take(own).cloned().collect();
            table.indexes.store(Arc::new(indexes));
            table.building.store(0, Ordering::Release);
            for added in &self.added {
                added.index.dropped.store(true, Ordering::Release);
            }
            core.written.remove_dropped();
            core.signals.space_available();
        }
        if !self.is_committed {
            let paths = self.added.iter().map(|one| one.index.entry.path.clone());
            core.files.remove(&paths.collect::<Vec<_>>());
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

/// Writes everything that an index holds in memory into its file, durably.
fn make_durable(core: &EngineCore, index: &Arc<Index>) -> EngineResult<()> {
    let context = FlushContext::from(core);
    context.freeze(index);
    context.flush_index(index)?;
    checkpoint_index(context, index)
}
