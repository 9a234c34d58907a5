//! Table changes. They are not part of transactions: each happens at once, and
//! nobody may have written the table in an open transaction.

use crate::journal::Event;
use crate::model::{IndexSource, Model, Place, TableId, TooOld, TransactionId};
use std::collections::BTreeMap;

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
        self.blur_marks(table);
        self.require_idle(table);
        self.happen(Event::Truncated { table });
    }

    /// Gives a table other indexes.
    ///
    /// # Panics
    /// When there is no such table, or an open transaction wrote it.
    pub fn alter_table(&mut self, table: TableId, indexes: Vec<IndexSource>) {
        self.blur_marks(table);
        self.require_idle(table);
        self.happen(Event::Altered { table, indexes });
    }

    pub(crate) fn alter(&mut self, table: TableId, indexes: &[IndexSource]) {
        let Some(altered) = self.tables.get_mut(&table) else {
            return;
        };
        let old = std::mem::take(&mut altered.born);
        altered.indexes = indexes.len();
        let mut added = Vec::new();
        let mut places = BTreeMap::new();
        for (new, source) in indexes.iter().enumerate() {
            altered.born.push(match source {
                IndexSource::Kept(number) => {
                    places.insert(*number, new);
                    old.get(*number).copied().unwrap_or_default()
                }
                IndexSource::Added { entries, born } => {
                    added.extend(entries.iter().map(|entry| (new, entry)));
                    *born
                }
            });
        }
        let (mine, others): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.versions)
            .into_iter()
            .partition(|(place, _)| place.table == table);
        self.versions = others;
        for (mut place, versions) in mine {
            if let Some(new) = places.get(&place.index) {
                place.index = *new;
                self.versions.insert(place, versions);
            }
        }
        for (index, (key, value)) in added {
            let place = Place {
                table,
                index,
                key: key.clone(),
            };
            let version = (0, Some(value.clone()));
            self.versions.insert(place, vec![version]);
        }
    }

    /// Whether the transaction's snapshot, which is taken now if there is none,
    /// is older than an index.
    ///
    /// # Panics
    /// When the transaction is not open, or there is no such table.
    pub fn is_too_old(&mut self, id: TransactionId, table: TableId, index: usize) -> TooOld {
        let snapshot = self.snapshot(id);
        let clock = self.transaction(id).snapshot_clock;
        let born = self.require(table).born.get(index).copied();
        let born = born.unwrap_or_default();
        if snapshot < born.commits {
            TooOld::Yes
        } else if clock < born.clock {
            TooOld::Either
        } else {
            TooOld::No
        }
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
