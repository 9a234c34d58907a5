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

/// Writers are slowed when the bytes that are due to be merged exceed the index's bytes divided by
/// this number, and a minimum. They stop at twice as many bytes.
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

/// The pressure of the runs of a child.
fn run_pressure(run_load: f64) -> f64 {
    (run_load - RUN_LOAD_SLOW) / (RUN_LOAD_STOP - RUN_LOAD_SLOW)
}

/// The pressure of `due_bytes`, the debt of an index. `merge_bytes` is the size of
/// the index as merges count it.
// Byte counts of one index are below 2^53.
#[allow(clippy::cast_precision_loss)]
fn debt_pressure(due_bytes: u64, merge_bytes: u64, debt_bytes_min: u64) -> f64 {
    let slow_at = debt_bytes_min.max(merge_bytes / DEBT_SHARE);
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
        let runs = run_pressure(backlog.run_load);
        let debt = debt_pressure(backlog.due_bytes, backlog.merge_bytes, debt_bytes_min);
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn writers_are_slowed_from_the_trigger_of_the_debt_and_stop_at_twice_as_much() {
        // The minimum; an eighth of a large index.
        for (merge_bytes, slow_at) in [(0, 256), (1024 * MIB, 256), (8192 * MIB, 1024)] {
            for (halves, expected) in [(1, -0.5), (2, 0.0), (3, 0.5), (4, 1.0)] {
                let due_bytes = slow_at * MIB / 2 * halves;
                let found = debt_pressure(due_bytes, merge_bytes, 256 * MIB);
                assert!((found - expected).abs() < 1e-9, "{halves}: {found}");
            }
        }
    }

    #[test]
    fn writers_are_slowed_from_one_and_a_half_times_the_runs_and_stop_at_twice() {
        for (load, expected) in [(1.0, -1.0), (1.5, 0.0), (1.75, 0.5), (2.0, 1.0)] {
            assert!((run_pressure(load) - expected).abs() < 1e-9);
        }
    }
}
