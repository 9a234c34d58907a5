//! Files in memory, for tests without faults.

use crate::disk::{Disk, DiskFile};
use crate::locks::{DiskLock, LockTable};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// A disk in memory. Dropping it removes the files.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    names: Mutex<BTreeMap<PathBuf, Arc<RwLock<Vec<u8>>>>>,
    directories: Mutex<BTreeSet<PathBuf>>,
    locks: Arc<LockTable>,
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Arc<RwLock<Vec<u8>>>,
    path: PathBuf,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let mut names = self.names.lock();
        if names.contains_key(path) {
            return Err(StorageError::AlreadyExists {
                path: path.to_path_buf(),
            });
        }
        let bytes = Arc::new(RwLock::new(Vec::new()));
        names.insert(path.to_path_buf(), Arc::clone(&bytes));
        Ok(Arc::new(MemoryFile {
            bytes,
            path: path.to_path_buf(),
        }))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let names = self.names.lock();
        let bytes = names.get(path).ok_or_else(|| StorageError::NotFound {
            path: path.to_path_buf(),
        })?;
        Ok(Arc::new(MemoryFile {
            bytes: Arc::clone(bytes),
            path: path.to_path_buf(),
        }))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        match self.names.lock().remove(path) {
            Some(_) => Ok(()),
            None => Err(StorageError::NotFound {
                path: path.to_path_buf(),
            }),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let mut names = self.names.lock();
        let bytes = names.remove(from).ok_or_else(|| StorageError::NotFound {
            path: from.to_path_buf(),
        })?;
        names.insert(to.to_path_buf(), bytes);
        Ok(())
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        Ok(self.names.lock().contains_key(path) || self.directories.lock().contains(path))
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        let names = self.names.lock();
        let directories = self.directories.lock();
        for path in names.keys().chain(directories.iter()) {
            if path.parent() == Some(directory) {
                found.insert(path.clone());
            }
        }
        Ok(found.into_iter().collect())
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        let mut directories = self.directories.lock();
        for ancestor in directory.ancestors() {
            directories.insert(ancestor.to_path_buf());
        }
        Ok(())
    }

    fn sync_directory(&self, _directory: &Path) -> StorageResult<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.locks.lock(path)
    }
}

impl DiskFile for MemoryFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let bytes = self.bytes.read();
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get(start..start.checked_add(buffer.len())?));
        match found {
            Some(found) => {
                buffer.copy_from_slice(found);
                Ok(())
            }
            None => Err(StorageError::corrupt(
                &self.path,
                offset,
                "the block extends past the end of the file",
            )),
        }
    }

    fn write_all_at(&self, new: &[u8], offset: u64) -> StorageResult<()> {
        let no_space = || StorageError::NoSpace {
            path: self.path.clone(),
        };
        let start = usize::try_from(offset).map_err(|_| no_space())?;
        let end = start.checked_add(new.len()).ok_or_else(no_space)?;
        let mut bytes = self.bytes.write();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(target) = bytes.get_mut(start..end) {
            target.copy_from_slice(new);
        }
        Ok(())
    }

    fn sync(&self) -> StorageResult<()> {
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn set_len(&self, len: u64) -> StorageResult<()> {
        let len = usize::try_from(len).map_err(|_| StorageError::NoSpace {
            path: self.path.clone(),
        })?;
        self.bytes.write().resize(len, 0);
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> StorageResult<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
