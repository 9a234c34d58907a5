//! Reports of running transactions, their locks and waits, with the names of
//! tables and indexes. The state is copied in small parts, so that no
//! transaction is blocked for long.

use crate::engine::Engine;
use crate::statistics::open_indexes;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::FileId;
use teak_transactions::TransactionHandle;
use teak_transactions::report::{DeadlockReport, LockReport, WaitReport};

/// The name of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexName {
    /// The table.
    pub table: Arc<str>,
    /// The index's label.
    pub index: Arc<str>,
    /// The number of the index in the table; 0 contains the rows. Indexes that are being built follow the others.
    pub number: u32,
}

/// The names of the indexes whose tables were open when the names were read.
#[derive(Debug, Default)]
pub struct IndexNames(HashMap<FileId, IndexName>);

impl IndexNames {
    /// The name of the index in `file`; `None` if it was dropped or was not open.
    #[must_use]
    pub fn get(&self, file: FileId) -> Option<&IndexName> {
        self.0.get(&file)
    }
}

/// # Transactions, locks and waits
impl Engine {
    /// The running transactions by id, prepared ones included.
    #[must_use]
    pub fn transactions(&self) -> Vec<Arc<TransactionHandle>> {
        self.core.transactions.running()
    }

    /// The current lock waits, by requesting transaction.
    #[must_use]
    pub fn lock_waits(&self) -> Vec<WaitReport> {
        self.core.transactions.lock_waits()
    }

    /// Passes every explicit row lock, and every range lock of the open tables, to `sink`. A row
    /// that a transaction has written usually has no explicit lock: its newest version is an
    /// implicit lock.
    pub fn for_each_lock(&self, sink: &mut dyn FnMut(LockReport)) {
        self.core.transactions.locks().for_each(sink);
        for (_, index) in open_indexes(&self.core.tables) {
            index.ranges.list().into_iter().for_each(&mut *sink);
        }
    }

    /// The latest deadlock.
    #[must_use]
    pub fn last_deadlock(&self) -> Option<Arc<DeadlockReport>> {
        self.core.transactions.last_deadlock()
    }

    /// The names of the open indexes.
    #[must_use]
    pub fn index_names(&self) -> IndexNames {
        let open = open_indexes(&self.core.tables).into_iter();
        let mut last: Option<(Arc<str>, u32)> = None;
        let named = open.map(|(table, index)| {
            let label = index.entry.label.as_str().into();
            let number = match &last {
                Some((before, number)) if *before == table => number + 1,
                _ => 0,
            };
            last = Some((Arc::clone(&table), number));
            let name = IndexName {
                table,
                index: label,
                number,
            };
            (index.entry.file, name)
        });
        IndexNames(named.collect())
    }
}
