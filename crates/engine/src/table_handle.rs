//! A handle of an open table: its indexes, metadata and counters.

use crate::core::EngineCore;
use crate::core::counters::ROW_ID_COUNTER;
use crate::core::index::Index;
use crate::core::table::{Table, index_at};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_write_ahead_log::Record;

/// A handle of an open table. The table remains open while it has handles.
pub struct TableHandle {
    pub(crate) core: Arc<EngineCore>,
    pub(crate) table: Arc<Table>,
    /// The metadata when the handle was created.
    metadata: Arc<[u8]>,
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        self.table.handles.fetch_sub(1, Ordering::AcqRel);
    }
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
        }
    }

    /// Another handle of the same table.
    pub(crate) fn share(&self) -> Self {
        Self::new(&self.core, Arc::clone(&self.table))
    }

    pub(crate) fn index(&self, number: IndexNumber) -> EngineResult<Arc<Index>> {
        index_at(&self.table.indexes.load(), number).map(Arc::clone)
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
        let building = self.table.building.load(Ordering::Acquire);
        self.table.indexes.load().len().saturating_sub(building)
    }

    /// Whether damage was found since the table was opened.
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

    /// Raises a durable counter to at least `value`. Durable with the next
    /// commit.
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

    /// Sets a durable counter, up or down.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such counter; errors of the log.
    pub fn set_counter(&self, counter: u8, value: u64) -> EngineResult<()> {
        let set = self.table.counters.set(counter, value);
        set.ok_or_else(|| no_such_counter(counter))?;
        if self.table.is_temporary() {
            return Ok(());
        }
        self.core.counter_log.note_changed(&self.table);
        Ok(self.core.log_counters()?)
    }

    /// Reserves `count` hidden row ids and returns the first. Ids are never
    /// reused.
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
