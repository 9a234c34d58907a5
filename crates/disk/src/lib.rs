//! The storage seam: the only crate that calls the operating system's file
//! functions. Everything above speaks to a [`Disk`], so that the simulator can
//! put a faulty one beneath the whole engine.

mod limited;
mod locks;
mod memory;
mod real;
mod system;

pub use limited::LimitedDisk;
pub use locks::{DiskLock, LockTable};
pub use memory::MemoryDisk;
pub use real::RealDisk;

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

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>>;

    /// Removes a name. Open files stay readable.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn remove(&self, path: &Path) -> StorageResult<()>;

    /// Renames a file, replacing any file of the new name.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()>;

    /// Whether the name exists.
    ///
    /// # Errors
    /// `Io`.
    fn exists(&self, path: &Path) -> StorageResult<bool>;

    /// The files and directories directly in a directory, in no order.
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

    /// Locks a file, which is created if missing and stays, against every other
    /// caller, in this process or another, until the value is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// `InUse` when somebody holds the lock; `Io`, `NoSpace`.
    fn lock(&self, path: &Path) -> StorageResult<DiskLock>;
}

#[allow(clippy::len_without_is_empty)] // A fallible length has no useful is_empty.
/// One open file. Reads and writes at distinct offsets may run concurrently.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `Corrupt` when the file ends before the buffer is full; `Io`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()>;

    /// Writes all of `bytes` at `offset`, growing the file as needed. Durable
    /// after [`DiskFile::sync`].
    ///
    /// # Errors
    /// `NoSpace`, `Io`. After an error any part of the range may be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()>;

    /// Makes all completed writes and the length durable.
    ///
    /// # Errors
    /// `Io`. After an error nothing may be assumed about what is durable.
    fn sync(&self) -> StorageResult<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// `Io`.
    fn len(&self) -> StorageResult<u64>;

    /// Cuts or extends (with zeros) the file.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    fn set_len(&self, bytes: u64) -> StorageResult<()>;

    /// Sets space aside, so that writes before `bytes` find room on a full disk
    /// too. The length stays. [`DiskFile::set_len`] gives back what is set aside
    /// beyond the new length, also when that is the old one. Does nothing where
    /// the file system has no such thing.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; some of it may be set aside.
    fn reserve(&self, bytes: u64) -> StorageResult<()>;

    /// The name the file was opened by.
    fn path(&self) -> &Path;
}
