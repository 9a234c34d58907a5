//! Duplicates that a worker has found, until the thread of the caller handles them.

use crate::cancel::Cancelled;
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::workers::POLL_PERIOD;
use parking_lot::{Condvar, Mutex};

/// Number of entries that wait, at most.
const WAITING_MAX: usize = 64;

/// An entry.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    entries: Mutex<Vec<Entry>>,
    taken: Condvar,
}

impl Duplicates {
    /// Adds an entry. Waits while there are many.
    pub(crate) fn add(
        &self,
        key: &[u8],
        value: &[u8],
        cancelled: &Cancelled,
    ) -> BulkLoadResult<()> {
        let mut entries = self.entries.lock();
        while entries.len() >= WAITING_MAX {
            if cancelled.is_set() {
                return Err(BulkLoadError::Interrupted);
            }
            self.taken.wait_for(&mut entries, POLL_PERIOD);
        }
        entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    /// Takes all entries.
    pub(crate) fn take(&self) -> Vec<Entry> {
        let taken = std::mem::take(&mut *self.entries.lock());
        self.taken.notify_all();
        taken
    }
}
