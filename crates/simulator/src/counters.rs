//! Expected values of the durable counters and row ids. They change outside of
//! transactions and become durable with the next commit. So after a crash they
//! are between their last durable value and their maximum.

use std::collections::BTreeMap;
use teak_model::TableId;

/// The number under which row ids are tracked.
pub(crate) const ROW_IDS: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    value: u64,
    /// The durable value, which is the minimum after a crash.
    floor: u64,
    /// The maximum value so far.
    ceiling: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    known: BTreeMap<(TableId, u8), Counter>,
}

impl Counters {
    pub(crate) fn value(&self, table: TableId, counter: u8) -> u64 {
        self.known.get(&(table, counter)).map_or(0, |c| c.value)
    }

    pub(crate) fn advance(&mut self, table: TableId, counter: u8, value: u64) {
        let known = self.known.entry((table, counter)).or_default();
        known.value = known.value.max(value);
        known.ceiling = known.ceiling.max(value);
    }

    /// Records that all values so far are durable.
    pub(crate) fn acknowledge(&mut self) {
        for counter in self.known.values_mut() {
            counter.floor = counter.value;
        }
    }

    /// Records that the table was truncated, or may have been.
    pub(crate) fn truncated(&mut self, table: TableId) {
        for ((of, _), counter) in &mut self.known {
            if *of == table {
                counter.value = 0;
                counter.floor = 0;
            }
        }
    }

    /// Records a crash. Row ids that no durable row has may then be reused.
    pub(crate) fn crashed(&mut self) {
        for ((_, of), counter) in &mut self.known {
            if *of == ROW_IDS {
                counter.value = counter.floor;
            }
        }
    }

    /// Sets the value to that of a recovered store.
    ///
    /// # Errors
    /// A description when the value is not possible.
    pub(crate) fn recovered(
        &mut self,
        table: TableId,
        counter: u8,
        found: u64,
    ) -> Result<(), String> {
        let known = self.known.entry((table, counter)).or_default();
        if !(known.floor..=known.ceiling).contains(&found) {
            return Err(format!(
                "counter {counter} of {table:?} is {found} after a crash, not within {known:?}"
            ));
        }
        known.value = found;
        known.floor = found;
        Ok(())
    }
}
