//! Steps that load many rows.

use crate::outcome::{Bug, Checked, Flow};
use crate::rows::{OwnedEntry, Row};
use crate::simulation::Simulation;
use crate::writes::{borrowed, entry_key};
use std::collections::{BTreeMap, BTreeSet};
use teak_engine::{EngineError, EngineResult, EngineTransaction, TableHandle, WaitError};
use teak_model::{AccessOutcome, EntryKey, InsertBlocked, RowCheck, TableId, Value};

/// A row as the model needs it.
struct LoadedRow {
    checks: Vec<(RowCheck, EntryKey)>,
    writes: Vec<(EntryKey, Option<Value>)>,
}

impl LoadedRow {
    fn new(table: TableId, entries: &[OwnedEntry]) -> Self {
        let unique = entries.iter().filter(|entry| entry.unique);
        let write = |entry: &OwnedEntry| (entry_key(table, entry), Some(entry.value.clone()));
        Self {
            checks: unique
                .map(|entry| (RowCheck::Free, entry_key(table, entry)))
                .collect(),
            writes: entries.iter().map(write).collect(),
        }
    }

    fn keys(&self) -> Vec<EntryKey> {
        self.writes.iter().map(|(entry, _)| entry.clone()).collect()
    }
}

fn load(
    transaction: &mut EngineTransaction,
    handle: &TableHandle,
    rows: &[Vec<OwnedEntry>],
    drops: bool,
) -> EngineResult<Option<u64>> {
    let unique: Vec<bool> = match rows.first() {
        Some(row) => row.iter().map(|entry| entry.unique).collect(),
        None => return Ok(None),
    };
    let mut load = transaction.begin_load(handle, &unique, 1)?;
    for row in rows {
        load.add(&borrowed(row))?;
    }
    if drops {
        return Ok(None);
    }
    transaction.finish_load(load, &mut |_, _| ()).map(Some)
}

impl Simulation {
    /// Loads rows with different keys. A transaction whose load fails is rolled back.
    pub(crate) fn load(&mut self, session_index: usize, table: TableId) -> Checked {
        let rows = self.draw_rows(table)?;
        let drops = self.random.one_in(8);
        let others = self.sessions.len() > 1 || !self.prepared.is_empty();
        let (Some(session), Some(handle)) = (
            self.sessions.get_mut(session_index),
            self.handles.get(&table),
        ) else {
            return Ok(Flow::On);
        };
        match handle.can_load() {
            Ok(true) => {}
            Ok(false) => return Ok(Flow::On),
            Err(error) => return self.fault("opening a table", &error),
        }
        let id = session.model;
        let limits_locks = self.swarm.lock_bytes_max > 0;
        session.held.clear();
        let planned: Vec<LoadedRow> = rows.iter().map(|row| LoadedRow::new(table, row)).collect();
        let outcomes: Vec<AccessOutcome> = planned
            .iter()
            .flat_map(|row| &row.checks)
            .map(|check| self.model.outcome(id, std::slice::from_ref(check)))
            .collect();
        let is_blocked = planned
            .iter()
            .any(|row| self.model.insert_blocked(id, &row.keys()) == InsertBlocked::Yes);
        let found = load(&mut session.transaction, handle, &rows, drops);
        self.note(|| {
            let count = rows.len();
            format!("  load of {count} rows into {table:?} by {id:?}: {found:?}")
        });
        let failed = |outcome| outcomes.contains(&outcome);
        let is_expected = match &found {
            Ok(None) => true,
            Ok(Some(count)) => {
                *count == rows.len() as u64
                    && !is_blocked
                    && outcomes
                        .iter()
                        .all(|outcome| *outcome == AccessOutcome::Done)
            }
            Err(EngineError::DuplicateKey) => failed(AccessOutcome::Duplicate),
            Err(EngineError::Conflict) => failed(AccessOutcome::Conflict),
            // A load waits for any lock within the range of its keys.
            Err(EngineError::Wait(WaitError::TooManyLocks)) => limits_locks,
            Err(EngineError::Wait(_)) => others,
            Err(error) => {
                let flow = self.fault("loading rows", error)?;
                self.roll_back(session_index);
                return Ok(flow);
            }
        };
        if !is_expected {
            let text = format!("load: {found:?}, blocked: {is_blocked}, expected {outcomes:?}");
            return Err(Bug(text));
        }
        match found {
            Ok(Some(_)) => {
                self.report.loads += 1;
                self.add_loaded(id, &planned);
            }
            Ok(None) => {}
            Err(_) => self.roll_back(session_index),
        }
        Ok(Flow::On)
    }

    /// Rows with different keys in each index.
    fn draw_rows(&mut self, table: TableId) -> Checked<Vec<Vec<OwnedEntry>>> {
        let shape = self.shape(table)?;
        let count = match self.random.below(3) {
            0 => 1,
            1 => 20,
            _ => 200,
        };
        let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
        let mut uniques = BTreeSet::new();
        for _ in 0..count {
            let row = shape.draw_row(&mut self.random);
            if !rows.contains_key(&row.primary) && uniques.insert(row.unique) {
                rows.insert(row.primary, row);
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        if self.random.one_in(2) {
            rows.reverse();
        }
        Ok(rows.iter().map(|row| shape.entries(row)).collect())
    }

    fn add_loaded(&mut self, id: teak_model::TransactionId, rows: &[LoadedRow]) {
        let mut ranges: BTreeMap<usize, (EntryKey, EntryKey)> = BTreeMap::new();
        for row in rows {
            self.model.write(id, &row.checks, &row.writes);
            for (_, entry) in &row.checks {
                let range = ranges
                    .entry(entry.index)
                    .or_insert_with(|| (entry.clone(), entry.clone()));
                if entry.key < range.0.key {
                    range.0 = entry.clone();
                }
                if entry.key > range.1.key {
                    range.1 = entry.clone();
                }
            }
        }
        for (low, high) in ranges.into_values() {
            let mut end = high.key;
            end.push(0);
            self.model.lock_gap(id, &low, end);
        }
    }
}
