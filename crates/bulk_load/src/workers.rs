//! Threads that run tasks of a sort while its caller continues.

use crate::cancel::Interrupted;
use crate::error::{BulkLoadError, BulkLoadResult};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

/// How often a thread that waits for a task checks for an interrupt.
pub(crate) const POLL_PERIOD: Duration = Duration::from_millis(10);

/// Passes the result of a task to the thread that waits for it.
pub type Delivery = Box<dyn FnOnce() + Send>;

/// A task. Its result is to be delivered after the thread has been released, so that the
/// waiting thread can claim it again. Most tasks end after some
/// milliseconds; one that writes a spill file may take a few seconds.
pub type Task = Box<dyn FnOnce() -> Delivery + Send>;

/// A claimed thread: runs a task on it. Never on the calling thread, for which some tasks wait.
pub type Worker = Box<dyn FnOnce(Task)>;

/// The threads that a caller provides.
pub trait Workers: Send + Sync {
    /// Claims a thread for one task; `None` if no thread is idle. Does not wait.
    fn claim(&self) -> Option<Worker>;
}

/// No threads: the caller runs all tasks.
#[derive(Clone, Copy, Debug)]
pub struct NoWorkers;

impl Workers for NoWorkers {
    fn claim(&self) -> Option<Worker> {
        None
    }
}

/// A task that runs or has ended. Dropping it waits for its end.
pub(crate) struct Background<T> {
    result: Option<Receiver<T>>,
    early: Option<T>,
}

impl<T> fmt::Debug for Background<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl<T> Background<T> {
    /// A task that has ended.
    pub(crate) fn ended(result: T) -> Self {
        Self {
            result: None,
            early: Some(result),
        }
    }

    /// Whether the task has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if let Some(result) = &self.result {
            match result.try_recv() {
                Ok(value) => {
                    self.early = Some(value);
                    self.result = None;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.result = None,
            }
        }
        self.result.is_none()
    }

    /// Waits for the end of the task for a short time. Returns whether it has ended.
    pub(crate) fn wait_briefly(&mut self, interrupted: &Interrupted) -> BulkLoadResult<bool> {
        let Some(result) = &self.result else {
            return Ok(true);
        };
        match result.recv_timeout(POLL_PERIOD) {
            Ok(value) => {
                self.early = Some(value);
                self.result = None;
            }
            Err(RecvTimeoutError::Disconnected) => self.result = None,
            Err(RecvTimeoutError::Timeout) => {
                if interrupted() {
                    return Err(BulkLoadError::Interrupted);
                }
            }
        }
        Ok(self.result.is_none())
    }

    /// The result, if a wait has found it.
    pub(crate) fn take_early(&mut self) -> Option<T> {
        self.early.take()
    }

    /// Waits for the result.
    pub(crate) fn wait(mut self, interrupted: &Interrupted) -> BulkLoadResult<T> {
        while !self.wait_briefly(interrupted)? {}
        let panicked = BulkLoadError::Internal("a thread that sorted entries panicked");
        self.early.take().ok_or(panicked)
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts a task on a claimed thread.
    pub(crate) fn start(worker: Worker, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, result) = channel();
        worker(Box::new(move || {
            let value = work();
            // The receiver waits for the value when it is dropped, too.
            Box::new(move || drop(sender.send(value)))
        }));
        Self {
            result: Some(result),
            early: None,
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        if let Some(result) = &self.result {
            let _ = result.recv();
        }
    }
}
