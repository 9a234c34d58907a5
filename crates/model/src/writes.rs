//! Writes rows: runs all checks in the order of the caller, then writes all entries. A range
//! deletion immediately becomes deletions of the keys in the range that are known at that time.

use crate::reads::Newest;
use crate::store::Model;
use crate::types::{
    AccessOutcome, EntryKey, Key, LockMode, RowCheck, TableId, TransactionId, Value,
};

impl Model {
    /// Writes some entries (`None` deletes) if all checks succeed; otherwise writes nothing.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn write(
        &mut self,
        id: TransactionId,
        checks: &[(RowCheck, EntryKey)],
        writes: &[(EntryKey, Option<Value>)],
    ) -> AccessOutcome {
        let refused = self.outcome(id, checks);
        if refused != AccessOutcome::Done {
            return refused;
        }
        let transaction = self.transaction_mut(id);
        transaction.writes.extend_from_slice(writes);
        for (_, entry) in checks {
            // From here on the new version is an implicit lock of the row, so the explicit lock is
            // removed. A lock acquired before the last savepoint is retained, because it must
            // survive a rollback to that savepoint.
            let now = transaction.savepoints;
            let held = transaction.locks.get(entry);
            if held.is_some_and(|(_, savepoints)| *savepoints == now) {
                transaction.locks.remove(entry);
            }
        }
        AccessOutcome::Done
    }

    /// The result of the first check that fails; `Done` if none does.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn outcome(&self, id: TransactionId, checks: &[(RowCheck, EntryKey)]) -> AccessOutcome {
        checks
            .iter()
            .map(|(check, entry)| self.check(id, *check, entry))
            .find(|found| *found != AccessOutcome::Done)
            .unwrap_or(AccessOutcome::Done)
    }

    fn check(&self, id: TransactionId, check: RowCheck, entry: &EntryKey) -> AccessOutcome {
        let transaction = self.transaction(id);
        let held = transaction.locks.get(entry);
        if entry.index == 0 {
            if check == RowCheck::Writable
                && held.is_some_and(|(mode, _)| *mode == LockMode::Exclusive)
            {
                // Only the transaction itself can have deleted a row that it locked.
                return match self.newest(id, entry) {
                    Newest::Own(None) => AccessOutcome::NotFound,
                    _ => AccessOutcome::Done,
                };
            }
            if self.is_locked_by_another(id, entry, LockMode::Exclusive) {
                return AccessOutcome::MustWait;
            }
        }
        match (check, self.newest(id, entry)) {
            (_, Newest::OtherTransaction) => AccessOutcome::MustWait,
            (RowCheck::Free, Newest::Own(Some(_)) | Newest::Committed(_, Some(_))) => {
                AccessOutcome::Duplicate
            }
            (RowCheck::Writable, Newest::Own(None) | Newest::Committed(_, None)) => {
                AccessOutcome::NotFound
            }
            (RowCheck::Writable, Newest::Committed(commit, Some(_)))
                if transaction
                    .snapshot
                    .is_some_and(|snapshot| commit > snapshot) =>
            {
                AccessOutcome::Conflict
            }
            _ => AccessOutcome::Done,
        }
    }

    /// Writes one entry without a check.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn put(&mut self, id: TransactionId, entry: EntryKey, value: Value) {
        self.transaction_mut(id).writes.push((entry, Some(value)));
    }

    /// Deletes one entry without a check.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn delete(&mut self, id: TransactionId, entry: EntryKey) {
        self.transaction_mut(id).writes.push((entry, None));
    }

    /// Deletes every entry with `start <= key < end`.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn delete_range(
        &mut self,
        id: TransactionId,
        table: TableId,
        index: usize,
        start: &[u8],
        end: &[u8],
    ) {
        let own = self.transaction(id).writes.iter().map(|(entry, _)| entry);
        let mut covered: Vec<EntryKey> = self
            .versions
            .keys()
            .chain(own)
            .filter(|entry| entry.table == table && entry.index == index)
            .filter(|entry| entry.key.as_slice() >= start && entry.key.as_slice() < end)
            .cloned()
            .collect();
        covered.sort();
        covered.dedup();
        for entry in covered {
            self.delete(id, entry);
        }
    }

    /// The value of the newest version of a row, own or committed. `None` when there is
    /// none, when it is a deletion, or when another open transaction wrote it.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn newest_value(&self, id: TransactionId, table: TableId, key: &Key) -> Option<Value> {
        let entry = EntryKey {
            table,
            index: 0,
            key: key.clone(),
        };
        match self.newest(id, &entry) {
            Newest::OtherTransaction => None,
            Newest::Own(value) | Newest::Committed(_, value) => value,
        }
    }
}
