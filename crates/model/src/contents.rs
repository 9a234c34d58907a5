//! All committed entries without their history, to compare two stores.

use crate::events::{Event, Writes};
use crate::types::{IndexSource, Key, TableId, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The indexes of one table, each a map from key to value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableContents {
    /// The indexes in the table's order.
    pub indexes: Vec<BTreeMap<Key, Value>>,
}

/// The tables, and the prepared transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    tables: BTreeMap<TableId, (String, TableContents)>,
    prepared: BTreeMap<String, Writes>,
}

impl Contents {
    /// The tables by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, &TableContents> {
        let tables = self.tables.values();
        tables.map(|(name, table)| (name.as_str(), table)).collect()
    }

    /// The names of the prepared transactions.
    #[must_use]
    pub fn prepared(&self) -> BTreeSet<&str> {
        self.prepared.keys().map(String::as_str).collect()
    }

    /// Applies an event to the contents.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Created {
                table,
                name,
                indexes,
            } => {
                let empty = TableContents {
                    indexes: vec![BTreeMap::new(); *indexes],
                };
                self.tables.insert(*table, (name.clone(), empty));
            }
            Event::Dropped { table } => {
                self.tables.remove(table);
            }
            Event::Renamed { table, name } => {
                if let Some((old, _)) = self.tables.get_mut(table) {
                    old.clone_from(name);
                }
            }
            Event::Truncated { table } => {
                if let Some((_, contents)) = self.tables.get_mut(table) {
                    contents.indexes.iter_mut().for_each(BTreeMap::clear);
                }
            }
            Event::Altered { table, indexes } => {
                if let Some((_, contents)) = self.tables.get_mut(table) {
                    let altered = indexes.iter().map(|source| match source {
                        IndexSource::Kept(number) => {
                            contents.indexes.get(*number).cloned().unwrap_or_default()
                        }
                        IndexSource::Added { entries, .. } => entries.clone(),
                    });
                    contents.indexes = altered.collect();
                }
            }
            Event::Committed { writes } => self.write(writes),
            Event::Prepared { name, writes } => {
                self.prepared.insert(name.clone(), writes.clone());
            }
            Event::Ended { name, committed } => {
                if let Some(writes) = self.prepared.remove(name)
                    && *committed
                {
                    self.write(&writes);
                }
            }
        }
    }

    fn write(&mut self, writes: &Writes) {
        for (entry, value) in writes {
            let Some((_, contents)) = self.tables.get_mut(&entry.table) else {
                continue;
            };
            let Some(index) = contents.indexes.get_mut(entry.index) else {
                continue;
            };
            match value {
                Some(value) => index.insert(entry.key.clone(), value.clone()),
                None => index.remove(&entry.key),
            };
        }
    }
}
