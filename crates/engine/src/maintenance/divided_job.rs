//! Threads for the parts of a large flush.

use crate::core::job_threads::JobThreadCounts;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use teak_disk::{IoJob, IoPacer, IoProgress};
use teak_tree::JobThreads;

/// Runs the parts of a job on this thread, and on new ones while flushers are idle.
pub(super) struct PartThreads<'a> {
    pub(super) counts: &'a JobThreadCounts,
    pub(super) pacer: &'a Arc<IoPacer>,
    /// The I/O of the parts counts for this job.
    pub(super) io: IoJob,
    pub(super) progress: &'a Arc<IoProgress>,
}

impl JobThreads for PartThreads<'_> {
    fn run(&self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= parts {
                    return;
                }
                part(number);
            }
        };
        thread::scope(|scope| {
            for _ in 1..parts {
                let Some(working) = self.counts.begin_helper() else {
                    break;
                };
                let help = || {
                    let _working = working;
                    let _io = self.pacer.begin_counted(self.io, self.progress);
                    work();
                };
                // Without another thread, this one runs all parts.
                let builder = thread::Builder::new().name("teak-part".into());
                let _ = builder.spawn_scoped(scope, help);
            }
            work();
        });
    }
}
