//! The indexes that were written since they were opened.
//!
//! Background work uses only this list: all other indexes have empty memtables
//! and need no checkpoint.

use super::index::Index;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The list of written indexes.
#[derive(Default)]
pub(crate) struct WrittenIndexes(RwLock<Vec<Arc<Index>>>);

/// Memory in memtables, and compaction debt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemtableUse {
    /// Bytes in active memtables.
    pub active: u64,
    /// Bytes in frozen memtables.
    pub frozen: u64,
    /// Compaction debt: bytes on disk that are due to be merged into lower
    /// levels.
    pub debt: u64,
}

impl MemtableUse {
    /// Bytes in all memtables.
    pub(crate) fn bytes(self) -> u64 {
        self.active + self.frozen
    }
}

impl WrittenIndexes {
    pub(crate) fn new(indexes: Vec<Arc<Index>>) -> Self {
        Self(RwLock::new(indexes))
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
        let mut written = self.0.write();
        if !index.registered.swap(true, Ordering::AcqRel) {
            written.push(Arc::clone(index));
        }
    }

    /// The written indexes at this moment.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Index>> {
        self.0.read().clone()
    }

    /// The written indexes that are not dropped.
    pub(crate) fn live(&self) -> impl Iterator<Item = Arc<Index>> + use<> {
        let written = self.snapshot().into_iter();
        written.filter(|index| !index.is_dropped())
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<Index>>> {
        self.0.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Vec<Arc<Index>>> {
        self.0.write()
    }

    /// Removes dropped indexes from the list.
    pub(crate) fn remove_dropped(&self) {
        self.0.write().retain(|index| !index.is_dropped());
    }

    /// The memory in memtables at this moment.
    pub(crate) fn memtable_use(&self) -> MemtableUse {
        let mut used = MemtableUse::default();
        for index in self.0.read().iter() {
            if !index.is_dropped() {
                used.active += index.tree.memtable_bytes();
                used.frozen += index.tree.frozen_bytes();
                used.debt += index.tree.pending_work_bytes();
            }
        }
        used
    }
}
