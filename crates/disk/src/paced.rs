//! A disk that counts the I/O of background jobs, see [`IoPacer`].

use crate::disk::{Disk, DiskFile};
use crate::io_pacer::IoPacer;
use crate::locks::DiskLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::StorageResult;

/// A view of another disk that counts the bytes of background jobs. It never waits.
#[derive(Debug)]
pub struct PacedDisk {
    disk: Arc<dyn Disk>,
    pacer: Arc<IoPacer>,
}

#[derive(Debug)]
struct PacedFile {
    file: Arc<dyn DiskFile>,
    pacer: Arc<IoPacer>,
}

impl PacedDisk {
    /// A view of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, pacer: Arc<IoPacer>) -> Self {
        Self { disk, pacer }
    }

    fn view(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(PacedFile {
            file,
            pacer: Arc::clone(&self.pacer),
        })
    }
}

impl Disk for PacedDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.view(self.disk.create(path)?))
    }

    fn create_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.view(self.disk.create_temporary(path)?))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.view(self.disk.open(path)?))
    }

    fn open_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.view(self.disk.open_temporary(path)?))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.disk.rename(from, to)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.disk.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        self.disk.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        self.disk.create_directories(directory)
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        self.disk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.disk.lock(path)
    }
}

impl DiskFile for PacedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.pacer
            .read(buffer.len(), || self.file.read_exact_at(buffer, offset))
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.file.prefetch(offset, bytes);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.pacer.note_bytes(bytes.len());
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> StorageResult<()> {
        self.file.sync()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.file.reserve(bytes)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}
