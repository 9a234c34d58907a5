//! One waiting thread. A wake-up is stored until a wait consumes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

/// A committing thread that waits. The thread that takes a waiter out of a group's list must wake
/// it. So every thread in a list still waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    thread: Thread,
    woken: AtomicBool,
}

thread_local! {
    static WAITER: Arc<Waiter> = Arc::new(Waiter {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
}

impl Waiter {
    /// The waiter of the calling thread.
    pub(crate) fn current() -> Arc<Self> {
        WAITER.with(Arc::clone)
    }

    /// Waits for one wake.
    pub(crate) fn wait(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
