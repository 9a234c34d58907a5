//! The background jobs that run now, for the list of jobs.

use super::index::Index;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};
use teak_base::FileId;
use teak_disk::{IoProgress, IoPurpose};
use teak_tree::JobKind;

/// What a running job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningKind {
    /// A job on the memtables or runs of a tree, and what it is for.
    Tree(JobKind, IoPurpose),
    /// The checkpoint of an index captures its tree and writes nodes.
    CheckpointCapture,
    /// The checkpoint of an index writes and syncs its file.
    CheckpointCommit,
    /// An alteration builds indexes, or rebuilds all.
    Build,
    /// A bulk load writes its rows.
    Load,
}

/// A job that runs. Its threads change its counts.
#[derive(Debug)]
pub(crate) struct RunningJob {
    number: u64,
    pub kind: RunningKind,
    /// The file of its index, or of the first of its indexes.
    pub file: FileId,
    pub since: Instant,
    pub started: SystemTime,
    /// The bytes of jobs on trees.
    pub io: Arc<IoProgress>,
    /// Entries written, and their number, of builds and loads. Zero if it is not known yet.
    pub done: AtomicU64,
    pub total: AtomicU64,
}

impl RunningJob {
    /// Sets the number of entries written, and their total.
    pub(crate) fn set_progress(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// By number.
    jobs: Vec<Arc<RunningJob>>,
}

/// The jobs that run. There are at most as many as threads, and one for each alteration.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningJobs(Arc<Mutex<List>>);

/// A job in the list. Dropping it ends the job.
#[derive(Debug)]
pub(crate) struct JobInList {
    list: RunningJobs,
    pub job: Arc<RunningJob>,
}

impl RunningJobs {
    /// Adds a job on an index.
    pub(crate) fn begin(&self, kind: RunningKind, index: &Index) -> JobInList {
        self.begin_on(kind, index.entry.file)
    }

    pub(crate) fn begin_on(&self, kind: RunningKind, file: FileId) -> JobInList {
        let mut list = self.0.lock();
        list.next += 1;
        let job = Arc::new(RunningJob {
            number: list.next,
            kind,
            file,
            since: Instant::now(),
            started: SystemTime::now(),
            io: Arc::default(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        list.jobs.push(Arc::clone(&job));
        drop(list);
        let list = self.clone();
        JobInList { list, job }
    }

    /// The jobs, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<RunningJob>> {
        self.0.lock().jobs.clone()
    }
}

impl Drop for JobInList {
    fn drop(&mut self) {
        let number = self.job.number;
        self.list.0.lock().jobs.retain(|job| job.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_listed_until_they_end() {
        let jobs = RunningJobs::default();
        let first = jobs.begin_on(RunningKind::Build, FileId(1));
        let second = jobs.begin_on(RunningKind::CheckpointCommit, FileId(2));
        first.job.set_progress(3, 10);
        let files = |jobs: &RunningJobs| -> Vec<FileId> {
            jobs.list().iter().map(|job| job.file).collect()
        };
        assert_eq!(files(&jobs), [FileId(1), FileId(2)]);
        assert_eq!(jobs.list()[0].total.load(Ordering::Relaxed), 10);
        drop(first);
        assert_eq!(files(&jobs), [FileId(2)]);
        drop(second);
        assert!(jobs.list().is_empty());
    }
}
