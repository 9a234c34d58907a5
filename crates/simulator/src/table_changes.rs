//! Steps that change tables and counters.

use crate::faults;
use crate::outcome::{Bug, Checked, Flow};
use crate::sessions::Session;
use crate::simulation::Simulation;
use teak_engine::{EngineError, TableDefinition};
use teak_model::TableId;

/// Endings of table names that need escaping in file names.
const ENDINGS: [&str; 4] = ["", " with blanks", "#sql-1", "äö@0024"];

/// Whether a table change that returned an error was applied.
pub(crate) enum ChangeStatus {
    Applied,
    NotApplied,
    /// Unknown until the engine is opened again.
    Unknown,
}

impl Simulation {
    fn draw_name(&mut self) -> String {
        let ending = self
            .draw(ENDINGS.len())
            .and_then(|index| ENDINGS.get(index));
        let (database, number) = (self.random.below(2), self.random.below(6));
        format!("d{database}/t{number}{}", ending.copied().unwrap_or(""))
    }

    /// Draws a table. Returns it if it is not being altered and no open transaction has used it.
    pub(crate) fn draw_idle_table(&mut self) -> Option<TableId> {
        let table = self.draw_table()?;
        let altering = self.altering.as_ref().map(|altering| altering.table);
        (altering != Some(table) && self.is_idle(table)).then_some(table)
    }

    /// Whether no open transaction has used the table.
    pub(crate) fn is_idle(&self, table: TableId) -> bool {
        let touched = |session: &Session| session.touched.contains(&table);
        let prepared = self.prepared.iter().filter_map(|one| one.session.as_ref());
        let mut open = self.sessions.iter().chain(prepared);
        let used = self.model.is_in_use(table) || open.any(touched);
        !used
    }

    /// The status of a table change that returned an error. If the engine still works, `applied`
    /// returns whether the change was applied.
    pub(crate) fn change_status(
        &mut self,
        what: &str,
        error: &EngineError,
        applied: impl FnOnce(&Self) -> Checked<bool>,
    ) -> Checked<ChangeStatus> {
        Ok(match self.fault(what, error)? {
            Flow::Reopen => ChangeStatus::Unknown,
            Flow::On if applied(self)? => ChangeStatus::Applied,
            Flow::On => ChangeStatus::NotApplied,
        })
    }

    fn has_table(&self, name: &str) -> Checked<bool> {
        let exists = self.engine()?.table_exists(name);
        exists.map_err(|error| Bug(format!("looking for a table: {error}")))
    }

    pub(crate) fn create_table(&mut self) -> Checked {
        if self.model.tables().len() >= self.swarm.tables_max {
            return Ok(Flow::On);
        }
        let name = self.draw_name();
        let shape = self.swarm.shape(&mut self.random);
        // The model creates the table first, because the table's metadata contains its id.
        let mut trial = self.model.table(&name);
        let taken = trial.is_some();
        let events = self.model.events();
        if !taken {
            trial = self.model.create_table(&name, shape.kinds.len());
        }
        let Some(table) = trial else {
            return Ok(Flow::On);
        };
        self.note(|| format!("  create {name} as {table:?}, {shape:?}"));
        let definition = TableDefinition {
            name: format!("./{name}"),
            indexes: shape.kinds.iter().map(|kind| shape.index(*kind)).collect(),
            metadata: shape.metadata(table),
        };
        match self.engine()?.create_table(&definition) {
            Ok(()) if taken => Err(Bug(format!("{name} was created twice"))),
            Err(EngineError::TableExists { .. }) if taken => Ok(Flow::On),
            Ok(()) => {
                self.shapes.insert(table, shape);
                self.model.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                let asked = name.clone();
                let status =
                    self.change_status("create", &error, |world| world.has_table(&asked))?;
                self.shapes.insert(table, shape);
                match status {
                    _ if taken => {}
                    ChangeStatus::Applied => self.model.acknowledge(),
                    ChangeStatus::NotApplied => self.model.revoke_events(events),
                    ChangeStatus::Unknown => return Ok(Flow::Reopen),
                }
                Ok(self.flow())
            }
        }
    }

    pub(crate) fn drop_table(&mut self) -> Checked {
        match self.draw_idle_table() {
            Some(table) => self.drop_the_table(table),
            None => Ok(Flow::On),
        }
    }

    pub(crate) fn drop_the_table(&mut self, table: TableId) -> Checked {
        let name = self.model.name(table).to_owned();
        self.note(|| format!("  drop {name}, {table:?}"));
        // An open handle must not prevent the drop.
        let handle = self.handles.remove(&table);
        let dropped = self.engine()?.drop_table(&name);
        drop(handle);
        let events = self.model.events();
        self.model.drop_table(table);
        match dropped {
            Ok(()) => {
                self.model.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                let status =
                    self.change_status("drop", &error, |world| Ok(!world.has_table(&name)?))?;
                self.settle(events, &status)
            }
        }
    }

    pub(crate) fn rename_table(&mut self) -> Checked {
        let Some(table) = self.draw_idle_table() else {
            return Ok(Flow::On);
        };
        let from = self.model.name(table).to_owned();
        let to = self.draw_name();
        self.note(|| format!("  rename {from} to {to}"));
        let events = self.model.events();
        let free = self.model.rename_table(table, &to);
        match self.engine()?.rename_table(&from, &to) {
            Ok(()) if !free => Err(Bug(format!("{to} was used twice"))),
            Err(EngineError::TableExists { .. }) if !free => Ok(Flow::On),
            Ok(()) => {
                self.model.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                let status = self.change_status("rename", &error, |world| world.has_table(&to))?;
                if !free {
                    return Ok(self.flow());
                }
                self.settle(events, &status)
            }
        }
    }

    pub(crate) fn truncate_table(&mut self) -> Checked {
        match self.draw_idle_table() {
            Some(table) => self.truncate_the_table(table),
            None => Ok(Flow::On),
        }
    }

    pub(crate) fn truncate_the_table(&mut self, table: TableId) -> Checked {
        let name = self.model.name(table).to_owned();
        self.note(|| format!("  truncate {name}, {table:?}"));
        let truncated = self.engine()?.truncate_table(&name);
        let events = self.model.events();
        self.model.truncate_table(table);
        match truncated {
            Ok(()) => {
                self.counters.truncated(table);
                self.model.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                // If the log still works, only the creation of the new files can
                // have failed, and nothing was applied.
                let status = self.change_status("truncate", &error, |_| Ok(false))?;
                if matches!(status, ChangeStatus::Unknown) {
                    self.counters.truncated(table);
                }
                self.settle(events, &status)
            }
        }
    }

    pub(crate) fn settle(&mut self, events: usize, status: &ChangeStatus) -> Checked {
        match status {
            ChangeStatus::Applied => self.model.acknowledge(),
            ChangeStatus::NotApplied => self.model.revoke_events(events),
            ChangeStatus::Unknown => return Ok(Flow::Reopen),
        }
        Ok(self.flow())
    }

    fn flow(&self) -> Flow {
        if faults::power_is_off(&self.disk) {
            Flow::Reopen
        } else {
            Flow::On
        }
    }

    pub(crate) fn move_counter(&mut self) -> Checked {
        let Some(table) = self.draw_table() else {
            return Ok(Flow::On);
        };
        if let Err(flow) = self.open_handle(table)? {
            return Ok(flow);
        }
        if self.random.one_in(2) {
            return self.reserve_row_ids(table);
        }
        let value = self.counters.value(table, 0) + self.random.below(4);
        let Some(handle) = self.handles.get(&table) else {
            return Ok(Flow::On);
        };
        let moved = handle.advance_counter(0, value);
        moved.map_err(|error| Bug(format!("raising a counter: {error}")))?;
        let found = handle.counter(0);
        let found = found.map_err(|error| Bug(format!("reading a counter: {error}")))?;
        self.counters.advance(table, 0, value);
        self.note(|| format!("  counter of {table:?} to {value}"));
        if found != value {
            return Err(Bug(format!("the counter is {found}, expected {value}")));
        }
        Ok(Flow::On)
    }
}
