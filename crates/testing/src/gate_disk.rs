//! A disk whose reads of some files wait until the test opens a gate: a stand-in
//! for a device that is too slow for the writers.

use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::StorageResult;
use teak_disk::{Disk, DiskFile, DiskLock};

#[derive(Debug, Default)]
struct Gate {
    /// Reads of files whose paths contain this text wait.
    closed_for: Mutex<Option<String>>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self, path: &Path) {
        let mut closed = self.closed_for.lock();
        while closed
            .as_ref()
            .is_some_and(|text| path.to_string_lossy().contains(text))
        {
            self.opened.wait(&mut closed);
        }
    }
}

/// A disk with a gate in front of the reads of some files. Clones are handles to
/// the same disk.
#[derive(Clone, Debug)]
pub struct GateDisk {
    disk: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

impl GateDisk {
    /// Puts an open gate in front of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            gate: Arc::default(),
        }
    }

    /// Lets reads of files whose paths contain `text` wait.
    pub fn close(&self, text: &str) {
        *self.gate.closed_for.lock() = Some(text.into());
    }

    /// Lets all reads pass.
    pub fn open_gate(&self) {
        *self.gate.closed_for.lock() = None;
        self.gate.opened.notify_all();
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GateFile {
            file,
            gate: Arc::clone(&self.gate),
        })
    }
}

impl Disk for GateDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path)?))
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

#[derive(Debug)]
struct GateFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GateFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.gate.pass(self.file.path());
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
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
}
