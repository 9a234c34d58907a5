//! Retries of background work that failed, with exponential backoff.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_base::StorageError;

/// The first pause after a failure.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// The longest pause between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// The longest pause after `NoSpace`. It is short because writers wait and space may be freed at
/// any time.
const BACKOFF_FULL_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Failure {
    error: StorageError,
    retry_at: Instant,
    backoff: Duration,
}

/// The last failure of background work on one index, and when to try again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failing: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl Retry {
    pub(crate) fn fail(&self, error: StorageError) {
        let mut failure = self.failure.lock();
        let backoff = match &*failure {
            Some(before) if error.is_no_space() => (before.backoff * 2).min(BACKOFF_FULL_MAX),
            Some(before) => (before.backoff * 2).min(BACKOFF_MAX),
            None => BACKOFF_FIRST,
        };
        *failure = Some(Failure {
            error,
            retry_at: Instant::now() + backoff,
            backoff,
        });
        self.failing.store(true, Ordering::Release);
    }

    /// Allows an immediate retry if the disk was full.
    pub(crate) fn space_freed(&self) {
        if let Some(failure) = &mut *self.failure.lock()
            && failure.error.is_no_space()
        {
            failure.retry_at = Instant::now();
        }
    }

    /// Clears the failure. Returns whether there was one.
    pub(crate) fn recover(&self) -> bool {
        if !self.failing.load(Ordering::Acquire) {
            return false;
        }
        *self.failure.lock() = None;
        self.failing.swap(false, Ordering::AcqRel)
    }

    /// Whether the last attempt failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<StorageError> {
        if !self.failing.load(Ordering::Acquire) {
            return None;
        }
        let failure = self.failure.lock();
        failure.as_ref().map(|failure| failure.error.clone())
    }

    /// When work that failed may be tried again; `None` when nothing failed.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        if !self.failing.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().as_ref().map(|failure| failure.retry_at)
    }

    pub(crate) fn may_try(&self, now: Instant) -> bool {
        if !self.failing.load(Ordering::Acquire) {
            return true;
        }
        let failure = self.failure.lock();
        failure
            .as_ref()
            .is_none_or(|failure| failure.retry_at <= now)
    }
}
