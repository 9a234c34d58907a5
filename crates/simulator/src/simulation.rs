//! The state of a run: disk, engine, model, and the state that connects them.

use crate::counters::Counters;
use crate::faults;
use crate::outcome::{Bug, Checked, Flow, is_full};
use crate::report::Report;
use crate::rows::Shape;
use crate::sessions::{Altering, HiddenFile, KnownFiles, Prepared, Session};
use crate::swarm::SwarmConfig;
use std::collections::{BTreeMap, VecDeque};
use teak_engine::{Engine, EngineError, TableHandle};
use teak_model::{Model, TableId, TransactionId};
use teak_testing::{FaultDisk, Random};

/// Maximum number of lines of the trace in the report of a failure.
const TRACE_LINES: usize = 60;

pub(crate) struct Simulation {
    pub(crate) random: Random,
    pub(crate) swarm: SwarmConfig,
    pub(crate) disk: FaultDisk,
    pub(crate) engine: Option<Engine>,
    pub(crate) model: Model,
    pub(crate) shapes: BTreeMap<TableId, Shape>,
    pub(crate) handles: BTreeMap<TableId, TableHandle>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) names_given: u64,
    pub(crate) altering: Option<Altering>,
    /// Index files that were moved away or put into an older state, see `hidden`.
    pub(crate) hidden: Vec<HiddenFile>,
    pub(crate) known: KnownFiles,
    pub(crate) counters: Counters,
    /// Whether a fault was planned in this run.
    pub(crate) faulty: bool,
    /// Whether, since the last opening, a fault was planned that may stop the log.
    pub(crate) may_stop_log: bool,
    /// Whether, since the last opening, a fault was planned that may make files of tables refuse
    /// checkpoints.
    pub(crate) refuses_checkpoints: bool,
    /// Whether a power loss is planned.
    pub(crate) power_loss_planned: bool,
    pub(crate) commit_sync: bool,
    pub(crate) trace: VecDeque<String>,
    pub(crate) report: Report,
    pub(crate) verbose: bool,
}

impl Simulation {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::new(seed);
        Self {
            swarm: SwarmConfig::draw(&mut random),
            disk: FaultDisk::new(seed),
            engine: None,
            model: Model::new(),
            shapes: BTreeMap::new(),
            handles: BTreeMap::new(),
            sessions: Vec::new(),
            prepared: Vec::new(),
            names_given: 0,
            altering: None,
            hidden: Vec::new(),
            known: KnownFiles::default(),
            counters: Counters::default(),
            faulty: false,
            may_stop_log: false,
            refuses_checkpoints: false,
            power_loss_planned: false,
            commit_sync: true,
            trace: VecDeque::new(),
            report: Report::default(),
            random,
            verbose,
        }
    }

    /// Appends a line to the trace.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        if self.verbose {
            println!("{line}");
        }
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }

    pub(crate) fn engine(&self) -> Checked<&Engine> {
        self.engine
            .as_ref()
            .ok_or_else(|| Bug("no engine is open".into()))
    }

    /// Checks an error of the engine: it is a bug unless a planned fault explains
    /// it. Then checks whether the log still works; a full disk must not stop it.
    pub(crate) fn fault(&mut self, what: &str, error: &EngineError) -> Checked {
        self.allow(what, error)?;
        if faults::power_is_off(&self.disk) {
            return Ok(Flow::Reopen);
        }
        match self.engine()?.flush_log() {
            Ok(()) => {
                self.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                self.allow("flushing the log", &error)?;
                if is_full(&error) {
                    return Ok(Flow::On);
                }
                if !self.may_stop_log {
                    return Err(Bug(format!("a full disk stopped the log: {error}")));
                }
                Ok(Flow::Reopen)
            }
        }
    }

    /// Clears the planned faults during an incarnation. Unless a fault may have stopped the log,
    /// the log must then work, and so must a checkpoint unless a fault may have made files refuse
    /// it.
    pub(crate) fn clear_faults(&mut self) -> Checked {
        faults::clear(&self.disk);
        if self.may_stop_log || faults::power_is_off(&self.disk) {
            return Ok(Flow::On);
        }
        let flushed = self.engine()?.flush_log();
        flushed.map_err(|error| {
            Bug(format!(
                "the log does not continue with free space: {error}"
            ))
        })?;
        self.acknowledge();
        let checkpoint = self.engine()?.checkpoint();
        if self.refuses_checkpoints {
            return Ok(Flow::On);
        }
        checkpoint.map_err(|error| Bug(format!("no checkpoint with free space: {error}")))?;
        Ok(Flow::On)
    }

    /// Allows an error if a planned fault explains it; otherwise reports a bug.
    pub(crate) fn allow(&mut self, what: &str, error: &EngineError) -> Checked<()> {
        self.note(|| format!("    {what}: {error}"));
        let is_fault = matches!(
            error,
            EngineError::Storage(_)
                | EngineError::TableReadOnly { .. }
                | EngineError::TableUnavailable { .. }
        );
        if !is_fault {
            return Err(Bug(format!("{what} failed unexpectedly: {error}")));
        }
        if error.is_corrupt() {
            return Err(Bug(format!("{what} found damage: {error}")));
        }
        if !self.faulty {
            return Err(Bug(format!("{what} failed without a fault: {error}")));
        }
        self.report.fault_errors += 1;
        Ok(())
    }

    /// Records that all events so far must survive a crash.
    pub(crate) fn acknowledge(&mut self) {
        self.model.acknowledge();
        self.counters.acknowledge();
    }

    /// Draws an open transaction.
    pub(crate) fn draw_session(&mut self) -> Option<usize> {
        let count = self.sessions.len();
        self.draw(count)
    }

    /// Draws a table without hidden files.
    pub(crate) fn draw_table(&mut self) -> Option<TableId> {
        let mut tables = self.model.tables();
        tables.retain(|table| !self.is_hidden(*table));
        let index = self.draw(tables.len())?;
        tables.get(index).copied()
    }

    /// Draws a number below `count`; `None` when that is zero.
    pub(crate) fn draw(&mut self, count: usize) -> Option<usize> {
        let index = self.random.below(count as u64);
        usize::try_from(index).ok().filter(|index| *index < count)
    }

    pub(crate) fn shape(&self, table: TableId) -> Checked<Shape> {
        let shape = self.shapes.get(&table);
        shape.cloned().ok_or_else(|| Bug("no such shape".into()))
    }

    /// Opens a table unless it is open. The inner error is the flow after a
    /// failed opening.
    pub(crate) fn open_handle(&mut self, table: TableId) -> Checked<Result<(), Flow>> {
        if self.handles.contains_key(&table) {
            return Ok(Ok(()));
        }
        let name = self.model.name(table).to_owned();
        match self.engine()?.open_table(&name) {
            Ok(handle) => {
                self.handles.insert(table, handle);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(self.fault("opening a table", &error)?)),
        }
    }

    /// Whether row ranges may have replaced row locks (lock escalation), or the lock memory was
    /// used up. Then the engine may refuse requests that the model grants, because a range also
    /// locks other rows. The engine must still refuse every request that the model refuses because
    /// of a lock.
    pub(crate) fn has_lock_ranges(&self) -> Checked<bool> {
        let statistics = self.engine()?.statistics();
        Ok(statistics.lock_escalations + statistics.lock_refusals > 0)
    }

    /// Whether a request of the transaction for this table may have to wait although the model
    /// grants it.
    pub(crate) fn may_wait(&self, id: TransactionId, table: TableId) -> Checked<bool> {
        Ok(self.has_lock_ranges()? || self.model.is_cleared_by_another(id, table))
    }

    /// Ends a transaction whose request was refused because of a row range, of the deletion of all
    /// rows, or because the lock memory is used up.
    pub(crate) fn abandon(&mut self, session_index: usize) {
        self.report.range_refusals += 1;
        self.roll_back(session_index);
    }

    /// Rolls back a transaction, in the engine and in the model.
    pub(crate) fn roll_back(&mut self, session_index: usize) {
        if session_index < self.sessions.len() {
            let mut session = self.sessions.swap_remove(session_index);
            session.held.clear();
            session.transaction.rollback();
            self.model.rollback(session.model);
        }
    }
}
