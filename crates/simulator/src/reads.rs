//! Steps that read rows.

use crate::check::first_difference;
use crate::outcome::{Bug, Checked, Flow};
use crate::sessions::HeldCursor;
use crate::simulation::Simulation;
use std::collections::BTreeMap;
use teak_engine::{
    Cursor, EngineError, EngineResult, EngineTransaction, FilterKeys, IndexNumber, ReadMode, Seek,
};
use teak_model::{AccessOutcome, EntryKey, Key, LockMode, TableId, TooOld, Value};

impl Simulation {
    /// Draws a key of an index, usually one that exists or existed.
    fn draw_entry_key(&mut self, table: TableId) -> Checked<EntryKey> {
        let shape = self.shape(table)?;
        let row = shape.draw_row(&mut self.random);
        let entries = shape.entries(&row);
        let index = self.draw(entries.len()).unwrap_or(0);
        let key = entries.get(index).map(|entry| entry.key.clone());
        Ok(EntryKey {
            table,
            index,
            key: key.unwrap_or_default(),
        })
    }

    pub(crate) fn get(&mut self, session_index: usize, table: TableId) -> Checked {
        let at = self.draw_entry_key(table)?;
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let expected = self.model.get(session.model, &at);
        let too_old = self.model.is_too_old(session.model, table, at.index);
        let transaction = &mut session.transaction;
        let found = (|| {
            let index = u32::try_from(at.index).unwrap_or(u32::MAX);
            let mut cursor = transaction.cursor(handle, IndexNumber(index), ReadMode::Snapshot)?;
            let row = cursor.get(transaction, &at.key)?;
            Ok(row.map(|row| row.value.to_vec()))
        })();
        match found {
            Err(EngineError::TableChanged) if too_old != TooOld::No => Ok(Flow::On),
            Ok(_) if too_old == TooOld::Yes => Err(Bug(format!("get of {at:?}: too old"))),
            Ok(found) if found == expected => Ok(Flow::On),
            Ok(found) => Err(Bug(format!(
                "get of {at:?}: {found:?}, expected {expected:?}"
            ))),
            Err(error) => self.fault("get", &error),
        }
    }

    fn draw_mode(&mut self) -> (LockMode, ReadMode) {
        if self.random.one_in(3) {
            (LockMode::Shared, ReadMode::Shared)
        } else {
            (LockMode::Exclusive, ReadMode::Exclusive)
        }
    }

    pub(crate) fn get_locked(&mut self, session_index: usize, table: TableId) -> Checked {
        let shape = self.shape(table)?;
        let number = shape.draw_key(&mut self.random);
        let at = EntryKey {
            table,
            index: 0,
            key: shape.key(number),
        };
        let (mode, read_mode) = self.draw_mode();
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let id = session.model;
        let expected = self.model.get_locked(id, &at, mode);
        let transaction = &mut session.transaction;
        let found: EngineResult<Option<Value>> = (|| {
            let mut cursor = transaction.cursor(handle, IndexNumber::ROWS, read_mode)?;
            let row = cursor.get(transaction, &at.key)?;
            Ok(row.map(|row| row.value.to_vec()))
        })();
        self.note(|| format!("  {mode:?} get of {number} in {table:?} by {id:?}"));
        let found = match found {
            Ok(found) => Ok(found),
            Err(EngineError::Wait(_)) => Err(AccessOutcome::MustWait),
            Err(error) => {
                let flow = self.fault("locking get", &error)?;
                self.roll_back(session_index);
                return Ok(flow);
            }
        };
        if found == expected {
            return Ok(Flow::On);
        }
        if found == Err(AccessOutcome::MustWait) && self.may_wait(id, table)? {
            self.abandon(session_index);
            return Ok(Flow::On);
        }
        Err(Bug(format!(
            "locking get of {at:?}: {found:?}, expected {expected:?}"
        )))
    }

    /// Scans a part of an index in one direction.
    pub(crate) fn scan(&mut self, session_index: usize, table: TableId) -> Checked {
        let from = self.draw_entry_key(table)?;
        let forward = self.random.one_in(2);
        let limit = 1 + self.random.below(60);
        let bound = match self.random.one_in(3) {
            true => Some(self.draw_entry_key(table)?.key),
            false => None,
        };
        let shape = self.shape(table)?;
        let kind = shape.kinds.get(from.index).copied().unwrap_or(0);
        let filter_keys = shape.filter_keys(kind);
        let prefix = match filter_keys {
            FilterKeys::WithoutSuffix(_) if self.random.one_in(2) => {
                Some(filter_keys.part(&from.key).to_vec())
            }
            _ => None,
        };
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let visible = self.model.scan(session.model, table, from.index);
        let too_old = self.model.is_too_old(session.model, table, from.index);
        let inside = |key: &Key| {
            let started = if forward {
                *key >= from.key
            } else {
                *key < from.key
            };
            let ended = match &bound {
                None => false,
                Some(bound) if forward => key >= bound,
                Some(bound) => key < bound,
            };
            match &prefix {
                Some(prefix) => started && key.starts_with(prefix),
                None => started && !ended,
            }
        };
        let mut expected: Vec<(&Key, &Value)> =
            visible.iter().filter(|(key, _)| inside(key)).collect();
        if !forward {
            expected.reverse();
        }
        let taken = usize::try_from(limit).unwrap_or(usize::MAX);
        let expected: BTreeMap<Key, Value> = expected
            .into_iter()
            .take(taken)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let transaction = &mut session.transaction;
        let found = (|| {
            let index = u32::try_from(from.index).unwrap_or(u32::MAX);
            let mut cursor = transaction.cursor(handle, IndexNumber(index), ReadMode::Snapshot)?;
            if let Some(prefix) = &prefix {
                cursor.set_prefix(prefix);
            } else if forward {
                cursor.set_bounds(None, bound.as_deref());
            } else {
                cursor.set_bounds(bound.as_deref(), None);
            }
            read_some(&mut cursor, transaction, &from.key, forward, limit)
        })();
        let found = match found {
            Ok(_) if too_old == TooOld::Yes => return Err(Bug("a scan is too old".into())),
            Ok(found) => found,
            Err(EngineError::TableChanged) if too_old != TooOld::No => return Ok(Flow::On),
            Err(error) => return self.fault("scan", &error),
        };
        let ordered = found.is_sorted_by(|(one, _), (other, _)| match forward {
            true => one < other,
            false => one > other,
        });
        if !ordered {
            return Err(Bug("a scan is out of order".into()));
        }
        match first_difference(&expected, &found.into_iter().collect()) {
            None => self.count_rows(session_index, table),
            Some(text) => Err(Bug(format!(
                "scan of {table:?}, index {}, forward {forward}: {text}",
                from.index
            ))),
        }
    }

    /// Compares the number of rows, if the engine knows it, with the model.
    fn count_rows(&mut self, session_index: usize, table: TableId) -> Checked {
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let expected = self.model.scan(session.model, table, 0).len();
        match session.transaction.count_rows(handle) {
            Ok(None) => Ok(Flow::On),
            Ok(Some(rows)) if rows == expected as u64 => Ok(Flow::On),
            Ok(Some(rows)) => Err(Bug(format!(
                "{table:?} has {expected} rows, but the engine counts {rows}"
            ))),
            Err(error) => self.fault("count", &error),
        }
    }

    /// A locking scan. It must return the same rows as the model, and then have to wait if the scan
    /// of the model has to.
    pub(crate) fn scan_locked(&mut self, session_index: usize, table: TableId) -> Checked {
        let from = self.draw_entry_key(table)?;
        let forward = self.random.one_in(2);
        let limit = 1 + self.random.below(30);
        let (mode, read_mode) = self.draw_mode();
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let id = session.model;
        let taken = usize::try_from(limit).unwrap_or(usize::MAX);
        let expected = self.model.scan_locked(id, &from, forward, taken, mode);
        let transaction = &mut session.transaction;
        let mut found = Vec::new();
        let outcome = (|| {
            let index = u32::try_from(from.index).unwrap_or(u32::MAX);
            let mut cursor = transaction.cursor(handle, IndexNumber(index), read_mode)?;
            read_into(
                &mut found,
                &mut cursor,
                transaction,
                &from.key,
                forward,
                limit,
            )
        })();
        self.note(|| format!("  {mode:?} scan of {table:?} by {id:?}: {:?}", expected.1));
        let outcome = match outcome {
            Ok(()) => AccessOutcome::Done,
            Err(EngineError::Wait(_)) => AccessOutcome::MustWait,
            Err(error) => {
                let flow = self.fault("locking scan", &error)?;
                self.roll_back(session_index);
                return Ok(flow);
            }
        };
        if (&found, outcome) == (&expected.0, expected.1) {
            return Ok(Flow::On);
        }
        let begins = expected.0.starts_with(&found);
        if outcome == AccessOutcome::MustWait && begins && self.may_wait(id, table)? {
            self.abandon(session_index);
            return Ok(Flow::On);
        }
        Err(Bug(format!(
            "locking scan of {table:?}, index {}, forward {forward}: {} rows and {outcome:?}, \
             expected {} rows and {:?}",
            from.index,
            found.len(),
            expected.0.len(),
            expected.1
        )))
    }

    /// Opens a cursor that later steps move. Later commits, merges and checkpoints must not change
    /// the entries that it returns.
    pub(crate) fn hold(&mut self, session_index: usize, table: TableId) -> Checked {
        let index = self.draw(self.model.indexes(table)).unwrap_or(0);
        let forward = self.random.one_in(2);
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        if self.model.has_writes(session.model) || session.held.len() >= 2 {
            return Ok(Flow::On);
        }
        let taken = session.transaction.take_snapshot();
        taken.map_err(|error| Bug(format!("taking a snapshot: {error}")))?;
        if self.model.is_too_old(session.model, table, index) != TooOld::No {
            return Ok(Flow::On);
        }
        let mut expected: Vec<(Key, Value)> = self
            .model
            .scan(session.model, table, index)
            .into_iter()
            .collect();
        if !forward {
            expected.reverse();
        }
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let cursor = session
            .transaction
            .cursor(handle, IndexNumber(number), ReadMode::Snapshot);
        let cursor = match cursor {
            Ok(cursor) => cursor,
            // The files are opened now if the table was idle.
            Err(error) => return self.fault("opening a cursor", &error),
        };
        session.held.push(HeldCursor {
            cursor,
            expected,
            next: 0,
            forward,
        });
        self.step_held()
    }

    /// Moves the held cursors by some rows.
    pub(crate) fn step_held(&mut self) -> Checked {
        let moves = 1 + self.random.below(20);
        let mut failed = None;
        for session in &mut self.sessions {
            for held in &mut session.held {
                for _ in 0..moves {
                    match held.advance(&mut session.transaction) {
                        Ok(None) => {}
                        Ok(Some(text)) => return Err(Bug(text)),
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                    }
                }
            }
            session.held.retain(|held| held.next <= held.expected.len());
        }
        match failed {
            None => Ok(Flow::On),
            Some(error) => {
                // After an error a cursor has no position.
                self.sessions.iter_mut().for_each(|s| s.held.clear());
                self.fault("moving a held cursor", &error)
            }
        }
    }
}

impl HeldCursor {
    /// Moves by one row. Returns a description if it is the wrong row.
    fn advance(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<String>> {
        if self.next > self.expected.len() {
            return Ok(None);
        }
        let row = match (self.next, self.forward) {
            (0, true) => self.cursor.first(transaction)?,
            (0, false) => self.cursor.last(transaction)?,
            (_, true) => self.cursor.next(transaction)?,
            (_, false) => self.cursor.previous(transaction)?,
        };
        let expected = self.expected.get(self.next);
        let same = match (&row, expected) {
            (None, None) => true,
            (Some(row), Some((key, value))) => row.key == key && row.value == value,
            _ => false,
        };
        let wrong = (!same).then(|| {
            format!(
                "a held cursor found {:?} as row {}, expected {:?}",
                row.map(|row| row.key.escape_ascii().to_string()),
                self.next,
                expected.map(|(key, _)| key.escape_ascii().to_string())
            )
        });
        self.next += 1;
        Ok(wrong)
    }
}

fn read_some(
    cursor: &mut Cursor,
    transaction: &mut EngineTransaction,
    from: &[u8],
    forward: bool,
    limit: u64,
) -> EngineResult<Vec<(Key, Value)>> {
    let mut entries = Vec::new();
    read_into(&mut entries, cursor, transaction, from, forward, limit)?;
    Ok(entries)
}

/// Appends the rows to `entries`, including rows read before an error.
fn read_into(
    entries: &mut Vec<(Key, Value)>,
    cursor: &mut Cursor,
    transaction: &mut EngineTransaction,
    from: &[u8],
    forward: bool,
    limit: u64,
) -> EngineResult<()> {
    let seek = if forward {
        Seek::AtOrAfter
    } else {
        Seek::Before
    };
    let mut row = cursor.seek(transaction, from, seek)?;
    while let Some(found) = row {
        entries.push((found.key.to_vec(), found.value.to_vec()));
        if entries.len() as u64 >= limit {
            break;
        }
        row = if forward {
            cursor.next(transaction)?
        } else {
            cursor.previous(transaction)?
        };
    }
    Ok(())
}
