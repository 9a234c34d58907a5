//! Loads: adding many rows to a table without a log record and a memtable entry for each.
//!
//! 1. *Begin*: a write id is taken and logged.
//! 2. *Add*: the entries of the rows are sorted, for each index, in memory and spill files. Entries
//!    in key order are written as runs while they are added. Another thread may encode the rows
//!    (`stream`).
//! 3. *Finish* (`finish`): the entries are written as runs, and the runs are installed as the newest
//!    ones of their trees. Then the files are checkpointed, so that they contain the rows before the
//!    transaction can commit.
//!
//! Until the rows are installed, no reader sees them, not even the transaction itself, and dropping
//! the load leaves the table unchanged. Afterwards they are like other rows of the transaction: its
//! rollback aborts the write id, and so does recovery, if there is no commit record.

mod absent;
mod finish;
mod stream;

pub use self::stream::{LoadStream, RowEncoder};

use crate::core::index::Index;
use crate::core::sorts::{SortMemory, checked, sorter_options};
use crate::error::{EngineError, EngineResult};
use crate::maintenance::log_space::reserve_row;
use crate::table_handle::TableHandle;
use crate::transaction::EngineTransaction;
use crate::write::{RowEntry, check_sizes};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::WriteId;
use teak_bulk_load::{Interrupted, SortedLoad};
use teak_transactions::TransactionHandle;
use teak_write_ahead_log::Record;

/// The entries of one index.
struct IndexLoad {
    unique: bool,
    entries: SortedLoad,
}

/// Rows that are being added to a table; see the top of the file.
pub struct RowLoad {
    table: TableHandle,
    /// While this is held, the files are not closed.
    indexes: Arc<Vec<Arc<Index>>>,
    loads: Vec<IndexLoad>,
    write_id: WriteId,
    rows: u64,
    handle: Arc<TransactionHandle>,
    interrupted: Box<Interrupted>,
}

impl fmt::Debug for RowLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowLoad")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl TableHandle {
    /// Whether rows can be added by [`EngineTransaction::begin_load`]: the table is not temporary,
    /// and no index of it is being built.
    ///
    /// # Errors
    /// Errors of opening the table's files.
    pub fn can_load(&self) -> EngineResult<bool> {
        self.open_files()?;
        let is_building = self.table.building.load(Ordering::Acquire) > 0;
        Ok(!is_building && !self.table.is_temporary())
    }
}

impl EngineTransaction {
    /// Begins to add many rows to a table, one of `tables` that the statement loads: they share the
    /// memory of its sorts. `unique` says for each index whether its keys are checked: whether a live
    /// entry with the same key is a duplicate. Keys that no other row has need no check.
    ///
    /// # Errors
    /// `InvalidArgument` if the table [cannot be loaded](TableHandle::can_load), `unique` has another
    /// length than the list of indexes, or the transaction is prepared; `LogFull`, `Wait`, `Storage`.
    pub fn begin_load(
        &mut self,
        table: &TableHandle,
        unique: &[bool],
        tables: u32,
    ) -> EngineResult<RowLoad> {
        self.check_interrupt()?;
        self.check_open()?;
        if !table.can_load()? {
            let reason = "the table is temporary, or an index of it is being built";
            return Err(EngineError::InvalidArgument(reason.into()));
        }
        self.admit_to(table)?;
        let indexes = loop {
            // Opens the files, if they were closed in the meantime.
            drop(table.indexes()?);
            if let Some(indexes) = table.table.share_indexes() {
                break indexes;
            }
        };
        let Some(rows) = indexes.first().filter(|_| unique.len() == indexes.len()) else {
            let reason = "a load names each index of the table";
            return Err(EngineError::InvalidArgument(reason.into()));
        };
        let write_id = self.log_load(rows)?;
        let memory = SortMemory::take(&self.core, tables);
        let loads = indexes.iter().zip(unique).map(|(index, unique)| {
            let options = sorter_options(&self.core, &index.entry, memory.part(indexes.len()));
            let begun = index.tree.begin_load(write_id);
            IndexLoad {
                unique: *unique,
                entries: SortedLoad::of(options, begun),
            }
        });
        let loads = loads.collect();
        let handle = Arc::clone(self.handle());
        let of_load = Arc::clone(&handle);
        Ok(RowLoad {
            table: table.share(),
            indexes,
            loads,
            write_id,
            rows: 0,
            handle,
            interrupted: Box::new(move || of_load.is_interrupted()),
        })
    }

    /// Takes a write id and logs that it is in use, so that recovery aborts it if there is no commit
    /// record.
    fn log_load(&mut self, rows: &Index) -> EngineResult<WriteId> {
        self.serial.note_write();
        self.has_logged_writes = true;
        let context = self.context()?;
        let (core, transactions) = (context.core, &context.core.transactions);
        transactions.admit_write(context.transaction)?;
        let record = |write_id| Record::Load {
            file: rows.entry.file,
            write_id,
        };
        // The size of the reserved space does not depend on the write id.
        let handle = context.transaction.handle();
        let space = reserve_row(core, handle, &record(WriteId::SETTLED))?;
        let write_id = transactions.write_id(context.transaction);
        core.log.append_reserved(space, &record(write_id))?;
        Ok(write_id)
    }
}

impl RowLoad {
    /// The number of rows that were added.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row, which may lack entries of some indexes.
    ///
    /// # Errors
    /// `NoSuchIndex`; `Storage(TooLarge)`, after which the load is unchanged; `Wait(Interrupted)`,
    /// `Storage`, after which it can only be dropped.
    pub fn add(&mut self, entries: &[RowEntry<'_>]) -> EngineResult<()> {
        check_sizes(entries.iter().map(|entry| (entry.key, entry.value)))?;
        for entry in entries {
            let number = entry.index;
            let index = number.of(&self.indexes);
            let (Some(index), Some(load)) = (index, number.of_mut(&mut self.loads)) else {
                return Err(EngineError::NoSuchIndex { index: number });
            };
            let loads = &mut load.entries;
            let added = loads.add(&index.tree, entry.key, entry.value, &*self.interrupted);
            checked(&self.table.core, index, added)?;
        }
        self.rows += 1;
        Ok(())
    }
}
