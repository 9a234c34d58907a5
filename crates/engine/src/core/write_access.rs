//! Whether writers may write to an index.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::StorageError;

/// Whether writers may write to an index, and why not.
#[derive(Debug, Default)]
pub(crate) struct WriteAccess {
    /// The index is in the list of written indexes and accepts writes.
    is_open: AtomicBool,
    refusal: Mutex<Option<StorageError>>,
}

impl WriteAccess {
    /// Whether a write needs no further check. Called under a write guard of the
    /// tree, so that no write sees `true` after the thread that refuses writes has
    /// waited for the guards.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Why writes are refused.
    pub(crate) fn refusal(&self) -> Option<StorageError> {
        self.refusal.lock().clone()
    }

    /// Accepts writes from now on. If they are refused, returns the reason.
    pub(crate) fn open(&self) -> Result<(), StorageError> {
        let refusal = self.refusal.lock();
        if let Some(cause) = &*refusal {
            return Err(cause.clone());
        }
        self.is_open.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses writes that begin from now on. Returns whether they were accepted
    /// before.
    pub(crate) fn refuse(&self, cause: &StorageError) -> bool {
        let mut refusal = self.refusal.lock();
        let was_accepting = refusal.is_none();
        refusal.get_or_insert_with(|| cause.clone());
        self.is_open.store(false, Ordering::Relaxed);
        was_accepting
    }

    /// Ends a refusal. The next write calls [`WriteAccess::open`].
    pub(crate) fn allow(&self) {
        *self.refusal.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lasts_until_it_is_ended() {
        let access = WriteAccess::default();
        let cause = StorageError::Interrupted;
        access.open().unwrap();
        assert!(access.is_open());
        assert!(access.refuse(&cause));
        assert!(!access.refuse(&cause));
        assert!(!access.is_open());
        assert!(access.open().is_err());
        assert!(!access.is_open());
        access.allow();
        access.open().unwrap();
        assert!(access.is_open());
    }
}
