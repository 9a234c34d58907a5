//! The memory budget: how much the memtables may take, when one is frozen, and
//! how writers are slowed.
//!
//! Of the whole budget, memtables get two fifths, each flushing thread a few
//! MiB, the log its two buffers, and the page cache the rest.
//!
//! A writer reports every so many bytes it has written. Then:
//! 1. When the active memtables together exceed half their quota, or one of
//!    them its own limit, the largest are frozen for flushing.
//! 2. Above three quarters of the quota the writer sleeps, the longer the
//!    closer to the quota, so that it slows down to the flushers' speed.
//! 3. Above the quota it waits until there is room, or fails with what keeps
//!    the flushers from making some.
//! 4. When the bytes that are due to be pushed down exceed what merging may
//!    owe, the writer sleeps too, longer as the debt grows.

use crate::background;
use crate::engine::Inner;
use crate::error::{EngineError, EngineResult};
use crate::table::Index;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use teak_base::StorageError;
use teak_transactions::TransactionHandle;

const MIB: u64 = 1 << 20;

/// Largest memtable, in bytes.
const MEMTABLE_BYTES_MAX: u64 = 64 * MIB;

/// Longest single sleep of a writer below the quota.
const DELAY_MAX: Duration = Duration::from_millis(4);

/// Longest single sleep of a writer for the merges' sake.
const DEBT_DELAY_MAX: Duration = Duration::from_millis(50);

/// What merging may owe at least, in bytes, before writers are slowed.
const DEBT_BYTES_MIN: u64 = 256 * MIB;

/// How often a writer above the quota looks for an interrupt.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The division of the budget.
pub(crate) struct Budget {
    total: AtomicU64,
    memtable_quota: AtomicU64,
    page_cache: AtomicU64,
    threads: u64,
    memtable_bytes_min: u64,
    /// Zero for a share of the total.
    lock_bytes: AtomicU64,
    /// Bytes written by transactions that ended before they reported.
    unreported: AtomicU64,
    pub stalls: AtomicU64,
    pub stall_microseconds: AtomicU64,
}

/// Memory in memtables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemtableUse {
    pub active: u64,
    pub frozen: u64,
    /// Bytes on disk that are due to be pushed down.
    pub debt: u64,
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

    /// Bytes of log that may be pending, of which there are two buffers.
    pub(crate) fn log_pending_bytes(total: u64) -> usize {
        usize::try_from((total / 64).clamp(MIB / 8, 8 * MIB)).unwrap_or(1 << 20)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    pub(crate) fn memtable_quota(&self) -> u64 {
        self.memtable_quota.load(Ordering::Acquire)
    }

    /// What merging may owe before writers are slowed, in bytes.
    pub(crate) fn debt_bytes(&self) -> u64 {
        (self.memtable_quota() * 4).max(DEBT_BYTES_MIN)
    }

    /// What row and range locks may take, in bytes.
    pub(crate) fn lock_bytes(&self) -> u64 {
        match self.lock_bytes.load(Ordering::Acquire) {
            0 => self.total() / 8,
            chosen => chosen,
        }
    }

    /// Chooses what locks may take; zero for the default.
    pub(crate) fn set_lock_bytes(&self, bytes: u64) {
        self.lock_bytes.store(bytes, Ordering::Release);
    }

    pub(crate) fn page_cache_bytes(&self) -> u64 {
        self.page_cache.load(Ordering::Acquire)
    }

    /// Bytes that a writer may write between two reports.
    pub(crate) fn report_bytes(&self) -> u64 {
        (self.memtable_quota() / 512).clamp(4 * 1024, 128 * 1024)
    }

    /// Whether a writer that has written `bytes` since its last report should
    /// report now. Short transactions report together.
    #[inline]
    pub(crate) fn must_report(&self, bytes: u64) -> bool {
        let limit = self.report_bytes();
        bytes >= limit || bytes == 0 && self.unreported.load(Ordering::Relaxed) >= limit
    }

    /// Takes over what a transaction that ends has not reported.
    pub(crate) fn leave_unreported(&self, bytes: u64) {
        if bytes > 0 {
            self.unreported.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn count_stall(&self, since: Instant) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stall_microseconds.fetch_add(spent, Ordering::Relaxed);
    }
}

pub(crate) fn memtable_use(inner: &Inner) -> MemtableUse {
    let mut used = MemtableUse::default();
    for index in inner.written.read().iter() {
        if !index.is_gone() {
            used.active += index.tree.memtable_bytes();
            used.frozen += index.tree.frozen_bytes();
            used.debt += index.tree.pending_work_bytes();
        }
    }
    used
}

/// Freezes one index's active memtable.
pub(crate) fn freeze(inner: &Inner, index: &Index) -> bool {
    index.tree.freeze(|| inner.log.end())
}

/// Freezes what is too large. Returns the use before.
pub(crate) fn make_room(inner: &Inner) -> MemtableUse {
    let used = memtable_use(inner);
    let quota = inner.budget.memtable_quota();
    let half = quota / 2;
    let limit = MEMTABLE_BYTES_MAX.min(half);
    let mut largest: Option<(u64, Arc<Index>)> = None;
    let mut frozen = 0;
    for index in inner.written_indexes() {
        let bytes = index.tree.memtable_bytes();
        if index.is_gone() {
            continue;
        }
        if bytes > limit && freeze(inner, &index) {
            frozen += bytes;
        } else if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
            largest = Some((bytes, index));
        }
    }
    if used.active - frozen.min(used.active) > half
        && let Some((bytes, index)) = largest
        && (bytes >= inner.budget.memtable_bytes_min.min(half / 4) || used.active > quota / 4 * 3)
        && freeze(inner, &index)
    {
        frozen += bytes;
    }
    if frozen > 0 || used.frozen > 0 {
        inner.background.wake_flushers();
    }
    used
}

/// Called by a writer that has written some bytes: makes room, slows it down.
pub(crate) fn admit(inner: &Inner, transaction: &TransactionHandle) -> EngineResult<()> {
    inner.budget.unreported.store(0, Ordering::Relaxed);
    let used = make_room(inner);
    let quota = inner.budget.memtable_quota();
    let threshold = quota / 4 * 3;
    let total = used.active + used.frozen;
    if !inner.background.has_threads() {
        return help(inner, threshold);
    }
    slow_for_debt(inner, used.debt);
    if total <= threshold {
        return Ok(());
    }
    let since = Instant::now();
    if total < quota {
        // Quadratic: hardly felt at first, near the quota the full delay.
        let excess = total - threshold;
        let span = (quota - threshold).max(1);
        let most = u64::try_from(DELAY_MAX.as_micros()).unwrap_or(0);
        let delay = most * excess / span * excess / span;
        if delay >= 20 {
            inner.background.wait_for_room(Duration::from_micros(delay));
            inner.budget.count_stall(since);
        }
        return Ok(());
    }
    let outcome = wait(inner, transaction, quota);
    inner.budget.count_stall(since);
    outcome
}

/// Sleeps in proportion to how far the debt exceeds what it may be.
fn slow_for_debt(inner: &Inner, debt: u64) {
    let allowed = inner.budget.debt_bytes();
    let Some(excess) = debt.checked_sub(allowed) else {
        return;
    };
    let per_excess = u64::try_from(DELAY_MAX.as_micros()).unwrap_or(0);
    let most = u64::try_from(DEBT_DELAY_MAX.as_micros()).unwrap_or(0);
    let delay = (per_excess * (excess >> 10) / (allowed >> 10).max(1)).min(most);
    if delay >= 20 {
        let since = Instant::now();
        std::thread::sleep(Duration::from_micros(delay));
        inner.budget.count_stall(since);
    }
}

fn wait(inner: &Inner, transaction: &TransactionHandle, quota: u64) -> EngineResult<()> {
    loop {
        inner.background.wake_flushers();
        inner.background.wait_for_room(LOOK_AGAIN);
        let used = make_room(inner);
        if used.active + used.frozen < quota {
            return Ok(());
        }
        if transaction.is_interrupted() {
            return Err(teak_transactions::WaitError::Interrupted.into());
        }
        if let Some(error) = obstacle(inner) {
            return Err(EngineError::Storage(error));
        }
        if inner.background.is_stopping() {
            return Err(EngineError::Internal("the engine is closing".into()));
        }
    }
}

/// What keeps memtables from being flushed, if something does.
fn obstacle(inner: &Inner) -> Option<StorageError> {
    inner
        .written
        .read()
        .iter()
        .filter(|index| !index.is_gone() && index.tree.frozen_memtables() > 0)
        .find_map(|index| index.failure())
}

/// Without threads the writer flushes.
fn help(inner: &Inner, threshold: u64) -> EngineResult<()> {
    loop {
        let used = make_room(inner);
        if used.active + used.frozen <= threshold && used.debt <= inner.budget.debt_bytes() {
            return Ok(());
        }
        if !background::step_flush(inner)? {
            return match obstacle(inner) {
                Some(error) if used.active + used.frozen >= inner.budget.memtable_quota() => {
                    Err(EngineError::Storage(error))
                }
                _ => Ok(()),
            };
        }
    }
}
