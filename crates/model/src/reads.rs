//! What a transaction sees.

use crate::marks::key_successor;
use crate::model::{LockMode, Model, Place, TableId, TransactionId};
use crate::writes::Outcome;
use crate::{Key, Value};
use std::collections::BTreeMap;

/// What stands at a key for somebody who wants to write or lock it.
pub(crate) enum Newest {
    /// Another open transaction wrote it.
    Foreign,
    /// Written by the transaction itself.
    Mine(Option<Value>),
    /// Committed, with its place in the commit order.
    Committed(u64, Option<Value>),
}

impl Model {
    /// The value that the transaction's snapshot and own writes give a key.
    /// Takes the snapshot when there is none.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn get(&mut self, id: TransactionId, place: &Place) -> Option<Value> {
        let snapshot = self.snapshot(id);
        if let Some(own) = self.own(id, place) {
            return own;
        }
        self.committed(place, snapshot)
    }

    /// Everything that the transaction's snapshot and own writes give an index.
    /// Takes the snapshot when there is none.
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
        let own = self.transaction(id).writes.iter().map(|(place, _)| place);
        let here = |place: &&Place| place.table == table && place.index == index;
        committed
            .chain(own)
            .filter(here)
            .filter_map(|place| {
                let value = match self.own(id, place) {
                    Some(own) => own,
                    None => self.committed(place, snapshot),
                };
                Some((place.key.clone(), value?))
            })
            .collect()
    }

    /// Reads the newest committed or own version of a row and locks it if
    /// there is one.
    ///
    /// # Panics
    /// When the transaction is not open.
    pub fn get_locked(
        &mut self,
        id: TransactionId,
        place: &Place,
        mode: LockMode,
    ) -> Result<Option<Value>, Outcome> {
        let found = self.lock_row(id, place, mode);
        self.touch(id, place.table);
        if found == Ok(None) {
            // A key that was looked for in vain stays away.
            self.mark(id, place, Some(key_successor(&place.key)));
        }
        found
    }

    fn lock_row(
        &mut self,
        id: TransactionId,
        place: &Place,
        mode: LockMode,
    ) -> Result<Option<Value>, Outcome> {
        match self.newest(id, place) {
            Newest::Foreign => Err(Outcome::MustWait),
            Newest::Mine(value) if value.is_some() => Ok(value),
            Newest::Mine(value) | Newest::Committed(_, value) => {
                if self.is_locked_by_another(id, place, mode) {
                    return Err(Outcome::MustWait);
                }
                if value.is_some() {
                    let transaction = self.transaction_mut(id);
                    let new = (mode, transaction.savepoints);
                    let held = transaction.locks.entry(place.clone()).or_insert(new);
                    held.0 = mode.max(held.0);
                }
                Ok(value)
            }
        }
    }

    /// What a locking scan of an index returns, row by row from `from` on in its
    /// direction, at most `limit` rows: it waits at the first row that another
    /// open transaction wrote, or locked where that matters. Rows of index 0 are
    /// locked as by [`Model::get_locked`].
    ///
    /// # Panics
    /// When the transaction or the table is not open.
    pub fn scan_locked(
        &mut self,
        id: TransactionId,
        from: &Place,
        forward: bool,
        limit: usize,
        mode: LockMode,
    ) -> (Vec<(Key, Value)>, Outcome) {
        let here = |place: &Place| place.table == from.table && place.index == from.index;
        let written = self.transactions.values().flat_map(|open| &open.writes);
        let keys = written.map(|(place, _)| place).chain(self.versions.keys());
        let mut keys: Vec<Key> = keys
            .filter(|place| here(place) && (place.key >= from.key) == forward)
            .map(|place| place.key.clone())
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
            let place = Place {
                key,
                ..from.clone()
            };
            let found = if from.index == 0 {
                self.lock_row(id, &place, mode)
            } else {
                match self.newest(id, &place) {
                    Newest::Foreign => Err(Outcome::MustWait),
                    Newest::Mine(value) | Newest::Committed(_, value) => Ok(value),
                }
            };
            match found {
                Ok(Some(value)) => rows.push((place.key, value)),
                Ok(None) => {}
                Err(refused) => {
                    self.mark_scan(id, from, forward, &rows, false);
                    return (rows, refused);
                }
            }
        }
        let at_end = rows.len() < limit;
        self.mark_scan(id, from, forward, &rows, at_end);
        (rows, Outcome::Done)
    }

    /// Marks what a scan has passed.
    fn mark_scan(
        &mut self,
        id: TransactionId,
        from: &Place,
        forward: bool,
        rows: &[(Key, Value)],
        at_end: bool,
    ) {
        self.touch(id, from.table);
        let last = rows.last().map(|(key, _)| key);
        let low = |key: Key| Place {
            key,
            ..from.clone()
        };
        match (forward, last) {
            (true, _) if at_end => self.mark(id, from, None),
            (true, Some(last)) => self.mark(id, from, Some(key_successor(last))),
            (false, _) if at_end => self.mark(id, &low(Key::new()), Some(from.key.clone())),
            (false, Some(last)) => self.mark(id, &low(last.clone()), Some(from.key.clone())),
            (_, None) => {}
        }
    }

    /// Takes the snapshot now, unless there is one.
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

    /// What the transaction itself wrote last to a key, if anything.
    fn own(&self, id: TransactionId, place: &Place) -> Option<Option<Value>> {
        let mut latest = self.transaction(id).writes.iter().rev();
        let (_, value) = latest.find(|(written, _)| written == place)?;
        Some(value.clone())
    }

    /// What was committed at a key up to a place in the commit order.
    fn committed(&self, place: &Place, snapshot: u64) -> Option<Value> {
        let mut newest = self.versions.get(place)?.iter().rev();
        let (_, value) = newest.find(|(commit, _)| *commit <= snapshot)?;
        value.clone()
    }

    pub(crate) fn newest(&self, id: TransactionId, place: &Place) -> Newest {
        if let Some(own) = self.own(id, place) {
            return Newest::Mine(own);
        }
        let mut others = self.transactions.values();
        if others.any(|other| other.writes.iter().any(|(written, _)| written == place)) {
            return Newest::Foreign;
        }
        match self
            .versions
            .get(place)
            .and_then(|versions| versions.last())
        {
            Some((commit, value)) => Newest::Committed(*commit, value.clone()),
            None => Newest::Committed(0, None),
        }
    }

    pub(crate) fn is_locked_by_another(
        &self,
        id: TransactionId,
        place: &Place,
        mode: LockMode,
    ) -> bool {
        self.transactions.iter().any(|(other, transaction)| {
            let held = transaction.locks.get(place);
            *other != id && held.is_some_and(|(held, _)| mode.max(*held) == LockMode::Exclusive)
        })
    }
}
