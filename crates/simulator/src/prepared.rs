//! Two-phase commit: prepared transactions survive crashes. They are ended
//! through their handle or by name.

use crate::faults;
use crate::outcome::{Bug, Checked, Flow, is_full};
use crate::sessions::{Prepared, Session};
use crate::simulation::Simulation;
use std::collections::BTreeSet;
use std::time::Duration;
use teak_engine::EngineResult;

impl Simulation {
    pub(crate) fn prepare(&mut self) -> Checked {
        let Some(session_index) = self.draw_session() else {
            return Ok(Flow::On);
        };
        // The model does not remember over a crash that a prepared deletion of all rows also locks
        // keys without a row.
        let writes = |session: &Session| {
            self.model.has_writes(session.model) && !self.model.has_cleared(session.model)
        };
        if !self.sessions.get(session_index).is_some_and(writes) {
            return Ok(Flow::On);
        }
        let mut session = self.sessions.swap_remove(session_index);
        session.held.clear();
        self.names_given += 1;
        let (id, name) = (session.model, format!("x{}", self.names_given));
        self.note(|| format!("  prepare {id:?} as {name}"));
        match session.transaction.prepare(name.as_bytes()) {
            Ok(()) => {
                self.model.prepare(id, &name);
                self.report.prepared += 1;
                if self.commit_sync {
                    self.acknowledge();
                }
                let session = Some(session);
                self.prepared.push(Prepared { name, session });
                Ok(Flow::On)
            }
            Err(error) => {
                session.transaction.rollback();
                if is_full(&error) {
                    self.model.rollback(id);
                    return self.fault("preparing", &error);
                }
                // The check after the next opening determines whether it is prepared.
                self.model.prepare(id, &name);
                self.end_in_doubt("preparing", &error)
            }
        }
    }

    /// Handles an error of the log after a record that may be durable.
    fn end_in_doubt(&mut self, what: &str, error: &teak_engine::EngineError) -> Checked {
        self.allow(what, error)?;
        if !faults::power_is_off(&self.disk) && self.engine()?.flush_log().is_ok() {
            return Err(Bug(format!("the log continues after {what} failed")));
        }
        Ok(Flow::Reopen)
    }

    /// Ends a prepared transaction, or detaches its handle.
    pub(crate) fn end_prepared(&mut self) -> Checked {
        let count = self.prepared.len();
        let Some(index) = self.draw(count) else {
            return Ok(Flow::On);
        };
        let mut prepared = self.prepared.swap_remove(index);
        let commits = !self.random.one_in(3);
        let in_order = commits && self.random.one_in(3);
        let detaches = self.random.one_in(4);
        let name = prepared.name.clone();
        let outcome = match prepared.session.as_mut() {
            Some(session) if detaches => {
                self.note(|| format!("  {name} is detached"));
                session.transaction.detach();
                prepared.session = None;
                self.prepared.push(prepared);
                return Ok(Flow::On);
            }
            Some(session) if in_order => session.transaction.commit_ordered(),
            Some(session) if commits => session.transaction.commit(),
            Some(session) => session.transaction.try_rollback(),
            None => self.end_by_name(&name, commits)?,
        };
        let waited = self.commit_sync && !(in_order && prepared.session.is_some());
        self.note(|| format!("  {name} ends, commits: {commits}: {outcome:?}"));
        let Err(error) = outcome else {
            self.model.end_prepared(&name, commits);
            if waited && commits && prepared.session.is_some() {
                self.acknowledge();
            } else if waited {
                // Rollbacks and commits by name do not log changed counters.
                self.model.acknowledge();
            }
            return Ok(Flow::On);
        };
        if is_full(&error) {
            // The transaction remains prepared; a failed rollback has released the handle.
            if !commits {
                prepared.session = None;
            }
            self.prepared.push(prepared);
            return self.fault("ending a prepared transaction", &error);
        }
        self.model.end_prepared(&name, commits);
        self.end_in_doubt("ending a prepared transaction", &error)
    }

    fn end_by_name(&self, name: &str, commits: bool) -> Checked<EngineResult<()>> {
        let engine = self.engine()?;
        Ok(if commits {
            engine.commit_prepared(name.as_bytes(), Duration::ZERO)
        } else {
            engine.rollback_prepared(name.as_bytes(), Duration::ZERO)
        })
    }

    /// The names of the engine's prepared transactions that no handle owns.
    pub(crate) fn names_found(&self) -> Checked<BTreeSet<String>> {
        let names = self.engine()?.prepared().into_iter();
        Ok(names
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect())
    }

    pub(crate) fn has_unowned_prepared(&self) -> bool {
        self.prepared.iter().any(|one| one.session.is_none())
    }

    /// Restores the list of prepared transactions after the engine was opened. Only their names are
    /// known then.
    pub(crate) fn restore_prepared(&mut self) {
        let names = self.model.prepared().into_iter();
        self.prepared = names
            .map(|name| Prepared {
                name,
                session: None,
            })
            .collect();
    }

    /// Compares the names of the prepared transactions without a handle, during an incarnation.
    pub(crate) fn check_prepared(&self) -> Checked<()> {
        let detached = |one: &&Prepared| one.session.is_none();
        let expected = self.prepared.iter().filter(detached);
        let expected: BTreeSet<String> = expected.map(|one| one.name.clone()).collect();
        let found = self.names_found()?;
        if found == expected {
            return Ok(());
        }
        Err(Bug(format!("prepared: {found:?}, expected {expected:?}")))
    }
}
