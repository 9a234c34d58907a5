//! Steps that write rows.

use crate::outcome::{Bug, Checked, Flow};
use crate::rows::{OwnedEntry, Row};
use crate::simulation::Simulation;
use teak_engine::{EngineError, EngineResult, IndexNumber, RowChange, RowEntry};
use teak_model::{AccessOutcome, EntryKey, InsertBlocked, RowCheck, TableId, Value};

type Checks = Vec<(RowCheck, EntryKey)>;
type Writes = Vec<(EntryKey, Option<Value>)>;

/// A write, in the form that the model needs.
struct PlannedWrite {
    checks: Checks,
    writes: Writes,
    /// The keys that are inserted.
    inserted: Vec<EntryKey>,
}

pub(crate) fn entry_key(table: TableId, entry: &OwnedEntry) -> EntryKey {
    EntryKey {
        table,
        index: usize::try_from(entry.index).unwrap_or(usize::MAX),
        key: entry.key.clone(),
    }
}

impl OwnedEntry {
    fn borrow(&self) -> RowEntry<'_> {
        RowEntry {
            index: IndexNumber(self.index),
            unique: self.unique,
            key: &self.key,
            value: &self.value,
        }
    }
}

pub(crate) fn borrowed(entries: &[OwnedEntry]) -> Vec<RowEntry<'_>> {
    entries.iter().map(OwnedEntry::borrow).collect()
}

/// The part of an update in one index: the entry before and the entry after the update.
struct Pair {
    old: OwnedEntry,
    new: OwnedEntry,
}

impl Simulation {
    pub(crate) fn insert(&mut self, session_index: usize, table: TableId) -> Checked {
        let shape = self.shape(table)?;
        let row = shape.draw_row(&mut self.random);
        let entries = shape.entries(&row);
        let unique = entries.iter().filter(|entry| entry.unique);
        let checks = unique
            .map(|entry| (RowCheck::Free, entry_key(table, entry)))
            .collect();
        let writes = entries
            .iter()
            .map(|entry| (entry_key(table, entry), Some(entry.value.clone())))
            .collect();
        let described = describe("insert", &row);
        let inserted = entries
            .iter()
            .map(|entry| entry_key(table, entry))
            .collect();
        let mut all = entries;
        all.extend(self.building_entries(table, &shape, &row));
        self.write(
            session_index,
            table,
            &described,
            PlannedWrite {
                checks,
                writes,
                inserted,
            },
            |session, handle| session.insert(handle, &borrowed(&all)),
        )
    }

    pub(crate) fn delete(&mut self, session_index: usize, table: TableId) -> Checked {
        let row = self.draw_existing(session_index, table)?;
        let shape = self.shape(table)?;
        let entries = shape.entries(&row);
        let checks = entries
            .iter()
            .take(1)
            .map(|entry| (RowCheck::Writable, entry_key(table, entry)))
            .collect();
        let writes = entries
            .iter()
            .map(|entry| (entry_key(table, entry), None))
            .collect();
        let described = describe("delete", &row);
        let mut all = entries;
        all.extend(self.building_entries(table, &shape, &row));
        self.write(
            session_index,
            table,
            &described,
            PlannedWrite {
                checks,
                writes,
                inserted: Vec::new(),
            },
            |session, handle| session.delete(handle, &borrowed(&all)),
        )
    }

    /// Deletes all rows, or a range of them if the table has one index. A transaction that would have
    /// to wait is rolled back.
    pub(crate) fn delete_all(&mut self, session_index: usize, table: TableId) -> Checked {
        let shape = self.shape(table)?;
        let mut draw = || shape.key(shape.draw_key(&mut self.random));
        let (start, end) = (draw(), draw());
        let end = (!self.random.one_in(4)).then_some(end);
        let is_range = shape.kinds.len() == 1 && self.random.one_in(2);
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let is_suitable = match is_range {
            true => handle.can_delete_range(),
            false => handle.can_delete_all(0),
        };
        match is_suitable {
            Ok(true) => {}
            Ok(false) => return Ok(Flow::On),
            Err(error) => return self.fault("opening a table", &error),
        }
        let id = session.model;
        session.held.clear();
        let (expected, found) = if is_range {
            let upper = end.as_deref();
            let expected = self.model.delete_rows(id, table, &start, upper);
            let transaction = &mut session.transaction;
            let found = transaction.delete_range(handle, &start, upper.unwrap_or_default());
            (expected, found)
        } else {
            let expected = self.model.delete_all(id, table);
            (expected, session.transaction.delete_all(handle))
        };
        let range = is_range.then_some((start, end));
        self.note(|| format!("  deletion of rows {range:?} of {table:?} by {id:?}: {expected:?}"));
        match (&found, expected) {
            (Ok(found), (rows, AccessOutcome::Done)) if *found == rows as u64 => Ok(Flow::On),
            (Err(EngineError::Wait(_)), (_, AccessOutcome::MustWait)) => {
                self.roll_back(session_index);
                Ok(Flow::On)
            }
            (Err(EngineError::Wait(_)), _) if self.may_wait(id, table)? => {
                self.abandon(session_index);
                Ok(Flow::On)
            }
            (Ok(_) | Err(EngineError::Wait(_)), _) => {
                let text = format!("deletion of rows: {found:?}, expected {expected:?}");
                Err(Bug(text))
            }
            (Err(error), _) => {
                let flow = self.fault("deleting rows", error)?;
                self.roll_back(session_index);
                Ok(flow)
            }
        }
    }

    pub(crate) fn update(&mut self, session_index: usize, table: TableId) -> Checked {
        let old = self.draw_existing(session_index, table)?;
        let shape = self.shape(table)?;
        let drawn = shape.draw_row(&mut self.random);
        let mut new = old.clone();
        if self.random.one_in(5) {
            new.primary = drawn.primary;
        }
        if self.random.one_in(3) {
            new.unique = drawn.unique;
        }
        if self.random.one_in(3) {
            new.group = drawn.group;
        }
        if self.random.one_in(2) {
            new.payload = drawn.payload;
        }
        let pairs: Vec<Pair> = shape
            .entries(&old)
            .into_iter()
            .zip(shape.entries(&new))
            .filter(|(old, new)| old.index == 0 || old != new)
            .map(|(old, new)| Pair { old, new })
            .collect();
        let mut checks = Checks::new();
        let mut writes = Writes::new();
        let mut inserted = Vec::new();
        for Pair { old, new } in &pairs {
            let same = old.key == new.key;
            if !same {
                inserted.push(entry_key(table, new));
            }
            if old.index == 0 {
                checks.push((RowCheck::Writable, entry_key(table, old)));
            }
            if !same {
                writes.push((entry_key(table, old), None));
            }
            if new.unique && !same {
                checks.push((RowCheck::Free, entry_key(table, new)));
            }
            writes.push((entry_key(table, new), Some(new.value.clone())));
        }
        let described = format!("{} to {}", describe("update", &old), describe("", &new));
        let built = self.building_entries(table, &shape, &old);
        let built = built
            .into_iter()
            .zip(self.building_entries(table, &shape, &new));
        let mut pairs = pairs;
        pairs.extend(
            built
                .filter(|(old, new)| old != new)
                .map(|(old, new)| Pair { old, new }),
        );
        self.write(
            session_index,
            table,
            &described,
            PlannedWrite {
                checks,
                writes,
                inserted,
            },
            |session, handle| {
                let changes: Vec<RowChange<'_>> = pairs
                    .iter()
                    .map(|Pair { old, new }| RowChange {
                        index: IndexNumber(old.index),
                        unique: old.unique,
                        old_key: Some(&old.key),
                        new_key: Some(&new.key),
                        new_value: &new.value,
                    })
                    .collect();
                session.update(handle, &changes)
            },
        )
    }

    /// Writes in the engine and in the model, and compares the results.
    fn write(
        &mut self,
        session_index: usize,
        table: TableId,
        what: &str,
        plan: PlannedWrite,
        call: impl FnOnce(
            &mut teak_engine::EngineTransaction,
            &teak_engine::TableHandle,
        ) -> EngineResult<()>,
    ) -> Checked {
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        let id = session.model;
        session.held.clear();
        let expected = self.model.outcome(id, &plan.checks);
        let blocked = self.model.insert_blocked(id, &plan.inserted);
        let outcome = call(&mut session.transaction, handle);
        self.note(|| format!("  {what} in {table:?} by {id:?}: {expected:?}"));
        let found = match outcome {
            Ok(()) => AccessOutcome::Done,
            Err(EngineError::DuplicateKey) => AccessOutcome::Duplicate,
            Err(EngineError::NotFound) => AccessOutcome::NotFound,
            Err(EngineError::Conflict) => AccessOutcome::Conflict,
            Err(EngineError::Wait(_)) => AccessOutcome::MustWait,
            Err(error) => {
                let flow = self.fault("writing a row", &error)?;
                self.roll_back(session_index);
                return Ok(flow);
            }
        };
        let is_expected = match (expected, blocked) {
            (AccessOutcome::Done, InsertBlocked::Yes) => found == AccessOutcome::MustWait,
            (AccessOutcome::Done, InsertBlocked::Possibly) => {
                matches!(found, AccessOutcome::Done | AccessOutcome::MustWait)
            }
            _ => found == expected,
        };
        // After an escalation, a row range of another transaction may block the row, or a row range
        // of this transaction may contain the row although the transaction has not read it.
        let is_allowed = match (found, expected) {
            (AccessOutcome::MustWait, _) => self.may_wait(id, table)?,
            (AccessOutcome::Done, AccessOutcome::Conflict) => self.has_lock_ranges()?,
            _ => false,
        };
        if !is_expected && is_allowed {
            self.abandon(session_index);
            return Ok(Flow::On);
        }
        if !is_expected {
            let text =
                format!("{what}: {found:?}, expected {expected:?}, insert blocked: {blocked:?}");
            return Err(Bug(text));
        }
        if found == AccessOutcome::Done {
            self.model.write(id, &plan.checks, &plan.writes);
        }
        Ok(Flow::On)
    }

    /// Draws a row that the transaction may find, or one that does not exist.
    fn draw_existing(&mut self, session_index: usize, table: TableId) -> Checked<Row> {
        let shape = self.shape(table)?;
        let mut row = shape.draw_row(&mut self.random);
        let Some(id) = self
            .sessions
            .get(session_index)
            .map(|session| session.model)
        else {
            return Ok(row);
        };
        // The entries of a write must match the row.
        for _ in 0..8 {
            let value = self.model.newest_value(id, table, &shape.key(row.primary));
            if let Some(value) = value {
                return Row::decode(&value).ok_or_else(|| Bug("no row".into()));
            }
            row.primary = shape.draw_key(&mut self.random);
        }
        while self
            .model
            .newest_value(id, table, &shape.key(row.primary))
            .is_some()
        {
            row.primary += 1;
        }
        Ok(row)
    }
}

fn describe(what: &str, row: &Row) -> String {
    format!(
        "{what} {} (unique {}, group {}, {} bytes)",
        row.primary,
        row.unique,
        row.group,
        row.payload.len()
    )
}
