//! The wait slot of a transaction: its thread sleeps here until another thread
//! wakes it, aborts it as a deadlock victim, or interrupts it.
//!
//! Protocol:
//! 1. The waiter calls [`Waker::prepare_wait`], then enters a wait queue.
//! 2. A thread that grants the request, or removes what blocked it, calls
//!    [`Waker::wake`]. Deadlock detection calls [`Waker::abort_as_victim`].
//! 3. The waiter calls [`Waker::wait_until`]. If step 2 has already happened, it returns
//!    immediately, so no wake-up is lost.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::Instant;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Notified,
    TimedOut,
    Interrupted,
    /// The transaction was chosen as the victim of a deadlock.
    Victim,
}

#[derive(Debug, Default)]
struct Signals {
    notified: bool,
    victim: bool,
}

#[derive(Debug)]
pub(crate) struct Waker {
    interrupted: AtomicBool,
    signals: Mutex<Signals>,
    changed: Condvar,
}

impl Waker {
    pub(crate) fn new() -> Self {
        Self {
            interrupted: AtomicBool::new(false),
            signals: Mutex::new(Signals::default()),
            changed: Condvar::new(),
        }
    }

    /// Clears earlier signals, before the transaction enters a wait queue.
    pub(crate) fn prepare_wait(&self) {
        *self.signals.lock() = Signals::default();
    }

    pub(crate) fn wake(&self) {
        self.signals.lock().notified = true;
        self.changed.notify_all();
    }

    /// Ends the current wait with [`Wake::Victim`].
    pub(crate) fn abort_as_victim(&self) {
        self.signals.lock().victim = true;
        self.changed.notify_all();
    }

    /// Ends the current wait and later waits with [`Wake::Interrupted`], until
    /// [`Waker::clear_interrupt`].
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        // Takes the lock so that a waiter either has not checked the flag yet or already sleeps.
        let _signals = self.signals.lock();
        self.changed.notify_all();
    }

    pub(crate) fn clear_interrupt(&self) {
        self.interrupted.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    #[cfg(not(feature = "schedules"))]
    pub(crate) fn is_notified(&self) -> bool {
        self.signals.lock().notified
    }

    /// Waits until a signal arrives or the deadline passes. Without a deadline, there is no time
    /// limit.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>) -> Wake {
        let mut signals = self.signals.lock();
        let mut timed_out = false;
        loop {
            if signals.notified {
                return Wake::Notified;
            }
            if signals.victim {
                return Wake::Victim;
            }
            if self.interrupted.load(Ordering::SeqCst) {
                return Wake::Interrupted;
            }
            if timed_out {
                return Wake::TimedOut;
            }
            match deadline {
                Some(deadline) => {
                    timed_out = self.changed.wait_until(&mut signals, deadline).timed_out();
                }
                None => self.changed.wait(&mut signals),
            }
        }
    }
}
