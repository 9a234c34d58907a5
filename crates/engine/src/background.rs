//! Work behind the scenes: flushers, the log's writer and the housekeeper.
//!
//! Flushers take jobs in the order in which writers need them: indexes with
//! frozen memtables first, the fullest before the others, then indexes with
//! runs to push down. A job that fails leaves its tree as it was and is tried
//! again later; the reason is kept, for writers that run out of room.
//!
//! An engine without threads does the same work through `Engine::step`.

use crate::engine::Inner;
use crate::error::{EngineError, EngineResult};
use crate::idle::Idle;
use crate::options::Level;
use crate::table::Index;
use parking_lot::{Condvar, Mutex};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use teak_base::{StorageError, StorageResult};
use teak_tree::{FlushJob, JobKind};

/// Tables opened before the housekeeper is called to close idle ones.
const OPENED_BEFORE_CALL: usize = 64;

/// Tables opened, at which the opener keeps house itself.
const OPENED_MAX: usize = 512;

/// How often flushers look for work without being woken.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How often the housekeeper looks round.
const HOUSE_PERIOD: Duration = Duration::from_millis(500);

/// How often pending log bytes reach the file without a commit.
const LOG_PERIOD: Duration = Duration::from_millis(200);

/// The threads of one engine and what wakes them.
pub(crate) struct Background {
    thread_count: usize,
    stopping: AtomicBool,
    work: Mutex<bool>,
    work_there: Condvar,
    room: Mutex<()>,
    room_made: Condvar,
    house: Mutex<bool>,
    house_called: Condvar,
    /// Tables opened since the housekeeper closed what is idle.
    opened: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    pub(crate) fn new(thread_count: usize) -> Self {
        Self {
            thread_count,
            stopping: AtomicBool::new(false),
            work: Mutex::new(false),
            work_there: Condvar::new(),
            room: Mutex::new(()),
            room_made: Condvar::new(),
            house: Mutex::new(false),
            house_called: Condvar::new(),
            opened: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn has_threads(&self) -> bool {
        self.thread_count > 0
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn wake_flushers(&self) {
        *self.work.lock() = true;
        self.work_there.notify_all();
    }

    pub(crate) fn call_housekeeper(&self) {
        *self.house.lock() = true;
        self.house_called.notify_all();
    }

    /// A table's files have been opened. Now and then that calls the
    /// housekeeper, who closes others.
    pub(crate) fn note_opened(&self) {
        if self.opened.fetch_add(1, Ordering::Relaxed) == OPENED_BEFORE_CALL {
            self.call_housekeeper();
        }
    }

    /// Whether so many were opened that the housekeeper should look at them.
    pub(crate) fn has_opened_many(&self) -> bool {
        self.opened.load(Ordering::Relaxed) > OPENED_BEFORE_CALL
    }

    /// Whether the housekeeper is so far behind that the opener must wait.
    pub(crate) fn has_opened_too_many(&self) -> bool {
        self.opened.load(Ordering::Relaxed) > OPENED_MAX
    }

    pub(crate) fn forget_opened(&self) {
        self.opened.store(0, Ordering::Relaxed);
    }

    /// Tells writers and checkpoints that a job ended.
    pub(crate) fn announce_room(&self) {
        let _room = self.room.lock();
        self.room_made.notify_all();
    }

    /// Sleeps until a job ends or the time is over.
    pub(crate) fn wait_for_room(&self, timeout: Duration) {
        let mut room = self.room.lock();
        self.room_made.wait_for(&mut room, timeout);
    }

    pub(crate) fn start(&self, inner: &Arc<Inner>) -> EngineResult<()> {
        if self.thread_count == 0 {
            return Ok(());
        }
        let mut threads = self.threads.lock();
        for number in 0..self.thread_count {
            let inner = Arc::clone(inner);
            let name = format!("teak-flush-{number}");
            threads.push(spawn(name, move || flusher(&inner, number))?);
        }
        let log = Arc::clone(inner);
        threads.push(spawn("teak-log".into(), move || log_writer(&log))?);
        let house = Arc::clone(inner);
        threads.push(spawn("teak-house".into(), move || housekeeper(&house))?);
        Ok(())
    }

    pub(crate) fn stop(&self, inner: &Inner) {
        self.stopping.store(true, Ordering::Release);
        self.wake_flushers();
        self.call_housekeeper();
        self.announce_room();
        inner.log.wake();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                inner.message(Level::Error, "a background thread panicked");
            }
        }
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> EngineResult<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|error| EngineError::Internal(format!("cannot start a thread: {error}")))
}

fn flusher(inner: &Arc<Inner>, number: usize) {
    let mut turn = number;
    let mut idle = Idle::new();
    while !inner.background.is_stopping() {
        // Every other flusher, or a single one every other time.
        turn += usize::from(inner.background.thread_count == 1);
        let first = if turn % 2 == 1 && is_behind(inner) {
            First::Runs
        } else {
            First::Memtables
        };
        let job = next_job(inner, first).or_else(|| idle.next_job(inner));
        if let Some((index, job)) = job {
            // The failure is kept in the index and tried again.
            let _ = run(inner, &index, job);
            continue;
        }
        let mut work = inner.background.work.lock();
        if !*work && !inner.background.is_stopping() {
            let there = &inner.background.work_there;
            there.wait_for(&mut work, LOOK_AGAIN);
        }
        *work = false;
    }
}

fn log_writer(inner: &Arc<Inner>) {
    let mut synced = Instant::now();
    let mut failed = false;
    while !inner.background.is_stopping() {
        let period = Duration::from_micros(inner.log_sync_period.load(Ordering::Relaxed));
        let rest = if period.is_zero() {
            LOG_PERIOD
        } else {
            LOG_PERIOD.min(period)
        };
        let pending = inner.log.wait_for_pending(rest);
        let due = !period.is_zero()
            && synced.elapsed() >= period
            && inner.log_sync_owed.swap(false, Ordering::AcqRel);
        let outcome = if due {
            synced = Instant::now();
            let outcome = inner.log.sync(inner.log.end());
            inner
                .log_sync_owed
                .fetch_or(outcome.is_err(), Ordering::AcqRel);
            outcome
        } else if pending {
            inner.log.write_pending().map(|_| ())
        } else {
            Ok(())
        };
        match outcome {
            Ok(()) if failed => {
                failed = false;
                inner.message(Level::Note, "the log goes on");
            }
            Ok(()) => {}
            Err(error) => {
                if !failed {
                    inner.message(Level::Error, &format!("the log failed: {error}"));
                }
                failed = true;
                std::thread::sleep(LOG_PERIOD);
            }
        }
    }
}

fn housekeeper(inner: &Arc<Inner>) {
    while !inner.background.is_stopping() {
        {
            let mut called = inner.background.house.lock();
            if !*called && !inner.background.is_stopping() {
                inner
                    .background
                    .house_called
                    .wait_for(&mut called, HOUSE_PERIOD);
            }
            *called = false;
        }
        if inner.background.is_stopping() {
            return;
        }
        let kept = std::panic::catch_unwind(AssertUnwindSafe(|| {
            crate::checkpoint::keep_house(inner, false)
        }));
        match kept {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                inner.message(Level::Warning, &format!("a checkpoint failed: {error}"));
                inner.background.wait_for_room(Duration::from_secs(1));
            }
            Err(_) => inner.message(Level::Error, "a checkpoint panicked"),
        }
    }
}

/// Which jobs a flusher looks for first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// Frozen memtables, which writers may wait for.
    Memtables,
    /// Runs to push down: somebody must, however many memtables wait.
    Runs,
}

/// The most urgent job of all trees.
fn next_job(inner: &Inner, first: First) -> Option<(Arc<Index>, FlushJob)> {
    let now = Instant::now();
    let mut frozen: Vec<(u64, Arc<Index>)> = Vec::new();
    let mut due: Vec<(u64, Arc<Index>)> = Vec::new();
    for index in inner.written_indexes() {
        if !index.may_try(now) {
            continue;
        }
        if index.tree.slows_readers() {
            crate::budget::freeze(inner, &index);
        }
        if index.tree.frozen_memtables() > 0 {
            frozen.push((index.tree.frozen_bytes(), Arc::clone(&index)));
        }
        let bytes = index.tree.pending_work_bytes();
        if bytes > 0 {
            due.push((bytes, index));
        }
    }
    for list in [&mut frozen, &mut due] {
        list.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    }
    let claim_any = |list: &[(u64, Arc<Index>)]| {
        list.iter()
            .find_map(|(_, index)| Some((Arc::clone(index), index.tree.next_job()?)))
    };
    let claim_due = |list: &[(u64, Arc<Index>)]| {
        list.iter().find_map(|(_, index)| {
            let mut job = index.tree.next_job()?;
            if job.kind() == JobKind::Memtable {
                // While the memtable is claimed, the tree offers its runs.
                let memtable = job;
                job = index.tree.next_job()?;
                drop(memtable);
            }
            Some((Arc::clone(index), job))
        })
    };
    match first {
        First::Memtables => claim_any(&frozen).or_else(|| claim_any(&due)),
        First::Runs => claim_due(&due).or_else(|| claim_any(&frozen)),
    }
}

/// Whether so much is due to be pushed down that half of the flushers should
/// do nothing else.
fn is_behind(inner: &Inner) -> bool {
    let written = inner.written.read();
    let debt: u64 = written
        .iter()
        .filter(|index| !index.is_gone())
        .map(|index| index.tree.pending_work_bytes())
        .sum();
    debt > inner.budget.debt_bytes() / 2
}

/// Runs a job; its failure is noted in the index.
fn run(inner: &Inner, index: &Arc<Index>, job: FlushJob) -> StorageResult<()> {
    let horizon = inner.transactions.horizon();
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| job.run(&horizon)));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(_) => Err(StorageError::corrupt(
            &index.entry.path,
            0,
            "merging it panicked",
        )),
    };
    let outcome = match outcome {
        Ok(report) => {
            inner.counts.add_flush(&report);
            if index.recover() {
                let text = format!("flushing {} goes on", index.entry.path.display());
                inner.message(Level::Note, &text);
            }
            Ok(())
        }
        Err(error) => {
            inner.counts.flush_failures.fetch_add(1, Ordering::Relaxed);
            if index.failure().is_none() {
                let path = index.entry.path.display();
                inner.message(Level::Error, &format!("flushing {path} failed: {error}"));
            }
            inner.note_damage(index, &error);
            if error.is_no_space() {
                // What was written in vain would keep the disk full.
                index.tree.give_back_tail();
            }
            index.fail(error.clone());
            Err(error)
        }
    };
    inner.background.announce_room();
    outcome
}

/// One piece of flushing on this thread. `false` when there is none to do now.
pub(crate) fn step_flush(inner: &Inner) -> EngineResult<bool> {
    match next_job(inner, First::Memtables) {
        Some((index, job)) => {
            // The failure is kept; the caller looks whether it stands in the way.
            let _ = run(inner, &index, job);
            Ok(true)
        }
        None => Ok(false),
    }
}

/// One piece of any background work on this thread.
pub(crate) fn step(inner: &Inner) -> EngineResult<bool> {
    if let Some((index, job)) = next_job(inner, First::Memtables) {
        run(inner, &index, job)?;
        return Ok(true);
    }
    Ok(inner.log.write_pending()?)
}

/// Flushes all frozen memtables, helping the flushers.
pub(crate) fn flush_frozen(inner: &Inner) -> EngineResult<()> {
    loop {
        let waiting: Vec<Arc<Index>> = inner
            .written_indexes()
            .into_iter()
            .filter(|index| !index.is_gone() && index.tree.frozen_memtables() > 0)
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let claimed = waiting
            .iter()
            .find_map(|index| index.tree.next_job().map(|job| (index, job)));
        match claimed {
            Some((index, job)) => run(inner, index, job)?,
            None => {
                if let Some(error) = waiting.iter().find_map(|index| index.failure()) {
                    return Err(error.into());
                }
                if !inner.background.has_threads() {
                    return Err(EngineError::Internal("a memtable cannot be flushed".into()));
                }
                inner.background.wait_for_room(LOOK_AGAIN);
            }
        }
    }
}

/// Flushes an index's frozen memtables, helping the flushers.
pub(crate) fn flush_index(inner: &Inner, index: &Arc<Index>) -> EngineResult<()> {
    while index.tree.frozen_memtables() > 0 {
        if let Some(job) = index.tree.next_job() {
            run(inner, index, job)?;
        } else if let Some(error) = index.failure() {
            return Err(error.into());
        } else if inner.background.has_threads() {
            inner.background.wait_for_room(LOOK_AGAIN);
        } else {
            return Err(EngineError::Internal("a memtable cannot be flushed".into()));
        }
    }
    Ok(())
}

/// Flushes and merges everything that can be, due or not.
pub(crate) fn settle(inner: &Inner) -> EngineResult<()> {
    inner.transactions.prune();
    for index in inner.written_indexes() {
        if index.is_gone() {
            continue;
        }
        crate::budget::freeze(inner, &index);
        loop {
            let horizon = inner.transactions.horizon();
            let job = index.tree.next_job();
            match job.or_else(|| index.tree.next_idle_job(&horizon)) {
                Some(job) => run(inner, &index, job)?,
                None if index.tree.frozen_memtables() > 0 && inner.background.has_threads() => {
                    inner.background.wait_for_room(LOOK_AGAIN);
                }
                None => break,
            }
        }
    }
    Ok(())
}
