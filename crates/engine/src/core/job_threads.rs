//! The number of threads that run jobs.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts the threads that run a job, a part of one or a task of a sort. A part or a task gets a
/// thread of its own only if fewer threads work than there are flusher threads. A flusher does not
/// wait, so there may be up to twice as many for the time of a part or task.
#[derive(Debug, Default)]
pub(crate) struct JobThreadCounts {
    max: usize,
    working: AtomicUsize,
    /// Threads that have taken parts of divided jobs, since the engine was opened.
    pub helpers: AtomicU64,
}

/// A thread that works. Dropping it ends its work.
pub(crate) struct Working<C: Deref<Target = JobThreadCounts>>(C);

impl<C: Deref<Target = JobThreadCounts>> Drop for Working<C> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
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
    pub(crate) fn begin(&self) -> Working<&Self> {
        self.working.fetch_add(1, Ordering::Relaxed);
        Working(self)
    }

    /// Counts one more thread, unless enough threads work.
    fn count_idle(&self) -> bool {
        let more = |working| (working < self.max).then_some(working + 1);
        let counted = self
            .working
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok()
    }

    /// Counts a thread that will take parts of a job; `None` if enough threads work.
    pub(crate) fn begin_helper(&self) -> Option<Working<&Self>> {
        if !self.count_idle() {
            return None;
        }
        self.helpers.fetch_add(1, Ordering::Relaxed);
        Some(Working(self))
    }

    /// Counts a thread that will run a task of a sort; `None` if enough threads work.
    pub(crate) fn begin_sort_task(self: &Arc<Self>) -> Option<Working<Arc<Self>>> {
        self.count_idle().then(|| Working(Arc::clone(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_counted_with_flushers() {
        let counts = Arc::new(JobThreadCounts::new(3));
        let flusher = counts.begin();
        let first = counts.begin_helper();
        let second = counts.begin_helper();
        assert!(first.is_some() && second.is_some() && counts.begin_helper().is_none());
        assert!(counts.begin_sort_task().is_none());
        drop(first);
        let task = counts.begin_sort_task();
        assert!(task.is_some() && counts.begin_helper().is_none());
        drop(task);
        assert!(counts.begin_helper().is_some());
        drop((flusher, second));
        assert_eq!(counts.working.load(Ordering::Relaxed), 0);
        assert_eq!(counts.helpers.load(Ordering::Relaxed), 3);
        assert!(JobThreadCounts::new(0).begin_helper().is_none());
    }
}
