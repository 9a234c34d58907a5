//! Seeded simulation of the whole engine on a faulty disk, judged by the
//! oracle. One seed is one story:
//!
//! 1. The seed draws a mood: sizes, shapes of rows, weights of steps.
//! 2. A *life* begins: the engine is opened, perhaps while the disk fails.
//!    Everything on disk is compared with the oracle: what is there must be the
//!    state after some prefix of the journal that holds every acknowledged
//!    event, prepared transactions among them. Every block is verified.
//! 3. Steps follow: interleaved transactions with savepoints, reads, locking
//!    reads, two-phase commits, table changes, counters, background work, checkpoints. Each answer
//!    is compared with the oracle's. A fault may be planned; an error is then
//!    allowed, a wrong answer never.
//! 4. The life ends by closing, by killing the process or by power loss; the
//!    next one begins.
//!
//! There are no threads and no clock in it: a failure replays from its seed.
//! Races between threads are looked for by [`simulate_threads`], whose stories
//! do not replay.

mod alter;
mod check;
mod counters;
mod faults;
mod life;
mod mood;
mod prepared;
mod reads;
mod rows;
mod steps;
mod table_changes;
mod threads;
mod world;
mod writes;

pub use threads::simulate_threads;

use std::fmt;
use std::panic::AssertUnwindSafe;

/// What happened in one story, or in several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Steps taken.
    pub steps: u64,
    /// Power losses.
    pub crashes: u64,
    /// Processes killed.
    pub kills: u64,
    /// Orderly closings.
    pub closings: u64,
    /// Errors that planned faults caused.
    pub fault_errors: u64,
    /// Times that row locks became a range.
    pub escalations: u64,
    /// Requests that ranges in place of row locks kept waiting.
    pub range_refusals: u64,
    /// Openings that planned faults prevented.
    pub failed_openings: u64,
    /// Commits acknowledged.
    pub commits: u64,
    /// Transactions prepared.
    pub prepared: u64,
    /// Tables altered in place.
    pub alterations: u64,
    /// Events that a crash took back, none of them acknowledged.
    pub events_lost: u64,
    /// Unacknowledged events that survived.
    pub events_kept: u64,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.closings += other.closings;
        self.fault_errors += other.fault_errors;
        self.escalations += other.escalations;
        self.range_refusals += other.range_refusals;
        self.failed_openings += other.failed_openings;
        self.commits += other.commits;
        self.prepared += other.prepared;
        self.alterations += other.alterations;
        self.events_lost += other.events_lost;
        self.events_kept += other.events_kept;
    }
}

/// A story that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub message: String,
    /// The last steps before, oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        write!(f, "seed {} failed: {}", self.seed, self.message)
    }
}

impl std::error::Error for Failure {}

/// Tells the story of a seed. With `verbose`, every step is printed as it is
/// taken.
///
/// # Errors
/// [`Failure`] when the engine answered or kept anything wrong, or panicked.
pub fn simulate(seed: u64, verbose: bool) -> Result<Report, Box<Failure>> {
    let mut world = world::World::new(seed, verbose);
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| world.live()));
    let message = match told {
        Ok(Ok(())) => return Ok(world.report),
        Ok(Err(world::Bug(message))) => message,
        Err(cause) => {
            let text = cause
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| cause.downcast_ref::<&str>().copied());
            format!("panic: {}", text.unwrap_or("without a text"))
        }
    };
    Err(Box::new(Failure {
        seed,
        message,
        trace: world.trace.into_iter().collect(),
    }))
}
