//! Threads that flush and merge during a replay.

use crate::core::index::Index;
use parking_lot::{Condvar, Mutex};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use teak_base::{StorageError, StorageResult};
use teak_transactions::TransactionSystem;
use teak_tree::{FlushJob, JobKind};

/// How often a thread looks for work, and repeats work that failed because the
/// disk was full.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// The number of runs of a child, relative to that at which a merge is due, from which on memtables wait.
/// In a running engine its writers are stopped then.
const RUN_LOAD_MAX: f64 = 2.0;

#[derive(Default)]
struct State {
    indexes: Vec<Arc<Index>>,
    /// Jobs in progress.
    running: usize,
    /// No job may begin.
    paused: bool,
    stopping: bool,
    /// Set when a job failed because the disk was full. No job begins until a thread
    /// has waited for one `POLL_PERIOD` without being woken, and clears this.
    full: Option<StorageError>,
    /// Indexes with any other failure. No more jobs are run on them.
    failed: Vec<(Arc<Index>, StorageError)>,
}

struct Shared {
    state: Mutex<State>,
    /// Threads wait here for work, the reader of the log for the end of jobs.
    changed: Condvar,
    transactions: Arc<TransactionSystem>,
    /// The limit of bytes that are due to be moved down.
    debt_bytes: u64,
}

/// The flushing threads of a replay.
pub(super) struct Flushing {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A job of an index. If a node cannot be read, only memtables are flushed: the opened engine
/// tries the merges again, and reports the error.
pub(super) fn job_of(index: &Index) -> Option<FlushJob> {
    let job = index.tree.next_job();
    job.unwrap_or_else(|_| index.tree.next_memtable_job())
}

impl Shared {
    /// A job of an index with a frozen memtable, or one that moves runs down while
    /// the bytes of such runs exceed the limit. The remaining merges are left to the
    /// opened engine.
    fn claim(&self, state: &State) -> Option<(Arc<Index>, FlushJob)> {
        let claim = |index: &Arc<Index>| {
            if index.is_dropped() {
                return None;
            }
            let job = job_of(index)?;
            // Nothing slows the replay as writers are slowed. So memtables wait while a child has too
            // many runs and a thread merges them.
            let waits = state.running > 0
                && job.kind() == JobKind::Memtable
                && index.tree.backlog().run_load >= RUN_LOAD_MAX;
            (!waits).then(|| (Arc::clone(index), job))
        };
        let has_frozen = |index: &&Arc<Index>| index.tree.frozen_memtables() > 0;
        let mut frozen = state.indexes.iter().filter(has_frozen);
        if let Some(job) = frozen.find_map(claim) {
            return Some(job);
        }
        let pending = state.indexes.iter().map(|it| it.tree.pending_work_bytes());
        if pending.sum::<u64>() <= self.debt_bytes {
            return None;
        }
        state.indexes.iter().find_map(claim)
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stopping {
            let may_begin = !state.paused && state.full.is_none();
            let Some((index, job)) = may_begin.then(|| self.claim(&state)).flatten() else {
                if self.changed.wait_for(&mut state, POLL_PERIOD).timed_out() {
                    state.full = None;
                }
                continue;
            };
            state.running += 1;
            drop(state);
            let horizon = self.transactions.horizon();
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| job.run(&horizon)));
            if matches!(&outcome, Ok(Err(error)) if error.is_no_space()) {
                index.tree.truncate_free_tail();
            }
            let error = match outcome {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => {
                    let path = &index.entry.path;
                    Some(StorageError::corrupt(path, 0, "merging it panicked"))
                }
            };
            state = self.state.lock();
            state.running -= 1;
            match error {
                Some(error) if error.is_no_space() => state.full = Some(error),
                Some(error) => {
                    index.dropped.store(true, Ordering::Release);
                    state.failed.push((index, error));
                }
                None => {}
            }
            self.changed.notify_all();
        }
    }
}

impl Flushing {
    pub(super) fn start(
        threads: usize,
        transactions: &Arc<TransactionSystem>,
        debt_bytes: u64,
    ) -> StorageResult<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            transactions: Arc::clone(transactions),
            debt_bytes,
        });
        let mut flushing = Self {
            shared,
            threads: Vec::with_capacity(threads),
        };
        for number in 0..threads {
            let shared = Arc::clone(&flushing.shared);
            let thread = std::thread::Builder::new()
                .name(format!("teak-flush-{number}"))
                .spawn(move || shared.run())
                .map_err(|error| StorageError::from_io("start", "a thread".as_ref(), error))?;
            flushing.threads.push(thread);
        }
        Ok(flushing)
    }

    /// The indexes to flush.
    pub(super) fn set_indexes(&self, indexes: &[Arc<Index>]) {
        self.shared.state.lock().indexes = indexes.to_vec();
    }

    pub(super) fn wake(&self) {
        let _state = self.shared.state.lock();
        self.shared.changed.notify_all();
    }

    /// The indexes that have failed since the last call.
    pub(super) fn take_failed(&self) -> Vec<(Arc<Index>, StorageError)> {
        std::mem::take(&mut self.shared.state.lock().failed)
    }

    /// Waits for the end of a job, for a short time at most. Returns the error if
    /// the disk is full.
    pub(super) fn wait_for_job(&self) -> Option<StorageError> {
        let mut state = self.shared.state.lock();
        self.shared.changed.wait_for(&mut state, POLL_PERIOD);
        state.full.clone()
    }

    /// Lets no more jobs begin, and waits for those in progress.
    pub(super) fn pause(&self) {
        let mut state = self.shared.state.lock();
        state.paused = true;
        while state.running > 0 {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Lets jobs begin again.
    pub(super) fn resume(&self) {
        self.shared.state.lock().paused = false;
        self.shared.changed.notify_all();
    }

    /// Ends the threads after their jobs.
    pub(super) fn stop(&mut self) -> StorageResult<()> {
        self.shared.state.lock().stopping = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err(StorageError::corrupt(
                    "teak.log".as_ref(),
                    0,
                    "a flush panicked",
                ));
            }
        }
        Ok(())
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        // Threads are left only after a failure of the replay, which the caller returns.
        let _ = self.stop();
    }
}
