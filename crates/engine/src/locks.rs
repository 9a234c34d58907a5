//! Transactions, their locks and waits, as reports want them: with the names of
//! tables and indexes. Everything is copied bit by bit, so nobody is stopped.

use crate::engine::Engine;
use crate::statistics::open_indexes;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::FileId;
use teak_transactions::TransactionHandle;
use teak_transactions::report::{DeadlockReport, LockReport, WaitReport};

/// An index by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexName {
    /// The table.
    pub table: Arc<str>,
    /// The index's label.
    pub index: Arc<str>,
}

/// The names of the open indexes at one moment.
#[derive(Debug, Default)]
pub struct IndexNames(HashMap<FileId, IndexName>);

impl IndexNames {
    /// The name of the index in `file`, unless it is gone or being opened.
    #[must_use]
    pub fn get(&self, file: FileId) -> Option<&IndexName> {
        self.0.get(&file)
    }
}

impl Engine {
    /// The running transactions, prepared ones included, by id.
    #[must_use]
    pub fn transactions(&self) -> Vec<Arc<TransactionHandle>> {
        self.core.transactions.running()
    }

    /// The waits that go on, by requester.
    #[must_use]
    pub fn lock_waits(&self) -> Vec<WaitReport> {
        self.core.transactions.lock_waits()
    }

    /// Gives every row and range lock to `sink`. Rows that a transaction has
    /// written have none: their newest versions say whose they are.
    pub fn for_each_lock(&self, sink: &mut dyn FnMut(LockReport)) {
        self.core.transactions.locks().for_each(sink);
        for (_, index) in open_indexes(&self.core.tables) {
            index.ranges.list().into_iter().for_each(&mut *sink);
        }
    }

    /// The deadlock found last.
    #[must_use]
    pub fn last_deadlock(&self) -> Option<Arc<DeadlockReport>> {
        self.core.transactions.last_deadlock()
    }

    /// The names of the open indexes.
    #[must_use]
    pub fn index_names(&self) -> IndexNames {
        let open = open_indexes(&self.core.tables);
        let named = open.into_iter().map(|(table, index)| {
            let label = index.entry.label.as_str().into();
            let index_name = IndexName {
                table,
                index: label,
            };
            (index.entry.file, index_name)
        });
        IndexNames(named.collect())
    }
}
