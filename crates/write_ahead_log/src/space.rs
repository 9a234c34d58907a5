//! Reservation of disk space. A record is accepted only if space is reserved for it in the segment
//! file. So on a full disk the append fails before a caller relies on the record, and writing its
//! batch does not fail.
//!
//! Part of the space is headroom for records that free resources: on a full disk a transaction with
//! writes can still commit, and a table can be dropped. On file systems that cannot reserve space,
//! the write of a batch may still fail. Such a batch is retained in memory, see `leader.rs`.

use crate::format::BATCH_HEADER_BYTES;
use crate::record::Record;

/// The policy of reservations: the amount of space, and the records that may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpacePolicy {
    /// Bytes that ordinary records must leave unused.
    headroom_bytes: u64,
    /// Bytes to reserve ahead, if the disk has enough space.
    pub(crate) target_bytes: u64,
}

impl SpacePolicy {
    /// The policy for pending buffers of this size.
    pub(crate) fn new(pending_bytes: usize) -> Self {
        let pending = pending_bytes as u64;
        let headroom_bytes = (pending / 8).clamp(16 << 10, 1 << 20);
        Self {
            headroom_bytes,
            target_bytes: 2 * pending + headroom_bytes,
        }
    }

    /// The minimum that a new log needs.
    pub(crate) fn min_bytes(self) -> u64 {
        self.headroom_bytes
    }

    /// Bytes that a best-effort record must leave unused.
    pub(crate) fn headroom_of_best_effort(self) -> u64 {
        self.headroom_bytes
    }

    /// Bytes that a record must leave unused for more important records.
    pub(crate) fn headroom_of(self, record: &Record<'_>) -> u64 {
        match record {
            Record::TableDropped { .. } => 0,
            // A commit also logs changed counters. A prepared transaction must be able to commit or
            // roll back.
            Record::Commit { .. } | Record::Abort { .. } | Record::Counter { .. } => {
                self.headroom_bytes / 2
            }
            _ => self.headroom_bytes,
        }
    }
}

/// The reserved space of an open log, and the part of it that the pending
/// records need.
#[derive(Debug, Default)]
pub(crate) struct SpaceReservation {
    /// Reserved bytes of the file that belong to no batch in progress.
    file_bytes: u64,
    /// The part of `file_bytes` that belongs to pending records.
    pending_bytes: u64,
}

/// The maximum space of a record in the file, which it needs if it is alone in a batch.
pub(crate) fn record_space(record_bytes: usize) -> u64 {
    (record_bytes + BATCH_HEADER_BYTES) as u64
}

impl SpaceReservation {
    /// Reserves `bytes` for a record; false when less than `headroom` would
    /// remain.
    pub(crate) fn reserve(&mut self, bytes: u64, headroom: u64) -> bool {
        let fits = self.pending_bytes + bytes + headroom <= self.file_bytes;
        if fits {
            self.pending_bytes += bytes;
        }
        fits
    }

    /// Assigns the space of the pending records to a new batch, and returns it.
    pub(crate) fn begin_batch(&mut self) -> u64 {
        let batch_bytes = std::mem::take(&mut self.pending_bytes);
        self.file_bytes = self.file_bytes.saturating_sub(batch_bytes);
        batch_bytes
    }

    /// Ends a batch that was written, or that is retained with `retained_bytes` of space.
    /// `file_bytes` are reserved after the end of the written data.
    pub(crate) fn end_batch(&mut self, file_bytes: u64, retained_bytes: u64) {
        self.file_bytes = file_bytes.saturating_sub(retained_bytes);
    }
}
