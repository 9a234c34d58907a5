//! Choosing and taking one step.

use crate::faults;
use crate::mood::Kind;
use crate::world::{Checked, Flow, Session, World, is_full};
use std::collections::BTreeSet;
use teak_engine::{EngineResult, Isolation};
use teak_model::Scope;

impl World {
    /// Takes one step.
    pub(crate) fn step(&mut self) -> Checked {
        if self.model.tables().is_empty() {
            return self.create_table();
        }
        match self.mood.kind(&mut self.random) {
            Kind::Begin => self.begin(),
            Kind::Insert => self.on_table(Self::insert),
            Kind::Update => self.on_table(Self::update),
            Kind::Delete => self.on_table(Self::delete),
            Kind::Get => self.on_table(Self::get),
            Kind::GetLocked => self.on_table(Self::get_locked),
            Kind::Scan => self.on_table(Self::scan),
            Kind::ScanLocked => self.on_table(Self::scan_locked),
            Kind::Hold => self.on_table(Self::hold),
            Kind::StepHeld => self.step_held(),
            Kind::Commit => self.commit(),
            Kind::Prepare => self.prepare(),
            Kind::EndPrepared => self.end_prepared(),
            Kind::Rollback => {
                if let Some(place) = self.draw_session() {
                    self.note(|| format!("  rollback of {place}"));
                    self.roll_back(place);
                }
                Ok(Flow::On)
            }
            Kind::Savepoint => self.savepoint(),
            Kind::RollbackTo => self.rollback_to(),
            Kind::Statement => self.statement(),
            Kind::Create => self.create_table(),
            Kind::Drop => self.drop_table(),
            Kind::Rename => self.rename_table(),
            Kind::Truncate => self.truncate_table(),
            Kind::Alter => self.alter_table(),
            Kind::Counter => self.move_counter(),
            Kind::Background => self.work("background step", |engine| engine.step().map(|_| ())),
            Kind::Idle => self.work("background work", |engine| {
                engine.run_background_until_idle()
            }),
            Kind::KeepHouse => self.work("keeping house", teak_engine::Engine::run_maintenance),
            Kind::Checkpoint => {
                let flow = self.work("checkpoint", teak_engine::Engine::checkpoint)?;
                self.flush_after(flow)
            }
            Kind::FlushLog => self.flush_after(Flow::On),
            Kind::CommitSync => {
                self.commit_sync = !self.commit_sync;
                let sync = self.commit_sync;
                self.note(|| format!("  commits sync: {sync}"));
                self.engine()?.set_commit_sync(sync);
                Ok(Flow::On)
            }
            Kind::CloseHandle => {
                if let Some(table) = self.draw_table() {
                    self.handles.remove(&table);
                }
                Ok(Flow::On)
            }
            Kind::Verify => {
                self.note(|| "  everything is read and verified".into());
                self.check_everything()
            }
            Kind::Fault => {
                if self.mood.faulty_lives > 0 {
                    self.plan_fault();
                }
                Ok(Flow::On)
            }
            Kind::ClearFaults => self.clear_faults(),
        }
    }

    fn begin(&mut self) -> Checked {
        if self.sessions.len() >= self.mood.sessions_max {
            return Ok(Flow::On);
        }
        let repeatable = !self.random.one_in(3);
        let (isolation, scope) = if repeatable {
            (Isolation::RepeatableRead, Scope::Transaction)
        } else {
            (Isolation::ReadCommitted, Scope::Statement)
        };
        let transaction = self.engine()?.begin(isolation);
        let session = Session {
            transaction,
            model: self.model.begin(scope),
            repeatable,
            savepoints: Vec::new(),
            touched: BTreeSet::new(),
            held: Vec::new(),
        };
        let id = session.model;
        self.note(|| format!("  begin {isolation:?} as {id:?}"));
        self.sessions.push(session);
        Ok(Flow::On)
    }

    /// Runs a step that needs a transaction and an open table.
    fn on_table(&mut self, step: fn(&mut Self, usize, teak_model::TableId) -> Checked) -> Checked {
        if self.sessions.is_empty() {
            return self.begin();
        }
        let (Some(place), Some(table)) = (self.draw_session(), self.draw_table()) else {
            return Ok(Flow::On);
        };
        if let Err(flow) = self.open_handle(table)? {
            return Ok(flow);
        }
        if let Some(session) = self.sessions.get_mut(place) {
            session.touched.insert(table);
        }
        step(self, place, table)
    }

    fn commit(&mut self) -> Checked {
        let Some(place) = self.draw_session() else {
            return Ok(Flow::On);
        };
        let mut session = self.sessions.swap_remove(place);
        session.held.clear();
        let id = session.model;
        let writes = self.model.has_writes(id);
        self.note(|| format!("  commit of {id:?}, writes: {writes}"));
        let outcome = session.transaction.commit();
        match outcome {
            Ok(()) => {
                self.model.commit(id);
                self.report.commits += 1;
                if writes && self.commit_sync {
                    self.acknowledge();
                }
                Ok(Flow::On)
            }
            Err(error) if is_full(&error) => {
                // Nothing was committed, and nothing ever will be.
                session.transaction.rollback();
                self.model.rollback(id);
                self.fault("commit", &error)
            }
            Err(error) => {
                session.transaction.rollback();
                // The outcome shows at the next opening: it is an event that
                // is not acknowledged. The log accepts nothing behind it.
                self.model.commit(id);
                self.allow("commit", &error)?;
                if !faults::power_is_off(&self.disk) {
                    let flushed = self.engine()?.flush_log();
                    if flushed.is_ok() {
                        return Err(crate::world::Bug(
                            "the log works on after a commit failed".into(),
                        ));
                    }
                }
                Ok(Flow::Reopen)
            }
        }
    }

    fn savepoint(&mut self) -> Checked {
        let Some(place) = self.draw_session() else {
            return Ok(Flow::On);
        };
        let Some(session) = self.sessions.get_mut(place) else {
            return Ok(Flow::On);
        };
        let mark = self.model.savepoint(session.model);
        let saved = session.transaction.savepoint();
        let saved = saved.map_err(|error| error.to_string())?;
        session.savepoints.push((saved, mark));
        self.note(|| format!("  savepoint {saved} of {place}"));
        Ok(Flow::On)
    }

    fn rollback_to(&mut self) -> Checked {
        let Some(place) = self.draw_session() else {
            return Ok(Flow::On);
        };
        let count = self.sessions.get(place).map_or(0, |s| s.savepoints.len());
        let Some(which) = self.draw(count) else {
            return Ok(Flow::On);
        };
        let Some(session) = self.sessions.get_mut(place) else {
            return Ok(Flow::On);
        };
        // The savepoint itself stays.
        session.savepoints.truncate(which + 1);
        if let Some((saved, mark)) = session.savepoints.last().copied() {
            let rolled = session.transaction.rollback_to_savepoint(saved);
            rolled.map_err(|error| error.to_string())?;
            self.model.rollback_to(session.model, mark);
            self.note(|| format!("  rollback of {place} to savepoint {saved}"));
        }
        Ok(Flow::On)
    }

    fn statement(&mut self) -> Checked {
        let Some(place) = self.draw_session() else {
            return Ok(Flow::On);
        };
        if let Some(session) = self.sessions.get_mut(place) {
            let begun = session.transaction.begin_statement();
            begun.map_err(|error| error.to_string())?;
            self.model.statement(session.model);
            if !session.repeatable {
                session.held.clear();
            }
        }
        Ok(Flow::On)
    }

    /// Background work: it may fail by a fault and never changes answers.
    fn work(
        &mut self,
        what: &str,
        work: impl FnOnce(&teak_engine::Engine) -> EngineResult<()>,
    ) -> Checked {
        self.note(|| format!("  {what}"));
        match work(self.engine()?) {
            Ok(()) => Ok(Flow::On),
            Err(error) => self.fault(what, &error),
        }
    }

    /// Makes everything durable.
    fn flush_after(&mut self, flow: Flow) -> Checked {
        if flow == Flow::Reopen {
            return Ok(flow);
        }
        self.note(|| "  flush of the log".into());
        match self.engine()?.flush_log() {
            Ok(()) => {
                self.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => self.fault("flushing the log", &error),
        }
    }
}
