//! What is known of the durable counters and row ids. They move outside of
//! transactions and become durable with the next commit, so after a crash they
//! lie between what was durable and the most they ever were.

use std::collections::BTreeMap;
use teak_model::TableId;

/// Row ids are watched as if they were this counter.
pub(crate) const ROW_IDS: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    value: u64,
    /// Durable: a crash leaves no less.
    floor: u64,
    /// The most it ever was.
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

    /// Everything logged so far is durable.
    pub(crate) fn acknowledge(&mut self) {
        for counter in self.known.values_mut() {
            counter.floor = counter.value;
        }
    }

    /// The table was emptied, perhaps.
    pub(crate) fn truncated(&mut self, table: TableId) {
        for ((of, _), counter) in &mut self.known {
            if *of == table {
                counter.value = 0;
                counter.floor = 0;
            }
        }
    }

    /// Row ids that no durable row can have may be given again.
    pub(crate) fn crashed(&mut self) {
        for ((_, of), counter) in &mut self.known {
            if *of == ROW_IDS {
                counter.value = counter.floor;
            }
        }
    }

    /// Takes up what a recovered store says. An error when it cannot be.
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
