//! The list of tables whose durable counters have changes that are not logged.

use super::counters::TableCounters;
use super::table::Table;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::StorageResult;
use teak_write_ahead_log::{Record, WriteAheadLog};

/// The list of changed counters. The next commit appends them to the log.
#[derive(Default)]
pub(crate) struct CounterLog {
    changed: Mutex<Vec<(u64, Arc<TableCounters>)>>,
    /// Whether the list may be non-empty.
    is_pending: AtomicBool,
}

impl CounterLog {
    /// Records that a counter of a table changed.
    pub(crate) fn note_changed(&self, table: &Table) {
        if !table.counters.registered.swap(true, Ordering::AcqRel) {
            let mut list = self.changed.lock();
            list.push((table.id, Arc::clone(&table.counters)));
            self.is_pending.store(true, Ordering::Release);
        }
    }

    /// Appends the changed counters to the log. A mutex serialises the calls,
    /// so that the last value in the log is the newest.
    pub(crate) fn append_to(&self, log: &WriteAheadLog) -> StorageResult<()> {
        if !self.is_pending.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut list = self.changed.lock();
        self.is_pending.store(false, Ordering::Release);
        while let Some((table_id, counters)) = list.pop() {
            counters.registered.store(false, Ordering::Release);
            for (counter, value) in counters.unlogged() {
                let record = Record::Counter {
                    table_id,
                    counter,
                    value,
                };
                if let Err(error) = log.append(&record) {
                    if !counters.registered.swap(true, Ordering::AcqRel) {
                        list.push((table_id, counters));
                    }
                    self.is_pending.store(true, Ordering::Release);
                    return Err(error);
                }
                counters.note_logged(counter, value);
            }
        }
        Ok(())
    }
}
