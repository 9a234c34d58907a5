//! The threads of a job whose work is divided.

/// Runs the parts of a job.
pub trait JobThreads: Sync {
    /// Calls `part` once for each number below `parts`, on this thread and on others. Returns when all
    /// calls have ended.
    fn run(&self, parts: usize, part: &(dyn Fn(usize) + Sync));
}

/// Runs the parts of a job one after the other.
#[derive(Clone, Copy, Debug)]
pub struct OneThread;

impl JobThreads for OneThread {
    fn run(&self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        (0..parts).for_each(part);
    }
}
