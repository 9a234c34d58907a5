//! Begin, savepoints and end of transactions.

use crate::events::Event;
use crate::range_locks::RangeLocks;
use crate::store::{Model, Transaction};
use crate::types::{Savepoint, Scope, TableId, TransactionId};
use std::collections::BTreeMap;

impl Model {
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
            range_locks: RangeLocks::default(),
            cleared: Vec::new(),
            savepoints: 0,
        };
        self.transactions.insert(id, transaction);
        id
    }

    /// Starts a statement.
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

    /// Whether the transaction has deleted all rows of a table, or a range, as a whole.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn has_cleared(&self, id: TransactionId) -> bool {
        !self.transaction(id).cleared.is_empty()
    }

    /// Whether another transaction has deleted all rows of the table, or a range, as a whole. Then
    /// locking reads and writes of keys without a row may have to wait for it.
    #[must_use]
    pub fn is_cleared_by_another(&self, id: TransactionId, table: TableId) -> bool {
        let mut others = self.transactions.iter().filter(|(other, _)| **other != id);
        others.any(|(_, open)| open.cleared.iter().any(|cleared| cleared.table == table))
    }

    /// Sets a savepoint.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn savepoint(&mut self, id: TransactionId) -> Savepoint {
        let transaction = self.transaction_mut(id);
        transaction.savepoints += 1;
        Savepoint(transaction.writes.len())
    }

    /// Rolls back every write after the savepoint. Explicit locks are retained.
    ///
    /// # Panics
    /// When the transaction is not open, or the savepoint was rolled back.
    pub fn rollback_to(&mut self, id: TransactionId, savepoint: Savepoint) {
        let transaction = self.transaction_mut(id);
        let writes = &mut transaction.writes;
        assert!(savepoint.0 <= writes.len(), "the savepoint was rolled back");
        writes.truncate(savepoint.0);
        transaction
            .cleared
            .retain(|cleared| cleared.at < savepoint.0);
    }

    /// Commits. If the commit is durable, the caller then calls [`Model::acknowledge`].
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn commit(&mut self, id: TransactionId) {
        let writes = std::mem::take(&mut self.transaction_mut(id).writes);
        self.transactions.remove(&id);
        self.clock += 1;
        if !writes.is_empty() {
            // Only the last write of each key counts.
            let writes = writes.into_iter().collect();
            self.record(Event::Committed { writes });
        }
    }

    /// Rolls back all writes and ends the transaction.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn rollback(&mut self, id: TransactionId) {
        assert!(
            self.transactions.remove(&id).is_some(),
            "{id:?} is not open"
        );
    }
}
