//! Ranges that locking reads have looked at, where nobody else inserts until
//! the reader ends. A store may stop insertions somewhat beyond, for it marks
//! ahead; so the model tells where they must stop and where they may.

use crate::Key;
use crate::model::{Model, Place, Scope, TableId, TransactionId};

/// What a transaction has looked at.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    exact: Vec<Mark>,
    /// Tables in which it has marked anything.
    tables: Vec<TableId>,
}

#[derive(Debug)]
struct Mark {
    table: TableId,
    index: usize,
    low: Key,
    /// The first key behind; `None` when there is none.
    high: Option<Key>,
}

/// Whether marks of others stop an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopped {
    /// Nobody has looked there.
    No,
    /// Somebody has looked at the table.
    Perhaps,
    /// Somebody has looked there.
    Yes,
}

impl Marks {
    pub(crate) fn touch(&mut self, table: TableId) {
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
    }

    fn stops(&self, place: &Place) -> Stopped {
        let looked = |mark: &&Mark| {
            mark.table == place.table
                && mark.index == place.index
                && mark.low <= place.key
                && mark.high.as_ref().is_none_or(|high| place.key < *high)
        };
        if self.exact.iter().any(|mark| looked(&mark)) {
            Stopped::Yes
        } else if self.tables.contains(&place.table) {
            Stopped::Perhaps
        } else {
            Stopped::No
        }
    }
}

/// The first key behind the given one.
pub(crate) fn key_successor(key: &[u8]) -> Key {
    let mut after = key.to_vec();
    after.push(0);
    after
}

impl Model {
    /// Notes that a locking read has looked at `low <= key < high`, if the
    /// transaction's reads are to be repeatable.
    pub(crate) fn mark(&mut self, id: TransactionId, low: &Place, high: Option<Key>) {
        let transaction = self.transaction_mut(id);
        if transaction.scope == Scope::Transaction {
            transaction.marks.touch(low.table);
            transaction.marks.exact.push(Mark {
                table: low.table,
                index: low.index,
                low: low.key.clone(),
                high,
            });
        }
    }

    /// Notes that a locking read has looked at something of a table.
    pub(crate) fn touch(&mut self, id: TransactionId, table: TableId) {
        let transaction = self.transaction_mut(id);
        if transaction.scope == Scope::Transaction {
            transaction.marks.touch(table);
        }
    }

    /// A table's indexes are new, or others: what was looked at is not known.
    pub(crate) fn blur_marks(&mut self, table: TableId) {
        for open in self.transactions.values_mut() {
            open.marks.exact.retain(|mark| mark.table != table);
        }
    }

    /// Whether others have looked where new entries are to come.
    #[must_use]
    pub fn stopped(&self, id: TransactionId, places: &[Place]) -> Stopped {
        let others = self.transactions.iter().filter(|(other, _)| **other != id);
        others
            .flat_map(|(_, open)| places.iter().map(|place| open.marks.stops(place)))
            .max()
            .unwrap_or(Stopped::No)
    }
}
