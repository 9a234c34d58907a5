//! The unavailable tables that threads are making whole (see `retained`) or
//! opening to salvage them.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::Duration;
use teak_base::{StorageError, StorageResult};

/// Maximum number of tables that threads work on at the same time. The memtables of
/// each use up to about an eighth of the memtables' quota.
const TABLES_MAX: usize = 4;

/// Time between two checks for an interrupt.
const INTERRUPT_CHECK: Duration = Duration::from_millis(100);

/// Allows one thread at a time to work on a table, and a few tables at a time.
#[derive(Default)]
pub(crate) struct RestoringTables {
    tables: Mutex<BTreeSet<u64>>,
    ended: Condvar,
}

/// The turn of a thread to work on a table. Dropping it ends the turn.
pub(crate) struct RestoringTurn<'a> {
    list: &'a RestoringTables,
    table: u64,
}

impl RestoringTables {
    /// Waits for the turn to work on a table.
    ///
    /// # Errors
    /// `Interrupted` when `interrupted` returns true.
    pub(crate) fn begin(
        &self,
        table: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> StorageResult<RestoringTurn<'_>> {
        let mut tables = self.tables.lock();
        while tables.contains(&table) || tables.len() >= TABLES_MAX {
            if interrupted() {
                return Err(StorageError::Interrupted);
            }
            self.ended.wait_for(&mut tables, INTERRUPT_CHECK);
        }
        tables.insert(table);
        Ok(RestoringTurn { list: self, table })
    }
}

impl Drop for RestoringTurn<'_> {
    fn drop(&mut self) {
        self.list.tables.lock().remove(&self.table);
        self.list.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_table_has_one_turn_and_others_do_not_wait_for_it() {
        let list = RestoringTables::default();
        let first = list.begin(1, &|| false).unwrap();
        assert!(list.begin(1, &|| true).is_err());
        drop(list.begin(2, &|| true).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| list.begin(1, &|| false).map(drop));
            drop(first);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn the_number_of_tables_is_limited() {
        let list = RestoringTables::default();
        let numbers = 0..TABLES_MAX as u64;
        let turns: Vec<_> = numbers.map(|table| list.begin(table, &|| false)).collect();
        assert!(turns.iter().all(Result::is_ok));
        assert!(list.begin(100, &|| true).is_err());
        drop(turns);
        assert!(list.begin(100, &|| true).is_ok());
    }
}
