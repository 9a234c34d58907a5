//! Snapshot reads, and the newest version of an entry.

use crate::store::Model;
use crate::types::{EntryKey, Key, TableId, TransactionId, Value};
use std::collections::BTreeMap;

/// The newest version of an entry, for a transaction that will write or lock the entry.
pub(crate) enum Newest {
    /// Written by another open transaction.
    OtherTransaction,
    /// Written by the transaction itself.
    Own(Option<Value>),
    /// Committed, with its number in the commit order.
    Committed(u64, Option<Value>),
}

impl Model {
    /// The value of an entry, as visible to the transaction's snapshot or written by the
    /// transaction. Takes the snapshot when there is none.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn get(&mut self, id: TransactionId, entry: &EntryKey) -> Option<Value> {
        let snapshot = self.snapshot(id);
        if let Some(own) = self.own(id, entry) {
            return own;
        }
        self.committed(entry, snapshot)
    }

    /// All entries of an index that are visible to the transaction's snapshot or written by the
    /// transaction. Takes the snapshot when there is none.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn scan(
        &mut self,
        id: TransactionId,
        table: TableId,
        index: usize,
    ) -> BTreeMap<Key, Value> {
        let snapshot = self.snapshot(id);
        let committed = self.versions.keys();
        let own = self.transaction(id).writes.iter().map(|(entry, _)| entry);
        let here = |entry: &&EntryKey| entry.table == table && entry.index == index;
        committed
            .chain(own)
            .filter(here)
            .filter_map(|entry| {
                let value = match self.own(id, entry) {
                    Some(own) => own,
                    None => self.committed(entry, snapshot),
                };
                Some((entry.key.clone(), value?))
            })
            .collect()
    }

    /// Takes the snapshot now, unless there is one; returns it.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn snapshot(&mut self, id: TransactionId) -> u64 {
        let now = self.now();
        let transaction = self.transaction_mut(id);
        if transaction.snapshot.is_none() {
            transaction.snapshot_clock = now.clock;
        }
        *transaction.snapshot.get_or_insert(now.commits)
    }

    /// The transaction's own last write of an entry, if there is one. The deletion of a range of rows
    /// deletes every entry in it.
    fn own(&self, id: TransactionId, entry: &EntryKey) -> Option<Option<Value>> {
        let transaction = self.transaction(id);
        let mut latest = transaction.writes.iter().enumerate().rev();
        let latest = latest.find(|(_, (written, _))| written == entry);
        let mut cleared = transaction.cleared.iter().rev();
        let cleared = cleared.find(|cleared| cleared.contains(entry));
        match (latest, cleared) {
            (Some((at, _)), Some(cleared)) if at < cleared.at => Some(None),
            (Some((_, (_, value))), _) => Some(value.clone()),
            (None, Some(_)) => Some(None),
            (None, None) => None,
        }
    }

    /// The last committed value of an entry in a snapshot.
    fn committed(&self, entry: &EntryKey, snapshot: u64) -> Option<Value> {
        let mut newest = self.versions.get(entry)?.iter().rev();
        let (_, value) = newest.find(|(commit, _)| *commit <= snapshot)?;
        value.clone()
    }

    pub(crate) fn newest(&self, id: TransactionId, entry: &EntryKey) -> Newest {
        if let Some(own) = self.own(id, entry) {
            return Newest::Own(own);
        }
        let mut others = self.transactions.values();
        if others.any(|other| other.writes.iter().any(|(written, _)| written == entry)) {
            return Newest::OtherTransaction;
        }
        match self
            .versions
            .get(entry)
            .and_then(|versions| versions.last())
        {
            Some((commit, value)) => Newest::Committed(*commit, value.clone()),
            None => Newest::Committed(0, None),
        }
    }
}
