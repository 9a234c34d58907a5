//! Prepared transactions, which survive a crash.

use crate::events::{Event, Writes};
use crate::store::Model;
use crate::types::{Scope, TransactionId};
use std::collections::BTreeSet;

impl Model {
    /// Prepares a transaction. It remains open, but must not write again.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn prepare(&mut self, id: TransactionId, name: &str) {
        let writes: Writes = self.transaction(id).writes.iter().cloned().collect();
        self.record(Event::Prepared {
            name: name.into(),
            writes,
        });
        if let Some(prepared) = self.prepared.get_mut(name) {
            prepared.0 = id;
        }
    }

    /// Ends a prepared transaction.
    ///
    /// # Panics
    /// When no prepared transaction has this name.
    pub fn end_prepared(&mut self, name: &str, committed: bool) {
        let prepared = self.prepared.get(name);
        assert!(prepared.is_some(), "{name} is not prepared");
        if let Some((id, _)) = prepared {
            self.transactions.remove(id);
        }
        self.record(Event::Ended {
            name: name.into(),
            committed,
        });
    }

    /// The names of the prepared transactions.
    #[must_use]
    pub fn prepared(&self) -> BTreeSet<String> {
        self.prepared.keys().cloned().collect()
    }

    /// Opens the prepared transactions after a crash, with their writes and
    /// without their locks.
    pub(crate) fn restore_prepared(&mut self) {
        for name in self.prepared() {
            let id = self.begin(Scope::Transaction);
            if let Some((owner, writes)) = self.prepared.get_mut(&name) {
                *owner = id;
                let writes = writes.clone().into_iter().collect();
                self.transaction_mut(id).writes = writes;
            }
        }
    }
}
