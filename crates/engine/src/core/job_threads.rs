//! The number of threads that run jobs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts the threads that run a job or a part of one. A part gets a thread of its own only if fewer
/// threads work than there are flusher threads. A flusher does not wait, so there may be up to
/// twice as many for the time of a part.
#[derive(Debug, Default)]
pub(crate) struct JobThreadCounts {
    max: usize,
    working: AtomicUsize,
    /// Threads that have taken parts of divided jobs, since the engine was opened.
    pub helpers: AtomicU64,
}

/// A thread that works. Dropping it ends its work.
pub(crate) struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl JobThreadCounts {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    /// Counts a thread that runs a job.
    pub(crate) fn begin(&self) -> Working<'_> {
        self.working.fetch_add(1, Ordering::Relaxed);
        Working(&self.working)
    }

    /// Counts a thread that will take parts of a job; `None` if enough threads work.
    pub(crate) fn begin_helper(&self) -> Option<Working<'_>> {
        let more = |working| (working < self.max).then_some(working + 1);
        let counted = self
            .working
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok()?;
        self.helpers.fetch_add(1, Ordering::Relaxed);
        Some(Working(&self.working))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_counted_with_flushers() {
        let counts = JobThreadCounts::new(3);
        let flusher = counts.begin();
        let first = counts.begin_helper();
        let second = counts.begin_helper();
        assert!(first.is_some() && second.is_some() && counts.begin_helper().is_none());
        drop(first);
        assert!(counts.begin_helper().is_some());
        drop((flusher, second));
        assert_eq!(counts.working.load(Ordering::Relaxed), 0);
        assert_eq!(counts.helpers.load(Ordering::Relaxed), 3);
        assert!(JobThreadCounts::new(0).begin_helper().is_none());
    }
}
