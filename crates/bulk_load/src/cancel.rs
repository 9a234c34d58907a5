//! Stopping a sort.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns whether the operation must stop. Only the thread of the caller calls it.
pub type Interrupted = dyn Fn() -> bool + Send;

/// Entries between two checks.
pub(crate) const CHECK_ENTRIES: u64 = 1024;

/// Whether tasks on worker threads must stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Dropping it stops the tasks of the sort.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(Cancelled);

impl CancelOnDrop {
    pub(crate) fn flag(&self) -> Cancelled {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
