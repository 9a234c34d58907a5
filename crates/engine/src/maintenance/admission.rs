//! Admission of writers: when memtables are frozen, and how writers are slowed.
//!
//! A transaction calls [`admit`] whenever it has written a certain number of
//! bytes:
//! 1. When the active memtables together exceed half their quota, or one of
//!    them exceeds its own limit, the largest are frozen for flushing.
//! 2. When the compaction debt exceeds its limit, the writer sleeps, longer as
//!    the debt grows.
//! 3. Above three quarters of the memtable quota the writer sleeps, longer as
//!    the use approaches the quota, so that it slows down to the flushers' speed.
//! 4. At the quota it waits until memory is available, or fails with the error
//!    that prevents flushing.

use super::flusher::FlushContext;
use crate::core::index::Index;
use crate::core::written::MemtableUse;
use crate::error::{EngineError, EngineResult};
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::StorageError;
use teak_transactions::{TransactionHandle, WaitError};

/// Largest memtable, in bytes.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// Longest single sleep of a writer below the quota.
const DELAY_MAX: Duration = Duration::from_millis(4);

/// Longest single sleep of a writer because of compaction debt.
const DEBT_DELAY_MAX: Duration = Duration::from_millis(50);

/// Minimum delay, in microseconds; shorter ones are skipped.
const DELAY_MIN_MICROSECONDS: u64 = 20;

/// How often a writer at the quota checks for an interrupt.
const POLL_PERIOD: Duration = Duration::from_millis(50);

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(0)
}

/// Freezes memtables that are too large. Returns the memory use before this.
pub(crate) fn freeze_large(context: FlushContext<'_>) -> MemtableUse {
    let used = context.written.memtable_use();
    let quota = context.budget.memtable_quota();
    let half = quota / 2;
    let limit = MEMTABLE_BYTES_MAX.min(half);
    let mut largest: Option<(u64, Arc<Index>)> = None;
    let mut frozen = 0;
    for index in context.written.live() {
        let bytes = index.tree.memtable_bytes();
        if bytes > limit && context.freeze(&index) {
            frozen += bytes;
        } else if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
            largest = Some((bytes, index));
        }
    }
    let bytes_min = context.budget.memtable_bytes_min.min(half / 4);
    if used.active.saturating_sub(frozen) > half
        && let Some((bytes, index)) = largest
        && (bytes >= bytes_min || used.active > quota / 4 * 3)
        && context.freeze(&index)
    {
        frozen += bytes;
    }
    if frozen > 0 || used.frozen > 0 {
        context.signals.wake_flushers();
    }
    used
}

/// Called by a writer after it has written some bytes. Freezes memtables and
/// delays the writer if necessary.
///
/// # Errors
/// `Wait(Interrupted)`; the error that prevents flushing; `Internal` when the
/// engine is closing.
pub(crate) fn admit(
    context: FlushContext<'_>,
    transaction: &TransactionHandle,
) -> EngineResult<()> {
    context.budget.clear_unreported();
    let used = freeze_large(context);
    let quota = context.budget.memtable_quota();
    let threshold = quota / 4 * 3;
    if !context.signals.has_threads() {
        return flush_here(context, threshold);
    }
    slow_for_debt(context, used.debt);
    let bytes = used.bytes();
    if bytes <= threshold {
        return Ok(());
    }
    let since = Instant::now();
    if bytes < quota {
        // Quadratic: a short delay at first, the full delay near the quota.
        let excess = bytes - threshold;
        let span = (quota - threshold).max(1);
        let delay = microseconds(DELAY_MAX) * excess / span * excess / span;
        if delay >= DELAY_MIN_MICROSECONDS {
            let signals = context.signals;
            signals.wait_for_space(Duration::from_micros(delay));
            context.budget.count_stall(since);
        }
        return Ok(());
    }
    let outcome = wait_for_memory(context, transaction, quota);
    context.budget.count_stall(since);
    outcome
}

/// Sleeps in proportion to the excess of the compaction debt over its limit.
fn slow_for_debt(context: FlushContext<'_>, debt: u64) {
    let allowed = context.budget.debt_bytes();
    let Some(excess) = debt.checked_sub(allowed) else {
        return;
    };
    let per_excess = microseconds(DELAY_MAX);
    let delay = per_excess * (excess >> 10) / (allowed >> 10).max(1);
    let delay = delay.min(microseconds(DEBT_DELAY_MAX));
    if delay >= DELAY_MIN_MICROSECONDS {
        let since = Instant::now();
        std::thread::sleep(Duration::from_micros(delay));
        context.budget.count_stall(since);
    }
}

fn wait_for_memory(
    context: FlushContext<'_>,
    transaction: &TransactionHandle,
    quota: u64,
) -> EngineResult<()> {
    loop {
        context.signals.wake_flushers();
        context.signals.wait_for_space(POLL_PERIOD);
        if freeze_large(context).bytes() < quota {
            return Ok(());
        }
        if transaction.is_interrupted() {
            return Err(WaitError::Interrupted.into());
        }
        if let Some(error) = flush_error(context) {
            return Err(EngineError::Storage(error));
        }
        if context.signals.is_stopping() {
            return Err(EngineError::Internal("the engine is closing".into()));
        }
    }
}

/// The error that prevents frozen memtables from being flushed, if any.
fn flush_error(context: FlushContext<'_>) -> Option<StorageError> {
    let written = context.written.read();
    written
        .iter()
        .filter(|index| !index.is_dropped() && index.tree.frozen_memtables() > 0)
        .find_map(|index| index.failure())
}

/// Flushes on the writer's thread, in an engine without flusher threads.
fn flush_here(context: FlushContext<'_>, threshold: u64) -> EngineResult<()> {
    loop {
        let used = freeze_large(context);
        if used.bytes() <= threshold && used.debt <= context.budget.debt_bytes() {
            return Ok(());
        }
        if !context.step_flush() {
            return match flush_error(context) {
                Some(error) if used.bytes() >= context.budget.memtable_quota() => {
                    Err(EngineError::Storage(error))
                }
                _ => Ok(()),
            };
        }
    }
}
