//! Steps that write rows.

use crate::rows::{OwnedEntry, Row};
use crate::world::{Bug, Checked, Flow, World};
use teak_engine::{EngineError, EngineResult, RowChange, RowEntry};
use teak_model::{Check, Outcome, Place, Stopped, TableId, Value};

type Checks = Vec<(Check, Place)>;
type Writes = Vec<(Place, Option<Value>)>;

/// A write as the oracle has it.
struct Plan {
    checks: Checks,
    writes: Writes,
    /// Where keys come that were not there.
    coming: Vec<Place>,
}

fn place_of(table: TableId, entry: &OwnedEntry) -> Place {
    Place {
        table,
        index: usize::try_from(entry.index).unwrap_or(usize::MAX),
        key: entry.key.clone(),
    }
}

impl OwnedEntry {
    fn borrow(&self) -> RowEntry<'_> {
        RowEntry {
            index: self.index,
            unique: self.unique,
            key: &self.key,
            value: &self.value,
        }
    }
}

fn borrowed(entries: &[OwnedEntry]) -> Vec<RowEntry<'_>> {
    entries.iter().map(OwnedEntry::borrow).collect()
}

/// One index's part of an update: the entry before and the entry after.
struct Pair {
    old: OwnedEntry,
    new: OwnedEntry,
}

impl World {
    pub(crate) fn insert(&mut self, place: usize, table: TableId) -> Checked {
        let shape = self.shape(table)?;
        let row = shape.draw_row(&mut self.random);
        let entries = shape.entries(&row);
        let unique = entries.iter().filter(|entry| entry.unique);
        let checks = unique
            .map(|entry| (Check::Free, place_of(table, entry)))
            .collect();
        let writes = entries
            .iter()
            .map(|entry| (place_of(table, entry), Some(entry.value.clone())))
            .collect();
        let described = describe("insert", &row);
        let coming = entries.iter().map(|entry| place_of(table, entry)).collect();
        let mut all = entries;
        all.extend(self.building_entries(table, &shape, &row));
        self.write(
            place,
            table,
            &described,
            Plan {
                checks,
                writes,
                coming,
            },
            |session, handle| session.insert(handle, &borrowed(&all)),
        )
    }

    pub(crate) fn delete(&mut self, place: usize, table: TableId) -> Checked {
        let row = self.draw_existing(place, table)?;
        let shape = self.shape(table)?;
        let entries = shape.entries(&row);
        let checks = entries
            .iter()
            .take(1)
            .map(|entry| (Check::Mine, place_of(table, entry)))
            .collect();
        let writes = entries
            .iter()
            .map(|entry| (place_of(table, entry), None))
            .collect();
        let described = describe("delete", &row);
        let mut all = entries;
        all.extend(self.building_entries(table, &shape, &row));
        self.write(
            place,
            table,
            &described,
            Plan {
                checks,
                writes,
                coming: Vec::new(),
            },
            |session, handle| session.delete(handle, &borrowed(&all)),
        )
    }

    pub(crate) fn update(&mut self, place: usize, table: TableId) -> Checked {
        let old = self.draw_existing(place, table)?;
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
        let mut coming = Vec::new();
        for Pair { old, new } in &pairs {
            let same = old.key == new.key;
            if !same {
                coming.push(place_of(table, new));
            }
            if old.index == 0 {
                checks.push((Check::Mine, place_of(table, old)));
            }
            if !same {
                writes.push((place_of(table, old), None));
            }
            if new.unique && !same {
                checks.push((Check::Free, place_of(table, new)));
            }
            writes.push((place_of(table, new), Some(new.value.clone())));
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
            place,
            table,
            &described,
            Plan {
                checks,
                writes,
                coming,
            },
            |session, handle| {
                let changes: Vec<RowChange<'_>> = pairs
                    .iter()
                    .map(|Pair { old, new }| RowChange {
                        index: old.index,
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

    /// Writes on both sides and compares what they say.
    fn write(
        &mut self,
        place: usize,
        table: TableId,
        what: &str,
        plan: Plan,
        call: impl FnOnce(
            &mut teak_engine::EngineTransaction,
            &teak_engine::TableHandle,
        ) -> EngineResult<()>,
    ) -> Checked {
        let (Some(session), Some(handle)) =
            (self.sessions.get_mut(place), self.handles.get(&table))
        else {
            return Ok(Flow::On);
        };
        let id = session.model;
        session.held.clear();
        let expected = self.model.outcome(id, &plan.checks);
        let stopped = self.model.stopped(id, &plan.coming);
        let outcome = call(&mut session.transaction, handle);
        self.note(|| format!("  {what} in {table:?} by {id:?}: {expected:?}"));
        let found = match outcome {
            Ok(()) => Outcome::Done,
            Err(EngineError::DuplicateKey) => Outcome::Duplicate,
            Err(EngineError::NotFound) => Outcome::NotFound,
            Err(EngineError::Conflict) => Outcome::Conflict,
            Err(EngineError::Wait(_)) => Outcome::MustWait,
            Err(error) => {
                let flow = self.fault("writing a row", &error)?;
                self.roll_back(place);
                return Ok(flow);
            }
        };
        let right = match (expected, stopped) {
            (Outcome::Done, Stopped::Yes) => found == Outcome::MustWait,
            (Outcome::Done, Stopped::Perhaps) => {
                matches!(found, Outcome::Done | Outcome::MustWait)
            }
            _ => found == expected,
        };
        // A range that stops the row, or that holds it though it was never read.
        let ranged =
            found == Outcome::MustWait || (found, expected) == (Outcome::Done, Outcome::Conflict);
        if !right && ranged && self.has_lock_ranges()? {
            self.give_up(place);
            return Ok(Flow::On);
        }
        if !right {
            let text = format!("{what}: {found:?}, expected {expected:?}, stopped {stopped:?}");
            return Err(Bug(text));
        }
        if found == Outcome::Done {
            self.model.write(id, &plan.checks, &plan.writes);
        }
        Ok(Flow::On)
    }

    /// A row that the transaction could find, or one that is not there.
    fn draw_existing(&mut self, place: usize, table: TableId) -> Checked<Row> {
        let shape = self.shape(table)?;
        let mut row = shape.draw_row(&mut self.random);
        let Some(id) = self.sessions.get(place).map(|session| session.model) else {
            return Ok(row);
        };
        // Whatever row is named must be named with its own entries.
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
