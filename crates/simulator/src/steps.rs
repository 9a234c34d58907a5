//! Drawing and taking one step.

use crate::faults;
use crate::outcome::{Bug, Checked, Flow, is_full};
use crate::sessions::Session;
use crate::simulation::Simulation;
use crate::swarm::StepKind;
use std::collections::BTreeSet;
use teak_engine::{EngineError, EngineResult, Isolation, KeyId};
use teak_model::Scope;

impl Simulation {
    pub(crate) fn step(&mut self) -> Checked {
        if self.model.tables().is_empty() {
            return self.create_table();
        }
        match self.swarm.kind(&mut self.random) {
            StepKind::Begin => self.begin(),
            StepKind::Insert => self.on_table(Self::insert),
            StepKind::Update => self.on_table(Self::update),
            StepKind::Delete => self.on_table(Self::delete),
            StepKind::DeleteAll => self.on_table(Self::delete_all),
            StepKind::Load => self.on_table(Self::load),
            StepKind::Get => self.on_table(Self::get),
            StepKind::GetLocked => self.on_table(Self::get_locked),
            StepKind::Scan => self.on_table(Self::scan),
            StepKind::ScanLocked => self.on_table(Self::scan_locked),
            StepKind::Hold => self.on_table(Self::hold),
            StepKind::StepHeld => self.step_held(),
            StepKind::Commit => self.commit(),
            StepKind::Prepare => self.prepare(),
            StepKind::EndPrepared => self.end_prepared(),
            StepKind::Rollback => {
                if let Some(session_index) = self.draw_session() {
                    self.note(|| format!("  rollback of {session_index}"));
                    self.roll_back(session_index);
                }
                Ok(Flow::On)
            }
            StepKind::Savepoint => self.savepoint(),
            StepKind::RollbackTo => self.rollback_to(),
            StepKind::Statement => self.statement(),
            StepKind::Create => self.create_table(),
            StepKind::Drop => self.drop_table(),
            StepKind::Rename => self.rename_table(),
            StepKind::Truncate => self.truncate_table(),
            StepKind::Alter => self.alter_table(),
            StepKind::Counter => self.move_counter(),
            StepKind::Background => {
                self.work("background step", |engine| engine.step().map(|_| ()))
            }
            StepKind::Idle => self.work("background work", |engine| {
                engine.run_background_until_idle()
            }),
            StepKind::Maintain if self.random.one_in(2) => {
                self.work("due maintenance", teak_engine::Engine::run_due_maintenance)
            }
            StepKind::Maintain => self.work("maintenance", teak_engine::Engine::run_maintenance),
            StepKind::Reclaim => self.work("reclaiming", teak_engine::Engine::reclaim_space),
            StepKind::Relocate => {
                let thousandths = self.random.below(1000);
                self.work("relocation", |engine| engine.relocate(thousandths))
            }
            StepKind::ChangeKeys => {
                // A cipher asks for the newest version once in a while, so often only the next incarnation uses it.
                for id in 1..3 {
                    KeyId::new(id)
                        .iter()
                        .for_each(|key| self.swarm.encryption_keys.rotate(*key));
                }
                self.work("change of keys", |engine| match engine.change_keys() {
                    // Files are hidden, or older ones.
                    Err(
                        EngineError::TableUnavailable { .. } | EngineError::TableDamaged { .. },
                    ) => Ok(()),
                    outcome => outcome,
                })
            }
            StepKind::Checkpoint => self.checkpoint_and_note(),
            StepKind::FlushLog => self.flush_after(Flow::On),
            StepKind::Reveal => self.reveal(),
            StepKind::ChangeHidden => self.change_hidden_table(),
            StepKind::CommitSync => {
                self.commit_sync = !self.commit_sync;
                let sync = self.commit_sync;
                self.note(|| format!("  commits sync: {sync}"));
                self.engine()?.set_commit_sync(sync);
                Ok(Flow::On)
            }
            StepKind::CloseHandle => {
                if let Some(table) = self.draw_table() {
                    self.handles.remove(&table);
                }
                Ok(Flow::On)
            }
            StepKind::Verify => {
                self.note(|| "  all tables are read and verified".into());
                self.check_everything()
            }
            StepKind::Fault => {
                if self.swarm.faulty_one_in > 0 {
                    self.plan_fault();
                }
                Ok(Flow::On)
            }
            StepKind::ClearFaults => self.clear_faults(),
        }
    }

    pub(crate) fn begin(&mut self) -> Checked {
        if self.sessions.len() >= self.swarm.sessions_max {
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
        let (Some(session_index), Some(table)) = (self.draw_session(), self.draw_table()) else {
            return Ok(Flow::On);
        };
        if let Err(flow) = self.open_handle(table)? {
            return Ok(flow);
        }
        if let Some(session) = self.sessions.get_mut(session_index) {
            session.touched.insert(table);
        }
        step(self, session_index, table)
    }

    fn commit(&mut self) -> Checked {
        match self.draw_session() {
            Some(session_index) => self.commit_session(session_index),
            None => Ok(Flow::On),
        }
    }

    pub(crate) fn commit_session(&mut self, session_index: usize) -> Checked {
        if session_index >= self.sessions.len() {
            return Ok(Flow::On);
        }
        let mut session = self.sessions.swap_remove(session_index);
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
                // The transaction was not committed, and must not be after a recovery.
                session.transaction.rollback();
                self.model.rollback(id);
                self.fault("commit", &error)
            }
            Err(error) => {
                session.transaction.rollback();
                // The commit is an event that is not acknowledged: the check after the next opening
                // shows whether it survived. The log must accept no later records.
                self.model.commit(id);
                self.allow("commit", &error)?;
                if !faults::power_is_off(&self.disk) {
                    let flushed = self.engine()?.flush_log();
                    if flushed.is_ok() {
                        return Err(Bug("the log continues after a failed commit".into()));
                    }
                }
                Ok(Flow::Reopen)
            }
        }
    }

    fn savepoint(&mut self) -> Checked {
        let Some(session_index) = self.draw_session() else {
            return Ok(Flow::On);
        };
        let Some(session) = self.sessions.get_mut(session_index) else {
            return Ok(Flow::On);
        };
        let mark = self.model.savepoint(session.model);
        let saved = session.transaction.savepoint();
        let saved = saved.map_err(|error| Bug(format!("setting a savepoint: {error}")))?;
        session.savepoints.push((saved, mark));
        self.note(|| format!("  savepoint {saved} of {session_index}"));
        Ok(Flow::On)
    }

    fn rollback_to(&mut self) -> Checked {
        let Some(session_index) = self.draw_session() else {
            return Ok(Flow::On);
        };
        let count = self
            .sessions
            .get(session_index)
            .map_or(0, |s| s.savepoints.len());
        let Some(which) = self.draw(count) else {
            return Ok(Flow::On);
        };
        let Some(session) = self.sessions.get_mut(session_index) else {
            return Ok(Flow::On);
        };
        // The savepoint itself is retained.
        session.savepoints.truncate(which + 1);
        if let Some((saved, mark)) = session.savepoints.last().copied() {
            let rolled = session.transaction.rollback_to_savepoint(saved);
            rolled.map_err(|error| Bug(format!("rolling back to a savepoint: {error}")))?;
            self.model.rollback_to(session.model, mark);
            self.note(|| format!("  rollback of {session_index} to savepoint {saved}"));
        }
        Ok(Flow::On)
    }

    fn statement(&mut self) -> Checked {
        let Some(session_index) = self.draw_session() else {
            return Ok(Flow::On);
        };
        if let Some(session) = self.sessions.get_mut(session_index) {
            let begun = session.transaction.begin_statement();
            begun.map_err(|error| Bug(format!("beginning a statement: {error}")))?;
            self.model.statement(session.model);
            if !session.repeatable {
                session.held.clear();
            }
        }
        Ok(Flow::On)
    }

    /// Runs background work. It may fail because of a fault, and never changes the results of
    /// reads.
    pub(crate) fn work(
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

    /// Flushes the log, so that all events are durable, unless the engine must be opened again.
    pub(crate) fn flush_after(&mut self, flow: Flow) -> Checked {
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
