//! The indexes that have background work, by urgency. Indexes without work are
//! not in the lists, so the choice of a job does not examine them.

use super::index::Index;
use super::work_kind::WorkKind;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use teak_base::{FileId, StorageError, WriteId};

/// Indexes whose writers are delayed rank above all others.
const RANK_DELAYED: u64 = 1 << 60;

fn rank(due_bytes: u64, pressure: f64) -> u64 {
    let bytes = due_bytes.min(RANK_DELAYED - 1);
    match pressure > 0.0 {
        true => RANK_DELAYED + bytes,
        false => bytes,
    }
}

/// The place of an index in the order of one kind of work: its frozen bytes or
/// its rank, and its file.
pub(crate) type Place = (u64, FileId);

#[derive(Debug)]
struct Entry {
    /// Weak: the list does not keep tables open.
    index: Weak<Index>,
    frozen: u64,
    due: u64,
    /// `due`, or zero if the last merge has failed.
    mergeable: u64,
    /// The due bytes, or more where writers are delayed.
    rank: u64,
    /// The settled watermark from which on merges are due because of garbage.
    garbage_due_at: Option<WriteId>,
    /// When flushes that failed may be tried again; `merge_at` is the same for merges.
    flush_at: Option<Instant>,
    merge_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Lists {
    entries: HashMap<FileId, Entry>,
    frozen: BTreeSet<Place>,
    due: BTreeSet<Place>,
    /// Indexes with garbage that snapshots still need, by the settled watermark from which on merges
    /// are due because of it. They are in `due` too if other merges are due.
    garbage: BTreeSet<(WriteId, FileId)>,
    settled_below: WriteId,
    /// Indexes with work that failed, by the time of the next attempt. Until then
    /// they are not in the list of the kind of work that failed.
    retries: BTreeSet<(Instant, FileId)>,
    /// Indexes to compact without waiting for idle time.
    compact_soon: HashMap<FileId, Weak<Index>>,
}

impl Lists {
    fn remove(&mut self, file: FileId) -> Option<Entry> {
        let entry = self.entries.remove(&file)?;
        self.frozen.remove(&(entry.frozen, file));
        self.due.remove(&(entry.rank, file));
        if let Some(due_at) = entry.garbage_due_at {
            self.garbage.remove(&(due_at, file));
        }
        for retry_at in [entry.flush_at, entry.merge_at].into_iter().flatten() {
            self.retries.remove(&(retry_at, file));
        }
        Some(entry)
    }

    fn insert(&mut self, file: FileId, entry: Entry) {
        match entry.flush_at {
            None if entry.frozen > 0 => self.frozen.insert((entry.frozen, file)),
            _ => false,
        };
        let mut is_due = entry.due > 0;
        match entry.garbage_due_at {
            Some(due_at) if due_at > self.settled_below => {
                self.garbage.insert((due_at, file));
            }
            Some(_) => is_due = true,
            None => {}
        }
        match entry.merge_at {
            None if is_due => self.due.insert((entry.rank, file)),
            _ => false,
        };
        for retry_at in [entry.flush_at, entry.merge_at].into_iter().flatten() {
            self.retries.insert((retry_at, file));
        }
        self.entries.insert(file, entry);
    }

    /// Moves indexes whose garbage can be dropped to those with due merges.
    fn note_settled(&mut self, below: WriteId) {
        self.settled_below = self.settled_below.max(below);
        while let Some((due_at, file)) = self.garbage.first().copied()
            && due_at <= self.settled_below
        {
            self.garbage.pop_first();
            if let Some(entry) = self.remove(file) {
                self.insert(file, entry);
            }
        }
    }
}

/// Work on an index that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingWork {
    pub file: FileId,
    pub kind: WorkKind,
    /// Frozen bytes, or bytes in children where jobs are due, those of running jobs included.
    pub bytes: u64,
    /// When work that has failed is tried again.
    pub retry_at: Option<Instant>,
}

/// The indexes with work.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    lists: Mutex<Lists>,
    /// Bytes in children where jobs are due, of all indexes whose merges have not
    /// failed.
    mergeable_bytes: AtomicU64,
    compact_soon_count: AtomicUsize,
}

impl WorkQueue {
    /// Updates the place of an index. Called after every change of its frozen
    /// memtables or its runs, and after a failure.
    pub(crate) fn update(&self, index: &Arc<Index>) {
        let file = index.entry.file;
        let mut lists = self.lists.lock();
        if let Some(before) = lists.remove(file) {
            self.subtract(&before);
        }
        // Read under the lock, so that a concurrent update cannot store older values later.
        let backlog = index.tree.backlog();
        let due = backlog.due_bytes;
        let merge_at = index.attempts(WorkKind::Runs).retry_at();
        let entry = Entry {
            index: Arc::downgrade(index),
            frozen: index.tree.frozen_bytes(),
            due,
            mergeable: if merge_at.is_none() { due } else { 0 },
            rank: rank(due, index.load.pressure()),
            garbage_due_at: backlog.garbage_due_at,
            flush_at: index.attempts(WorkKind::Memtables).retry_at(),
            merge_at,
        };
        if !index.is_dropped() && (entry.frozen > 0 || backlog.has_work()) {
            self.mergeable_bytes
                .fetch_add(entry.mergeable, Ordering::Relaxed);
            lists.insert(file, entry);
        }
    }

    fn subtract(&self, entry: &Entry) {
        self.mergeable_bytes
            .fetch_sub(entry.mergeable, Ordering::Relaxed);
    }

    /// The most urgent index of those that rank below a place, or of all if
    /// `below` is `None`. `settled_below` is the settled watermark.
    pub(crate) fn next(
        &self,
        kind: WorkKind,
        below: Option<Place>,
        now: Instant,
        settled_below: WriteId,
    ) -> Option<(Place, Arc<Index>)> {
        let mut lists = self.lists.lock();
        lists.note_settled(settled_below);
        self.requeue_due_retries(&mut lists, now);
        let mut below = below;
        loop {
            let list = match kind {
                WorkKind::Memtables => &lists.frozen,
                WorkKind::Runs => &lists.due,
            };
            let place = match below {
                Some(below) => *list.range(..below).next_back()?,
                None => *list.last()?,
            };
            let index = lists.entries.get(&place.1);
            if let Some(index) = index.and_then(|entry| entry.index.upgrade()) {
                return Some((place, index));
            }
            // The table was closed.
            self.remove_closed(&mut lists, place.1);
            below = Some(place);
        }
    }

    fn remove_closed(&self, lists: &mut Lists, file: FileId) {
        if let Some(entry) = lists.remove(file) {
            self.subtract(&entry);
        }
    }

    /// Puts indexes whose next attempt is due back into the lists.
    fn requeue_due_retries(&self, lists: &mut Lists, now: Instant) {
        while let Some((retry_at, file)) = lists.retries.first().copied()
            && retry_at <= now
        {
            if let Some(mut entry) = lists.remove(file) {
                entry.flush_at = entry.flush_at.filter(|retry_at| *retry_at > now);
                entry.merge_at = entry.merge_at.filter(|retry_at| *retry_at > now);
                lists.insert(file, entry);
            }
        }
    }

    /// Whether writers are delayed because an index is behind with its merges.
    pub(crate) fn delays_writers(&self) -> bool {
        let lists = self.lists.lock();
        lists
            .due
            .last()
            .is_some_and(|(rank, _)| *rank >= RANK_DELAYED)
    }

    /// Bytes in children where jobs are due, of all indexes whose merges have not
    /// failed.
    pub(crate) fn mergeable_bytes(&self) -> u64 {
        self.mergeable_bytes.load(Ordering::Relaxed)
    }

    /// Allows immediate retries of work that failed because the disk was full.
    pub(crate) fn space_freed(&self) {
        let retries: Vec<Arc<Index>> = {
            let lists = self.lists.lock();
            let entries = lists.retries.iter();
            entries
                .filter_map(|(_, file)| lists.entries.get(file)?.index.upgrade())
                .collect()
        };
        for index in retries {
            index.space_freed();
            self.update(&index);
        }
    }

    /// If every index with frozen memtables waits to retry a failed flush: the
    /// error of one of these flushes.
    pub(crate) fn flush_error(&self) -> Option<StorageError> {
        let lists = self.lists.lock();
        if !lists.frozen.is_empty() {
            return None;
        }
        lists.retries.iter().find_map(|(_, file)| {
            let entry = lists.entries.get(file)?;
            let index = entry.index.upgrade()?;
            let failure = index.attempts(WorkKind::Memtables).failure();
            failure.filter(|_| entry.frozen > 0)
        })
    }

    /// The work that waits, flushes first, the most urgent first in each kind; then work that has failed.
    pub(crate) fn waiting(&self) -> Vec<WaitingWork> {
        let lists = self.lists.lock();
        let waiting = |file: &FileId, kind| {
            let entry = lists.entries.get(file)?;
            Some(match kind {
                WorkKind::Memtables => (entry.frozen, entry.flush_at),
                WorkKind::Runs => (entry.due, entry.merge_at),
            })
        };
        let kinds = [
            (WorkKind::Memtables, &lists.frozen),
            (WorkKind::Runs, &lists.due),
        ];
        let ready = kinds
            .into_iter()
            .flat_map(|(kind, list)| list.iter().rev().map(move |(_, file)| (*file, kind)));
        let failed = lists.retries.iter().flat_map(|(at, file)| {
            let is_of = move |kind: &WorkKind| {
                waiting(file, *kind).is_some_and(|(_, retry_at)| retry_at == Some(*at))
            };
            let kinds = [WorkKind::Memtables, WorkKind::Runs].into_iter();
            kinds.filter(is_of).map(|kind| (*file, kind))
        });
        ready
            .chain(failed)
            .filter_map(|(file, kind)| {
                let (bytes, retry_at) = waiting(&file, kind)?;
                Some(WaitingWork {
                    file,
                    kind,
                    bytes,
                    retry_at,
                })
            })
            .collect()
    }

    /// Marks an index for compaction without waiting for idle time.
    pub(crate) fn compact_soon(&self, index: &Arc<Index>) {
        let mut lists = self.lists.lock();
        let marked = Arc::downgrade(index);
        lists.compact_soon.insert(index.entry.file, marked);
        self.count_marked(&lists);
    }

    /// The indexes that are marked for compaction.
    pub(crate) fn marked(&self) -> Vec<Arc<Index>> {
        if self.compact_soon_count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut lists = self.lists.lock();
        let mut marked = Vec::new();
        lists.compact_soon.retain(|_, index| {
            let index = index.upgrade().filter(|index| !index.is_dropped());
            marked.extend(index.clone());
            index.is_some()
        });
        self.count_marked(&lists);
        marked
    }

    /// Removes the mark of an index.
    pub(crate) fn compacted(&self, index: &Index) {
        let mut lists = self.lists.lock();
        lists.compact_soon.remove(&index.entry.file);
        self.count_marked(&lists);
    }

    fn count_marked(&self, lists: &Lists) {
        let marked = lists.compact_soon.len();
        self.compact_soon_count.store(marked, Ordering::Release);
    }

    /// Removes indexes from all lists if `condition` holds. No thread can get a
    /// reference from a list while the condition is evaluated.
    pub(crate) fn remove_if(
        &self,
        indexes: &[Arc<Index>],
        condition: impl FnOnce() -> bool,
    ) -> bool {
        let mut lists = self.lists.lock();
        if !condition() {
            return false;
        }
        for index in indexes {
            self.remove_closed(&mut lists, index.entry.file);
            lists.compact_soon.remove(&index.entry.file);
        }
        self.count_marked(&lists);
        true
    }
}
