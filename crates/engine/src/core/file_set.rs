//! A set of index files that need attention, so that background work finds them
//! without examining all indexes.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_base::FileId;

/// A set of index files. A file may be in it although its table was closed or
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct FileSet {
    files: Mutex<BTreeSet<FileId>>,
    has_files: AtomicBool,
}

impl FileSet {
    /// Adds a file. Returns false if it was in the set already.
    pub(crate) fn add(&self, file: FileId) -> bool {
        let mut files = self.files.lock();
        self.has_files.store(true, Ordering::Release);
        files.insert(file)
    }

    /// Removes and returns all files.
    pub(crate) fn take(&self) -> BTreeSet<FileId> {
        if !self.has_files.load(Ordering::Acquire) {
            return BTreeSet::new();
        }
        let mut files = self.files.lock();
        self.has_files.store(false, Ordering::Release);
        std::mem::take(&mut *files)
    }

    /// The files. Without a lock while there are none.
    pub(crate) fn files(&self) -> Vec<FileId> {
        if !self.has_files.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.files.lock().iter().copied().collect()
    }

    /// Removes a file.
    pub(crate) fn remove(&self, file: FileId) {
        let mut files = self.files.lock();
        files.remove(&file);
        self.has_files.store(!files.is_empty(), Ordering::Release);
    }
}
