//! Counters for status reports.

use crate::sync::atomic::AtomicU64;
use teak_base::latency::{Histogram, Latencies};

/// Counts since the engine was opened, and current values.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionCounts {
    /// Running transactions.
    pub active: u64,
    /// Transactions that committed with writes.
    pub committed: u64,
    /// Transactions rolled back with writes.
    pub rolled_back: u64,
    /// Number of waits for locks and writers.
    pub lock_waits: u64,
    /// Durations of the waits for locks and writers.
    pub lock_wait_times: Latencies,
    /// Waits that timed out.
    pub lock_timeouts: u64,
    /// Deadlocks resolved.
    pub deadlocks: u64,
    /// Transactions that wait at this moment.
    pub waiting: u64,
    /// Memory of row locks, range locks and row ranges, and of each transaction's ranges of write
    /// ids beyond the first 1024, in bytes.
    pub lock_bytes: u64,
    /// The limit of that memory.
    pub lock_bytes_max: u64,
    /// Number of lock escalations: a transaction's locks in one index were
    /// replaced by a range.
    pub lock_escalations: u64,
    /// Lock requests and writes refused because of the memory limit.
    pub lock_refusals: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub committed: AtomicU64,
    pub rolled_back: AtomicU64,
    pub lock_waits: AtomicU64,
    pub lock_wait_times: Histogram,
    pub lock_timeouts: AtomicU64,
    pub deadlocks: AtomicU64,
    pub lock_escalations: AtomicU64,
    pub lock_refusals: AtomicU64,
}
