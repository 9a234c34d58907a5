//! Planned failures.

use crate::fault_disk::errors::{injected, no_space};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use teak_base::StorageResult;

/// How a write fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFailure {
    /// An I/O error; nothing is written.
    Nothing,
    /// An I/O error; a random number of bytes at the front is written, from none to all.
    Partial,
    /// An I/O error, although all bytes are written.
    Whole,
    /// The disk is full; a random number of bytes at the front is written, but not all.
    NoSpace,
}

/// How a sync fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncFailure {
    /// The unsynced writes are retained: a later sync may still succeed.
    Kept,
    /// Some of the unsynced writes become durable. The others are dropped, but reads return them
    /// until the next power loss.
    Dropped,
    /// Like [`SyncFailure::Dropped`], but because the disk is full: the operating system accepted
    /// writes for which it has no space.
    NoSpace,
}

/// Which operations on a file fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFailure {
    /// Writes, changes of the length and reservations, with an I/O error; nothing is written.
    Writes,
    /// The same operations, as on a full disk; nothing is written.
    NoSpace,
    /// Syncs, with an I/O error. The unsynced writes are retained.
    Syncs,
    /// Renames from this path, with an I/O error, as if to another file system.
    Renames,
}

/// Planned failures of one kind of operation, by the numbers of the operations that fail.
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
    /// Plans the failure of the operation that follows `after` more operations.
    pub fn fail(&mut self, after: u64, failure: F) {
        self.failures.insert(self.count + after, failure);
    }

    /// Counts an operation. Returns its failure, if one is planned.
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
    /// Number of changes begun so far.
    pub changes: u64,
    /// Number of syncs of files and directories begun so far.
    pub sync_calls: u64,
    /// Bytes of files that were read.
    pub bytes_read: u64,
    pub power_off_at: Option<u64>,
    /// Files whose operations fail.
    pub failing: BTreeMap<PathBuf, FileFailure>,
}

impl Plan {
    /// # Errors
    /// An I/O error after the power loss.
    pub fn power(&self, operation: &'static str, path: &Path) -> StorageResult<()> {
        match self.power_off_at {
            Some(at) if self.changes > at => Err(injected(operation, path)),
            _ => Ok(()),
        }
    }

    /// Counts a change. Returns whether the power is lost during it.
    pub fn change(&mut self) -> bool {
        let number = self.changes;
        self.changes += 1;
        self.power_off_at == Some(number)
    }

    /// # Errors
    /// The planned error of a write, a change of the length or a reservation.
    pub fn write_to(&self, operation: &'static str, path: &Path) -> StorageResult<()> {
        match self.failing.get(path) {
            Some(FileFailure::Writes) => Err(injected(operation, path)),
            Some(FileFailure::NoSpace) => Err(no_space(path)),
            Some(FileFailure::Syncs | FileFailure::Renames) | None => Ok(()),
        }
    }

    /// # Errors
    /// The planned error of a rename.
    pub fn rename_of(&self, path: &Path) -> StorageResult<()> {
        match self.failing.get(path) {
            Some(FileFailure::Renames) => Err(injected("rename", path)),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// The planned error of a sync.
    pub fn sync_of(&self, path: &Path) -> StorageResult<()> {
        match self.failing.get(path) {
            Some(FileFailure::Syncs) => Err(injected("sync", path)),
            _ => Ok(()),
        }
    }

    pub fn clear_failures(&mut self) {
        self.writes.failures.clear();
        self.syncs.failures.clear();
        self.reads.failures.clear();
        self.name_changes.failures.clear();
        self.failing.clear();
    }
}
