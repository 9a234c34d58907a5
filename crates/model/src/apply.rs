//! Applying events to the store.

use crate::events::{Event, Writes};
use crate::store::{Model, Table};
use crate::types::{EntryKey, IndexSource, TableId, TransactionId};
use std::collections::BTreeMap;

impl Model {
    /// Applies an event and appends it to the journal.
    pub(crate) fn record(&mut self, event: Event) {
        self.record_at(event, self.clock + 1);
    }

    /// Applies an event that happened at the given time, and appends it to the journal.
    pub(crate) fn record_at(&mut self, event: Event, clock: u64) {
        self.clock = clock;
        let now = self.now();
        match &event {
            Event::Created {
                table,
                name,
                indexes,
            } => {
                let created = Table {
                    name: name.clone(),
                    indexes: *indexes,
                    created_at: vec![now; *indexes],
                };
                self.tables.insert(*table, created);
            }
            Event::Dropped { table } => {
                self.tables.remove(table);
                self.versions.retain(|entry, _| entry.table != *table);
            }
            Event::Renamed { table, name } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.name.clone_from(name);
                }
            }
            Event::Truncated { table } => {
                self.versions.retain(|entry, _| entry.table != *table);
                if let Some(table) = self.tables.get_mut(table) {
                    table.created_at.fill(now);
                }
            }
            Event::Altered { table, indexes } => self.alter(*table, indexes),
            Event::Committed { writes } => self.publish(writes),
            Event::Prepared { name, writes } => self.note_prepared(name, writes),
            Event::Ended { name, committed } => {
                if let Some((_, writes)) = self.prepared.remove(name)
                    && *committed
                {
                    self.publish(&writes);
                }
            }
        }
        self.journal.push(event);
        self.clocks.push(clock);
    }

    fn publish(&mut self, writes: &Writes) {
        self.commits += 1;
        for (entry, value) in writes {
            let versions = self.versions.entry(entry.clone()).or_default();
            versions.push((self.commits, value.clone()));
        }
    }

    fn alter(&mut self, table: TableId, indexes: &[IndexSource]) {
        let Some(altered) = self.tables.get_mut(&table) else {
            return;
        };
        let old = std::mem::take(&mut altered.created_at);
        altered.indexes = indexes.len();
        let mut added = Vec::new();
        let mut new_numbers = BTreeMap::new();
        for (new, source) in indexes.iter().enumerate() {
            altered.created_at.push(match source {
                IndexSource::Kept(number) => {
                    new_numbers.insert(*number, new);
                    old.get(*number).copied().unwrap_or_default()
                }
                IndexSource::Added {
                    entries,
                    created_at,
                } => {
                    added.extend(entries.iter().map(|added| (new, added)));
                    *created_at
                }
            });
        }
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.versions)
            .into_iter()
            .partition(|(entry, _)| entry.table == table);
        self.versions = others;
        for (mut entry, versions) in own {
            if let Some(new) = new_numbers.get(&entry.index) {
                entry.index = *new;
                self.versions.insert(entry, versions);
            }
        }
        for (index, (key, value)) in added {
            let entry = EntryKey {
                table,
                index,
                key: key.clone(),
            };
            let version = (0, Some(value.clone()));
            self.versions.insert(entry, vec![version]);
        }
    }

    fn note_prepared(&mut self, name: &str, writes: &Writes) {
        let no_owner = TransactionId(u64::MAX);
        self.prepared
            .insert(name.into(), (no_owner, writes.clone()));
    }
}
