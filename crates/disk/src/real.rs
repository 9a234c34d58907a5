//! Files of the operating system.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::system;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// The disk of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
pub(crate) struct RealFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

impl RealFile {
    /// Creates a file and opens it with flags of the operating system.
    pub(crate) fn create(path: &Path, flags: i32) -> StorageResult<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = wrap("create", path, options.custom_flags(flags).open(path))?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }

    /// Opens an existing file.
    pub(crate) fn open(path: &Path, flags: i32) -> StorageResult<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = wrap("open", path, options.custom_flags(flags).open(path))?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }

    /// Opens an existing file for reading only.
    pub(crate) fn open_to_read(path: &Path) -> StorageResult<Self> {
        let file = wrap("open", path, File::open(path))?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }

    /// The error of a read that reaches beyond the end of the file.
    pub(crate) fn short(&self, offset: u64) -> StorageError {
        let reason = "the block extends past the end of the file";
        StorageError::corrupt(&self.path, offset, reason)
    }
}

fn wrap<T>(operation: &'static str, path: &Path, result: io::Result<T>) -> StorageResult<T> {
    result.map_err(|error| StorageError::from_io(operation, path, error))
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::create(path, 0)?))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, 0)?))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        wrap("remove", path, std::fs::remove_file(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        wrap("rename", from, std::fs::rename(from, to))
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        wrap("stat", path, path.try_exists())
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in wrap("list", directory, std::fs::read_dir(directory))? {
            paths.push(wrap("list", directory, entry)?.path());
        }
        Ok(paths)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        wrap("create", directory, std::fs::create_dir_all(directory))
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        let opened = wrap("open", directory, File::open(directory))?;
        wrap("sync", directory, opened.sync_all())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = wrap("open", path, opened)?;
        if wrap("lock", path, system::try_lock(&file))? {
            // Closing the only handle releases the lock.
            Ok(DiskLock::new(file))
        } else {
            Err(StorageError::InUse {
                path: path.to_path_buf(),
            })
        }
    }
}

impl DiskFile for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let short = || self.short(offset);
        // The operating system rejects larger offsets as invalid arguments.
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(short());
        }
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(short()),
            other => wrap("read", &self.path, other),
        }
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        system::prefetch(&self.file, offset, bytes);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        wrap("write", &self.path, self.file.write_all_at(bytes, offset))
    }

    fn sync(&self) -> StorageResult<()> {
        wrap("sync", &self.path, self.file.sync_data())
    }

    fn len(&self) -> StorageResult<u64> {
        Ok(wrap("stat", &self.path, self.file.metadata())?.len())
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        wrap("truncate", &self.path, self.file.set_len(bytes))
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        wrap("reserve", &self.path, system::reserve(&self.file, bytes))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
