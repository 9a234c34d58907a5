//! Signals between the threads of one engine.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of opened tables after which the maintenance thread is woken to close
/// idle ones.
const OPENED_PER_WAKE: usize = 64;

/// If more tables were opened, the opening thread closes idle ones itself.
const OPENED_MAX: usize = 512;

/// A flag with a condition variable. A wake-up that finds no thread waiting ends
/// the next wait.
#[derive(Default)]
struct Wakeup {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    fn wake(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for a wake-up, at most for `timeout`, unless `is_stopping`.
    fn wait(&self, timeout: Duration, is_stopping: impl Fn() -> bool) {
        let mut is_set = self.is_set.lock();
        if !*is_set && !is_stopping() {
            self.changed.wait_for(&mut is_set, timeout);
        }
        *is_set = false;
    }
}

/// Wakes background threads, and the writers and checkpoints that wait for them.
pub(crate) struct Signals {
    flusher_count: usize,
    stopping: AtomicBool,
    flushers: Wakeup,
    maintenance: Wakeup,
    /// Wakes the thread that makes files smaller.
    files: Wakeup,
    /// Ends the pause of the thread that changes keys.
    keys: Wakeup,
    space_mutex: Mutex<()>,
    space_available: Condvar,
    /// Tables opened since idle tables were last closed. Set to more than
    /// `OPENED_PER_WAKE` if some idle tables must be flushed before they can be closed.
    opened: AtomicUsize,
    openings: AtomicUsize,
}

impl Signals {
    /// `flusher_count` is the number of flusher threads; zero: the engine has
    /// no threads at all.
    pub(crate) fn new(flusher_count: usize) -> Self {
        Self {
            flusher_count,
            stopping: AtomicBool::new(false),
            flushers: Wakeup::default(),
            maintenance: Wakeup::default(),
            files: Wakeup::default(),
            keys: Wakeup::default(),
            space_mutex: Mutex::new(()),
            space_available: Condvar::new(),
            opened: AtomicUsize::new(0),
            openings: AtomicUsize::new(0),
        }
    }

    pub(crate) fn flusher_count(&self) -> usize {
        self.flusher_count
    }

    pub(crate) fn has_threads(&self) -> bool {
        self.flusher_count > 0
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the background threads end. The caller must wake the threads that wait for the log.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_flushers();
        self.wake_maintenance();
        self.wake_space();
        self.keys.wake();
        self.space_available();
    }

    pub(crate) fn wake_flushers(&self) {
        self.flushers.wake();
    }

    /// Called by a flusher thread without work.
    pub(crate) fn wait_for_work(&self, timeout: Duration) {
        self.flushers.wait(timeout, || self.is_stopping());
    }

    /// Called when a file has become too large.
    pub(crate) fn wake_space(&self) {
        self.files.wake();
    }

    /// Called by the space thread between two passes.
    pub(crate) fn wait_for_space_work(&self, timeout: Duration) {
        self.files.wait(timeout, || self.is_stopping());
    }

    /// Called by the thread that changes keys between two searches.
    pub(crate) fn wait_for_keys(&self, timeout: Duration) {
        self.keys.wait(timeout, || self.is_stopping());
    }

    pub(crate) fn wake_maintenance(&self) {
        self.maintenance.wake();
    }

    /// Called by the maintenance thread between two passes.
    pub(crate) fn wait_for_maintenance(&self, timeout: Duration) {
        self.maintenance.wait(timeout, || self.is_stopping());
    }

    /// Wakes the writers and checkpoints that wait for background work: a job
    /// ended or a table was dropped, so memtable space may be available.
    pub(crate) fn space_available(&self) {
        let _guard = self.space_mutex.lock();
        self.space_available.notify_all();
    }

    /// Waits up to `timeout` for the end of a background job, or for another event
    /// after which memtable space may be available.
    pub(crate) fn wait_for_space(&self, timeout: Duration) {
        let mut guard = self.space_mutex.lock();
        self.space_available.wait_for(&mut guard, timeout);
    }

    /// Counts an opened table. When many were opened, the maintenance thread is
    /// woken to close idle ones.
    pub(crate) fn note_opened(&self) {
        self.openings.fetch_add(1, Ordering::Relaxed);
        if self.opened.fetch_add(1, Ordering::Relaxed) == OPENED_PER_WAKE {
            self.wake_maintenance();
        }
    }

    /// The number of times that the files of a table were opened.
    pub(crate) fn openings(&self) -> usize {
        self.openings.load(Ordering::Relaxed)
    }

    /// Whether enough tables were opened that maintenance should close idle ones.
    pub(crate) fn has_opened_many(&self) -> bool {
        self.opened.load(Ordering::Relaxed) > OPENED_PER_WAKE
    }

    /// Whether too many tables were opened, so that the opening thread must close
    /// idle ones itself.
    pub(crate) fn has_opened_too_many(&self) -> bool {
        self.opened.load(Ordering::Relaxed) > OPENED_MAX
    }

    pub(crate) fn reset_opened(&self) {
        self.opened.store(0, Ordering::Relaxed);
    }

    /// Called after an opening thread closed the idle tables that it could.
    /// `has_more`: the maintenance thread must flush others first.
    pub(crate) fn note_closed(&self, has_more: bool) {
        let opened = if has_more { OPENED_PER_WAKE + 1 } else { 0 };
        self.opened.store(opened, Ordering::Relaxed);
        if has_more {
            self.wake_maintenance();
        }
    }
}
