//! Table changes. They are not part of transactions: each happens at once, and
//! nobody may have written the table in an open transaction.

use crate::journal::Event;
use crate::model::{Model, TableId};

impl Model {
    /// Creates a table; `None` when the name is taken.
    pub fn create_table(&mut self, name: &str, indexes: usize) -> Option<TableId> {
        if self.table(name).is_some() {
            return None;
        }
        let table = TableId(self.next_table);
        self.next_table += 1;
        self.happen(Event::Created {
            table,
            name: name.to_owned(),
            indexes,
        });
        Some(table)
    }

    /// Drops a table.
    ///
    /// # Panics
    /// When there is no such table, or an open transaction wrote it.
    pub fn drop_table(&mut self, table: TableId) {
        self.require_idle(table);
        self.happen(Event::Dropped { table });
    }

    /// Gives a table another name; `false` when the name is taken.
    ///
    /// # Panics
    /// When there is no such table, or an open transaction wrote it.
    pub fn rename_table(&mut self, table: TableId, name: &str) -> bool {
        self.require_idle(table);
        if self.table(name).is_some() {
            return false;
        }
        self.happen(Event::Renamed {
            table,
            name: name.to_owned(),
        });
        true
    }

    /// Empties a table.
    ///
    /// # Panics
    /// When there is no such table, or an open transaction wrote it.
    pub fn truncate_table(&mut self, table: TableId) {
        self.require_idle(table);
        self.happen(Event::Truncated { table });
    }

    /// The table of a name.
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

    /// A table's name.
    ///
    /// # Panics
    /// When there is no such table.
    #[must_use]
    pub fn name(&self, table: TableId) -> &str {
        &self.require(table).name
    }

    /// How many indexes a table has.
    ///
    /// # Panics
    /// When there is no such table.
    #[must_use]
    pub fn indexes(&self, table: TableId) -> usize {
        self.require(table).indexes
    }

    /// Whether an open transaction wrote or locked something in the table.
    #[must_use]
    pub fn is_in_use(&self, table: TableId) -> bool {
        self.transactions.values().any(|transaction| {
            let mut written = transaction.writes.iter().map(|(place, _)| place);
            let mut locked = transaction.locks.keys();
            written.any(|place| place.table == table) || locked.any(|place| place.table == table)
        })
    }

    fn require(&self, table: TableId) -> &crate::model::Table {
        let found = self.tables.get(&table);
        assert!(found.is_some(), "there is no {table:?}");
        found.unwrap_or_else(|| unreachable!())
    }

    fn require_idle(&self, table: TableId) {
        self.require(table);
        assert!(!self.is_in_use(table), "{table:?} is in use");
    }
}
