//! Transactions that have promised to outlive a crash.

use crate::journal::{Event, Writes};
use crate::model::{Model, Scope, TransactionId};
use std::collections::BTreeSet;

impl Model {
    /// Prepares a transaction. It stays open, and writes no more.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn prepare(&mut self, id: TransactionId, name: &str) {
        let writes: Writes = self.transaction(id).writes.iter().cloned().collect();
        self.happen(Event::Prepared {
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
    /// When there is none of this name.
    pub fn end_prepared(&mut self, name: &str, committed: bool) {
        let prepared = self.prepared.get(name);
        assert!(prepared.is_some(), "{name} is not prepared");
        if let Some((id, _)) = prepared {
            self.transactions.remove(id);
        }
        self.happen(Event::Ended {
            name: name.into(),
            committed,
        });
    }

    /// The names of the prepared transactions.
    #[must_use]
    pub fn prepared(&self) -> BTreeSet<String> {
        self.prepared.keys().cloned().collect()
    }

    pub(crate) fn note_prepared(&mut self, name: &str, writes: &Writes) {
        let nobody = TransactionId(u64::MAX);
        self.prepared.insert(name.into(), (nobody, writes.clone()));
    }

    /// Opens the prepared transactions that a crash left, with what they wrote
    /// and without what they locked.
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
