//! Writing rows: first everything that must hold is looked at, in the caller's
//! order, then everything is written. Deletions of ranges are worked out at
//! once, because what they build on cannot change under the transaction.

use crate::model::{LockMode, Model, Place, TableId, TransactionId};
use crate::reads::Newest;
use crate::{Key, Value};

/// What must hold of a key before a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// It has no live entry.
    Free,
    /// It has a live entry that the transaction may write.
    Mine,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// A key that must be free has a live entry.
    Duplicate,
    /// A row that must be there is not.
    NotFound,
    /// The row was changed by a commit after the transaction's snapshot.
    Conflict,
    /// Another open transaction wrote or locked a key.
    MustWait,
}

impl Model {
    /// Writes some entries, `None` deleting, if all checks hold; else nothing.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn write(
        &mut self,
        id: TransactionId,
        checks: &[(Check, Place)],
        writes: &[(Place, Option<Value>)],
    ) -> Outcome {
        let refused = self.outcome(id, checks);
        if refused != Outcome::Done {
            return refused;
        }
        let transaction = self.transaction_mut(id);
        transaction.writes.extend_from_slice(writes);
        for (_, place) in checks {
            // The row's newest version locks it from now on; a lock that was
            // taken before the last savepoint outlives a return to it.
            let now = transaction.savepoints;
            let held = transaction.locks.get(place);
            if held.is_some_and(|(_, savepoints)| *savepoints == now) {
                transaction.locks.remove(place);
            }
        }
        Outcome::Done
    }

    /// What the checks come to.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn outcome(&self, id: TransactionId, checks: &[(Check, Place)]) -> Outcome {
        checks
            .iter()
            .map(|(check, place)| self.check(id, *check, place))
            .find(|found| *found != Outcome::Done)
            .unwrap_or(Outcome::Done)
    }

    fn check(&self, id: TransactionId, check: Check, place: &Place) -> Outcome {
        let transaction = self.transaction(id);
        let held = transaction.locks.get(place);
        if place.index == 0 {
            if check == Check::Mine && held.is_some_and(|(mode, _)| *mode == LockMode::Exclusive) {
                // Locked, the row can have gone by the transaction's own hand alone.
                return match self.newest(id, place) {
                    Newest::Mine(None) => Outcome::NotFound,
                    _ => Outcome::Done,
                };
            }
            if self.is_locked_by_another(id, place, LockMode::Exclusive) {
                return Outcome::MustWait;
            }
        }
        match (check, self.newest(id, place)) {
            (_, Newest::Foreign) => Outcome::MustWait,
            (Check::Free, Newest::Mine(Some(_)) | Newest::Committed(_, Some(_))) => {
                Outcome::Duplicate
            }
            (Check::Mine, Newest::Mine(None) | Newest::Committed(_, None)) => Outcome::NotFound,
            (Check::Mine, Newest::Committed(commit, Some(_)))
                if transaction
                    .snapshot
                    .is_some_and(|snapshot| commit > snapshot) =>
            {
                Outcome::Conflict
            }
            _ => Outcome::Done,
        }
    }

    /// Writes one entry without a check.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn put(&mut self, id: TransactionId, place: Place, value: Value) {
        self.transaction_mut(id).writes.push((place, Some(value)));
    }

    /// Deletes one entry without a check.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn delete(&mut self, id: TransactionId, place: Place) {
        self.transaction_mut(id).writes.push((place, None));
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
        let own = self.transaction(id).writes.iter().map(|(place, _)| place);
        let mut covered: Vec<Place> = self
            .versions
            .keys()
            .chain(own)
            .filter(|place| place.table == table && place.index == index)
            .filter(|place| place.key.as_slice() >= start && place.key.as_slice() < end)
            .cloned()
            .collect();
        covered.sort();
        covered.dedup();
        for place in covered {
            self.delete(id, place);
        }
    }

    /// The newest version of an entry that the transaction may build on, own or
    /// committed; `None` when there is none or another wrote it.
    ///
    /// # Panics
    /// When the transaction is not open.
    #[must_use]
    pub fn newest_value(&self, id: TransactionId, table: TableId, key: &Key) -> Option<Value> {
        let place = Place {
            table,
            index: 0,
            key: key.clone(),
        };
        match self.newest(id, &place) {
            Newest::Foreign => None,
            Newest::Mine(value) | Newest::Committed(_, value) => value,
        }
    }
}
