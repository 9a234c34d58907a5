//! The indexes that were written since they were opened.
//!
//! Background work uses only this list: all other indexes have empty memtables
//! and need no checkpoint.

use super::index::Index;
use super::work::WorkQueue;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use teak_base::FileId;

/// The list of written indexes.
#[derive(Default)]
pub(crate) struct WrittenIndexes {
    list: RwLock<Vec<Arc<Index>>>,
    by_file: Mutex<HashMap<FileId, Weak<Index>>>,
}

impl WrittenIndexes {
    pub(crate) fn new(indexes: Vec<Arc<Index>>) -> Self {
        let by_file = indexes.iter();
        let by_file = by_file.map(|index| (index.entry.file, Arc::downgrade(index)));
        Self {
            by_file: Mutex::new(by_file.collect()),
            list: RwLock::new(indexes),
        }
    }

    /// Adds an index with changes that its file does not contain.
    #[inline]
    pub(crate) fn register(&self, index: &Arc<Index>) {
        if !index.registered.load(Ordering::Relaxed) {
            self.add(index);
        }
    }

    #[cold]
    fn add(&self, index: &Arc<Index>) {
        let mut written = self.list.write();
        if !index.registered.swap(true, Ordering::AcqRel) {
            written.push(Arc::clone(index));
            let mut by_file = self.by_file.lock();
            by_file.insert(index.entry.file, Arc::downgrade(index));
        }
    }

    /// The written index of a file.
    pub(crate) fn by_file(&self, file: FileId) -> Option<Arc<Index>> {
        self.by_file.lock().get(&file)?.upgrade()
    }

    /// The files of the written indexes.
    pub(crate) fn files(&self) -> Vec<FileId> {
        self.list
            .read()
            .iter()
            .map(|index| index.entry.file)
            .collect()
    }

    /// The written indexes at this moment.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Index>> {
        self.list.read().clone()
    }

    /// The written indexes that are not dropped.
    pub(crate) fn live(&self) -> impl Iterator<Item = Arc<Index>> + use<> {
        let written = self.snapshot().into_iter();
        written.filter(|index| !index.is_dropped())
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<Index>>> {
        self.list.read()
    }

    /// Removes dropped indexes from the list.
    pub(crate) fn remove_dropped(&self) {
        self.list.write().retain(|index| !index.is_dropped());
        self.by_file.lock().retain(|_, index| {
            let index = index.upgrade();
            index.is_some_and(|index| !index.is_dropped())
        });
    }

    /// Removes the indexes of a table to be closed from all lists, unless a job
    /// or a cursor still refers to one of them: it would use a second tree on
    /// the same file. No thread can get a reference from a list during the call.
    pub(crate) fn remove_unused(&self, work: &WorkQueue, closed: &[Arc<Index>]) -> bool {
        let mut list = self.list.write();
        let mut by_file = self.by_file.lock();
        let in_list = |index: &Arc<Index>| usize::from(index.registered.load(Ordering::Acquire));
        let is_used = |index: &Arc<Index>| Arc::strong_count(index) > 1 + in_list(index);
        if !work.remove_if(closed, || !closed.iter().any(is_used)) {
            return false;
        }
        for index in closed {
            by_file.remove(&index.entry.file);
        }
        list.retain(|index| !closed.iter().any(|closed| Arc::ptr_eq(index, closed)));
        true
    }
}
