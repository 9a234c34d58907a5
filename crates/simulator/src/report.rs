//! The results of a simulation: `Report` counts events, `Failure` describes a
//! bug that it found.

use std::fmt;

/// Counts of events in one run, or in several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Steps taken.
    pub steps: u64,
    /// Power losses.
    pub crashes: u64,
    /// Kills of the process.
    pub kills: u64,
    /// Orderly closings.
    pub closings: u64,
    /// Errors that planned faults caused; in runs with threads, times that the size of the disk was
    /// limited.
    pub fault_errors: u64,
    /// Escalations of row locks to a row range.
    pub escalations: u64,
    /// Requests refused because of a row range, or because the lock memory was used up.
    pub range_refusals: u64,
    /// Openings that planned faults prevented.
    pub failed_openings: u64,
    /// Commits that returned success.
    pub commits: u64,
    /// Transactions prepared.
    pub prepared: u64,
    /// Tables altered in place.
    pub alterations: u64,
    /// Of these, repairs.
    pub repairs: u64,
    /// Loads of many rows that succeeded.
    pub loads: u64,
    /// Events lost in a crash, none of them acknowledged.
    pub events_lost: u64,
    /// Unacknowledged events that survived.
    pub events_kept: u64,
    /// Index files that were missing or changed when the engine was opened.
    pub hidden_files: u64,
    /// Of these, files in a state older than the checkpoint in the catalogue.
    pub older_files: u64,
    /// Index files that were brought back later.
    pub revealed_files: u64,
    /// Incarnations that ended with retained log records of read-only tables.
    pub retained_logs: u64,
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
        self.repairs += other.repairs;
        self.loads += other.loads;
        self.events_lost += other.events_lost;
        self.events_kept += other.events_kept;
        self.hidden_files += other.hidden_files;
        self.older_files += other.older_files;
        self.revealed_files += other.revealed_files;
        self.retained_logs += other.retained_logs;
    }
}

/// A run that found a bug.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The bug.
    pub message: String,
    /// The last steps before the failure, oldest first.
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
