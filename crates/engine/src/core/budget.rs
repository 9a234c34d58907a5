//! The split of the memory budget.
//!
//! Memtables get two fifths of the budget, each flusher thread gets up to 4 MiB, the log gets its
//! buffers. All other memory is measured (`memory_use`), and the page cache gets what is left, but
//! at least a sixteenth. If other memory needs more, such as that of thousands of open trees, it is
//! taken from the memtables' share, of which a tenth of the budget remains. What memtables do not
//! use of their share, the page cache may use.
//!
//! Nodes and locks are limited to an eighth of the budget each, or to a configured size. All sorts
//! together get a quarter, and those of one statement at most an eighth and 256 MiB, and what the page cache
//! can give, or a configured size. A sort that finds less than 1 MiB left still gets 1 MiB, or an eighth of
//! the budget if that is less.

use super::memory_use::MemoryUse;
use super::pacer::Pacer;
use super::peak::Peak;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;
use teak_tree::MemtableUse;

const MIB: u64 = 1 << 20;

/// The smallest memory budget, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = MIB;

/// The minimum of [`Budget::debt_bytes`].
const DEBT_BYTES_MIN: u64 = 256 * MIB;

/// Memory of the tree of an index with a few rows, with its root, in bytes.
const TREE_BYTES: u64 = 12 * 1024;

/// Minimum of [`Budget::open_trees_max`].
const OPEN_TREES_MIN: usize = 256;

/// The page cache keeps at least the budget divided by this number, whatever else needs memory.
const PAGE_CACHE_SHARE_MIN: u64 = 16;

/// The page cache leaves the memtables the budget divided by this number, in addition to what they
/// have used lately. When they have grown by half of it, the page cache is made smaller.
const MEMTABLE_RESERVE: u64 = 32;

/// Memtables keep the budget divided by this number, whatever else needs memory.
const MEMTABLE_SHARE_MIN: u64 = 10;

/// Nodes of open trees may use the budget divided by this number.
const NODE_SHARE: u64 = 8;

/// Maximum memory of the sorts of a statement, unless it is configured, in bytes.
const SORT_BYTES_MAX: u64 = 256 * MIB;

/// Minimum memory of one sort, in bytes.
const SORT_BYTES_MIN: u64 = MIB;

/// The caller may keep rows in the budget divided by this number.
const CALLER_SHARE: u64 = 16;

/// The split of the memory budget.
pub(crate) struct Budget {
    total: AtomicU64,
    /// The memtables' share while nothing else needs it.
    memtables: AtomicU64,
    /// The part of the memtables' share that other memory uses.
    ceded: AtomicU64,
    /// The bound at which writers of large memtables stop: the quota, or more while memtables have
    /// to shrink to a quota that was lowered.
    stop: AtomicU64,
    /// The page cache's share while nothing else needs memory, and memtables use their share.
    page_cache: AtomicU64,
    /// The part of the memtables' share that the page cache may use.
    lent: AtomicU64,
    /// The bytes of memtables when `lent` was computed.
    lent_at: AtomicU64,
    /// The maximum memory of memtables lately.
    memtable_peak: Mutex<Peak>,
    /// The shares of flusher threads and of the log.
    set_aside: AtomicU64,
    /// Memory that running sorts may use.
    sorts: AtomicU64,
    /// Memory that the page cache can still give to sorts.
    sort_room: AtomicU64,
    /// Configured limit for the sorts of a statement; zero: a share of the total.
    sort_bytes_max: AtomicU64,
    /// Rows that the caller keeps.
    callers: AtomicU64,
    /// Other memory of the caller, such as its handles of tables.
    handles: AtomicI64,
    threads: u64,
    /// Smallest memtable that is frozen to free memory, in bytes. Smaller ones are frozen if the
    /// quota is small, or active memtables use most of it.
    pub memtable_bytes_min: u64,
    /// Configured limit for nodes; `None`: a share of the total.
    node_bytes_max: Option<u64>,
    /// Bytes of frozen memtables whose flushes fail.
    unflushable: AtomicU64,
    /// Configured limit for locks; zero: a share of the total.
    lock_bytes: AtomicU64,
    /// The pace of writers when memtables use much of their quota.
    pub memtable_pacer: Pacer,
}

impl Budget {
    pub(crate) fn new(
        total: u64,
        threads: usize,
        memtable_bytes_min: u64,
        node_bytes_max: Option<u64>,
    ) -> Self {
        let budget = Self {
            total: AtomicU64::new(0),
            memtables: AtomicU64::new(0),
            ceded: AtomicU64::new(0),
            stop: AtomicU64::new(0),
            page_cache: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            lent_at: AtomicU64::new(0),
            memtable_peak: Mutex::new(Peak::new(Instant::now())),
            set_aside: AtomicU64::new(0),
            sorts: AtomicU64::new(0),
            sort_room: AtomicU64::new(0),
            sort_bytes_max: AtomicU64::new(0),
            callers: AtomicU64::new(0),
            handles: AtomicI64::new(0),
            threads: threads.max(1) as u64,
            memtable_bytes_min,
            node_bytes_max,
            unflushable: AtomicU64::new(0),
            lock_bytes: AtomicU64::new(0),
            memtable_pacer: Pacer::default(),
        };
        budget.resize(total);
        budget
    }

    pub(crate) fn resize(&self, total: u64) {
        let memtables = total / 5 * 2;
        let flushing = (self.threads * 4 * MIB).min(total / 8);
        let log = (4 * Self::log_pending_bytes(total) as u64).min(total / 8);
        let pages = total.saturating_sub(memtables + flushing + log);
        self.set_aside.store(flushing + log, Ordering::Release);
        self.total.store(total, Ordering::Release);
        self.memtables.store(memtables, Ordering::Release);
        self.ceded.store(0, Ordering::Release);
        self.stop.store(memtables, Ordering::Release);
        self.lent.store(0, Ordering::Release);
        self.page_cache.store(pages, Ordering::Release);
        self.fit_memtables(&MemoryUse::default());
    }

    /// Size of the buffer of log bytes that are not in a batch. There are three more
    /// buffers of this size: one for the batch that is written, and two for its
    /// compressed form.
    pub(crate) fn log_pending_bytes(total: u64) -> usize {
        usize::try_from((total / 64).clamp(MIB / 8, 8 * MIB)).unwrap_or(1 << 20)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// The memory that memtables may use, in bytes.
    pub(crate) fn memtable_quota(&self) -> u64 {
        let ceded = self.ceded.load(Ordering::Acquire);
        self.memtables.load(Ordering::Acquire).saturating_sub(ceded)
    }

    /// The quota of the memtables that flushes can release, when readers keep
    /// `retired` bytes of flushed ones.
    pub(crate) fn live_quota(&self, retired: u64) -> u64 {
        live_quota(self.memtable_quota(), retired)
    }

    /// As [`Budget::live_quota`], if other memory used nothing of the memtables' share. That use may
    /// grow faster than flushes release memory, so it slows writers of small memtables, but
    /// does not stop them.
    pub(crate) fn live_share(&self, retired: u64) -> u64 {
        live_quota(self.memtables.load(Ordering::Acquire), retired)
    }

    /// The quota at which writers of large memtables stop. If other memory takes a part of the quota
    /// faster than flushes release memory, this follows what is released, so such writers are slowed
    /// instead of stopped.
    pub(crate) fn live_stop(&self, retired: u64) -> u64 {
        live_quota(self.stop.load(Ordering::Acquire), retired)
    }

    /// Sets the bytes of frozen memtables whose flushes fail.
    pub(crate) fn set_unflushable(&self, bytes: u64) {
        self.unflushable.store(bytes, Ordering::Relaxed);
    }

    /// The use of memtables as other tables see it: memtables that cannot be flushed now count like
    /// those that readers keep, so that they do not take up the quota.
    pub(crate) fn without_unflushable(&self, used: MemtableUse) -> MemtableUse {
        let unflushable = self.unflushable.load(Ordering::Relaxed);
        let share = self.memtables.load(Ordering::Acquire);
        let moved = unflushable.min(used.frozen).min(share);
        MemtableUse {
            active: used.active,
            frozen: used.frozen - moved,
            retired: used.retired + moved,
        }
    }

    /// Bytes of all memtables, including those that readers keep, at which writers
    /// stop. Does not depend on what other memory uses, so that this stops no writer.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        self.memtables.load(Ordering::Acquire) + self.page_cache.load(Ordering::Acquire) / 2
    }

    /// Takes from the memtables' share what everything else needs beyond its own share and what the
    /// page cache can give.
    pub(crate) fn fit_memtables(&self, used: &MemoryUse) {
        let pages_min = self.total() / PAGE_CACHE_SHARE_MIN;
        let others = used.others_beyond(self.set_aside.load(Ordering::Acquire));
        let given = self.page_cache_bytes().saturating_sub(pages_min);
        let share = self.memtables.load(Ordering::Acquire);
        let max = share.saturating_sub(self.total() / MEMTABLE_SHARE_MIN);
        let ceded = others.saturating_sub(given).min(max);
        self.ceded.store(ceded, Ordering::Release);
        let quota = share - ceded;
        // An eighth more, so that the writers who are slowed do not reach it before the next flush.
        let held = used.memtables_live + used.memtables_retired;
        let shrinking = held / 8 * 9 + quota / 8;
        let stop = shrinking.min(self.stop.load(Ordering::Acquire)).max(quota);
        self.stop.store(stop, Ordering::Release);
        let room = given.saturating_sub(others);
        self.sort_room.store(room, Ordering::Release);
    }

    /// Lends the page cache what memtables have not used of their share lately.
    pub(crate) fn lend_to_page_cache(&self, used: &MemoryUse, now: Instant) {
        let memtables = used.memtables_live + used.memtables_retired + used.memtables_spare;
        let peak = self.memtable_peak.lock().note(memtables, now);
        let reserve = self.total() / MEMTABLE_RESERVE;
        let lent = self.memtable_quota().saturating_sub(peak + reserve);
        self.lent.store(lent, Ordering::Release);
        self.lent_at.store(memtables, Ordering::Release);
    }

    /// Whether memtables have grown so much that the page cache must give back memory that it
    /// was lent.
    #[inline]
    pub(crate) fn must_lend_less(&self, used: MemtableUse) -> bool {
        let grown = used
            .total()
            .saturating_sub(self.lent_at.load(Ordering::Acquire));
        self.lent.load(Ordering::Acquire) > 0 && grown > self.total() / MEMTABLE_RESERVE / 2
    }

    /// The page cache's share of the budget, less what retired memtables need beyond three quarters
    /// of the memtables' quota, and what everything else needs beyond its share; but at least the
    /// budget divided by `PAGE_CACHE_SHARE_MIN`.
    pub(crate) fn page_cache_bytes_with(&self, used: &MemoryUse) -> u64 {
        let quota = self.memtable_quota();
        let retired = used.memtables_retired.saturating_sub(quota - quota / 4);
        let set_aside = self.set_aside.load(Ordering::Acquire);
        let others = used.others_beyond(set_aside);
        let lent = self.lent.load(Ordering::Acquire);
        let bytes = (self.page_cache_bytes() + lent).saturating_sub(retired + others);
        bytes.max(self.total() / PAGE_CACHE_SHARE_MIN)
    }

    /// Limits the memory of the sorts of a statement, in bytes; zero: a share of the budget.
    pub(crate) fn set_sort_bytes_max(&self, bytes: u64) {
        self.sort_bytes_max.store(bytes, Ordering::Release);
    }

    /// Maximum memory of the sorts of a statement, in bytes.
    fn statement_sort_bytes(&self) -> u64 {
        match self.sort_bytes_max.load(Ordering::Acquire) {
            0 => (self.total() / 8).min(SORT_BYTES_MAX),
            bytes => bytes.max(self.sort_bytes_min()).min(self.total() / 4),
        }
    }

    fn sort_bytes_min(&self) -> u64 {
        SORT_BYTES_MIN.min(self.total() / 8)
    }

    /// Whether other sorts have left memory for another one.
    pub(crate) fn has_sort_memory(&self) -> bool {
        self.sort_bytes() + self.sort_bytes_min() <= self.total() / 4
    }

    /// Takes memory for a sort that is one of `parts` of a statement: what other sorts have left of a
    /// quarter of the budget, or `SORT_BYTES_MIN` if that is more; but at most its part of the memory
    /// of a statement, and, unless that is configured, of what the page cache can give: memory of the
    /// memtables would slow all writers. Returns the number of bytes, for [`Budget::end_sort`].
    pub(crate) fn begin_sort(&self, parts: u64) -> u64 {
        let mut statement = self.statement_sort_bytes();
        if self.sort_bytes_max.load(Ordering::Acquire) == 0 {
            statement = statement.min(self.sort_room.load(Ordering::Acquire));
        }
        let wanted = (statement / parts.max(1)).max(self.sort_bytes_min());
        let mut granted = 0;
        let _ = self
            .sorts
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                let left = (self.total() / 4).saturating_sub(taken);
                granted = wanted.min(left.max(SORT_BYTES_MIN));
                Some(taken + granted)
            });
        granted
    }

    pub(crate) fn end_sort(&self, bytes: u64) {
        self.sorts.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Memory that running sorts may use, in bytes.
    pub(crate) fn sort_bytes(&self) -> u64 {
        self.sorts.load(Ordering::Acquire)
    }

    /// Takes memory for rows that the caller keeps, if it then has at most a sixteenth of the budget.
    pub(crate) fn take_caller_bytes(&self, bytes: u64) -> bool {
        let max = self.total() / CALLER_SHARE;
        let take = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= max);
        let taken = self
            .callers
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok()
    }

    pub(crate) fn return_caller_bytes(&self, bytes: u64) {
        self.callers.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Notes other memory of the caller: `bytes` more, or less.
    pub(crate) fn note_handles(&self, bytes: i64) {
        self.handles.fetch_add(bytes, Ordering::AcqRel);
    }

    /// All memory of the caller that the budget includes.
    pub(crate) fn caller_bytes(&self) -> u64 {
        // Negative only if the caller has noted less than it returns.
        let handles = u64::try_from(self.handles.load(Ordering::Acquire)).unwrap_or(0);
        self.callers.load(Ordering::Acquire) + handles
    }

    /// Whether memtables use so much memory that writers must freeze some or be
    /// delayed.
    #[inline]
    pub(crate) fn is_pressed(&self, used: MemtableUse) -> bool {
        let quota = self.live_quota(used.retired);
        used.active > quota / 2
            || used.live() > quota / 16 * 11
            || used.total() > self.memtable_bytes_max()
    }

    /// The debt of an index (bytes in children where merges are due) up to which its
    /// writers are never slowed.
    pub(crate) fn debt_bytes(&self) -> u64 {
        (self.memtable_quota() * 4).max(DEBT_BYTES_MIN)
    }

    /// Memory of nodes above which nodes that can be read again are evicted, in bytes.
    pub(crate) fn node_bytes_max(&self) -> u64 {
        self.node_bytes_max.unwrap_or(self.total() / NODE_SHARE)
    }

    /// The number of open trees above which threads that open files wait until idle tables are
    /// closed. From half of it on, idle tables are closed early.
    pub(crate) fn open_trees_max(&self) -> usize {
        let left = self.total().saturating_sub(self.caller_bytes());
        let trees = usize::try_from(left / 2 / TREE_BYTES).unwrap_or(usize::MAX);
        trees.max(OPEN_TREES_MIN)
    }

    /// The limit of memory for row and range locks, in bytes.
    pub(crate) fn lock_bytes(&self) -> u64 {
        match self.lock_bytes.load(Ordering::Acquire) {
            0 => self.total() / 8,
            chosen => chosen,
        }
    }

    /// Sets the limit of memory for locks; zero for the default.
    pub(crate) fn set_lock_bytes(&self, bytes: u64) {
        self.lock_bytes.store(bytes, Ordering::Release);
    }

    pub(crate) fn page_cache_bytes(&self) -> u64 {
        self.page_cache.load(Ordering::Acquire)
    }

    /// Bytes that a transaction may write until it must be admitted again; fewer
    /// when it was delayed.
    pub(crate) fn report_bytes(&self, is_delayed: bool) -> u64 {
        let bytes = (self.memtable_quota() / 512).clamp(4 * 1024, 128 * 1024);
        match is_delayed {
            true => (bytes / 8).max(4 * 1024),
            false => bytes,
        }
    }
}

fn live_quota(quota: u64, retired: u64) -> u64 {
    quota.saturating_sub(retired).max(quota / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shares(total: u64) -> (Budget, u64) {
        let budget = Budget::new(total, 2, MIB, None);
        let pages = budget.page_cache_bytes();
        (budget, pages)
    }

    #[test]
    fn the_page_cache_gets_what_others_leave() {
        let (budget, pages) = shares(64 * MIB);
        let mut used = MemoryUse::default();
        assert_eq!(budget.page_cache_bytes_with(&used), pages);
        // What is set aside for flushers and the log.
        used.log = 4 * MIB;
        assert_eq!(budget.page_cache_bytes_with(&used), pages);
        used.log = 0;
        used.nodes = 3 * MIB;
        used.locks = 5 * MIB;
        used.write_ids = MIB;
        used.sorts = 8 * MIB;
        used.uncached_blocks = 2 * MIB;
        assert_eq!(budget.page_cache_bytes_with(&used), pages - 17 * MIB);
        let set_aside = 64 * MIB - pages - budget.memtable_quota();
        used.uncached_blocks = set_aside + MIB;
        assert_eq!(budget.page_cache_bytes_with(&used), pages - 18 * MIB);
        // Measured memory that no counter has.
        used.measured = Some(set_aside + 20 * MIB);
        assert_eq!(budget.page_cache_bytes_with(&used), pages - 20 * MIB);
        used.nodes = 100 * MIB;
        assert_eq!(budget.page_cache_bytes_with(&used), 4 * MIB);
    }

    #[test]
    fn memtables_cede_what_the_page_cache_cannot_give() {
        let (budget, pages) = shares(64 * MIB);
        let quota = budget.memtable_quota();
        let set_aside = 64 * MIB - pages - quota;
        let mut used = MemoryUse {
            measured: Some(set_aside + pages - 4 * MIB),
            ..MemoryUse::default()
        };
        budget.fit_memtables(&used);
        assert_eq!(budget.memtable_quota(), quota);
        used.measured = used.measured.map(|bytes| bytes + 9 * MIB);
        budget.fit_memtables(&used);
        assert_eq!(budget.memtable_quota(), quota - 9 * MIB);
        assert_eq!(budget.live_quota(0), quota - 9 * MIB);
        assert_eq!(budget.live_share(0), quota);
        assert_eq!(budget.live_stop(0), quota - 9 * MIB);
        used.measured = Some(200 * MIB);
        budget.fit_memtables(&used);
        assert_eq!(budget.memtable_quota(), quota - (quota - 64 * MIB / 10));
        budget.fit_memtables(&MemoryUse::default());
        assert_eq!(budget.memtable_quota(), quota);
    }

    /// The bound follows memtables that shrink, never memtables that grow, and ends at the quota.
    #[test]
    fn the_stop_falls_to_a_lower_quota_as_memtables_shrink() {
        let (budget, _) = shares(64 * MIB);
        let share = budget.memtable_quota();
        let stop_with = |live: u64| {
            let used = MemoryUse {
                measured: Some(200 * MIB),
                memtables_live: live,
                ..MemoryUse::default()
            };
            budget.fit_memtables(&used);
            budget.live_stop(0)
        };
        let high = stop_with(share / 2);
        let quota = budget.memtable_quota();
        assert_eq!(quota, 64 * MIB / 10);
        assert!(high > share / 2 / 15 * 16 && high < share, "{high}");
        let lower = stop_with(share / 4);
        assert!(quota < lower && lower < high, "{lower}");
        assert_eq!(stop_with(share), lower);
        assert_eq!(stop_with(0), quota);
        assert_eq!(stop_with(share), quota);
        budget.fit_memtables(&MemoryUse::default());
        assert_eq!(budget.live_stop(0), share);
    }

    #[test]
    fn the_page_cache_uses_what_memtables_have_not_used_lately() {
        let (budget, pages) = shares(64 * MIB);
        let quota = budget.memtable_quota();
        let since = Instant::now();
        let after = |seconds| since + Duration::from_secs(seconds);
        let memtables = |bytes| MemoryUse {
            memtables_live: bytes,
            ..MemoryUse::default()
        };
        let grown = |bytes| MemtableUse {
            active: bytes,
            ..MemtableUse::default()
        };
        budget.lend_to_page_cache(&memtables(0), since);
        let empty = budget.page_cache_bytes_with(&memtables(0));
        assert_eq!(empty, pages + quota - 2 * MIB);
        assert!(!budget.must_lend_less(grown(MIB)));
        assert!(budget.must_lend_less(grown(MIB + 1)));
        budget.lend_to_page_cache(&memtables(12 * MIB), after(1));
        let used = memtables(12 * MIB);
        let written = budget.page_cache_bytes_with(&used);
        assert_eq!(written, empty - 12 * MIB);
        // Flushed memtables are soon followed by others.
        budget.lend_to_page_cache(&memtables(0), after(2));
        assert!(budget.page_cache_bytes_with(&memtables(0)) < written + MIB);
        budget.lend_to_page_cache(&memtables(0), after(300));
        let idle = budget.page_cache_bytes_with(&memtables(0));
        assert!(idle > empty - MIB && idle <= empty, "{idle} {empty}");
        budget.lend_to_page_cache(&memtables(quota), after(301));
        assert_eq!(budget.page_cache_bytes_with(&memtables(quota)), pages);
    }

    #[test]
    fn sorts_share_a_quarter_of_the_budget() {
        let (budget, _) = shares(64 * MIB);
        let granted: Vec<u64> = (0..4).map(|_| budget.begin_sort(1)).collect();
        assert_eq!(granted, [8 * MIB, 8 * MIB, MIB, MIB]);
        assert_eq!(budget.sort_bytes(), 18 * MIB);
        assert!(!budget.has_sort_memory());
        granted.into_iter().for_each(|bytes| budget.end_sort(bytes));
        assert_eq!(budget.sort_bytes(), 0);
        assert!(budget.has_sort_memory());
        assert_eq!(budget.begin_sort(1), 8 * MIB);
        assert_eq!(budget.begin_sort(4), 2 * MIB);
        assert_eq!(budget.begin_sort(100), MIB);
    }

    #[test]
    fn sorts_take_no_memory_of_memtables() {
        let (budget, pages) = shares(64 * MIB);
        let quota = budget.memtable_quota();
        let set_aside = 64 * MIB - pages - quota;
        for (free, granted) in [(20, 8), (5, 5), (0, 1)] {
            let used = MemoryUse {
                measured: Some(set_aside + pages - (4 + free) * MIB),
                ..MemoryUse::default()
            };
            budget.fit_memtables(&used);
            assert_eq!(budget.memtable_quota(), quota);
            assert_eq!(budget.begin_sort(1), granted * MIB);
            budget.end_sort(granted * MIB);
        }
        budget.set_sort_bytes_max(3 * MIB);
        assert_eq!(budget.begin_sort(1), 3 * MIB);
    }

    #[test]
    fn the_memory_of_a_statement_s_sorts_can_be_configured() {
        let (budget, _) = shares(64 * MIB);
        for (configured, granted) in [
            (3 * MIB, 3 * MIB),
            (1, MIB),
            (64 * MIB, 16 * MIB),
            (0, 8 * MIB),
        ] {
            budget.set_sort_bytes_max(configured);
            assert_eq!(budget.begin_sort(1), granted);
            budget.end_sort(granted);
        }
    }

    #[test]
    fn callers_keep_a_sixteenth() {
        let (budget, _) = shares(64 * MIB);
        assert!(budget.take_caller_bytes(3 * MIB));
        assert!(!budget.take_caller_bytes(2 * MIB));
        assert!(budget.take_caller_bytes(MIB));
        budget.return_caller_bytes(3 * MIB);
        assert_eq!(budget.caller_bytes(), MIB);
        assert!(!budget.take_caller_bytes(u64::MAX));
    }

    #[test]
    fn handles_of_tables_leave_less_for_open_trees() {
        let (budget, _) = shares(64 * MIB);
        let trees = budget.open_trees_max();
        budget.note_handles(32 << 20);
        assert_eq!(budget.caller_bytes(), 32 * MIB);
        assert_eq!(budget.open_trees_max(), trees / 2);
        budget.note_handles(-(32 << 20));
        assert_eq!(budget.open_trees_max(), trees);
    }
}
