//! Files of the operating system.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::system;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// The permissions of new files. They contain rows, so others must not read them, even if
/// the umask of the process would allow it. These are also the server's own for its files.
const FILE_MODE: u32 = 0o660;

/// The permissions of new directories.
const DIRECTORY_MODE: u32 = 0o700;

/// Options that open a file for reading and writing. A file that they create has `FILE_MODE`.
pub(crate) fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

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
        let mut options = read_write();
        options.create_new(true).custom_flags(flags);
        let file = wrap("create", path, options.open(path))?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }

    /// Opens an existing file.
    pub(crate) fn open(path: &Path, flags: i32) -> StorageResult<Self> {
        let file = wrap("open", path, read_write().custom_flags(flags).open(path))?;
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
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE);
        wrap("create", directory, builder.create(directory))
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        let opened = wrap("open", directory, File::open(directory))?;
        wrap("sync", directory, opened.sync_all())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        let opened = read_write().create(true).truncate(false).open(path);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn others_cannot_read_what_is_created() {
        let directory = std::env::temp_dir().join(format!("teak-modes-{}", std::process::id()));
        let inner = directory.join("a/b");
        RealDisk.create_directories(&inner).unwrap();
        RealDisk.create(&inner.join("file")).unwrap();
        drop(RealDisk.lock(&inner.join("lock")).unwrap());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        // The umask may remove more.
        let above = [
            mode(&directory) & !DIRECTORY_MODE,
            mode(&inner) & !DIRECTORY_MODE,
            mode(&inner.join("file")) & !FILE_MODE,
            mode(&inner.join("lock")) & !FILE_MODE,
        ];
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(above, [0; 4]);
    }
}
