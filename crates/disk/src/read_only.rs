//! Files of the operating system that are read and not changed.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::real::{RealDisk, RealFile};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// The disk of the operating system, for reading. What is written to a file is kept in memory until the file is closed: an index
/// file that was not closed properly is completed when it is opened, but must not be changed. Changes of directories are
/// refused with an `Io` error. Files need no write permission.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyDisk;

fn refused<T>(operation: &'static str, path: &Path) -> StorageResult<T> {
    let error = io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the disk is open for reading only",
    );
    Err(StorageError::from_io(operation, path, error))
}

impl Disk for ReadOnlyDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        refused("create", path)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(ReadOnlyFile {
            file: RealFile::open_to_read(path)?,
            written: Mutex::default(),
        }))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        refused("remove", path)
    }

    fn rename(&self, from: &Path, _to: &Path) -> StorageResult<()> {
        refused("rename", from)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        RealDisk.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        RealDisk.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        refused("create", directory)
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        refused("sync", directory)
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        refused("lock", path)
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    file: RealFile,
    /// What was written, oldest first, with its offset.
    written: Mutex<Vec<(u64, Vec<u8>)>>,
}

/// Copies to `buffer`, which begins at `offset` of a file, the bytes that were written at `at`.
fn copy_overlap(at: u64, bytes: &[u8], buffer: &mut [u8], offset: u64) {
    let place =
        |start: u64, of: u64| usize::try_from(start.saturating_sub(of)).unwrap_or(usize::MAX);
    let (from, to) = (place(offset, at), place(at, offset));
    if let (Some(bytes), Some(buffer)) = (bytes.get(from..), buffer.get_mut(to..)) {
        let len = bytes.len().min(buffer.len());
        if let (Some(bytes), Some(buffer)) = (bytes.get(..len), buffer.get_mut(..len)) {
            buffer.copy_from_slice(bytes);
        }
    }
}

impl DiskFile for ReadOnlyFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let written = self.written.lock();
        if written.is_empty() {
            return self.file.read_exact_at(buffer, offset);
        }
        let ends = written.iter().map(|(at, bytes)| at + bytes.len() as u64);
        let end = ends.max().unwrap_or(0).max(self.file.len()?);
        if offset.saturating_add(buffer.len() as u64) > end {
            return Err(self.file.short(offset));
        }
        let in_file = self.file.len()?.saturating_sub(offset);
        let in_file = usize::try_from(in_file).unwrap_or(usize::MAX);
        let (start, rest) = buffer.split_at_mut(in_file.min(buffer.len()));
        self.file.read_exact_at(start, offset)?;
        rest.fill(0);
        for (at, bytes) in &*written {
            copy_overlap(*at, bytes, buffer, offset);
        }
        Ok(())
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.file.prefetch(offset, bytes);
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.written.lock().push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> StorageResult<()> {
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, _bytes: u64) -> StorageResult<()> {
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> StorageResult<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn files_can_be_read_and_not_changed() {
        let directory = std::env::temp_dir().join(format!("teak-read-only-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        std::fs::write(&path, b"contents").unwrap();
        let file = ReadOnlyDisk.open(&path).unwrap();
        let mut buffer = [0; 4];
        file.read_exact_at(&mut buffer, 4).unwrap();
        assert_eq!((&buffer, file.len().unwrap()), (b"ents", 8));
        file.write_all_at(b"XY", 5).unwrap();
        file.write_all_at(b"after", 10).unwrap();
        file.set_len(0).unwrap();
        file.sync().unwrap();
        let mut all = [1; 15];
        file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all, b"conteXYs\0\0after");
        file.read_exact_at(&mut buffer, 6).unwrap();
        assert_eq!(&buffer, b"Ys\0\0");
        assert!(file.read_exact_at(&mut all, 1).is_err());
        let other = directory.join("other");
        assert!(ReadOnlyDisk.create(&other).is_err() && ReadOnlyDisk.remove(&path).is_err());
        assert!(ReadOnlyDisk.rename(&path, &other).is_err() && ReadOnlyDisk.lock(&other).is_err());
        assert_eq!(
            ReadOnlyDisk.list(&directory).unwrap(),
            std::slice::from_ref(&path)
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"contents");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
