//! The store's state and the life of transactions.

use crate::journal::{Event, Writes};
use crate::marks::Marks;
use crate::{Key, Value};
use std::collections::BTreeMap;

/// Names a table for ever, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId(pub u64);

/// Names a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(pub u64);

/// A savepoint: how much the transaction had written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The table.
    pub table: TableId,
    /// The number of the index in the table; zero holds the rows.
    pub index: usize,
    /// The key.
    pub key: Key,
}

/// For how long a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// From the first read of a statement to the end of the statement.
    Statement,
    /// From the first read to the end of the transaction.
    Transaction,
}

/// How a row is locked without being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// Against writers.
    Shared,
    /// Against writers and other lockers.
    Exclusive,
}

/// A committed version: its place in the commit order, and the value unless it
/// is a deletion.
pub(crate) type Version = (u64, Option<Value>);

/// A moment in the story: commits so far, and everything so far that anybody
/// may count as a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub(crate) commits: u64,
    pub(crate) clock: u64,
}

/// Where the index of an altered table comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexSource {
    /// An index of the table before.
    Kept(usize),
    /// A new one.
    Added {
        /// What it holds.
        entries: BTreeMap<Key, Value>,
        /// The moment for which that was found out.
        born: Moment,
    },
}

/// Whether a snapshot is too old for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooOld {
    /// It must be served.
    No,
    /// It must be refused.
    Yes,
    /// Nothing of consequence lies between the two.
    Either,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) indexes: usize,
    /// When each index came to be.
    pub(crate) born: Vec<Moment>,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) scope: Scope,
    pub(crate) snapshot: Option<u64>,
    pub(crate) snapshot_clock: u64,
    /// Everything written and not rolled back, in order.
    pub(crate) writes: Vec<(Place, Option<Value>)>,
    /// Explicit locks, each with the number of savepoints before it.
    pub(crate) locks: BTreeMap<Place, (LockMode, u64)>,
    pub(crate) savepoints: u64,
    pub(crate) marks: Marks,
}

/// The store.
#[derive(Debug, Default)]
pub struct Model {
    pub(crate) tables: BTreeMap<TableId, Table>,
    /// Committed versions of every key, oldest first.
    pub(crate) versions: BTreeMap<Place, Vec<Version>>,
    pub(crate) transactions: BTreeMap<TransactionId, Transaction>,
    /// The prepared ones by name, with what they wrote.
    pub(crate) prepared: BTreeMap<String, (TransactionId, Writes)>,
    pub(crate) journal: Vec<Event>,
    pub(crate) acknowledged: usize,
    /// The place of the last commit in the commit order.
    pub(crate) commits: u64,
    pub(crate) clock: u64,
    pub(crate) next_table: u64,
    pub(crate) next_transaction: u64,
}

impl Model {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a transaction. Its snapshot is taken by its first read.
    pub fn begin(&mut self, scope: Scope) -> TransactionId {
        let id = TransactionId(self.next_transaction);
        self.next_transaction += 1;
        self.clock += 1;
        let transaction = Transaction {
            scope,
            snapshot: None,
            snapshot_clock: 0,
            writes: Vec::new(),
            locks: BTreeMap::new(),
            marks: Marks::default(),
            savepoints: 0,
        };
        self.transactions.insert(id, transaction);
        id
    }

    /// # Panics
    /// When the transaction is not open.
    pub(crate) fn transaction(&self, id: TransactionId) -> &Transaction {
        let found = self.transactions.get(&id);
        assert!(found.is_some(), "{id:?} is not open");
        found.unwrap_or_else(|| unreachable!())
    }

    /// # Panics
    /// When the transaction is not open.
    pub(crate) fn transaction_mut(&mut self, id: TransactionId) -> &mut Transaction {
        let found = self.transactions.get_mut(&id);
        assert!(found.is_some(), "{id:?} is not open");
        found.unwrap_or_else(|| unreachable!())
    }

    /// A statement starts.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn statement(&mut self, id: TransactionId) {
        let transaction = self.transaction_mut(id);
        if transaction.scope == Scope::Statement {
            transaction.snapshot = None;
        }
    }

    /// Whether the transaction wrote anything that was not rolled back.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn has_writes(&self, id: TransactionId) -> bool {
        !self.transaction(id).writes.is_empty()
    }

    /// A mark to return to.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn savepoint(&mut self, id: TransactionId) -> Mark {
        let transaction = self.transaction_mut(id);
        transaction.savepoints += 1;
        Mark(transaction.writes.len())
    }

    /// Undoes every write since the mark. Locks stay.
    ///
    /// # Panics
    /// When the transaction is not open, or the mark lies ahead.
    pub fn rollback_to(&mut self, id: TransactionId, mark: Mark) {
        let writes = &mut self.transaction_mut(id).writes;
        assert!(mark.0 <= writes.len(), "the mark was rolled back itself");
        writes.truncate(mark.0);
    }

    /// Commits. Acknowledging is the caller's, see [`Model::acknowledge`].
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn commit(&mut self, id: TransactionId) {
        let writes = std::mem::take(&mut self.transaction_mut(id).writes);
        self.transactions.remove(&id);
        self.clock += 1;
        if !writes.is_empty() {
            // The last write of a key is what the transaction leaves of it.
            let writes = writes.into_iter().collect();
            self.happen(Event::Committed { writes });
        }
    }

    /// Undoes everything and ends the transaction.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn rollback(&mut self, id: TransactionId) {
        assert!(
            self.transactions.remove(&id).is_some(),
            "{id:?} is not open"
        );
    }

    /// This moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment {
            commits: self.commits,
            clock: self.clock,
        }
    }

    /// Does what an event says and writes it down.
    pub(crate) fn happen(&mut self, event: Event) {
        self.clock += 1;
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
                    born: vec![now; *indexes],
                };
                self.tables.insert(*table, created);
            }
            Event::Dropped { table } => {
                self.tables.remove(table);
                self.versions.retain(|place, _| place.table != *table);
            }
            Event::Renamed { table, name } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.name.clone_from(name);
                }
            }
            Event::Truncated { table } => {
                self.versions.retain(|place, _| place.table != *table);
                if let Some(table) = self.tables.get_mut(table) {
                    table.born.fill(now);
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
    }

    fn publish(&mut self, writes: &Writes) {
        self.commits += 1;
        for (place, value) in writes {
            let versions = self.versions.entry(place.clone()).or_default();
            versions.push((self.commits, value.clone()));
        }
    }
}
