//! The traits of disks and files.

use crate::locks::DiskLock;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::StorageResult;

/// A set of named files.
///
/// Creating, renaming and removing names is durable only after
/// [`Disk::sync_directory`] of the directory concerned.
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; `Io`, `NoSpace`.
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>>;

    /// Creates an empty file that need not be durable: [`DiskFile::sync`] of the
    /// returned handle has no effect.
    ///
    /// # Errors
    /// As [`Disk::create`].
    fn create_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(TemporaryFile(self.create(path)?)))
    }

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>>;

    /// Opens an existing file as [`Disk::create_temporary`] does.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(TemporaryFile(self.open(path)?)))
    }

    /// Removes a file name. Open handles of the file remain usable.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn remove(&self, path: &Path) -> StorageResult<()>;

    /// Renames a file. Replaces an existing file with the new name.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()>;

    /// Whether the name exists.
    ///
    /// # Errors
    /// `Io`.
    fn exists(&self, path: &Path) -> StorageResult<bool>;

    /// The files and directories directly in a directory, in any order.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>>;

    /// Creates a directory and its parents, if missing.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    fn create_directories(&self, directory: &Path) -> StorageResult<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// `Io`.
    fn sync_directory(&self, directory: &Path) -> StorageResult<()>;

    /// Locks a file against every other caller, in this process or another,
    /// until the returned value is dropped or the process ends. Creates the file
    /// if it is missing, and does not remove it.
    ///
    /// # Errors
    /// `InUse` when the file is locked; `Io`, `NoSpace`.
    fn lock(&self, path: &Path) -> StorageResult<DiskLock>;
}

/// One open file. Reads and writes of different ranges may run concurrently.
#[allow(
    clippy::len_without_is_empty,
    reason = "the length is fallible, so `is_empty` would not be simpler"
)]
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `Corrupt` when the file ends before the buffer is full; `Io`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()>;

    /// Begins to read `bytes` bytes from `offset` in the background, so that a later
    /// [`DiskFile::read_exact_at`] waits less. A hint: the default does nothing, and errors are
    /// those of the later read.
    fn prefetch(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Writes all of `bytes` at `offset`, growing the file as needed. Durable
    /// after [`DiskFile::sync`].
    ///
    /// # Errors
    /// `NoSpace`, `Io`. After an error any part of the range may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()>;

    /// Makes all completed writes and the length durable.
    ///
    /// # Errors
    /// `NoSpace`, `Io`. After an error it is unknown which writes are durable.
    fn sync(&self) -> StorageResult<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// `Io`.
    fn len(&self) -> StorageResult<u64>;

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    fn set_len(&self, bytes: u64) -> StorageResult<()>;

    /// Reserves space for the first `bytes` of the file, so that writes there
    /// succeed even on a full disk. Does not change the length.
    /// [`DiskFile::set_len`] frees the space reserved after the new length, even
    /// if the length does not change. Does nothing if the file system cannot
    /// reserve space.
    ///
    /// # Errors
    /// `NoSpace`, `Io`. After an error a part of the space may have been reserved.
    fn reserve(&self, bytes: u64) -> StorageResult<()>;

    /// The path that the file was opened with.
    fn path(&self) -> &Path;

    /// Whether the file bypasses the cache of the operating system, which then does not read ahead
    /// either.
    fn is_direct(&self) -> bool {
        false
    }
}

/// A file whose sync does nothing.
#[derive(Debug)]
struct TemporaryFile(Arc<dyn DiskFile>);

impl DiskFile for TemporaryFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.0.prefetch(offset, bytes);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> StorageResult<()> {
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        self.0.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.0.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.0.reserve(bytes)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}
