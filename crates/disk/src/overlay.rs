//! A view of the files of the operating system that can be changed without changing the files.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::real::{RealDisk, RealFile};
use crate::system;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{StorageError, StorageResult};

/// A disk whose files are those of the operating system, for programs that change them and must not: changed bytes and
/// new files are in files without a name in a directory for them, and their space is freed when the disk is dropped. Memory is
/// needed only for the list of changed ranges.
///
/// The directories of new files need not exist. [`Disk::lock`] locks the existing file, so that a process that has
/// opened a directory is noticed; a missing file is not created.
#[derive(Debug)]
pub struct OverlayDisk {
    scratch: PathBuf,
    next_scratch: AtomicU64,
    /// The files that differ from those of the operating system: `None` if they were removed.
    names: Mutex<BTreeMap<PathBuf, Option<Arc<Changed>>>>,
}

impl OverlayDisk {
    /// A view that keeps changes in the directory `scratch`.
    #[must_use]
    pub fn new(scratch: PathBuf) -> Self {
        Self {
            scratch,
            next_scratch: AtomicU64::new(0),
            names: Mutex::default(),
        }
    }

    /// A file in the directory of changes, whose name is removed already.
    fn scratch_file(&self) -> StorageResult<RealFile> {
        let number = self.next_scratch.fetch_add(1, Ordering::Relaxed);
        let name = format!("teak.overlay.{}.{number}", std::process::id());
        let path = self.scratch.join(name);
        let file = RealFile::create(&path, 0)?;
        RealDisk.remove(&path)?;
        Ok(file)
    }

    /// The file with a name, to be read and changed.
    fn find(&self, path: &Path) -> StorageResult<Arc<Changed>> {
        let mut names = self.names.lock();
        match names.get(path) {
            Some(Some(changed)) => return Ok(Arc::clone(changed)),
            Some(None) => {
                return Err(StorageError::NotFound {
                    path: path.to_path_buf(),
                });
            }
            None => {}
        }
        let base = RealFile::open_to_read(path)?;
        let bytes = base.len()?;
        let changed = Changed {
            base: Some(base),
            scratch: self.scratch_file()?,
            state: RwLock::new(Ranges {
                len: bytes,
                base_len: bytes,
                written: BTreeMap::new(),
            }),
        };
        let changed = Arc::new(changed);
        names.insert(path.to_path_buf(), Some(Arc::clone(&changed)));
        Ok(changed)
    }
}

impl Disk for OverlayDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        if self.exists(path)? {
            return Err(StorageError::AlreadyExists {
                path: path.to_path_buf(),
            });
        }
        let changed = Arc::new(Changed {
            base: None,
            scratch: self.scratch_file()?,
            state: RwLock::default(),
        });
        let mut names = self.names.lock();
        names.insert(path.to_path_buf(), Some(Arc::clone(&changed)));
        Ok(OverlayFile::handle(path, changed))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        Ok(OverlayFile::handle(path, self.find(path)?))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        if !self.exists(path)? {
            return Err(StorageError::NotFound {
                path: path.to_path_buf(),
            });
        }
        self.names.lock().insert(path.to_path_buf(), None);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let changed = self.find(from)?;
        let mut names = self.names.lock();
        names.insert(from.to_path_buf(), None);
        names.insert(to.to_path_buf(), Some(changed));
        Ok(())
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        let names = self.names.lock();
        match names.get(path) {
            Some(changed) => Ok(changed.is_some()),
            None => RealDisk.exists(path),
        }
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        let mut paths = match RealDisk.list(directory) {
            Err(StorageError::NotFound { .. }) => Vec::new(),
            listed => listed?,
        };
        let names = self.names.lock();
        paths.retain(|path| !names.contains_key(path));
        let changed = names.iter().filter(|(_, file)| file.is_some());
        let inside = changed.filter(|(path, _)| path.parent() == Some(directory));
        paths.extend(inside.map(|(path, _)| path.clone()));
        Ok(paths)
    }

    fn create_directories(&self, _directory: &Path) -> StorageResult<()> {
        Ok(())
    }

    fn sync_directory(&self, _directory: &Path) -> StorageResult<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        let file = match RealFile::open_to_read(path) {
            Err(StorageError::NotFound { .. }) => return Ok(DiskLock::new(())),
            opened => opened?.file,
        };
        match system::try_lock(&file) {
            Ok(true) => Ok(DiskLock::new(file)),
            Ok(false) => Err(StorageError::InUse {
                path: path.to_path_buf(),
            }),
            Err(error) => Err(StorageError::from_io("lock", path, error)),
        }
    }
}

/// A file with its changes.
#[derive(Debug)]
struct Changed {
    /// The file of the operating system; `None` for a new file.
    base: Option<RealFile>,
    /// The changed bytes, at their offsets.
    scratch: RealFile,
    state: RwLock<Ranges>,
}

/// Which bytes of a file are where.
#[derive(Debug, Default)]
struct Ranges {
    len: u64,
    /// The bytes of the original file before this offset are part of the file, unless they were changed.
    base_len: u64,
    /// The changed ranges, which do not touch: their ends by their starts.
    written: BTreeMap<u64, u64>,
}

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        self.len = self.len.max(end);
        let touching = self.written.range(..=end);
        let touching = touching.rev().take_while(|(_, of)| **of >= start);
        let touching: Vec<(u64, u64)> = touching.map(|(from, to)| (*from, *to)).collect();
        for (from, to) in touching {
            self.written.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.written.insert(start, end);
    }

    fn truncate(&mut self, len: u64) {
        self.len = len;
        self.base_len = self.base_len.min(len);
        let cut = self.written.split_off(&len);
        drop(cut);
        if let Some((_, end)) = self.written.range_mut(..len).next_back() {
            *end = (*end).min(len);
        }
    }

    /// Where the byte at `at` is: in the file of changes or not, and one past the last byte of the same kind.
    fn piece(&self, at: u64) -> (bool, u64) {
        let before = self.written.range(..=at).next_back();
        if let Some((_, end)) = before.filter(|(_, end)| **end > at) {
            return (true, *end);
        }
        let next = self.written.range(at..).next();
        (false, next.map_or(u64::MAX, |(start, _)| *start))
    }
}

impl Changed {
    /// Reads bytes that were not changed: zeros after the end of the original file.
    fn read_base(&self, buffer: &mut [u8], offset: u64, base_len: u64) -> StorageResult<()> {
        let inside = base_len.saturating_sub(offset).min(buffer.len() as u64);
        let inside = usize::try_from(inside).unwrap_or(buffer.len());
        let (front, rest) = buffer.split_at_mut(inside);
        if let Some(base) = self.base.as_ref().filter(|_| !front.is_empty()) {
            base.read_exact_at(front, offset)?;
        }
        rest.fill(0);
        Ok(())
    }
}

/// An open file of an [`OverlayDisk`].
#[derive(Debug)]
struct OverlayFile {
    path: PathBuf,
    changed: Arc<Changed>,
}

impl OverlayFile {
    fn handle(path: &Path, changed: Arc<Changed>) -> Arc<dyn DiskFile> {
        Arc::new(Self {
            path: path.to_path_buf(),
            changed,
        })
    }
}

impl DiskFile for OverlayFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let ranges = self.changed.state.read();
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > ranges.len) {
            let reason = "the block extends past the end of the file";
            return Err(StorageError::corrupt(&self.path, offset, reason));
        }
        let mut rest = buffer;
        let mut at = offset;
        while !rest.is_empty() {
            let (is_changed, end) = ranges.piece(at);
            let bytes = usize::try_from(end - at).unwrap_or(usize::MAX);
            let (piece, after) = rest.split_at_mut(bytes.min(rest.len()));
            match is_changed {
                true => self.changed.scratch.read_exact_at(piece, at)?,
                false => self.changed.read_base(piece, at, ranges.base_len)?,
            }
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        if let Some(base) = &self.changed.base {
            base.prefetch(offset, bytes);
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut ranges = self.changed.state.write();
        self.changed.scratch.write_all_at(bytes, offset)?;
        ranges.add(offset, offset.saturating_add(bytes.len() as u64));
        Ok(())
    }

    fn sync(&self) -> StorageResult<()> {
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        Ok(self.changed.state.read().len)
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        let mut ranges = self.changed.state.write();
        match bytes < ranges.len {
            true => ranges.truncate(bytes),
            false => ranges.len = bytes,
        }
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> StorageResult<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("teak-overlay-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(path.join("scratch")).unwrap();
            Self(path)
        }
        fn disk(&self) -> OverlayDisk {
            OverlayDisk::new(self.0.join("scratch"))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_change_only_in_the_view() {
        let directory = Directory::new("names");
        let disk = directory.disk();
        let (one, two) = (directory.0.join("one"), directory.0.join("two"));
        std::fs::write(&one, b"contents").unwrap();
        let is_there = |path: &Path| disk.exists(path).unwrap();
        assert!(matches!(
            disk.create(&one),
            Err(StorageError::AlreadyExists { .. })
        ));
        disk.rename(&one, &two).unwrap();
        assert!(!is_there(&one) && is_there(&two));
        assert!(matches!(
            disk.open(&one),
            Err(StorageError::NotFound { .. })
        ));
        let file = disk.open(&two).unwrap();
        file.write_all_at(b"XY", 7).unwrap();
        let mut bytes = [0; 9];
        disk.open(&two)
            .unwrap()
            .read_exact_at(&mut bytes, 0)
            .unwrap();
        assert_eq!(&bytes, b"contentXY");
        let new = directory.0.join("missing/new");
        disk.create_directories(new.parent().unwrap()).unwrap();
        disk.create(&new).unwrap();
        assert_eq!(
            disk.list(new.parent().unwrap()).unwrap(),
            std::slice::from_ref(&new)
        );
        disk.remove(&new).unwrap();
        assert!(!is_there(&new) && disk.remove(&new).is_err());
        let mut listed = disk.list(&directory.0).unwrap();
        listed.sort();
        assert_eq!(listed, [directory.0.join("scratch"), two.clone()]);
        assert_eq!(std::fs::read(&one).unwrap(), b"contents");
        assert!(!two.exists());
        let scratch = std::fs::read_dir(directory.0.join("scratch")).unwrap();
        assert_eq!(scratch.count(), 0, "files of changes have no names");
    }

    #[test]
    fn a_directory_in_use_cannot_be_locked() {
        let directory = Directory::new("lock");
        let path = directory.0.join("lock");
        drop(directory.disk().lock(&path).unwrap());
        assert!(!path.exists(), "locking created the file");
        let held = RealDisk.lock(&path).unwrap();
        let refused = directory.disk().lock(&path);
        assert!(matches!(refused, Err(StorageError::InUse { .. })));
        drop(held);
        drop(directory.disk().lock(&path).unwrap());
    }

    #[test]
    fn changed_files_read_like_files_in_memory() {
        let directory = Directory::new("files");
        let path = directory.0.join("file");
        for seed in 0..200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % limit
            };
            let mut model: Vec<u8> = (0..random(300)).map(|_| 1).collect();
            std::fs::write(&path, &model).unwrap();
            let original = model.clone();
            let disk = directory.disk();
            let file = disk.open(&path).unwrap();
            for step in 0..40u8 {
                let (at, bytes) = (random(320) as usize, random(90) as usize);
                match random(5) {
                    0 => {
                        model.resize(at, 0);
                        file.set_len(at as u64).unwrap();
                    }
                    _ => {
                        if bytes > 0 && model.len() < at + bytes {
                            model.resize(at + bytes, 0);
                        }
                        let new = vec![step + 2; bytes];
                        let from = at.min(model.len());
                        model[from..][..bytes].copy_from_slice(&new);
                        file.write_all_at(&new, at as u64).unwrap();
                    }
                }
                assert_eq!(file.len().unwrap(), model.len() as u64, "seed {seed}");
                let mut found = vec![9; model.len()];
                file.read_exact_at(&mut found, 0).unwrap();
                assert_eq!(found, model, "seed {seed}, step {step}");
                let from = random(model.len() as u64 + 1) as usize;
                let mut found = vec![9; model.len() - from];
                file.read_exact_at(&mut found, from as u64).unwrap();
                assert_eq!(found, model[from..], "seed {seed}, step {step}");
                let beyond = (model.len() as u64).saturating_sub(1);
                assert!(file.read_exact_at(&mut [0; 2], beyond).is_err());
            }
            assert_eq!(std::fs::read(&path).unwrap(), original);
        }
    }
}
