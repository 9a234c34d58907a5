//! Statistics of a log, and the counters behind them.

use crate::segments::SegmentTotals;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use teak_base::latency::{Histogram, Latencies};

/// Activity of a log since it was opened, and its size now.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Calls of [`WriteAheadLog::sync`](crate::WriteAheadLog::sync) for records that were not
    /// durable yet, and all calls of
    /// [`WriteAheadLog::sync_or_revoke`](crate::WriteAheadLog::sync_or_revoke).
    pub sync_calls: u64,
    /// Bytes of the segment files that are part of the log.
    pub segments_bytes: u64,
    /// Number of these files.
    pub segments: u64,
    /// Bytes of segment files that are prepared, or trimmed and not yet reused
    /// or removed.
    pub spare_bytes: u64,
    /// Memory of the buffers when a batch was last written, in bytes.
    pub buffer_bytes: u64,
    /// Durations of attempts to switch to the next segment file. If no segment is prepared, an
    /// attempt may leave the log in the current file.
    pub rolls: Latencies,
    /// Durations of syncs.
    pub sync_times: Latencies,
    /// Durations for which an appending thread waited for space or wrote the pending buffer itself.
    pub space_waits: Latencies,
}

/// Counters of one open log.
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub(crate) raw_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_calls: AtomicU64,
    pub(crate) buffer_bytes: AtomicU64,
    pub(crate) rolls: Histogram,
    pub(crate) sync_times: Histogram,
    pub(crate) space_waits: Histogram,
}

impl LogCounters {
    pub(crate) fn statistics(&self, segments: SegmentTotals, spare_bytes: u64) -> LogStatistics {
        LogStatistics {
            raw_bytes: self.raw_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            batches: self.batches.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            sync_calls: self.sync_calls.load(Relaxed),
            segments_bytes: segments.bytes,
            segments: segments.count,
            spare_bytes,
            buffer_bytes: self.buffer_bytes.load(Relaxed),
            rolls: self.rolls.read(),
            sync_times: self.sync_times.read(),
            space_waits: self.space_waits.read(),
        }
    }
}
