//! The state of a story: disk, engine, oracle, and what connects them.

use crate::Report;
use crate::alter::Altering;
use crate::counters::Counters;
use crate::faults;
use crate::mood::Mood;
use crate::prepared::Prepared;
use crate::rows::Shape;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use teak_engine::{Cursor, Engine, EngineError, EngineTransaction, TableHandle};
use teak_model::{Key, Mark, Model, TableId, TransactionId, Value};
use teak_testing::{FaultDisk, Random};

/// Steps that a failure shows.
const TRACE_LINES: usize = 60;

/// The engine is wrong.
#[derive(Debug)]
pub(crate) struct Bug(pub(crate) String);

impl From<String> for Bug {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// Whether an error says that the disk is full.
pub(crate) fn is_full(error: &EngineError) -> bool {
    matches!(error, EngineError::Storage(error) if error.is_no_space())
}

/// How the story goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The engine lives.
    On,
    /// A fault ended this life: the engine must be opened again.
    Reopen,
}

pub(crate) type Checked<T = Flow> = Result<T, Bug>;

/// A cursor kept open over other steps.
pub(crate) struct Held {
    pub(crate) cursor: Cursor,
    /// Everything it must return, in its direction.
    pub(crate) expected: Vec<(Key, Value)>,
    pub(crate) next: usize,
    pub(crate) forward: bool,
}

/// An open transaction, in the engine and in the oracle.
pub(crate) struct Session {
    pub(crate) transaction: EngineTransaction,
    pub(crate) model: TransactionId,
    pub(crate) repeatable: bool,
    pub(crate) savepoints: Vec<(u64, Mark)>,
    /// Tables it read or wrote.
    pub(crate) touched: BTreeSet<TableId>,
    pub(crate) held: Vec<Held>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) mood: Mood,
    pub(crate) disk: FaultDisk,
    pub(crate) engine: Option<Engine>,
    pub(crate) model: Model,
    pub(crate) shapes: BTreeMap<TableId, Shape>,
    pub(crate) handles: BTreeMap<TableId, TableHandle>,
    pub(crate) sessions: Vec<Session>,
    /// Prepared transactions.
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) names_given: u64,
    /// A table that is being altered.
    pub(crate) altering: Option<Altering>,
    pub(crate) counters: Counters,
    /// Whether a fault was planned in this life.
    pub(crate) faulty: bool,
    /// Whether one was planned since the last opening that may end the log's
    /// work.
    pub(crate) grave: bool,
    /// Whether the power will go, at some time.
    pub(crate) power_will_go: bool,
    pub(crate) commit_sync: bool,
    pub(crate) trace: VecDeque<String>,
    pub(crate) report: Report,
    pub(crate) verbose: bool,
}

impl World {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::new(seed);
        Self {
            mood: Mood::draw(&mut random),
            disk: FaultDisk::new(seed),
            engine: None,
            model: Model::new(),
            shapes: BTreeMap::new(),
            handles: BTreeMap::new(),
            sessions: Vec::new(),
            prepared: Vec::new(),
            names_given: 0,
            altering: None,
            counters: Counters::default(),
            faulty: false,
            grave: false,
            power_will_go: false,
            commit_sync: true,
            trace: VecDeque::new(),
            report: Report::default(),
            random,
            verbose,
        }
    }

    /// Notes a step for whoever looks into a failure.
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

    /// Judges an error of the engine: wrong unless a fault explains it. Then
    /// the log is asked whether it still works; a full disk ends no life.
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
                if !self.grave {
                    return Err(Bug(format!("a full disk ended the log: {error}")));
                }
                Ok(Flow::Reopen)
            }
        }
    }

    /// Takes the faults back in the middle of a life. When only space was short
    /// everything must work again.
    pub(crate) fn clear_faults(&mut self) -> Checked {
        faults::clear(&self.disk);
        if self.grave || faults::power_is_off(&self.disk) {
            return Ok(Flow::On);
        }
        let flushed = self.engine()?.flush_log();
        flushed.map_err(|error| Bug(format!("the log does not go on with space: {error}")))?;
        self.acknowledge();
        let checkpoint = self.engine()?.checkpoint();
        checkpoint.map_err(|error| Bug(format!("no checkpoint though there is space: {error}")))?;
        Ok(Flow::On)
    }

    /// Whether a planned fault explains an error; else it is a bug.
    pub(crate) fn allow(&mut self, what: &str, error: &EngineError) -> Checked<()> {
        self.note(|| format!("    {what}: {error}"));
        if !matches!(error, EngineError::Storage(_)) {
            return Err(Bug(format!("{what} failed strangely: {error}")));
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

    /// Everything that happened so far must survive from now on.
    pub(crate) fn acknowledge(&mut self) {
        self.model.acknowledge();
        self.counters.acknowledge();
    }

    /// One of the open transactions.
    pub(crate) fn draw_session(&mut self) -> Option<usize> {
        let count = self.sessions.len();
        self.draw(count)
    }

    /// One of the tables.
    pub(crate) fn draw_table(&mut self) -> Option<TableId> {
        let tables = self.model.tables();
        let place = self.draw(tables.len())?;
        tables.get(place).copied()
    }

    pub(crate) fn draw(&mut self, count: usize) -> Option<usize> {
        let place = self.random.below(count as u64);
        usize::try_from(place).ok().filter(|place| *place < count)
    }

    pub(crate) fn shape(&self, table: TableId) -> Checked<Shape> {
        let shape = self.shapes.get(&table);
        shape.cloned().ok_or_else(|| Bug("no such shape".into()))
    }

    /// Makes sure that a table is open; `Reopen` or a failed opening otherwise.
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

    /// Whether ranges may stand in place of row locks. Then a request may have
    /// to wait that need not by the oracle, and a range may hold a row that was
    /// never locked; but what the oracle refuses is never granted.
    pub(crate) fn has_lock_ranges(&self) -> Checked<bool> {
        let statistics = self.engine()?.statistics();
        Ok(statistics.lock_escalations + statistics.lock_refusals > 0)
    }

    /// Ends a transaction that a range of another kept from what the oracle
    /// allows, or that was refused a lock.
    pub(crate) fn give_up(&mut self, place: usize) {
        self.report.range_refusals += 1;
        self.roll_back(place);
    }

    /// Ends a transaction without committing, on both sides.
    pub(crate) fn roll_back(&mut self, place: usize) {
        if place < self.sessions.len() {
            let mut session = self.sessions.swap_remove(place);
            session.held.clear();
            session.transaction.rollback();
            self.model.rollback(session.model);
        }
    }
}
