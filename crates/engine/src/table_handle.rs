//! A handle of an open table: its indexes, metadata and counters.

use crate::catalogue::IndexSizes;
use crate::core::EngineCore;
use crate::core::counters::ROW_ID_COUNTER;
use crate::core::index::Index;
use crate::core::opening::{entry_of, slot_of};
use crate::core::table::{OpenIndexes, Table, index_at};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::name::TableName;
use crate::open_files::{open_indexes, open_indexes_unless};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{Codec, StorageError};
use teak_tree::Projection;
use teak_write_ahead_log::Record;

/// A handle of a table. The table's files are opened when an index is used, and may
/// be closed while the table is not used.
pub struct TableHandle {
    pub(crate) core: Arc<EngineCore>,
    pub(crate) table: Arc<Table>,
    /// The metadata when the handle was created.
    metadata: Arc<[u8]>,
    /// Whether this handle has opened the table to be salvaged.
    salvages: bool,
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        if self.salvages
            && let Some(slot) = slot_of(&self.core.tables, self.table.id)
        {
            let _slot = slot.lock();
            self.table.close_damaged();
        }
        self.table.handles.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens a table without its files, see [`Engine::open_table_lazily`](crate::Engine::open_table_lazily).
pub(crate) fn open_lazily(core: &Arc<EngineCore>, name: &str) -> EngineResult<TableHandle> {
    let name = TableName::parse(name)?;
    let slot = Arc::clone(&core.tables.lock().require(&name)?.slot);
    let mut used = slot.lock();
    if used.is_none() {
        let tables = core.tables.lock();
        // The table is searched again, because it may have been dropped or renamed before the
        // slot was locked.
        let state = tables.require(&name)?;
        if !Arc::ptr_eq(&state.slot, &slot) {
            return Err(EngineError::NoSuchTable { name: name.name });
        }
        *used = Some(Arc::new(Table::closed(&state.entry, &state.counters)));
    }
    let table = used.as_ref().map(Arc::clone);
    let table = table.ok_or(EngineError::NoSuchTable { name: name.name })?;
    // The slot is still locked, so maintenance cannot remove the table from it before the
    // handle is counted.
    Ok(TableHandle::new(core, table))
}

/// # The table
impl TableHandle {
    pub(crate) fn new(core: &Arc<EngineCore>, table: Arc<Table>) -> Self {
        table.handles.fetch_add(1, Ordering::AcqRel);
        let metadata = Arc::clone(&table.metadata.read());
        Self {
            core: Arc::clone(core),
            table,
            metadata,
            salvages: false,
        }
    }

    /// Another handle of the same table.
    pub(crate) fn share(&self) -> Self {
        Self::new(&self.core, Arc::clone(&self.table))
    }

    /// The table's indexes. Opens its files if they are closed.
    ///
    /// # Errors
    /// `NoSuchTable` when it was dropped; `TableUnavailable` when a file is missing, or log records that
    /// the table needs cannot be applied;
    /// `TableDamaged` when one is corrupt; `Io`.
    #[inline]
    pub(crate) fn indexes(&self) -> EngineResult<OpenIndexes> {
        open_indexes(&self.core, &self.table)
    }

    /// One index. Opens the table's files if they are closed.
    pub(crate) fn index(&self, number: IndexNumber) -> EngineResult<Arc<Index>> {
        index_at(&self.indexes()?, number).map(Arc::clone)
    }

    /// The columns of the values of an index that a reader needs, for [`Cursor::set_projection`](crate::Cursor::set_projection).
    /// `bits`: a bit for each column of the index's [definition](crate::IndexDefinition): those of the front, then the
    /// optional ones, then the variable ones, the lowest bit of the first number being the first, which is always read.
    /// Only values that begin with `beginning` have these columns; the bytes are within the first column. Opens the table's
    /// files if they are closed.
    ///
    /// # Errors
    /// `NoSuchIndex`; errors of opening the table's files.
    pub fn projection(
        &self,
        number: IndexNumber,
        beginning: &[u8],
        bits: &[u64],
    ) -> EngineResult<Projection> {
        let columns = self.index(number)?.tree.options().columns.clone();
        Ok(Projection::new(columns, beginning, bits))
    }

    /// What `open` returns for an index; while the table's files are closed, what `closed` returns for its sizes in the
    /// catalogue and the codec of its bottom runs. The files are neither opened nor kept open.
    ///
    /// # Errors
    /// `NoSuchIndex`; `NoSuchTable` when the table was dropped.
    pub(crate) fn index_state<T>(
        &self,
        number: IndexNumber,
        open: impl Fn(&Index) -> T,
        closed: impl FnOnce(IndexSizes, Codec) -> T,
    ) -> EngineResult<T> {
        let of_open = || {
            let indexes = self.table.open_indexes()?;
            Some(index_at(&indexes, number).map(|index| open(index)))
        };
        if let Some(index) = of_open() {
            return index;
        }
        let dropped = || EngineError::NoSuchTable {
            name: self.name().to_string(),
        };
        let tables = &self.core.tables;
        let slot = slot_of(tables, self.table.id).ok_or_else(dropped)?;
        // Waits for a thread that is closing the files, because it updates the entry.
        let _slot = slot.lock();
        if let Some(index) = of_open() {
            return index;
        }
        let entry = entry_of(tables, self.table.id).ok_or_else(dropped)?;
        let entry = number.of(&entry.indexes);
        let entry = entry.ok_or(EngineError::NoSuchIndex { index: number })?;
        Ok(closed(entry.sizes, entry.codec))
    }

    /// Opens the table's files if they are closed, so that damage is reported now.
    ///
    /// # Errors
    /// `NoSuchTable` when it was dropped; `TableUnavailable` when a file is missing, or log records that
    /// the table needs cannot be applied;
    /// `TableDamaged` when one is corrupt; `Io`.
    pub fn open_files(&self) -> EngineResult<()> {
        self.open_files_unless(&|| false)
    }

    /// As [`TableHandle::open_files`]. Applying retained log records, or waiting for threads that do
    /// so or open damaged tables, may take long: it stops when `interrupted` returns true.
    ///
    /// # Errors
    /// Also `Storage(Interrupted)`.
    pub fn open_files_unless(&self, interrupted: &dyn Fn() -> bool) -> EngineResult<()> {
        // Each statement asks, and its first read or write opens files that have been closed since.
        if self.table.seems_open() && !self.is_damaged() {
            return Ok(());
        }
        open_indexes_unless(&self.core, &self.table, interrupted)?;
        // Only a damaged table can have been opened to be salvaged.
        if !self.is_damaged() {
            return Ok(());
        }
        match self.table.unreadable() {
            None => Ok(()),
            Some(cause) => Err(self.damaged(cause)),
        }
    }

    pub(crate) fn damaged(&self, cause: StorageError) -> EngineError {
        EngineError::TableDamaged {
            name: self.name().to_string(),
            cause,
        }
    }

    /// Opens what can be read of the table's rows, after its files could not be opened
    /// because of `cause`.
    pub(crate) fn open_damaged(&mut self, cause: StorageError) -> EngineResult<()> {
        let dropped = || EngineError::NoSuchTable {
            name: self.table.name().to_string(),
        };
        let tables = &self.core.tables;
        let slot = slot_of(tables, self.table.id).ok_or_else(dropped)?;
        let _slot = slot.lock();
        if self.table.is_open() {
            // Another thread has opened the table in the meantime: its files, or what can be
            // read of them.
            return match self.table.unreadable() {
                None => Ok(()),
                Some(cause) => Err(self.damaged(cause)),
            };
        }
        let entry = entry_of(tables, self.table.id).ok_or_else(dropped)?;
        let opened = self.table.open_damaged(&self.core.files, &entry, cause);
        opened.map_err(|cause| self.damaged(cause))?;
        self.salvages = true;
        Ok(())
    }

    /// Whether the table is unavailable: log records are retained for it until its files can be
    /// read.
    pub(crate) fn is_unavailable(&self) -> bool {
        let entry = entry_of(&self.core.tables, self.table.id);
        entry.is_some_and(|entry| self.core.retained.is_unavailable(&entry))
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        self.table.name()
    }

    /// The table's metadata at the time when the handle was created.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The number of indexes, without those that an alteration is building.
    #[must_use]
    pub fn index_count(&self) -> usize {
        match self.table.open_indexes() {
            Some(open) => open
                .len()
                .saturating_sub(self.table.building.load(Ordering::Acquire)),
            None => {
                let entry = entry_of(&self.core.tables, self.table.id);
                entry.map_or(0, |entry| entry.indexes.len())
            }
        }
    }

    /// When the table was last written, as the last call of
    /// [`TableHandle::set_written_at`] reported it; zero when there was none. A
    /// crash may restore an earlier value.
    #[must_use]
    pub fn written_at(&self) -> u64 {
        self.table.counters.written_at.load(Ordering::Relaxed)
    }

    /// Records when the table was last written, in a unit of the caller's choice.
    pub fn set_written_at(&self, when: u64) {
        let written_at = &self.table.counters.written_at;
        written_at.store(when, Ordering::Relaxed);
    }

    /// Whether damage was found since the files were opened, or the table was opened to be
    /// salvaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.table.damaged.load(Ordering::Acquire)
    }
}

/// # Durable counters
///
/// Those of a temporary table are not logged.
impl TableHandle {
    /// A durable counter's value.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such counter.
    pub fn counter(&self, counter: u8) -> EngineResult<u64> {
        self.table
            .counters
            .value(counter)
            .ok_or_else(|| no_such_counter(counter))
    }

    /// Raises a durable counter to at least `value`. The new value is durable with
    /// the next durable commit of any transaction that is logged.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such counter.
    pub fn advance_counter(&self, counter: u8, value: u64) -> EngineResult<()> {
        let changed = self.table.counters.advance(counter, value);
        let changed = changed.ok_or_else(|| no_such_counter(counter))?;
        if changed && !self.table.is_temporary() {
            self.core.counter_log.note_changed(&self.table);
        }
        Ok(())
    }

    /// Sets a durable counter, up or down, unless another thread raises it at the same time. The
    /// new value is durable with the next durable commit. After an error the counter is unchanged.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such counter; errors of the log.
    pub fn set_counter(&self, counter: u8, value: u64) -> EngineResult<()> {
        let core = &self.core;
        let _changes = core.lock_changes(self.table.is_temporary());
        if self.table.is_temporary() {
            let before = self.counter(counter)?;
            self.table.counters.replace(counter, before, value);
            return Ok(());
        }
        let set = core
            .counter_log
            .set(&core.log, &self.table, counter, value)?;
        set.ok_or_else(|| no_such_counter(counter))
    }

    /// Reserves `count` hidden row ids and returns the first. Ids are not reused,
    /// except after TRUNCATE.
    ///
    /// # Errors
    /// Errors of the log.
    pub fn reserve_row_ids(&self, count: u64) -> EngineResult<u64> {
        let log = |value| {
            if self.table.is_temporary() {
                return Ok(());
            }
            let record = Record::Counter {
                table_id: self.table.id,
                counter: ROW_ID_COUNTER,
                value,
            };
            self.core.log.append(&record).map(|_| ())
        };
        Ok(self.table.counters.reserve_row_ids(count, log)?)
    }
}

fn no_such_counter(counter: u8) -> EngineError {
    EngineError::InvalidArgument(format!("there is no counter {counter}"))
}
