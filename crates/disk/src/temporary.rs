//! A disk for files that need not survive the process: it never syncs them.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::StorageResult;

/// A view of another disk that never syncs a file: [`DiskFile::sync`] and [`Disk::sync_directory`]
/// do nothing. After a crash such a file may have any content, so the caller removes it.
#[derive(Debug)]
pub struct TemporaryDisk(Arc<dyn Disk>);

impl TemporaryDisk {
    /// A view of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self(disk)
    }
}

impl Disk for TemporaryDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        self.0.create_temporary(path)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        self.0.open_temporary(path)
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.0.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.0.rename(from, to)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.0.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        self.0.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        self.0.create_directories(directory)
    }

    fn sync_directory(&self, _directory: &Path) -> StorageResult<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.0.lock(path)
    }
}
