//! Table changes. They are not part of transactions: each takes effect
//! immediately, and no open transaction may have written or locked rows of the table.

use crate::events::Event;
use crate::store::{Model, Table};
use crate::types::{IndexSource, TableId, TooOld, TransactionId};

impl Model {
    /// Creates a table; `None` when the name is taken.
    pub fn create_table(&mut self, name: &str, indexes: usize) -> Option<TableId> {
        if self.table(name).is_some() {
            return None;
        }
        let table = TableId(self.next_table);
        self.next_table += 1;
        self.record(Event::Created {
            table,
            name: name.to_owned(),
            indexes,
        });
        Some(table)
    }

    /// Drops a table.
    ///
    /// # Panics
    /// When there is no such table, or [`Model::is_in_use`] is true for it.
    pub fn drop_table(&mut self, table: TableId) {
        self.require_idle(table);
        self.record(Event::Dropped { table });
    }

    /// Renames a table; `false` when the name is taken.
    ///
    /// # Panics
    /// When there is no such table, or [`Model::is_in_use`] is true for it.
    pub fn rename_table(&mut self, table: TableId, name: &str) -> bool {
        self.require_idle(table);
        if self.table(name).is_some() {
            return false;
        }
        self.record(Event::Renamed {
            table,
            name: name.to_owned(),
        });
        true
    }

    /// Empties a table.
    ///
    /// # Panics
    /// When there is no such table, or [`Model::is_in_use`] is true for it.
    pub fn truncate_table(&mut self, table: TableId) {
        self.forget_ranges(table);
        self.require_idle(table);
        self.record(Event::Truncated { table });
    }

    /// Replaces the indexes of a table.
    ///
    /// # Panics
    /// When there is no such table, or [`Model::is_in_use`] is true for it.
    pub fn alter_table(&mut self, table: TableId, indexes: Vec<IndexSource>) {
        self.forget_ranges(table);
        self.require_idle(table);
        self.record(Event::Altered { table, indexes });
    }

    /// Returns whether the transaction's snapshot is too old to read an index. Takes the snapshot
    /// when there is none.
    ///
    /// # Panics
    /// When the transaction is not open, or there is no such table.
    pub fn is_too_old(&mut self, id: TransactionId, table: TableId, index: usize) -> TooOld {
        let snapshot = self.snapshot(id);
        let clock = self.transaction(id).snapshot_clock;
        let created_at = self.require(table).created_at.get(index).copied();
        let created_at = created_at.unwrap_or_default();
        if snapshot < created_at.commits {
            TooOld::Yes
        } else if clock < created_at.clock {
            TooOld::Either
        } else {
            TooOld::No
        }
    }

    /// The table with this name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<TableId> {
        let mut tables = self.tables.iter();
        let (id, _) = tables.find(|(_, table)| table.name == name)?;
        Some(*id)
    }

    /// All tables, oldest first.
    #[must_use]
    pub fn tables(&self) -> Vec<TableId> {
        self.tables.keys().copied().collect()
    }

    /// The name of a table.
    ///
    /// # Panics
    /// When there is no such table.
    #[must_use]
    pub fn name(&self, table: TableId) -> &str {
        &self.require(table).name
    }

    /// The number of indexes of a table.
    ///
    /// # Panics
    /// When there is no such table.
    #[must_use]
    pub fn indexes(&self, table: TableId) -> usize {
        self.require(table).indexes
    }

    /// Whether an open transaction has written or locked rows of the table.
    #[must_use]
    pub fn is_in_use(&self, table: TableId) -> bool {
        self.transactions.values().any(|transaction| {
            let mut written = transaction.writes.iter().map(|(entry, _)| entry);
            let mut locked = transaction.locks.keys();
            written.any(|entry| entry.table == table) || locked.any(|entry| entry.table == table)
        })
    }

    fn require(&self, table: TableId) -> &Table {
        let found = self.tables.get(&table);
        assert!(found.is_some(), "there is no {table:?}");
        found.unwrap_or_else(|| unreachable!())
    }

    fn require_idle(&self, table: TableId) {
        self.require(table);
        assert!(!self.is_in_use(table), "{table:?} is in use");
    }
}
