//! How many ranges of aborted write ids are registered, relative to their bound.
//!
//! They take memory, and each catalogue contains them. Maintenance removes them
//! when no file contains entries with these ids, and no reader uses an older version
//! of a tree that does.

use super::pacer::Pacer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use teak_transactions::TransactionSystem;

/// Above the bound divided by this number, maintenance does more to remove them.
const URGENT_SHARE: u64 = 8;

/// Above the bound divided by this number, writers are slowed.
const SLOW_SHARE: u64 = 2;

/// The pacer of writers counts bytes: each range counts as this many.
const RANGE_BYTES: u64 = 16 << 10;

/// The load of registered aborted ids.
#[derive(Debug)]
pub(crate) struct AbortedLoad {
    ranges_max: u64,
    /// Measures how fast ranges are removed.
    pub pacer: Pacer,
    /// Whether writers were slowed in the last maintenance pass.
    is_slow: AtomicBool,
}

impl AbortedLoad {
    pub(crate) fn new(ranges_max: u64) -> Self {
        Self {
            ranges_max: ranges_max.max(1),
            pacer: Pacer::default(),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Whether maintenance must remove ids faster.
    pub(crate) fn is_urgent(&self, transactions: &TransactionSystem) -> bool {
        transactions.ids().aborted_ranges() > self.ranges_max / URGENT_SHARE
    }

    /// The pressure on writers: zero where the slowdown begins, one at the stop.
    // There are fewer than 2^53 ranges.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn pressure(&self, transactions: &TransactionSystem) -> f64 {
        let slow = self.ranges_max / SLOW_SHARE;
        let excess = transactions.ids().aborted_ranges().saturating_sub(slow) as f64;
        excess / (self.ranges_max - slow).max(1) as f64
    }

    /// The ranges that were aborted since the engine was opened, in the pacer's bytes.
    pub(crate) fn written(transactions: &TransactionSystem) -> u64 {
        transactions
            .ids()
            .ranges_aborted()
            .saturating_mul(RANGE_BYTES)
    }

    /// Called by each maintenance pass. Returns whether writers are slowed now and
    /// were not at the last call.
    pub(crate) fn report(&self, transactions: &TransactionSystem) -> bool {
        let registered = transactions.ids().aborted_ranges();
        let outstanding = registered.saturating_mul(RANGE_BYTES);
        let written = Self::written(transactions);
        self.pacer.report(Instant::now(), written, outstanding);
        let is_slow = self.pressure(transactions) > 0.0;
        !self.is_slow.swap(is_slow, Ordering::Relaxed) && is_slow
    }
}
