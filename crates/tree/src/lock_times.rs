//! Waits for the locks of trees, and how long checkpoints hold them: counted for
//! all trees that use one cache.

use teak_base::latency::{Histogram, Latencies};

/// Times of waits for the locks of trees.
#[derive(Debug, Default)]
pub struct LockTimes {
    pub(crate) writers: Histogram,
    pub(crate) freezes: Histogram,
    pub(crate) captures: Histogram,
}

impl LockTimes {
    /// Waits of writers for a freeze.
    #[must_use]
    pub fn writers(&self) -> Latencies {
        self.writers.read()
    }

    /// Waits of freezes for writers, and of freezes and installations of results
    /// of jobs for each other. Contains those that did not wait.
    #[must_use]
    pub fn freezes(&self) -> Latencies {
        self.freezes.read()
    }

    /// Times for which captures of checkpoints held the lock of installations.
    #[must_use]
    pub fn captures(&self) -> Latencies {
        self.captures.read()
    }
}
