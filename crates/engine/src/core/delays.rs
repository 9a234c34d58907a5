//! Counts of the delays of writers, by cause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use teak_base::latency::{Histogram, Latencies};

/// Why a writer is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayCause {
    /// Memtables use most of their share of the memory budget, or all of it.
    Memory,
    /// An index has too many bytes in children where merges are due.
    Debt,
    /// A child of an index has too many runs.
    Runs,
    /// The log is longer than half of its bound.
    Log,
    /// Too many ranges of aborted write ids are registered.
    Aborted,
}

impl DelayCause {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Debt,
        Self::Runs,
        Self::Log,
        Self::Aborted,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Debt => "debt",
            Self::Runs => "runs",
            Self::Log => "log",
            Self::Aborted => "aborted ids",
        }
    }
}

/// Delays of one cause since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayCounts {
    /// The delays, stops included.
    pub times: Latencies,
    /// Delays during which the bound was reached, so that the writer stopped.
    pub stops: u64,
    /// Writers that are stopped now.
    pub stopped_now: u64,
}

#[derive(Debug, Default)]
struct Counters {
    times: Histogram,
    stops: AtomicU64,
    stopped_now: AtomicU64,
}

/// The delays of all writers.
#[derive(Debug, Default)]
pub(crate) struct Delays([Counters; 5]);

impl Delays {
    fn of(&self, cause: DelayCause) -> &Counters {
        let [memory, debt, runs, log, aborted] = &self.0;
        match cause {
            DelayCause::Memory => memory,
            DelayCause::Debt => debt,
            DelayCause::Runs => runs,
            DelayCause::Log => log,
            DelayCause::Aborted => aborted,
        }
    }

    /// Counts a finished delay.
    pub(crate) fn add(&self, cause: DelayCause, time: Duration) {
        self.of(cause).times.record(time);
    }

    /// Counts a writer that stops, until the guard is dropped.
    pub(crate) fn stop(&self, cause: DelayCause) -> Stopped<'_> {
        let counters = self.of(cause);
        counters.stops.fetch_add(1, Ordering::Relaxed);
        counters.stopped_now.fetch_add(1, Ordering::Relaxed);
        Stopped(&counters.stopped_now)
    }

    pub(crate) fn counts(&self, cause: DelayCause) -> DelayCounts {
        let counters = self.of(cause);
        DelayCounts {
            times: counters.times.read(),
            stops: counters.stops.load(Ordering::Relaxed),
            stopped_now: counters.stopped_now.load(Ordering::Relaxed),
        }
    }
}

/// A writer that is stopped.
pub(crate) struct Stopped<'a>(&'a AtomicU64);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
