//! Locking reads: row locks, and the ranges in which other transactions must not
//! insert.

use crate::reads::Newest;
use crate::store::{Cleared, Model};
use crate::types::{
    AccessOutcome, EntryKey, InsertBlocked, Key, LockMode, Scope, TableId, TransactionId, Value,
};
use std::collections::BTreeSet;

/// The first key after the given one.
fn key_successor(key: &[u8]) -> Key {
    let mut successor = key.to_vec();
    successor.push(0);
    successor
}

impl Model {
    /// Reads the newest committed or own version of a row. Locks the row if it exists and
    /// the transaction has not written it. If it does not exist, locks its key against
    /// insertions, if the reads of the transaction must be repeatable.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn get_locked(
        &mut self,
        id: TransactionId,
        entry: &EntryKey,
        mode: LockMode,
    ) -> Result<Option<Value>, AccessOutcome> {
        let found = self.lock_row(id, entry, mode);
        self.touch(id, entry.table);
        if found == Ok(None) {
            // Other transactions must not insert the missing key.
            self.lock_range(id, entry, Some(key_successor(&entry.key)));
        }
        found
    }

    fn lock_row(
        &mut self,
        id: TransactionId,
        entry: &EntryKey,
        mode: LockMode,
    ) -> Result<Option<Value>, AccessOutcome> {
        match self.newest(id, entry) {
            Newest::OtherTransaction => Err(AccessOutcome::MustWait),
            Newest::Own(value) if value.is_some() => Ok(value),
            Newest::Own(value) | Newest::Committed(_, value) => {
                if self.is_locked_by_another(id, entry, mode) {
                    return Err(AccessOutcome::MustWait);
                }
                if value.is_some() {
                    let transaction = self.transaction_mut(id);
                    let new = (mode, transaction.savepoints);
                    let held = transaction.locks.entry(entry.clone()).or_insert(new);
                    held.0 = mode.max(held.0);
                }
                Ok(value)
            }
        }
    }

    /// The rows of a locking scan of an index: at most `limit` rows, forward from the key `from`
    /// on, or backward from the last key before `from`. The scan waits at the first row that
    /// another open transaction wrote or, in index 0, locked in a conflicting mode. Locks the rows
    /// of index 0, and the range that was read if the reads of the transaction must be repeatable.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn scan_locked(
        &mut self,
        id: TransactionId,
        from: &EntryKey,
        forward: bool,
        limit: usize,
        mode: LockMode,
    ) -> (Vec<(Key, Value)>, AccessOutcome) {
        let here = |entry: &EntryKey| entry.table == from.table && entry.index == from.index;
        let written = self.transactions.values().flat_map(|open| &open.writes);
        let keys = written.map(|(entry, _)| entry).chain(self.versions.keys());
        let mut keys: Vec<Key> = keys
            .filter(|entry| here(entry) && (entry.key >= from.key) == forward)
            .map(|entry| entry.key.clone())
            .collect();
        keys.sort();
        keys.dedup();
        if !forward {
            keys.reverse();
        }
        let mut rows = Vec::new();
        for key in keys {
            if rows.len() == limit {
                break;
            }
            let entry = EntryKey {
                key,
                ..from.clone()
            };
            let found = if from.index == 0 {
                self.lock_row(id, &entry, mode)
            } else {
                match self.newest(id, &entry) {
                    Newest::OtherTransaction => Err(AccessOutcome::MustWait),
                    Newest::Own(value) | Newest::Committed(_, value) => Ok(value),
                }
            };
            match found {
                Ok(Some(value)) => rows.push((entry.key, value)),
                Ok(None) => {}
                Err(refused) => {
                    self.lock_scanned(id, from, forward, &rows, false);
                    return (rows, refused);
                }
            }
        }
        let at_end = rows.len() < limit;
        self.lock_scanned(id, from, forward, &rows, at_end);
        (rows, AccessOutcome::Done)
    }

    /// Locks all rows of a table exclusively, and the table against insertions under any isolation,
    /// and deletes all entries. Returns the number of rows. After `MustWait` the caller must roll
    /// back.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn delete_all(&mut self, id: TransactionId, table: TableId) -> (usize, AccessOutcome) {
        let from = EntryKey {
            table,
            index: 0,
            key: Key::new(),
        };
        let mode = LockMode::Exclusive;
        let (rows, outcome) = self.scan_locked(id, &from, true, usize::MAX, mode);
        if outcome == AccessOutcome::Done {
            let live: BTreeSet<EntryKey> = self
                .known_entries(id, table)
                .filter(|entry| {
                    let newest = self.newest(id, entry);
                    matches!(newest, Newest::Own(Some(_)) | Newest::Committed(_, Some(_)))
                })
                .cloned()
                .collect();
            let transaction = self.transaction_mut(id);
            transaction.range_locks.lock(&from, None);
            if !rows.is_empty() {
                let at = transaction.writes.len();
                let range = None;
                transaction.cleared.push(Cleared { table, at, range });
            }
            let deletes = live.into_iter().map(|entry| (entry, None));
            transaction.writes.extend(deletes);
        }
        (rows.len(), outcome)
    }

    /// Locks the keys from `low` to before `high` against insertions, under any isolation.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn lock_gap(&mut self, id: TransactionId, low: &EntryKey, high: Key) {
        let transaction = self.transaction_mut(id);
        transaction.range_locks.lock(low, Some(high));
    }

    /// As [`Model::delete_all`], for the rows from `start` to before `end` of a table with one index.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn delete_rows(
        &mut self,
        id: TransactionId,
        table: TableId,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> (usize, AccessOutcome) {
        let range = Cleared {
            table,
            at: self.transaction(id).writes.len(),
            range: Some((start.to_vec(), end.map(<[u8]>::to_vec))),
        };
        let written = self.transactions.values().flat_map(|open| &open.writes);
        let keys = written.map(|(entry, _)| entry).chain(self.versions.keys());
        let entries: BTreeSet<EntryKey> = keys
            .filter(|entry| range.contains(entry))
            .cloned()
            .collect();
        let mut live = Vec::new();
        for entry in entries {
            match self.lock_row(id, &entry, LockMode::Exclusive) {
                Ok(Some(_)) => live.push(entry),
                Ok(None) => {}
                Err(refused) => return (live.len(), refused),
            }
        }
        let from = EntryKey {
            table,
            index: 0,
            key: start.to_vec(),
        };
        let count = live.len();
        let transaction = self.transaction_mut(id);
        if end.is_none_or(|end| start < end) {
            transaction.range_locks.lock(&from, end.map(<[u8]>::to_vec));
        }
        if count > 0 {
            transaction.cleared.push(range);
        }
        transaction
            .writes
            .extend(live.into_iter().map(|entry| (entry, None)));
        (count, AccessOutcome::Done)
    }

    /// The keys of a table that have versions or that the transaction has written.
    fn known_entries(&self, id: TransactionId, table: TableId) -> impl Iterator<Item = &EntryKey> {
        let own = self.transaction(id).writes.iter().map(|(entry, _)| entry);
        let all = self.versions.keys().chain(own);
        all.filter(move |entry| entry.table == table)
    }

    /// Locks the range that a scan has read.
    fn lock_scanned(
        &mut self,
        id: TransactionId,
        from: &EntryKey,
        forward: bool,
        rows: &[(Key, Value)],
        at_end: bool,
    ) {
        self.touch(id, from.table);
        let last = rows.last().map(|(key, _)| key);
        let low = |key: Key| EntryKey {
            key,
            ..from.clone()
        };
        match (forward, last) {
            (true, _) if at_end => self.lock_range(id, from, None),
            (true, Some(last)) => self.lock_range(id, from, Some(key_successor(last))),
            (false, _) if at_end => self.lock_range(id, &low(Key::new()), Some(from.key.clone())),
            (false, Some(last)) => self.lock_range(id, &low(last.clone()), Some(from.key.clone())),
            (_, None) => {}
        }
    }

    pub(crate) fn is_locked_by_another(
        &self,
        id: TransactionId,
        entry: &EntryKey,
        mode: LockMode,
    ) -> bool {
        self.transactions.iter().any(|(other, transaction)| {
            let held = transaction.locks.get(entry);
            *other != id && held.is_some_and(|(held, _)| mode.max(*held) == LockMode::Exclusive)
        })
    }

    /// Locks the range `low <= key < high` against insertions, if the reads of
    /// the transaction must be repeatable.
    fn lock_range(&mut self, id: TransactionId, low: &EntryKey, high: Option<Key>) {
        let transaction = self.transaction_mut(id);
        if transaction.scope == Scope::Transaction {
            transaction.range_locks.lock(low, high);
        }
    }

    /// Records that the transaction has read the table with locks, without locking a range.
    fn touch(&mut self, id: TransactionId, table: TableId) {
        let transaction = self.transaction_mut(id);
        if transaction.scope == Scope::Transaction {
            transaction.range_locks.touch(table);
        }
    }

    /// Removes the locked ranges of a table whose indexes are being replaced.
    pub(crate) fn forget_ranges(&mut self, table: TableId) {
        for open in self.transactions.values_mut() {
            open.range_locks.forget_ranges(table);
        }
    }

    /// Whether locks of other transactions block the insertion of new entries.
    #[must_use]
    pub fn insert_blocked(&self, id: TransactionId, entries: &[EntryKey]) -> InsertBlocked {
        let others = self.transactions.iter().filter(|(other, _)| **other != id);
        others
            .flat_map(|(_, open)| entries.iter().map(|entry| open.range_locks.blocks(entry)))
            .max()
            .unwrap_or(InsertBlocked::No)
    }
}
