//! A disk that limits the number of open files.
//!
//! 1. A file remains open until the limit is reached and another file must be opened. Then a file
//!    that was not used recently is closed (clock algorithm).
//! 2. A file with unsynced writes is synced before it is closed, because an operating system
//!    reports a later write error only to open files. If that sync fails, the file remains open,
//!    and all later syncs of its handles fail. A temporary file is never synced.
//! 3. The next use opens the file again by its current name: renames are
//!    followed, and a file that is removed while in use remains open.
//!
//! Operations in progress keep their file open, so the bound may be exceeded by the number of
//! threads, and by removed files in use. Lock order: the handle of a file, then the list. No I/O
//! happens under these locks, except that the handle is locked while its own file is opened (which
//! may first close other files), renamed, or synced before it is closed.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use teak_base::{StorageError, StorageResult};

/// A disk over another disk, which keeps at most about `limit` files open.
#[derive(Debug)]
pub struct LimitedDisk {
    files: Arc<Files>,
}

struct Files {
    disk: Arc<dyn Disk>,
    limit: usize,
    open: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// Files that may be open, in the order of the clock hand.
    clock: VecDeque<Weak<LimitedFile>>,
    by_path: HashMap<PathBuf, Vec<Weak<LimitedFile>>>,
}

struct LimitedFile {
    files: Arc<Files>,
    me: Weak<LimitedFile>,
    opened_as: PathBuf,
    handle: RwLock<Handle>,
    is_temporary: bool,
    used: AtomicBool,
    /// Whether writes wait for a sync; never in a temporary file.
    unsynced: AtomicBool,
    failure: Mutex<Option<StorageError>>,
}

struct Handle {
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    /// Whether the name was removed: the file cannot be opened again.
    unlinked: bool,
}

impl fmt::Debug for Files {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Files")
            .field("disk", &self.disk)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LimitedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("LimitedFile")
            .field(&self.opened_as)
            .finish()
    }
}

impl LimitedDisk {
    /// A disk over `disk`.
    ///
    /// # Panics
    /// When `limit` is zero.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        assert!(limit > 0, "at least one file must be open to be read");
        let files = Files {
            disk,
            limit,
            open: AtomicUsize::new(0),
            list: Mutex::default(),
        };
        Self {
            files: Arc::new(files),
        }
    }

    /// The number of files open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.files.open.load(Ordering::Acquire)
    }
}

impl Files {
    /// Closes files until fewer than `limit` are open, or none can be closed.
    fn close_files(&self, limit: usize) {
        // Allows two rounds of the clock hand, because in the first one all files may have been
        // used recently.
        let mut attempts = 2 * self.list.lock().clock.len();
        while attempts > 0 && self.open.load(Ordering::Acquire) >= limit {
            attempts -= 1;
            let Some(oldest) = self.list.lock().clock.pop_front() else {
                return;
            };
            if let Some(file) = oldest.upgrade()
                && !file.close_if_unused()
            {
                self.list.lock().clock.push_back(oldest);
            }
        }
    }

    /// Closes files above the limit and opens one; closes all files if the
    /// operating system has no free file descriptor.
    fn open_with(
        &self,
        open: impl Fn() -> StorageResult<Arc<dyn DiskFile>>,
    ) -> StorageResult<Arc<dyn DiskFile>> {
        self.close_files(self.limit);
        match open() {
            Err(error) if is_out_of_files(&error) => {
                self.close_files(1);
                open()
            }
            result => result,
        }
    }

    fn add(
        self: &Arc<Self>,
        path: &Path,
        file: Arc<dyn DiskFile>,
        is_temporary: bool,
    ) -> Arc<dyn DiskFile> {
        self.open.fetch_add(1, Ordering::AcqRel);
        let added = Arc::new_cyclic(|me| LimitedFile {
            files: Arc::clone(self),
            me: Weak::clone(me),
            opened_as: path.to_path_buf(),
            handle: RwLock::new(Handle {
                path: path.to_path_buf(),
                file: Some(file),
                unlinked: false,
            }),
            is_temporary,
            used: AtomicBool::new(true),
            // True, because the creation of the file may not be durable.
            unsynced: AtomicBool::new(!is_temporary),
            failure: Mutex::default(),
        });
        let mut list = self.list.lock();
        list.clock.push_back(Arc::downgrade(&added));
        let named = list.by_path.entry(path.to_path_buf()).or_default();
        named.retain(|other| other.strong_count() > 0);
        named.push(Arc::downgrade(&added));
        added
    }

    fn named(&self, path: &Path) -> Vec<Arc<LimitedFile>> {
        let list = self.list.lock();
        let found = list.by_path.get(path).into_iter().flatten();
        found.filter_map(Weak::upgrade).collect()
    }

    /// Keeps the file with this name open, because the name will be removed.
    fn keep_open(&self, path: &Path) -> StorageResult<()> {
        for file in self.named(path) {
            let mut handle = file.handle.write();
            if handle.file.is_none() {
                handle.file = Some(self.open_with(|| self.disk.open(path))?);
                self.open.fetch_add(1, Ordering::AcqRel);
            }
            handle.unlinked = true;
        }
        self.list.lock().by_path.remove(path);
        Ok(())
    }
}

fn is_out_of_files(error: &StorageError) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error, StorageError::Io { source, .. } if matches!(source.raw_os_error(), Some(ENFILE | EMFILE)))
}

impl LimitedFile {
    /// The file; opens it again if it was closed.
    fn file(&self) -> StorageResult<Arc<dyn DiskFile>> {
        if let Some(file) = &self.handle.read().file {
            self.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(file));
        }
        let mut handle = self.handle.write();
        if let Some(file) = &handle.file {
            return Ok(Arc::clone(file));
        }
        let path = handle.path.clone();
        let file = self.files.open_with(|| self.files.disk.open(&path))?;
        handle.file = Some(Arc::clone(&file));
        drop(handle);
        self.used.store(true, Ordering::Relaxed);
        self.files.open.fetch_add(1, Ordering::AcqRel);
        self.files
            .list
            .lock()
            .clock
            .push_back(Weak::clone(&self.me));
        Ok(file)
    }

    /// Closes the file and returns true. Returns false if it was used since the last attempt, is
    /// being opened, was removed, or cannot be synced.
    fn close_if_unused(&self) -> bool {
        if self.used.swap(false, Ordering::Relaxed) {
            return false;
        }
        let Some(mut handle) = self.handle.try_write() else {
            return false;
        };
        let Some(file) = &handle.file else {
            return true;
        };
        if handle.unlinked {
            return false;
        }
        if self.unsynced.swap(false, Ordering::AcqRel)
            && let Err(error) = file.sync()
        {
            self.unsynced.store(true, Ordering::Release);
            self.fail_other_handles(&handle.path, &error);
            self.failure.lock().get_or_insert(error);
            return false;
        }
        handle.file = None;
        self.files.open.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// An operating system reports a failed write once, and not to files opened
    /// later. So this records it for every other handle of the file.
    fn fail_other_handles(&self, path: &Path, error: &StorageError) {
        for other in self.files.named(path) {
            if !std::ptr::eq(Arc::as_ptr(&other), self) {
                other.failure.lock().get_or_insert(error.clone());
            }
        }
    }

    fn check(&self) -> StorageResult<()> {
        match &*self.failure.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn file_to_write(&self) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.file()?;
        if !self.is_temporary {
            self.unsynced.store(true, Ordering::Release);
        }
        Ok(file)
    }
}

impl Drop for LimitedFile {
    fn drop(&mut self) {
        let handle = self.handle.get_mut();
        if handle.file.is_some() {
            self.files.open.fetch_sub(1, Ordering::AcqRel);
        }
        let mut list = self.files.list.lock();
        if let Some(named) = list.by_path.get_mut(&handle.path) {
            named.retain(|other| other.strong_count() > 0);
            if named.is_empty() {
                list.by_path.remove(&handle.path);
            }
        }
        // The clock skips entries of closed and dropped files; this bounds their
        // number.
        if list.clock.len() > 64 + 2 * self.files.open.load(Ordering::Acquire) {
            list.clock.retain(|other| other.strong_count() > 0);
        }
    }
}

impl DiskFile for LimitedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.file_to_write()?.write_all_at(bytes, offset)
    }

    fn sync(&self) -> StorageResult<()> {
        if self.is_temporary {
            return Ok(());
        }
        self.check()?;
        let file = self.file()?;
        self.unsynced.store(false, Ordering::Release);
        if let Err(error) = file.sync() {
            self.unsynced.store(true, Ordering::Release);
            let path = self.handle.read().path.clone();
            self.fail_other_handles(&path, &error);
            return Err(error);
        }
        // A concurrent failure of another handle may concern the same writes.
        self.check()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file()?.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.file_to_write()?.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.file_to_write()?.reserve(bytes)
    }

    fn path(&self) -> &Path {
        &self.opened_as
    }
}

impl Disk for LimitedDisk {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.files.open_with(|| self.files.disk.create(path))?;
        Ok(self.files.add(path, file, false))
    }

    fn create_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.files.open_with(|| self.files.disk.create(path))?;
        Ok(self.files.add(path, file, true))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.files.open_with(|| self.files.disk.open(path))?;
        Ok(self.files.add(path, file, false))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.files.keep_open(path)?;
        self.files.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        if from == to {
            return self.files.disk.rename(from, to);
        }
        self.files.keep_open(to)?;
        let moved = self.files.named(from);
        // Locked, so that no file is opened by its old name during the rename.
        let mut handles: Vec<_> = moved.iter().map(|file| file.handle.write()).collect();
        self.files.disk.rename(from, to)?;
        for handle in &mut handles {
            handle.path = to.to_path_buf();
        }
        let mut list = self.files.list.lock();
        if let Some(named) = list.by_path.remove(from) {
            list.by_path.insert(to.to_path_buf(), named);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> StorageResult<DiskLock> {
        self.files.disk.lock(path)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.files.disk.exists(path)
    }

    fn list(&self, directory: &Path) -> StorageResult<Vec<PathBuf>> {
        self.files.disk.list(directory)
    }

    fn create_directories(&self, directory: &Path) -> StorageResult<()> {
        self.files.disk.create_directories(directory)
    }

    fn sync_directory(&self, directory: &Path) -> StorageResult<()> {
        self.files.disk.sync_directory(directory)
    }
}
