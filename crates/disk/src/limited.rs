//! A disk that keeps a bounded number of files open, however many are in use.
//!
//! 1. A file stays open after use until room is needed; what was not used
//!    since it was last looked at goes first (the clock algorithm).
//! 2. A file with writes that were not synced is synced before it is closed:
//!    a system that fails to write them later must have somebody to tell. When
//!    that sync fails the file stays open, and its owner's next sync fails; so
//!    does that of every other handle of the file.
//! 3. The next use opens the file again, under the name it has then: renames
//!    are followed, and a file that is removed while in use stays open.
//!
//! Operations in flight keep their file, so the bound may be passed by as many
//! as there are threads, and by removed files in use. Lock order: a file's slot,
//! then the list; neither is held over I/O but the slot while its own file is
//! opened, renamed or removed.

use crate::{Disk, DiskFile, DiskLock};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use teak_base::{StorageError, StorageResult};

/// A disk that keeps at most about `limit` files of another open.
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
    /// Those that may be open, in the order in which to look at them.
    clock: VecDeque<Weak<LimitedFile>>,
    by_path: HashMap<PathBuf, Vec<Weak<LimitedFile>>>,
}

struct LimitedFile {
    files: Arc<Files>,
    me: Weak<LimitedFile>,
    opened_as: PathBuf,
    slot: RwLock<Slot>,
    used: AtomicBool,
    unsynced: AtomicBool,
    failure: Mutex<Option<StorageError>>,
}

struct Slot {
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    /// Removed: it cannot be opened again.
    nameless: bool,
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

    /// How many files are open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.files.open.load(Ordering::Acquire)
    }
}

impl Files {
    /// Closes files until fewer than `limit` are open, or none can be closed.
    fn make_room(&self, limit: usize) {
        // Twice around: the first time may only find that all were used.
        let mut looks = 2 * self.list.lock().clock.len();
        while looks > 0 && self.open.load(Ordering::Acquire) >= limit {
            looks -= 1;
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

    /// Opens with room made first, and with more room when the system has none.
    fn open_with(
        &self,
        open: impl Fn() -> StorageResult<Arc<dyn DiskFile>>,
    ) -> StorageResult<Arc<dyn DiskFile>> {
        self.make_room(self.limit);
        match open() {
            Err(error) if is_out_of_files(&error) => {
                self.make_room(1);
                open()
            }
            result => result,
        }
    }

    fn add(self: &Arc<Self>, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        self.open.fetch_add(1, Ordering::AcqRel);
        let added = Arc::new_cyclic(|me| LimitedFile {
            files: Arc::clone(self),
            me: Weak::clone(me),
            opened_as: path.to_path_buf(),
            slot: RwLock::new(Slot {
                path: path.to_path_buf(),
                file: Some(file),
                nameless: false,
            }),
            used: AtomicBool::new(true),
            unsynced: AtomicBool::new(true), // its creation may not be durable
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

    /// Keeps the files of a name open, for the name is about to go.
    fn make_nameless(&self, path: &Path) -> StorageResult<()> {
        for file in self.named(path) {
            let mut slot = file.slot.write();
            if slot.file.is_none() {
                slot.file = Some(self.open_with(|| self.disk.open(path))?);
                self.open.fetch_add(1, Ordering::AcqRel);
            }
            slot.nameless = true;
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
    /// The file, opened again if it was closed.
    fn file(&self) -> StorageResult<Arc<dyn DiskFile>> {
        if let Some(file) = &self.slot.read().file {
            self.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(file));
        }
        let mut slot = self.slot.write();
        if let Some(file) = &slot.file {
            return Ok(Arc::clone(file));
        }
        let path = slot.path.clone();
        let file = self.files.open_with(|| self.files.disk.open(&path))?;
        slot.file = Some(Arc::clone(&file));
        drop(slot);
        self.used.store(true, Ordering::Relaxed);
        self.files.open.fetch_add(1, Ordering::AcqRel);
        self.files
            .list
            .lock()
            .clock
            .push_back(Weak::clone(&self.me));
        Ok(file)
    }

    /// Whether the file is closed now. False when it was used since the last
    /// look, is being opened, has no name, or cannot be synced.
    fn close_if_unused(&self) -> bool {
        if self.used.swap(false, Ordering::Relaxed) {
            return false;
        }
        let Some(mut slot) = self.slot.try_write() else {
            return false;
        };
        let Some(file) = &slot.file else {
            return true;
        };
        if slot.nameless {
            return false;
        }
        if self.unsynced.swap(false, Ordering::AcqRel)
            && let Err(error) = file.sync()
        {
            self.unsynced.store(true, Ordering::Release);
            self.tell_handles(&slot.path, &error);
            self.failure.lock().get_or_insert(error);
            return false;
        }
        slot.file = None;
        self.files.open.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// A system tells of a failed write once, and not who opens the file
    /// later: so every other handle of the file learns of it here.
    fn tell_handles(&self, path: &Path, error: &StorageError) {
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
        self.unsynced.store(true, Ordering::Release);
        Ok(file)
    }
}

impl Drop for LimitedFile {
    fn drop(&mut self) {
        let slot = self.slot.get_mut();
        if slot.file.is_some() {
            self.files.open.fetch_sub(1, Ordering::AcqRel);
        }
        let mut list = self.files.list.lock();
        if let Some(named) = list.by_path.get_mut(&slot.path) {
            named.retain(|other| other.strong_count() > 0);
            if named.is_empty() {
                list.by_path.remove(&slot.path);
            }
        }
        // Entries of files that are gone or closed are dropped when they are met; here, before they pile up.
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
        self.check()?;
        let file = self.file()?;
        self.unsynced.store(false, Ordering::Release);
        if let Err(error) = file.sync() {
            self.unsynced.store(true, Ordering::Release);
            let path = self.slot.read().path.clone();
            self.tell_handles(&path, &error);
            return Err(error);
        }
        // What failed through another handle meanwhile may be a part of this.
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
        Ok(self.files.add(path, file))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn DiskFile>> {
        let file = self.files.open_with(|| self.files.disk.open(path))?;
        Ok(self.files.add(path, file))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.files.make_nameless(path)?;
        self.files.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        if from == to {
            return self.files.disk.rename(from, to);
        }
        self.files.make_nameless(to)?;
        let moved = self.files.named(from);
        // Nobody opens one of them by its old name meanwhile.
        let mut slots: Vec<_> = moved.iter().map(|file| file.slot.write()).collect();
        self.files.disk.rename(from, to)?;
        for slot in &mut slots {
            slot.path = to.to_path_buf();
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
