//! Opening, ending and reopening the engine.

use crate::faults;
use crate::outcome::{Bug, Checked, Flow};
use crate::simulation::Simulation;
use crate::swarm::DIRECTORY;
use std::path::Path;
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::Engine;

/// Maximum number of consecutive openings with planned faults.
const FAULTY_OPENINGS_MAX: u64 = 3;

impl Simulation {
    pub(crate) fn run(&mut self) -> Checked<()> {
        self.disk
            .create_directories(Path::new(DIRECTORY))
            .map_err(|error| Bug(error.to_string()))?;
        self.open()?;
        for number in 0..self.swarm.incarnations {
            let early = !self.hidden.is_empty() && self.random.one_in(3);
            let steps = match early && self.random.one_in(2) {
                true => self.random.below(10),
                false => self.random.below(self.swarm.steps_max) + 1,
            };
            self.note(|| format!("incarnation {number} of {steps} steps"));
            let one_in = self.swarm.faulty_one_in;
            if one_in > 0 && self.random.one_in(one_in) {
                self.plan_fault();
            }
            let mut flow = match early {
                true => self.reveal_early()?,
                false => Flow::On,
            };
            for _ in 0..steps {
                if flow == Flow::Reopen {
                    break;
                }
                self.report.steps += 1;
                flow = self.step()?;
            }
            let lost_power = self.end()?;
            let one_in = self.swarm.hidden_one_in;
            if lost_power && one_in > 0 && self.random.one_in(one_in) {
                self.hide_files()?;
            } else if self.random.one_in(4) {
                self.reveal()?;
            }
            self.open()?;
        }
        self.close_cleanly()
    }

    pub(crate) fn plan_fault(&mut self) {
        self.faulty = true;
        let planned = faults::plan(&self.disk, &mut self.random, self.swarm.only_full_disk);
        self.may_stop_log |= planned.may_stop_log;
        self.refuses_checkpoints |= planned.refuses_checkpoints;
        self.power_loss_planned |= planned.power;
        self.note(|| format!("  fault: {}", planned.text));
    }

    /// Ends this incarnation: closes the engine, kills the process, or loses power. The power may
    /// also be lost after the closing. Returns whether the power was lost.
    fn end(&mut self) -> Checked<bool> {
        if let Ok(engine) = self.engine() {
            let found = engine.statistics();
            self.report.escalations += found.lock_escalations;
            let retained = found.read_only_tables > 0 && found.retained_bytes > 0;
            self.report.retained_logs += u64::from(retained);
        }
        match self.random.below(4) {
            0 if !faults::power_is_off(&self.disk) => {
                self.close()?;
                let lost_power = self.random.one_in(2);
                if lost_power {
                    self.lose_power();
                }
                Ok(lost_power)
            }
            1 if !faults::power_is_off(&self.disk) => {
                self.note(|| "  the process is killed".into());
                self.report.kills += 1;
                self.abandon_engine();
                Ok(false)
            }
            _ => {
                let may_hide = self.swarm.hidden_one_in > 0;
                if may_hide && !faults::power_is_off(&self.disk) && self.random.one_in(3) {
                    // A planned fault may end the writes early. The power is lost in any case.
                    self.write_lost_rows()?;
                }
                self.lose_power();
                Ok(true)
            }
        }
    }

    fn lose_power(&mut self) {
        let seed = self.random.next_u64();
        self.note(|| "  the power is lost".into());
        self.report.crashes += 1;
        // Later operations of the old engine change only the old disk.
        self.disk = self.disk.crash(seed);
        self.power_loss_planned = false;
        self.find_hidden();
        self.abandon_engine();
    }

    pub(crate) fn forget_handles(&mut self) {
        self.altering = None;
        self.sessions.clear();
        self.prepared.clear();
        self.handles.clear();
    }

    /// Ends the engine as if its process was killed.
    pub(crate) fn abandon_engine(&mut self) {
        self.forget_handles();
        if let Some(engine) = self.engine.take() {
            engine.abandon();
        }
    }

    /// Rolls back all open transactions and closes the engine.
    fn close(&mut self) -> Checked<()> {
        self.note(|| "  the engine is closed".into());
        self.report.closings += 1;
        while !self.sessions.is_empty() {
            self.roll_back(0);
        }
        // Prepared transactions remain prepared.
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

    /// Opens the engine, possibly with faults in the first attempts, and checks its contents.
    fn open(&mut self) -> Checked<()> {
        let disturbed = match self.swarm.faulty_one_in {
            0 => 0,
            _ => self.random.below(FAULTY_OPENINGS_MAX + 1),
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
                return Err(Bug("the engine does not open without a fault".into()));
            }
            self.lose_power();
        }
        Ok(())
    }

    /// Tries once to open the engine. `false` when a planned fault prevented this.
    pub(crate) fn try_open(&mut self) -> Checked<bool> {
        let mut options = self.swarm.engine_options(&mut self.random);
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
        // A planned power loss remains planned.
        faults::clear(&self.disk);
        self.may_stop_log = self.power_loss_planned;
        self.refuses_checkpoints = self.power_loss_planned;
        match self.check_recovered() {
            Ok(()) => Ok(true),
            Err(error) => {
                let error = error.into_error()?;
                self.allow("reading the recovered contents", &error)?;
                self.abandon_engine();
                Ok(false)
            }
        }
    }

    /// Ends a run: without faults and after an orderly shutdown, no data may be lost.
    fn close_cleanly(&mut self) -> Checked<()> {
        faults::clear(&self.disk);
        if self.reveal()? == Flow::Reopen {
            self.lose_power();
            self.open()?;
            self.reveal()?;
        }
        let events = self.model.events();
        self.close()?;
        if faults::power_is_off(&self.disk) || self.faulty {
            return Ok(());
        }
        if self.model.acknowledged() < events {
            return Err(Bug("closing did not make every event durable".into()));
        }
        self.lose_power();
        self.open()
    }
}
