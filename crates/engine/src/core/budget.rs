//! The split of the memory budget.
//!
//! Memtables get two fifths of the budget, each flusher thread gets a few MiB, the log gets its two
//! buffers, and the page cache gets the rest. Locks are limited to an eighth of the budget, or to a
//! configured size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// The smallest memory budget, in bytes.
pub(crate) const BUDGET_BYTES_MIN: u64 = MIB;

/// Compaction debt, in bytes, below which writers are never slowed.
const DEBT_BYTES_MIN: u64 = 256 * MIB;

/// The split of the memory budget, and counts of writer stalls.
pub(crate) struct Budget {
    total: AtomicU64,
    memtable_quota: AtomicU64,
    page_cache: AtomicU64,
    threads: u64,
    /// Smallest memtable that is frozen to free memory, in bytes.
    pub memtable_bytes_min: u64,
    /// Configured limit for locks; zero: a share of the total.
    lock_bytes: AtomicU64,
    /// Bytes written by transactions that ended before their next report to `admit`.
    unreported: AtomicU64,
    /// How often writers were slowed, and for how long in total.
    pub stalls: AtomicU64,
    pub stall_microseconds: AtomicU64,
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
            unreported: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            stall_microseconds: AtomicU64::new(0),
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

    /// Compaction debt, in bytes, above which writers are slowed.
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

    /// Bytes that a transaction may write between two calls of `admit`.
    pub(crate) fn report_bytes(&self) -> u64 {
        (self.memtable_quota() / 512).clamp(4 * 1024, 128 * 1024)
    }

    /// Whether a transaction that has written `bytes` since its last report must
    /// report now. Short transactions share one report.
    #[inline]
    pub(crate) fn must_report(&self, bytes: u64) -> bool {
        let limit = self.report_bytes();
        bytes >= limit || bytes == 0 && self.unreported.load(Ordering::Relaxed) >= limit
    }

    /// Adds the bytes that a transaction wrote and did not report before its end.
    pub(crate) fn add_unreported(&self, bytes: u64) {
        if bytes > 0 {
            self.unreported.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Called when a transaction reports: the report includes the bytes of the transactions that
    /// ended.
    pub(crate) fn clear_unreported(&self) {
        self.unreported.store(0, Ordering::Relaxed);
    }

    pub(crate) fn count_stall(&self, since: Instant) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stall_microseconds.fetch_add(spent, Ordering::Relaxed);
    }
}
