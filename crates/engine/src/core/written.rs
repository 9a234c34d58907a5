//! The indexes that were written since they were opened.
//!
//! All other indexes have empty memtables and need no checkpoint, so flushes and
//! rounds of checkpoints examine only this list. It is in the order of file ids,
//! so that a pass over it can be done in steps.

use super::index::Index;
use super::work::WorkQueue;
use crate::catalogue::TEMPORARY_ID_MIN;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::FileId;

/// The list of written indexes.
#[derive(Default)]
pub(crate) struct WrittenIndexes(RwLock<BTreeMap<FileId, Arc<Index>>>);

impl WrittenIndexes {
    pub(crate) fn new(indexes: Vec<Arc<Index>>) -> Self {
        let indexes = indexes.into_iter();
        Self(RwLock::new(
            indexes.map(|index| (index.entry.file, index)).collect(),
        ))
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
        if !index.is_dropped() && !index.registered.swap(true, Ordering::AcqRel) {
            written.insert(index.entry.file, Arc::clone(index));
        }
    }

    /// The written index of a file.
    pub(crate) fn by_file(&self, file: FileId) -> Option<Arc<Index>> {
        self.0.read().get(&file).cloned()
    }

    /// The first written index, or the next one after a file.
    pub(crate) fn after(&self, file: Option<FileId>) -> Option<Arc<Index>> {
        let first = file.map_or(Bound::Unbounded, Bound::Excluded);
        let written = self.0.read();
        let next = written.range((first, Bound::Unbounded)).next();
        next.map(|(_, index)| Arc::clone(index))
    }

    /// The written indexes at this moment.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Index>> {
        self.0.read().values().cloned().collect()
    }

    /// The written indexes that are not dropped.
    pub(crate) fn live(&self) -> impl Iterator<Item = Arc<Index>> + use<> {
        let written = self.snapshot().into_iter();
        written.filter(|index| !index.is_dropped())
    }

    /// The written indexes of temporary tables.
    pub(crate) fn temporary(&self) -> Vec<Arc<Index>> {
        let written = self.0.read();
        let first = FileId(TEMPORARY_ID_MIN);
        let temporary = written.range(first..);
        temporary.map(|(_, index)| Arc::clone(index)).collect()
    }

    /// Whether `condition` holds for a written index.
    pub(crate) fn any(&self, condition: impl Fn(&Arc<Index>) -> bool) -> bool {
        self.0.read().values().any(condition)
    }

    /// Removes a dropped index.
    pub(crate) fn remove(&self, index: &Index) {
        self.0.write().remove(&index.entry.file);
    }

    /// Removes the indexes of a table to be closed from all lists, unless a job
    /// or a cursor still refers to one of them: if the table was opened again, two
    /// trees would use the same file. No thread can get a reference from a list
    /// during the call.
    pub(crate) fn remove_unused(&self, work: &WorkQueue, closed: &[Arc<Index>]) -> bool {
        let mut written = self.0.write();
        let in_list = |index: &Arc<Index>| usize::from(index.registered.load(Ordering::Acquire));
        let is_used = |index: &Arc<Index>| Arc::strong_count(index) > 1 + in_list(index);
        if !work.remove_if(closed, || !closed.iter().any(is_used)) {
            return false;
        }
        for index in closed {
            written.remove(&index.entry.file);
        }
        true
    }
}
