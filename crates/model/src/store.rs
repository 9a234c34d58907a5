//! The state of the store.

use crate::events::{Event, Writes};
use crate::range_locks::RangeLocks;
use crate::types::{EntryKey, Key, LockMode, Moment, Scope, TableId, TransactionId, Value};
use std::collections::BTreeMap;

/// A committed version: its number in the commit order, and the value unless it
/// is a deletion.
pub(crate) type Version = (u64, Option<Value>);

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) indexes: usize,
    /// When each index was created.
    pub(crate) created_at: Vec<Moment>,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) scope: Scope,
    pub(crate) snapshot: Option<u64>,
    pub(crate) snapshot_clock: u64,
    /// All writes that were not rolled back, in order.
    pub(crate) writes: Vec<(EntryKey, Option<Value>)>,
    /// Tables of which all rows, or a range of them, were deleted as a whole.
    pub(crate) cleared: Vec<Cleared>,
    /// Explicit locks, each with the number of savepoints that were set before it.
    pub(crate) locks: BTreeMap<EntryKey, (LockMode, u64)>,
    pub(crate) savepoints: u64,
    pub(crate) range_locks: RangeLocks,
}

/// A deletion of all rows of a table or of a range of them.
#[derive(Debug)]
pub(crate) struct Cleared {
    pub(crate) table: TableId,
    /// The number of writes of the transaction before.
    pub(crate) at: usize,
    /// The range of keys in index 0; `None`: all entries of all indexes.
    pub(crate) range: Option<(Key, Option<Key>)>,
}

impl Cleared {
    pub(crate) fn contains(&self, entry: &EntryKey) -> bool {
        let is_in_range = match &self.range {
            None => true,
            Some((start, end)) => {
                entry.index == 0
                    && entry.key >= *start
                    && end.as_ref().is_none_or(|end| entry.key < *end)
            }
        };
        entry.table == self.table && is_in_range
    }
}

/// The store.
#[derive(Debug, Default)]
pub struct Model {
    pub(crate) tables: BTreeMap<TableId, Table>,
    /// Committed versions of every key, oldest first.
    pub(crate) versions: BTreeMap<EntryKey, Vec<Version>>,
    pub(crate) transactions: BTreeMap<TransactionId, Transaction>,
    /// The prepared transactions by name, with their writes.
    pub(crate) prepared: BTreeMap<String, (TransactionId, Writes)>,
    pub(crate) journal: Vec<Event>,
    /// The time of each event of the journal.
    pub(crate) clocks: Vec<u64>,
    pub(crate) acknowledged: usize,
    /// The number of commits.
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

    /// The current moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment {
            commits: self.commits,
            clock: self.clock,
        }
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
}
