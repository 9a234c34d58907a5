//! File locks: the handle that every disk returns, and a table of locks for
//! disks whose files exist in this process only.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// A lock on a file; dropping it unlocks the file.
#[must_use]
pub struct DiskLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DiskLock {
    /// A lock that is released when `held` is dropped.
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for DiskLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DiskLock")
    }
}

/// The locked files of a disk in memory.
#[derive(Debug, Default)]
pub struct LockTable(Mutex<BTreeSet<PathBuf>>);

struct Held {
    table: Arc<LockTable>,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.0.lock().remove(&self.path);
    }
}

impl LockTable {
    /// Locks a file until the returned value is dropped.
    ///
    /// # Errors
    /// `InUse` when the file is locked.
    pub fn lock(self: &Arc<Self>, path: &Path) -> StorageResult<DiskLock> {
        if !self.0.lock().insert(path.to_path_buf()) {
            return Err(StorageError::InUse {
                path: path.to_path_buf(),
            });
        }
        Ok(DiskLock::new(Held {
            table: Arc::clone(self),
            path: path.to_path_buf(),
        }))
    }
}
