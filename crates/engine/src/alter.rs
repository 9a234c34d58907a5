//! Changing the indexes and the metadata of a table in place.
//!
//! An [`Alteration`] has four steps:
//! 1. *Begin*: create the files of the new indexes, make the files and their directory entries
//!    durable, and append the indexes to those of the table, so that writers maintain them. The
//!    caller ensures that no transaction with writes to the table is active.
//! 2. *Fill*: the caller reads the rows from one snapshot, taken after step 1 (if unique indexes are
//!    added: before writers continue), and adds their entries: in any order, or by key where the index
//!    was added with [`EntryOrder::ByKey`].
//!    Concurrent writers also write entries to the new indexes; these take precedence over the
//!    added entries.
//! 3. *Build*: sort the added entries and write them as leaf data, below the writers' entries,
//!    without logging them; then make the file durable. Entries in key order are written as they
//!    are added. *Verify*: compare the keys that writers have added to unique indexes with the added
//!    entries (`core/unique_build.rs`).
//! 4. *Commit*: the caller ensures again that no writer is active. Flush the memtables of the new
//!    indexes and make their files durable. One synced log record gives one or several tables their
//!    new indexes and metadata. Then remove the files of dropped indexes; a repair moves them to
//!    the directory `#teak_orphans` instead.
//!
//! Until the record is durable, the tables are unchanged. Dropping an alteration before its commit
//! removes the new files; after a crash, recovery removes them because they belong to no table.
//! Once the record is durable, recovery uses the new files. They contain all entries that were
//! logged for them before the record.
//!
//! If a new file fails before the commit, the building of its index is ended: writers skip the
//! index, and the next call of the alteration returns the error.
//!
//! The alteration of a temporary table is neither logged nor synced.

mod begin;
mod commit;
mod fill;
mod prepared_writes;
mod verify;

use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::running_jobs::JobInList;
use crate::definition::IndexDefinition;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::maintenance::flusher::{FlushContext, FlushTargets, abandon_index};
use crate::table_handle::TableHandle;
use crate::transaction::Duplicate;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::FileId;
use teak_bulk_load::{Interrupted, OrderedLoad, SortedLoad, Sorter};
use teak_disk::{IoJob, IoPurpose, IoScope, IoUrgency};

/// The order in which the entries of a new index are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOrder {
    /// Any order. The engine sorts the entries.
    Any,
    /// Strictly ascending by key. The engine does not sort the entries, so it needs neither memory
    /// nor disk space for that.
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
    /// An existing index, by its number. The definition's label becomes its name; the other fields
    /// apply to data written after the alteration.
    Kept(IndexNumber, IndexDefinition),
    /// An added index, by its position in the list of added indexes.
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
    AnyOrder(Box<SortedLoad>),
    ByKey(Box<OrderedLoad>),
    Built,
}

impl Filling {
    fn entries(&self) -> u64 {
        match self {
            Self::AnyOrder(load) => load.entries(),
            Self::ByKey(load) => load.entries(),
            Self::Built => 0,
        }
    }
}

struct Added {
    index: Arc<Index>,
    unique: bool,
    filling: Filling,
    /// The keys of concurrent writers that are to be compared with the added entries.
    noted: Option<Box<Sorter>>,
}

/// State of a repair: an alteration that replaces all indexes of a damaged table.
struct Repair {
    /// Entries of one unique index that the build left out, because another entry has the same key.
    duplicates: Vec<Duplicate>,
    duplicates_max: usize,
}

/// A change of one table in progress; see the top of the file. Dropping it before
/// its commit undoes the change.
pub struct Alteration {
    handle: TableHandle,
    added: Vec<Added>,
    /// Number of the first added index during the alteration. The others follow.
    first_added: IndexNumber,
    interrupted: Box<Interrupted>,
    duplicate: Duplicate,
    /// `None` for an alteration that is not a repair.
    repair: Option<Repair>,
    /// The commit has begun to append its record, and the log has not revoked it. The record may be
    /// durable, so the new files must not be removed.
    is_committed: bool,
    /// Its place in the list of jobs, once the files of the new indexes exist.
    running: Option<JobInList>,
}

impl Alteration {
    /// The number of an added index in row writes before the commit.
    #[must_use]
    pub fn index(&self, added: u32) -> IndexNumber {
        self.first_added.plus(added)
    }

    /// The entry with the duplicate key, after the error `DuplicateKey`. Its `index` is the
    /// position in the list of added indexes.
    #[must_use]
    pub fn duplicate(&self) -> &Duplicate {
        &self.duplicate
    }

    /// From now on, until the returned value is dropped, the calling thread reads and writes no more than
    /// background jobs may, and lets other threads read first: it waits in [`Alteration::add`],
    /// [`Alteration::build`] and [`Alteration::verify`].
    #[must_use]
    pub fn begin_background_io(&self) -> IoScope {
        let added = self.added.first();
        self.handle.core.pacer.begin(IoJob {
            purpose: IoPurpose::Rebuilding,
            urgency: IoUrgency::Optional,
            file: added.map_or(FileId(0), |added| added.index.entry.file),
        })
    }

    /// Fails if the building of an added index has ended: `DuplicateKey` if a writer has found a
    /// duplicate.
    fn require_building(&mut self) -> EngineResult<()> {
        for (number, added) in (0u32..).zip(&self.added) {
            if let Some((key, value)) = added.index.found_duplicate() {
                self.duplicate = Duplicate::found(IndexNumber(number), &key, &value);
                return Err(EngineError::DuplicateKey);
            }
            require_building(&added.index)?;
        }
        Ok(())
    }

    /// Makes this the repair of a damaged table. The commit moves the files of the
    /// replaced indexes to the directory `#teak_orphans` instead of removing
    /// them. If an index has at most `duplicates_max` entries with duplicate unique
    /// keys, [`Alteration::build`] does not fail: it leaves them out and returns after
    /// that index. The alteration can then only be dropped. The caller begins another
    /// one, without the rows of these entries.
    pub fn repair(&mut self, duplicates_max: usize) {
        self.repair = Some(Repair {
            duplicates: Vec::new(),
            duplicates_max,
        });
    }

    /// The entries that the build of a repair has left out, all of one unique index. Their `index`
    /// is the position of that index in the list of added indexes. The indexes after it have not
    /// been built: their duplicates may belong to the same rows.
    #[must_use]
    pub fn duplicates(&self) -> &[Duplicate] {
        self.repair
            .as_ref()
            .map_or(&[], |repair| &repair.duplicates)
    }

    /// Removes the added indexes from the list of the table's indexes. Removes their
    /// files, unless the commit record may be durable.
    fn undo(&mut self) {
        let table = &self.handle.table;
        let core = &self.handle.core;
        if !self.added.is_empty() {
            let own = usize::try_from(self.first_added.0).unwrap_or(usize::MAX);
            if let Some(indexes) = table.open_indexes() {
                table.set_indexes(indexes.iter().take(own).cloned().collect());
            }
            table.building.store(0, Ordering::Release);
            for added in &self.added {
                abandon_index((&**core).into(), &added.index);
            }
            core.signals.space_available();
        }
        if !self.is_committed {
            let entries = self.added.iter().map(|one| &one.index.entry);
            core.files.remove_new(entries);
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

/// Returns the error of the file of an added index, if the building of the index was
/// ended because of it.
fn require_building(index: &Index) -> EngineResult<()> {
    match index.build_failure() {
        None => Ok(()),
        Some(_) if index.found_duplicate().is_some() => Err(EngineError::DuplicateKey),
        Some(cause) => Err(EngineError::Storage(cause.clone())),
    }
}

/// Flushes the memtables of an index and checkpoints its file.
fn make_durable(core: &EngineCore, index: &Arc<Index>) -> EngineResult<()> {
    let context = FlushContext::from(core);
    let _hurry = context.pacer.hurry();
    context.freeze(index);
    let mut targets = FlushTargets::new(true);
    targets.add(index);
    context.flush(targets)?;
    context.checkpoint_index(index)?;
    require_building(index)
}
