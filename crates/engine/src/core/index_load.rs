//! How far the background work on one index is behind its writers.

use super::delays::DelayCause;
use super::pacer::Pacer;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use teak_tree::Tree;

/// Runs of a child, relative to the number at which merges are due, from which
/// writers are slowed.
const RUN_LOAD_SLOW: f64 = 1.5;

/// The same, at which writers stop.
const RUN_LOAD_STOP: f64 = 2.0;

/// Due bytes from which writers are slowed: at least one in so many bytes of the
/// index. At twice as many bytes writers stop.
const DEBT_SHARE: u64 = 8;

/// The backlog of one index, kept up to date by the jobs on it.
#[derive(Debug, Default)]
pub(crate) struct IndexLoad {
    pub pacer: Pacer,
    /// Bits of a float: zero at the trigger of the slowdown and below, one at
    /// the stop.
    pressure: AtomicU64,
    /// Whether the runs of a child cause the pressure, and not the debt.
    is_runs: AtomicBool,
}

// Byte counts of one index are below 2^53.
#[allow(clippy::cast_precision_loss)]
fn debt_pressure(due_bytes: u64, slow_at: u64) -> f64 {
    due_bytes as f64 / slow_at.max(1) as f64 - 1.0
}

impl IndexLoad {
    /// Computes the pressure from the state of the tree. `debt_bytes_min` is the
    /// debt below which no writer is slowed.
    pub(crate) fn refresh(&self, now: Instant, tree: &Tree, debt_bytes_min: u64) {
        let backlog = tree.backlog();
        let in_memory = tree.memtable_bytes() + tree.frozen_bytes();
        self.pacer
            .report(now, tree.written_bytes(), backlog.upper_bytes + in_memory);
        let runs = (backlog.run_load - RUN_LOAD_SLOW) / (RUN_LOAD_STOP - RUN_LOAD_SLOW);
        let slow_at = debt_bytes_min.max(backlog.merge_bytes / DEBT_SHARE);
        let debt = debt_pressure(backlog.due_bytes, slow_at);
        self.is_runs.store(runs >= debt, Ordering::Relaxed);
        let pressure = runs.max(debt).clamp(0.0, 1.0);
        self.pressure.store(pressure.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn pressure(&self) -> f64 {
        f64::from_bits(self.pressure.load(Ordering::Relaxed))
    }

    pub(crate) fn cause(&self) -> DelayCause {
        match self.is_runs.load(Ordering::Relaxed) {
            true => DelayCause::Runs,
            false => DelayCause::Debt,
        }
    }
}
