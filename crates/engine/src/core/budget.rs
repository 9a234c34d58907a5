//! The split of the memory budget.
//!
//! Memtables get two fifths of the budget, each flusher thread gets a few MiB, the log gets its two
//! buffers, and the page cache gets the rest. Locks are limited to an eighth of the budget, or to a
//! configured size.

use super::pacer::Pacer;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_tree::MemtableUse;

const MIB: u64 = 1 << 20;

/// The smallest memory budget, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = MIB;

/// Bytes in children of one index where merges are due, below which its writers
/// are never slowed.
const DEBT_BYTES_MIN: u64 = 256 * MIB;

/// The split of the memory budget.
pub(crate) struct Budget {
    total: AtomicU64,
    memtable_quota: AtomicU64,
    page_cache: AtomicU64,
    threads: u64,
    /// Smallest memtable that is frozen to free memory, in bytes.
    pub memtable_bytes_min: u64,
    /// Configured limit for locks; zero: a share of the total.
    lock_bytes: AtomicU64,
    /// The pace of writers when memtables use much of their quota.
    pub memtable_pacer: Pacer,
}

impl Budget {
    pub(crate) fn new(total: u64, threads: usize, memtable_bytes_min: u64) -> Self {
        let budget = Self {
            total: AtomicU64::new(0),
            memtable_quota: AtomicU64::new(0),
            page_cache: AtomicU64::new(0),
            threads: threads.max(1) as u64,
            memtable_bytes_min,
            lock_bytes: AtomicU64::new(0),
            memtable_pacer: Pacer::default(),
        };
        budget.resize(total);
        budget
    }

    pub(crate) fn resize(&self, total: u64) {
        let memtables = total / 5 * 2;
        let flushing = (self.threads * 4 * MIB).min(total / 8);
        let log = 2 * Self::log_pending_bytes(total) as u64;
        let pages = total.saturating_sub(memtables + flushing + log);
        self.total.store(total, Ordering::Release);
        self.memtable_quota.store(memtables, Ordering::Release);
        self.page_cache.store(pages, Ordering::Release);
    }

    /// Size of each of the two buffers for log bytes that have not been
    /// written.
    pub(crate) fn log_pending_bytes(total: u64) -> usize {
        usize::try_from((total / 64).clamp(MIB / 8, 8 * MIB)).unwrap_or(1 << 20)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    pub(crate) fn memtable_quota(&self) -> u64 {
        self.memtable_quota.load(Ordering::Acquire)
    }

    /// The quota of the memtables that flushes can release, when readers keep
    /// `retired` bytes of flushed ones.
    pub(crate) fn live_quota(&self, retired: u64) -> u64 {
        let quota = self.memtable_quota();
        quota.saturating_sub(retired).max(quota / 4)
    }

    /// Bytes of all memtables, also of those that readers keep, at which writers
    /// stop.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        self.memtable_quota() + self.page_cache.load(Ordering::Acquire) / 2
    }

    /// The share of the page cache, less what readers keep beyond the quota of
    /// memtables.
    pub(crate) fn page_cache_bytes_beside(&self, retired: u64) -> u64 {
        let quota = self.memtable_quota();
        let excess = retired.saturating_sub(quota - quota / 4);
        self.page_cache_bytes().saturating_sub(excess)
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

    /// Bytes in children of one index where merges are due, below which its
    /// writers are not slowed.
    pub(crate) fn debt_bytes(&self) -> u64 {
        (self.memtable_quota() * 4).max(DEBT_BYTES_MIN)
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
