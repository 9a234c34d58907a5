//! A handle of an open table: its indexes, metadata and counters.

use crate::core::EngineCore;
use crate::core::counters::ROW_ID_COUNTER;
use crate::core::index::Index;
use crate::core::table::Table;
use crate::error::{EngineError, EngineResult};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_write_ahead_log::Record;

/// A handle of an open table.
pub struct TableHandle {
    pub(crate) inner: Arc<EngineCore>,
    pub(crate) table: Arc<Table>,
    /// As of when the handle was made.
    metadata: Arc<[u8]>,
}

impl Drop for TableHandle {
    fn drop(&mut self) {
        self.table.handles.fetch_sub(1, Ordering::AcqRel);
    }
}

impl TableHandle {
    pub(crate) fn new(inner: &Arc<EngineCore>, table: Arc<Table>) -> Self {
        table.handles.fetch_add(1, Ordering::AcqRel);
        let metadata = Arc::clone(&table.metadata.read());
        Self {
            inner: Arc::clone(inner),
            table,
            metadata,
        }
    }

    /// Another handle of the same table.
    pub(crate) fn share(&self) -> Self {
        Self::new(&self.inner, Arc::clone(&self.table))
    }

    /// One of its indexes.
    pub(crate) fn index(&self, index: u32) -> EngineResult<Arc<Index>> {
        let indexes = self.table.indexes.load();
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        indexes
            .get(place)
            .cloned()
            .ok_or_else(|| no_such_index(index))
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        self.table.name()
    }

    /// What the caller gave at creation or at the last alteration, as of when
    /// the handle was made.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// How many indexes it has; those that an alteration builds do not count.
    #[must_use]
    pub fn index_count(&self) -> usize {
        let building = self.table.building.load(Ordering::Acquire);
        self.table.indexes.load().len().saturating_sub(building)
    }

    /// Lets snapshots that are older than the table read it: of a table that
    /// one session alone uses they miss nothing, its own writes aside, which
    /// they see. Holds until the table is truncated.
    pub fn serve_older_snapshots(&self) {
        for index in self.table.indexes.load().iter() {
            index.created_at.store(0, Ordering::Release);
        }
    }

    /// Whether damage was met since the table was opened.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.table.damaged.load(Ordering::Acquire)
    }

    /// A durable counter's value.
    ///
    /// # Errors
    /// `InvalidArgument` for a counter that does not exist.
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
    /// `InvalidArgument` for a counter that does not exist.
    pub fn advance_counter(&self, counter: u8, value: u64) -> EngineResult<()> {
        let moved = self.table.counters.advance(counter, value);
        if moved.ok_or_else(|| no_such_counter(counter))? {
            self.inner.counter_log.note_changed(&self.table);
        }
        Ok(())
    }

    /// Sets a durable counter, up or down.
    ///
    /// # Errors
    /// `InvalidArgument` for a counter that does not exist; those of the log.
    pub fn set_counter(&self, counter: u8, value: u64) -> EngineResult<()> {
        let set = self.table.counters.set(counter, value);
        set.ok_or_else(|| no_such_counter(counter))?;
        self.inner.counter_log.note_changed(&self.table);
        Ok(self.inner.log_counters()?)
    }

    /// Reserves hidden row ids, which are never given out twice.
    ///
    /// # Errors
    /// Those of the log.
    pub fn reserve_row_ids(&self, count: u64) -> EngineResult<u64> {
        let counters = &self.table.counters;
        Ok(counters.reserve_row_ids(count, |value| {
            self.inner
                .log
                .append(&Record::Counter {
                    table_id: self.table.id,
                    counter: ROW_ID_COUNTER,
                    value,
                })
                .map(|_| ())
        })?)
    }
}

fn no_such_counter(counter: u8) -> EngineError {
    EngineError::InvalidArgument(format!("there is no counter {counter}"))
}

pub(crate) fn no_such_index(index: u32) -> EngineError {
    EngineError::NoSuchIndex { index }
}
