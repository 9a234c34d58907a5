//! What is to go wrong, and when.

use super::injected;
use std::collections::BTreeMap;
use std::path::Path;
use teak_base::StorageResult;

/// How a write fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFailure {
    /// With an I/O error; nothing is written.
    Nothing,
    /// With an I/O error; some of the front is written.
    Partial,
    /// With an I/O error, though all of it is written.
    Whole,
    /// With a full disk; some of the front is written.
    NoSpace,
}

/// How a sync fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncFailure {
    /// What was not durable is as before: a later sync may still succeed.
    Kept,
    /// Of the writes that were not durable, some are durable now and the
    /// others never will be, though reads show them until the power goes.
    Dropped,
    /// As [`SyncFailure::Dropped`], with a full disk: the system had promised
    /// space that it does not have.
    NoSpace,
}

/// Failures of one kind of operation, by the number of the operation.
#[derive(Debug)]
pub(super) struct Schedule<F> {
    count: u64,
    failures: BTreeMap<u64, F>,
}

impl<F> Default for Schedule<F> {
    fn default() -> Self {
        Self {
            count: 0,
            failures: BTreeMap::new(),
        }
    }
}

impl<F> Schedule<F> {
    /// Lets the operation after `after` more fail.
    pub fn fail(&mut self, after: u64, failure: F) {
        self.failures.insert(self.count + after, failure);
    }

    /// Counts an operation; its failure, if it is to fail.
    pub fn next(&mut self) -> Option<F> {
        let number = self.count;
        self.count += 1;
        self.failures.remove(&number)
    }
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub writes: Schedule<WriteFailure>,
    pub syncs: Schedule<SyncFailure>,
    pub reads: Schedule<()>,
    pub name_changes: Schedule<()>,
    pub capacity_bytes: Option<u64>,
    /// Changes begun so far.
    pub changes: u64,
    pub power_off_at: Option<u64>,
}

impl Plan {
    /// # Errors
    /// An I/O error once the power is off.
    pub fn power(&self, operation: &'static str, path: &Path) -> StorageResult<()> {
        match self.power_off_at {
            Some(at) if self.changes > at => Err(injected(operation, path)),
            _ => Ok(()),
        }
    }

    /// Counts a change; whether the power goes during it.
    pub fn change(&mut self) -> bool {
        let number = self.changes;
        self.changes += 1;
        self.power_off_at == Some(number)
    }

    pub fn clear_failures(&mut self) {
        self.writes.failures.clear();
        self.syncs.failures.clear();
        self.reads.failures.clear();
        self.name_changes.failures.clear();
    }
}
