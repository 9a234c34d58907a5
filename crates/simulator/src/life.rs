//! Opening, ending and reopening the engine.

use crate::faults;
use crate::mood::DIRECTORY;
use crate::world::{Bug, Checked, Flow, World};
use std::path::Path;
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::{Engine, EngineError};

/// Openings that faults may disturb, one after the other.
const DISTURBED_OPENINGS_MAX: u64 = 3;

impl World {
    /// The whole story.
    pub(crate) fn live(&mut self) -> Checked<()> {
        self.disk
            .create_directories(Path::new(DIRECTORY))
            .map_err(|error| Bug(error.to_string()))?;
        self.open()?;
        for life in 0..self.mood.lives {
            let steps = self.random.below(self.mood.steps_per_life) + 1;
            self.note(|| format!("life {life} of {steps} steps"));
            let faulty = self.mood.faulty_lives;
            if faulty > 0 && self.random.one_in(faulty) {
                self.plan_fault();
            }
            for _ in 0..steps {
                self.report.steps += 1;
                if self.step()? == Flow::Reopen {
                    break;
                }
            }
            self.end()?;
            self.open()?;
        }
        self.close_in_peace()
    }

    pub(crate) fn plan_fault(&mut self) {
        self.faulty = true;
        let planned = faults::plan(&self.disk, &mut self.random, self.mood.only_space);
        self.grave |= planned.grave;
        self.power_will_go |= planned.power;
        self.note(|| format!("  fault: {}", planned.text));
    }

    /// Ends this life in one of three ways.
    fn end(&mut self) -> Checked<()> {
        if let Ok(engine) = self.engine() {
            self.report.escalations += engine.statistics().lock_escalations;
        }
        match self.random.below(4) {
            0 if !faults::power_is_off(&self.disk) => self.close(),
            1 if !faults::power_is_off(&self.disk) => {
                self.note(|| "  the process is killed".into());
                self.report.kills += 1;
                self.forget_handles();
                self.engine = None;
                Ok(())
            }
            _ => {
                self.lose_power();
                Ok(())
            }
        }
    }

    fn lose_power(&mut self) {
        let seed = self.random.next_u64();
        self.note(|| "  the power goes".into());
        self.report.crashes += 1;
        // What is done from now on goes to the old disk, which nobody sees.
        self.disk = self.disk.crash(seed);
        self.power_will_go = false;
        self.forget_handles();
        self.engine = None;
    }

    fn forget_handles(&mut self) {
        self.altering = None;
        self.sessions.clear();
        self.prepared.clear();
        self.handles.clear();
    }

    /// Rolls back what is open and closes.
    fn close(&mut self) -> Checked<()> {
        self.note(|| "  the engine is closed".into());
        self.report.closings += 1;
        while !self.sessions.is_empty() {
            self.roll_back(0);
        }
        // What is prepared stays so.
        self.prepared.clear();
        self.altering = None;
        self.handles.clear();
        let Some(engine) = self.engine.take() else {
            return Ok(());
        };
        match engine.close() {
            Ok(()) => self.acknowledge(),
            Err(error) => self.allow("closing", &error)?,
        }
        Ok(())
    }

    /// Opens the engine, with faults at first, and checks what it has kept.
    fn open(&mut self) -> Checked<()> {
        let disturbed = match self.mood.faulty_lives {
            0 => 0,
            _ => self.random.below(DISTURBED_OPENINGS_MAX + 1),
        };
        for _ in 0..disturbed {
            if self.random.one_in(2) {
                self.plan_fault();
            }
            if self.try_open()? {
                return Ok(());
            }
            self.report.failed_openings += 1;
            if faults::power_is_off(&self.disk) || self.random.one_in(2) {
                self.lose_power();
            }
        }
        faults::clear(&self.disk);
        if faults::power_is_off(&self.disk) {
            self.lose_power();
        }
        // A power loss may still be planned.
        while !self.try_open()? {
            if !faults::power_is_off(&self.disk) {
                return Err(Bug("a sound disk cannot be opened".into()));
            }
            self.lose_power();
        }
        Ok(())
    }

    /// One try. `false` when a fault prevented it.
    fn try_open(&mut self) -> Checked<bool> {
        let mut options = self.mood.engine_options(&mut self.random);
        if self.verbose {
            options.messages = Some(Arc::new(|level, text| {
                println!("    engine: {level:?}: {text}");
            }));
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        self.note(|| "  opening".into());
        match Engine::open(disk, options) {
            Ok(engine) => self.engine = Some(engine),
            Err(error) => {
                self.allow("opening", &error)?;
                return Ok(false);
            }
        }
        self.commit_sync = true;
        // A planned power loss stays.
        faults::clear(&self.disk);
        self.grave = self.power_will_go;
        match self.check_recovered() {
            Ok(()) => {
                // Only a power loss can still be planned.
                Ok(true)
            }
            Err(trouble) => {
                let error = trouble.into_error()?;
                self.allow("reading what was recovered", &error)?;
                self.forget_handles();
                self.engine = None;
                Ok(false)
            }
        }
    }

    /// The end of a story: a sound disk, an orderly closing, nothing lost.
    fn close_in_peace(&mut self) -> Checked<()> {
        faults::clear(&self.disk);
        let events = self.model.events();
        self.close()?;
        if faults::power_is_off(&self.disk) || self.faulty {
            return Ok(());
        }
        if self.model.acknowledged() < events {
            return Err(Bug("closing acknowledged nothing".into()));
        }
        self.lose_power();
        self.open()
    }
}

/// Why a check ended: the engine is wrong, or a fault got in the way.
pub(crate) enum Trouble {
    Bug(Bug),
    Error(EngineError),
}

impl Trouble {
    fn into_error(self) -> Result<EngineError, Bug> {
        match self {
            Trouble::Bug(bug) => Err(bug),
            Trouble::Error(error) => Ok(error),
        }
    }
}

impl From<Bug> for Trouble {
    fn from(bug: Bug) -> Self {
        Trouble::Bug(bug)
    }
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Trouble::Error(error)
    }
}
