//! How long threads wait for the locks of trees, and how long checkpoints hold them. Counted for
//! all trees that use one cache.

use teak_base::latency::{Histogram, Latencies};

/// Histograms of the times for which the locks of trees were waited for or held.
#[derive(Debug, Default)]
pub struct LockTimes {
    pub(crate) writers: Histogram,
    pub(crate) freezes: Histogram,
    pub(crate) captures: Histogram,
}

impl LockTimes {
    /// Waits of writers for a thread that has, or waits for, exclusive use of the active memtable,
    /// mostly a freeze.
    #[must_use]
    pub fn writers(&self) -> Latencies {
        self.writers.read()
    }

    /// The times that freezes took to exclude writers and acquire the install lock, and that jobs
    /// took to acquire the install lock. Includes those that did not wait.
    #[must_use]
    pub fn freezes(&self) -> Latencies {
        self.freezes.read()
    }

    /// Times for which captures of checkpoints held the install lock.
    #[must_use]
    pub fn captures(&self) -> Latencies {
        self.captures.read()
    }
}
