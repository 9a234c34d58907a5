//! Statistics of a log, and the counters behind them.

use crate::segments::SegmentTotals;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Activity of a log since it was opened, and its size now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Bytes of records in the batches written, before compression.
    pub raw_bytes: u64,
    /// Bytes written to segment files.
    pub written_bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Successful syncs of segment files.
    pub syncs: u64,
    /// Calls of [`WriteAheadLog::sync`](crate::WriteAheadLog::sync) that waited
    /// or led a group.
    pub sync_calls: u64,
    /// Bytes of all segment files.
    pub segments_bytes: u64,
    /// Number of segment files.
    pub segments: u64,
}

/// Counters of one open log.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub(crate) raw_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_calls: AtomicU64,
}

impl LogCounters {
    pub(crate) fn statistics(&self, segments: SegmentTotals) -> LogStatistics {
        LogStatistics {
            raw_bytes: self.raw_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            batches: self.batches.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            sync_calls: self.sync_calls.load(Relaxed),
            segments_bytes: segments.bytes,
            segments: segments.count,
        }
    }
}
