//! An open table: its trees, its durable counters, and whether damage was met.

use crate::catalogue::{IndexEntry, TableEntry};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn, StorageError, StorageResult, WriteId};
use teak_disk::Disk;
use teak_transactions::RangeLocks;
use teak_tree::{PageCache, Tree};

/// Durable counters that a caller may use.
pub const COUNTERS: usize = 8;

/// The counter under which hidden row ids are kept.
pub(crate) const ROW_ID_COUNTER: u8 = 255;

/// Row ids reserved in the log at a time.
const ROW_IDS_AHEAD: u64 = 1 << 16;

/// A table's durable counters, open or not.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    values: [AtomicU64; COUNTERS],
    /// What the log says last, by counter.
    logged: [AtomicU64; COUNTERS],
    row_ids: Mutex<RowIds>,
    /// Whether the table stands in the list of counters to log.
    pub(crate) listed: AtomicBool,
}

#[derive(Debug, Default)]
struct RowIds {
    next: u64,
    /// The log says that ids below are taken.
    logged: u64,
}

impl Counters {
    pub(crate) fn restore(values: &BTreeMap<u8, u64>) -> Self {
        let counters = Self::default();
        for (counter, value) in values {
            counters.replay(*counter, *value);
        }
        counters
    }

    /// Takes a value from the log or the catalogue.
    pub(crate) fn replay(&self, counter: u8, value: u64) {
        if counter == ROW_ID_COUNTER {
            *self.row_ids.lock() = RowIds {
                next: value,
                logged: value,
            };
        } else if let (Some(live), Some(logged)) = (
            self.values.get(usize::from(counter)),
            self.logged.get(usize::from(counter)),
        ) {
            live.store(value, Ordering::Release);
            logged.store(value, Ordering::Release);
        }
    }

    pub(crate) fn value(&self, counter: u8) -> Option<u64> {
        let value = self.values.get(usize::from(counter))?;
        Some(value.load(Ordering::Acquire))
    }

    /// Raises a counter. `Some(true)` when it moved.
    pub(crate) fn advance(&self, counter: u8, value: u64) -> Option<bool> {
        let live = self.values.get(usize::from(counter))?;
        if live.load(Ordering::Acquire) >= value {
            return Some(false);
        }
        Some(live.fetch_max(value, Ordering::AcqRel) < value)
    }

    pub(crate) fn set(&self, counter: u8, value: u64) -> Option<()> {
        let live = self.values.get(usize::from(counter))?;
        live.store(value, Ordering::Release);
        Some(())
    }

    /// Counters whose value the log does not know.
    pub(crate) fn unlogged(&self) -> Vec<(u8, u64)> {
        let mut unlogged = Vec::new();
        for (number, (live, logged)) in (0u8..).zip(self.values.iter().zip(&self.logged)) {
            let value = live.load(Ordering::Acquire);
            if logged.load(Ordering::Acquire) != value {
                unlogged.push((number, value));
            }
        }
        unlogged
    }

    /// The log has this value now. Called by one thread at a time.
    pub(crate) fn note_logged(&self, counter: u8, value: u64) {
        if let Some(logged) = self.logged.get(usize::from(counter)) {
            logged.store(value, Ordering::Release);
        }
    }

    /// Reserves row ids; `log` is called when the log must hear of it first.
    pub(crate) fn reserve_row_ids(
        &self,
        count: u64,
        log: impl FnOnce(u64) -> StorageResult<()>,
    ) -> StorageResult<u64> {
        let mut ids = self.row_ids.lock();
        let first = ids.next;
        let next = first.saturating_add(count);
        if next > ids.logged {
            let ahead = next.saturating_add(ROW_IDS_AHEAD);
            log(ahead)?;
            ids.logged = ahead;
        }
        ids.next = next;
        Ok(first)
    }

    /// The counters as the catalogue keeps them. `closing`: no id will be
    /// handed out any more, so the reserved ones are given back.
    pub(crate) fn snapshot(&self, closing: bool) -> BTreeMap<u8, u64> {
        let ids = self.row_ids.lock();
        let row_ids = if closing { ids.next } else { ids.logged };
        drop(ids);
        let values = (0u8..).zip(&self.values);
        values
            .map(|(number, value)| (number, value.load(Ordering::Acquire)))
            .chain([(ROW_ID_COUNTER, row_ids)])
            .filter(|(_, value)| *value != 0)
            .collect()
    }

    /// Back to nothing, as after a truncation.
    pub(crate) fn reset(&self) {
        for counter in self.values.iter().chain(&self.logged) {
            counter.store(0, Ordering::Release);
        }
        *self.row_ids.lock() = RowIds::default();
    }
}

/// Background work on an index that failed last time.
#[derive(Debug)]
pub(crate) struct Failure {
    pub error: StorageError,
    pub retry_at: Instant,
    backoff: Duration,
}

const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_LAST: Duration = Duration::from_secs(10);
/// Space may be freed at any time, and writers wait for it.
const BACKOFF_FULL: Duration = Duration::from_secs(1);

/// One open index.
#[derive(Debug)]
pub(crate) struct Index {
    pub entry: IndexEntry,
    pub tree: Arc<Tree>,
    /// Whether it stands in the engine's list of written indexes.
    pub listed: AtomicBool,
    /// Dropped or replaced: no more background work.
    pub gone: AtomicBool,
    /// Much of it was rolled back: it settles without waiting for rest.
    pub settles_soon: AtomicBool,
    /// Recovery skips what was logged before: the file holds it.
    pub replay_from: Lsn,
    /// The newest commit when the index came to be: whoever took a snapshot
    /// before it misses what was in the table then. Zero: before anybody's.
    pub born: AtomicU64,
    /// No unsettled id below is in the durable file.
    pub durable_oldest: AtomicU64,
    /// Ranges that transactions hold in it.
    pub ranges: Arc<RangeLocks>,
    failing: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// Shared with its table.
    pub damaged: Arc<AtomicBool>,
}

impl Index {
    pub(crate) fn new(entry: IndexEntry, tree: Arc<Tree>, damaged: &Arc<AtomicBool>) -> Self {
        Self {
            ranges: Arc::new(RangeLocks::new(entry.file)),
            entry,
            listed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            settles_soon: AtomicBool::new(false),
            replay_from: tree.flushed_lsn(),
            born: AtomicU64::new(0),
            durable_oldest: AtomicU64::new(oldest_of(&tree).0),
            failing: AtomicBool::new(false),
            failure: Mutex::new(None),
            damaged: Arc::clone(damaged),
            tree,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Notes that background work failed; it is tried again later.
    pub(crate) fn fail(&self, error: StorageError) {
        let mut failure = self.failure.lock();
        let backoff = match &*failure {
            Some(before) if error.is_no_space() => (before.backoff * 2).min(BACKOFF_FULL),
            Some(before) => (before.backoff * 2).min(BACKOFF_LAST),
            None => BACKOFF_FIRST,
        };
        *failure = Some(Failure {
            error,
            retry_at: Instant::now() + backoff,
            backoff,
        });
        self.failing.store(true, Ordering::Release);
    }

    /// Space was freed: what found none may be tried at once.
    pub(crate) fn space_freed(&self) {
        if let Some(failure) = &mut *self.failure.lock()
            && failure.error.is_no_space()
        {
            failure.retry_at = Instant::now();
        }
    }

    /// Background work succeeded. Returns whether it failed before.
    pub(crate) fn recover(&self) -> bool {
        if !self.failing.load(Ordering::Acquire) {
            return false;
        }
        *self.failure.lock() = None;
        self.failing.swap(false, Ordering::AcqRel)
    }

    /// The last failure, while it lasts.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        if !self.failing.load(Ordering::Acquire) {
            return None;
        }
        self.failure
            .lock()
            .as_ref()
            .map(|failure| failure.error.clone())
    }

    /// Whether background work may be tried now.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        if self.is_gone() {
            return false;
        }
        if !self.failing.load(Ordering::Acquire) {
            return true;
        }
        let failure = self.failure.lock();
        failure
            .as_ref()
            .is_none_or(|failure| failure.retry_at <= now)
    }

    /// The position from which recovery would need this index's log, `None`
    /// when its file holds everything. `log_end` yields the log's end.
    pub(crate) fn log_needed_from(&self, log_end: impl Fn() -> Lsn) -> Option<Lsn> {
        let mut end = Lsn(0);
        let needed = self.tree.oldest_needed_lsn(|| {
            end = log_end();
            end
        });
        (needed < end).then_some(needed)
    }

    /// The oldest unsettled id that the file may hold when the engine is opened
    /// next, provided that it needs no log then. Zero when there is none.
    pub(crate) fn oldest_write_id(&self, log_end: impl Fn() -> Lsn) -> WriteId {
        let clean = self.log_needed_from(log_end).is_none();
        let live = oldest_of(&self.tree);
        let durable = WriteId(self.durable_oldest.load(Ordering::Acquire));
        match (clean, live.is_settled(), durable.is_settled()) {
            (true, ..) | (false, _, true) => live,
            (false, true, false) => durable,
            (false, false, false) => live.min(durable),
        }
    }
}

fn oldest_of(tree: &Tree) -> WriteId {
    let range = tree.write_id_range();
    range.map_or(WriteId::SETTLED, |(oldest, _)| oldest)
}

/// Lets a tree write from now on what the catalogue says. Its file may remember
/// an older choice.
pub(crate) fn adopt_options(tree: &Tree, entry: &IndexEntry) {
    let old = tree.options();
    let mut options = (*old).clone();
    options.codec = entry.codec;
    options.filters = entry.exact_lookups;
    options.value_planes = entry.value_fixed_bytes;
    if entry.page_bytes != 0 {
        options.page_bytes = entry.page_bytes;
    }
    if options != *old {
        tree.set_options(options);
    }
}

/// One open table.
#[derive(Debug)]
pub(crate) struct Table {
    pub id: u64,
    pub name: RwLock<Arc<str>>,
    pub metadata: RwLock<Arc<[u8]>>,
    /// Its indexes, and behind them those that an alteration builds.
    pub indexes: ArcSwap<Vec<Arc<Index>>>,
    /// How many of them are being built.
    pub building: AtomicUsize,
    /// One alteration at a time.
    pub altering: AtomicBool,
    pub counters: Arc<Counters>,
    /// Under which its counters are named among the locks. No index file has
    /// such a number.
    pub counter_locks: Arc<RangeLocks>,
    pub damaged: Arc<AtomicBool>,
    pub handles: AtomicUsize,
}

impl Table {
    /// Opens the trees of a table, but for those `kept` that are open already.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        root: &Path,
        entry: &TableEntry,
        counters: &Arc<Counters>,
        cache: &Arc<PageCache>,
        kept: &[Arc<Index>],
    ) -> StorageResult<Self> {
        let damaged = match kept.first() {
            Some(index) => Arc::clone(&index.damaged),
            None => Arc::new(AtomicBool::new(false)),
        };
        let mut indexes = Vec::with_capacity(entry.indexes.len());
        for index in &entry.indexes {
            if let Some(open) = kept.iter().find(|open| open.entry.file == index.file) {
                adopt_options(&open.tree, index);
                indexes.push(Arc::clone(open));
                continue;
            }
            let path = root.join(&index.path);
            let tree = Tree::open(disk, &path, Some(index.file), cache)?;
            adopt_options(&tree, index);
            indexes.push(Arc::new(Index::new(index.clone(), tree, &damaged)));
        }
        Ok(Self {
            id: entry.id,
            name: RwLock::new(entry.name.as_str().into()),
            metadata: RwLock::new(entry.metadata.as_slice().into()),
            indexes: ArcSwap::from_pointee(indexes),
            building: AtomicUsize::new(0),
            altering: AtomicBool::new(false),
            counters: Arc::clone(counters),
            counter_locks: Arc::new(RangeLocks::new(FileId(!entry.id))),
            damaged,
            handles: AtomicUsize::new(0),
        })
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_move_back_through_advance() {
        let counters = Counters::default();
        assert_eq!(counters.advance(0, 5), Some(true));
        assert_eq!(counters.advance(0, 4), Some(false));
        assert_eq!(counters.value(0), Some(5));
        assert_eq!(counters.advance(8, 1), None);
        assert_eq!(counters.unlogged(), [(0, 5)]);
        counters.note_logged(0, 5);
        assert_eq!(counters.unlogged(), []);
    }

    #[test]
    fn row_ids_are_logged_before_they_are_used() {
        let counters = Counters::default();
        let mut logged = 0;
        let first = counters.reserve_row_ids(10, |value| {
            logged = value;
            Ok(())
        });
        assert_eq!(first.unwrap(), 0);
        assert!(logged >= 10);
        let next = counters.reserve_row_ids(5, |_| panic!("the log knows"));
        assert_eq!(next.unwrap(), 10);
        let restored = Counters::restore(&counters.snapshot(false));
        assert_eq!(restored.reserve_row_ids(1, |_| Ok(())).unwrap(), logged);
        let reopened = Counters::restore(&counters.snapshot(true));
        assert_eq!(reopened.reserve_row_ids(1, |_| Ok(())).unwrap(), 15);
    }
}
