//! A disk that limits the number of open files.
//!
//! 1. A file remains open until the limit is reached and another file must be opened. Then a file
//!    that was not used recently is closed (clock algorithm).
//! 2. A file with unsynced writes is synced before it is closed, because an operating system
//!    reports a later write error only to open files. If that sync fails, the file remains open,
//!    and all later syncs of its handles fail. A temporary file is never synced.
//! 3. The next use of a closed file opens it again by its current name: renames are followed. A
//!    file that is removed while it is in use is kept open.
//!
//! Operations in progress keep their file open, so there may be more open files than the limit: one
//! for each thread, removed files in use, and files that cannot be synced. Files without unsynced
//! writes are closed first, so that the thread that opens a file rarely syncs another one.
//!
//! Lock order: the handle of a file, then the list. No I/O happens under these locks. A file is
//! opened without its lock: the thread then locks the handle, and if another thread was faster or
//! the file was renamed, it drops the file that it has opened. A file is synced without its lock,
//! and then closed only if no operation is in progress and nothing was written during the sync.
//! While the name of a file changes, the file is *held*: it is opened, and not closed.

use crate::disk::{Disk, DiskFile};
use crate::locks::DiskLock;
use crate::names::Names;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use teak_base::{StorageError, StorageResult};

/// Maximum number of files with unsynced writes that are skipped before one of them is synced.
const UNSYNCED_MAX: usize = 32;

/// A view of another disk that keeps at most about `limit` files of it open.
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
    /// For error messages.
    names: Names,
    handle: RwLock<Handle>,
    is_temporary: bool,
    is_direct: bool,
    used: AtomicBool,
    /// Whether there may be unsynced writes; always false for a temporary file.
    unsynced: AtomicBool,
    failure: Mutex<Option<StorageError>>,
}

/// The result of an attempt to close a file.
enum Closing {
    Closed,
    /// The file has unsynced writes.
    Unsynced,
    /// The file was used since the last attempt, is in use or held, was removed, or cannot be
    /// synced.
    Refused,
}

struct Handle {
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    /// Whether the name was removed: the file cannot be opened again.
    unlinked: bool,
    /// Number of changes of the name that are in progress.
    held: usize,
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
            .field(&self.names.newest())
            .finish()
    }
}

impl LimitedDisk {
    /// A view of `disk` with at most about `limit` open files.
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
        // Allows two rounds of the clock hand, because in the first round all files may have been
        // used recently.
        let attempts = 2 * self.list.lock().clock.len();
        let mut unsynced = VecDeque::new();
        let is_done = || self.open.load(Ordering::Acquire) < limit;
        for _ in 0..attempts {
            if is_done() || unsynced.len() == UNSYNCED_MAX {
                break;
            }
            let Some(oldest) = self.list.lock().clock.pop_front() else {
                break;
            };
            match oldest.upgrade().map(|file| file.close_if_unused(false)) {
                Some(Closing::Refused) => self.list.lock().clock.push_back(oldest),
                Some(Closing::Unsynced) => unsynced.push_back(oldest),
                Some(Closing::Closed) | None => {}
            }
        }
        let mut refused = Vec::new();
        while !is_done()
            && let Some(oldest) = unsynced.pop_front()
        {
            match oldest.upgrade().map(|file| file.close_if_unused(true)) {
                Some(Closing::Closed) | None => {}
                Some(_) => refused.push(oldest),
            }
        }
        let mut list = self.list.lock();
        list.clock.extend(refused);
        // In the next call, the clock hand reaches these files first.
        while let Some(oldest) = unsynced.pop_back() {
            list.clock.push_front(oldest);
        }
    }

    /// Closes files above the limit and opens one. If the operating system has no
    /// free file descriptor, closes as many files as possible and tries again.
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
        let is_direct = file.is_direct();
        let added = Arc::new_cyclic(|me| LimitedFile {
            files: Arc::clone(self),
            me: Weak::clone(me),
            names: Names::new(path.to_path_buf()),
            handle: RwLock::new(Handle {
                path: path.to_path_buf(),
                file: Some(file),
                unlinked: false,
                held: 0,
            }),
            is_temporary,
            is_direct,
            used: AtomicBool::new(true),
            // True, because the creation of the file, or writes through another handle, may not be
            // durable.
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

    /// Opens the files with this name, and keeps them open until the result is dropped.
    fn hold(&self, path: &Path) -> StorageResult<HeldFiles> {
        let mut held = HeldFiles(Vec::new());
        for file in self.named(path) {
            file.hold()?;
            held.0.push(file);
        }
        Ok(held)
    }

    /// Notes that the name of these files was removed: they remain open.
    fn note_unlinked(&self, path: &Path, unlinked: &HeldFiles) {
        for file in &unlinked.0 {
            file.handle.write().unlinked = true;
        }
        let mut list = self.list.lock();
        if let Some(named) = list.by_path.get_mut(path) {
            named.retain(|other| !unlinked.contains(other));
            if named.is_empty() {
                list.by_path.remove(path);
            }
        }
    }

    /// Notes that these files were renamed.
    fn note_renamed(&self, from: &Path, to: &Path, renamed: &HeldFiles) {
        for file in &renamed.0 {
            file.handle.write().path = to.to_path_buf();
            file.names.add(to);
        }
        let mut list = self.list.lock();
        if let Some(named) = list.by_path.remove(from) {
            list.by_path
                .entry(to.to_path_buf())
                .or_default()
                .extend(named);
        }
    }
}

/// Files that are kept open while their name changes.
struct HeldFiles(Vec<Arc<LimitedFile>>);

impl HeldFiles {
    fn contains(&self, other: &Weak<LimitedFile>) -> bool {
        let mut files = self.0.iter();
        files.any(|file| std::ptr::eq(Arc::as_ptr(file), other.as_ptr()))
    }
}

impl Drop for HeldFiles {
    fn drop(&mut self) {
        for file in &self.0 {
            file.handle.write().held -= 1;
        }
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
        loop {
            let path = {
                let handle = self.handle.read();
                if let Some(file) = &handle.file {
                    self.used.store(true, Ordering::Relaxed);
                    return Ok(Arc::clone(file));
                }
                handle.path.clone()
            };
            let opened = self.files.open_with(|| self.files.disk.open(&path));
            let mut handle = self.handle.write();
            if handle.file.is_some() || handle.path != path {
                continue;
            }
            let file = opened?;
            self.used.store(true, Ordering::Relaxed);
            handle.file = Some(Arc::clone(&file));
            drop(handle);
            self.files.open.fetch_add(1, Ordering::AcqRel);
            let mut list = self.files.list.lock();
            list.clock.push_back(Weak::clone(&self.me));
            return Ok(file);
        }
    }

    /// Opens the file, and keeps it open until `Handle::held` is decremented.
    fn hold(&self) -> StorageResult<()> {
        loop {
            let _file = self.file()?;
            let mut handle = self.handle.write();
            // Another thread may have closed the file again.
            if handle.file.is_some() {
                handle.held += 1;
                return Ok(());
            }
        }
    }

    /// Closes the file if it is unused. A file with unsynced writes is only closed if `may_sync` is
    /// set; it is synced first.
    fn close_if_unused(&self, may_sync: bool) -> Closing {
        if self.used.swap(false, Ordering::Relaxed) {
            return Closing::Refused;
        }
        let file = {
            let handle = self.handle.read();
            match &handle.file {
                None => return Closing::Closed,
                Some(_) if handle.unlinked || handle.held > 0 => return Closing::Refused,
                Some(file) => Arc::clone(file),
            }
        };
        if self.unsynced.load(Ordering::Acquire) {
            if !may_sync {
                return Closing::Unsynced;
            }
            self.unsynced.store(false, Ordering::Release);
            if let Err(error) = file.sync() {
                self.unsynced.store(true, Ordering::Release);
                let path = self.handle.read().path.clone();
                self.fail_other_handles(&path, &error);
                self.failure.lock().get_or_insert(error);
                return Closing::Refused;
            }
        }
        let Some(mut handle) = self.handle.try_write() else {
            return Closing::Refused;
        };
        // The file may have been used again, for example while it was synced.
        if self.used.load(Ordering::Relaxed) {
            return Closing::Refused;
        }
        // A thread that uses the file has a reference to it. The fence makes the flag of unsynced
        // writes visible that a thread has set before it dropped its reference.
        let is_in_use = Arc::strong_count(&file) > 2;
        fence(Ordering::Acquire);
        if is_in_use || self.unsynced.load(Ordering::Acquire) || handle.unlinked || handle.held > 0
        {
            return Closing::Refused;
        }
        if handle.file.take().is_some() {
            self.files.open.fetch_sub(1, Ordering::AcqRel);
        }
        Closing::Closed
    }

    /// Records a failed sync for every other handle of the file: an operating system
    /// does not report the failed write to a handle that is opened later.
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

    /// Changes the file. The flag of unsynced writes is set before and after the change, because a
    /// concurrent sync clears the flag and may not include the change.
    fn change(&self, change: impl FnOnce(&dyn DiskFile) -> StorageResult<()>) -> StorageResult<()> {
        let file = self.file()?;
        self.note_unsynced();
        let outcome = change(&*file);
        self.note_unsynced();
        outcome
    }

    fn note_unsynced(&self) {
        if !self.is_temporary {
            self.unsynced.store(true, Ordering::Release);
        }
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
        // The clock hand removes the entries of dropped files when it reaches them; this
        // bounds their number until then.
        if list.clock.len() > 64 + 2 * self.files.open.load(Ordering::Acquire) {
            list.clock.retain(|other| other.strong_count() > 0);
        }
    }
}

impl DiskFile for LimitedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        // A file that is closed is not opened for a hint.
        let open = self.handle.read().file.clone();
        if let Some(file) = open {
            file.prefetch(offset, bytes);
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        self.change(|file| file.write_all_at(bytes, offset))
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
        // A concurrent sync of another handle may have failed for the same writes.
        self.check()
    }

    fn len(&self) -> StorageResult<u64> {
        self.file()?.len()
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        self.change(|file| file.set_len(bytes))
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        self.change(|file| file.reserve(bytes))
    }

    fn path(&self) -> &Path {
        self.names.newest()
    }

    fn is_direct(&self) -> bool {
        self.is_direct
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

    fn open_temporary(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.files.open_with(|| self.files.disk.open(path))?;
        Ok(self.files.add(path, file, true))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        // A file is opened while it has its name, and not closed before it is noted as unlinked.
        let unlinked = self.files.hold(path)?;
        let outcome = self.files.disk.remove(path);
        // A missing name was removed in another way.
        if matches!(outcome, Ok(()) | Err(StorageError::NotFound { .. })) {
            self.files.note_unlinked(path, &unlinked);
        }
        outcome
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        if from == to {
            return self.files.disk.rename(from, to);
        }
        let replaced = self.files.hold(to)?;
        // The files are held, so that none is opened by its old name during the rename.
        let moved = self.files.hold(from)?;
        self.files.disk.rename(from, to)?;
        self.files.note_unlinked(to, &replaced);
        self.files.note_renamed(from, to, &moved);
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
