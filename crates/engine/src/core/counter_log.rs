//! The list of tables whose durable counters have changes that are not logged.

use super::counters::TableCounters;
use super::table::Table;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::StorageResult;
use teak_write_ahead_log::{Record, WriteAheadLog};

/// The list of changed counters. They are appended to the log before a record or a sync that must
/// include them, for example that of a commit.
#[derive(Default)]
pub(crate) struct CounterLog {
    changed: Mutex<Vec<(u64, Arc<TableCounters>)>>,
    /// Whether the list may be non-empty, or counters of it are being appended.
    is_pending: AtomicBool,
    /// Serialises the threads that append.
    appending: Mutex<()>,
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

    /// Appends a new value of a counter to the log, and then sets the counter, unless another
    /// thread raises it between the two steps. After an error the counter is unchanged. The caller
    /// holds the mutex of table changes, so that the catalogue is not captured between them. `None`
    /// when there is no such counter.
    pub(crate) fn set(
        &self,
        log: &WriteAheadLog,
        table: &Table,
        counter: u8,
        value: u64,
    ) -> StorageResult<Option<()>> {
        let _turn = self.appending.lock();
        // Read under the mutex: the record of a raise after this follows the record of `value`.
        let Some(before) = table.counters.value(counter) else {
            return Ok(None);
        };
        let table_id = table.id;
        log.append(&Record::Counter {
            table_id,
            counter,
            value,
        })?;
        table.counters.note_logged(counter, value);
        table.counters.replace(counter, before, value);
        Ok(Some(()))
    }

    /// Appends the changed counters to the log. Threads that change counters do
    /// not wait for this call. Concurrent calls wait for each other, so that the last
    /// record of a counter has its newest value, and that a commit record, which is
    /// appended after the call, follows the records of all counters changed before.
    pub(crate) fn append_to(&self, log: &WriteAheadLog) -> StorageResult<()> {
        if !self.is_pending.load(Ordering::Acquire) {
            return Ok(());
        }
        let _turn = self.appending.lock();
        let mut taken = std::mem::take(&mut *self.changed.lock());
        while let Some((table_id, counters)) = taken.pop() {
            counters.registered.store(false, Ordering::Release);
            if let Err(error) = append_unlogged(log, table_id, &counters) {
                if !counters.registered.swap(true, Ordering::AcqRel) {
                    taken.push((table_id, counters));
                }
                self.changed.lock().append(&mut taken);
                return Err(error);
            }
        }
        let changed = self.changed.lock();
        if changed.is_empty() {
            self.is_pending.store(false, Ordering::Release);
        }
        Ok(())
    }
}

fn append_unlogged(
    log: &WriteAheadLog,
    table_id: u64,
    counters: &TableCounters,
) -> StorageResult<()> {
    for (counter, value) in counters.unlogged() {
        let record = Record::Counter {
            table_id,
            counter,
            value,
        };
        log.append(&record)?;
        counters.note_logged(counter, value);
    }
    Ok(())
}
