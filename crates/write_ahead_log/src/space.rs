//! Reservation of disk space. A record is accepted only if space is reserved for it in the segment
//! file. So on a full disk the append fails before a caller relies on the record, and writing its
//! batch does not fail.
//!
//! Part of the space is headroom for records that free resources: on a full disk a transaction with
//! writes can still commit, and a table can be dropped. On file systems that cannot reserve space,
//! the write of a batch may still fail. Such a batch is retained in memory, see `leader.rs`.

use crate::format::BATCH_HEADER_BYTES;
use crate::options::LogOptions;
use crate::record::Record;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use teak_base::cipher::ENVELOPE_BYTES;

/// The policy of reservations: the amount of space, and the records that may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpacePolicy {
    /// Bytes that ordinary records must leave unused.
    headroom_bytes: u64,
    /// Bytes to reserve ahead, if the disk has enough space.
    pub(crate) target_bytes: u64,
    /// Bytes that a batch needs in addition to its records.
    batch_bytes: u64,
}

impl SpacePolicy {
    /// The policy for pending buffers of this size.
    pub(crate) fn new(options: &LogOptions) -> Self {
        let pending_bytes = options.bounded_pending_bytes();
        let envelope = options.encryption.key.map_or(0, |_| ENVELOPE_BYTES);
        let pending = pending_bytes as u64;
        let headroom_bytes = (pending / 8).clamp(16 << 10, 1 << 20);
        Self {
            headroom_bytes,
            target_bytes: 2 * pending + headroom_bytes,
            batch_bytes: (BATCH_HEADER_BYTES + envelope) as u64,
        }
    }

    /// The maximum space of a record in the file: that of a batch that contains only this record.
    pub(crate) fn record_space(self, record_bytes: usize) -> u64 {
        record_bytes as u64 + self.batch_bytes
    }

    /// The minimum space that a new log reserves.
    pub(crate) fn min_bytes(self) -> u64 {
        self.headroom_bytes
    }

    /// Bytes that row records must leave unused.
    pub(crate) fn headroom_of_rows(self) -> u64 {
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
            Record::Commit { .. }
            | Record::Abort { .. }
            | Record::MoreWriteIds { .. }
            | Record::Counter { .. } => self.headroom_bytes / 2,
            _ => self.headroom_bytes,
        }
    }
}

/// The reserved space of an open log, and the part of it that the pending
/// records need.
#[derive(Debug, Default)]
pub(crate) struct SpaceReservation {
    /// Reserved bytes of the file that belong to no batch in progress.
    pub(crate) file_bytes: u64,
    /// The part of `file_bytes` that belongs to the pending records.
    pub(crate) pending_bytes: u64,
}

impl SpaceReservation {
    /// The pending records become a batch. Returns the space of the batch.
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

/// The space that records have taken, and its limit. Space is taken with atomic
/// operations, without the state's mutex.
///
/// A thread adds to `taken` first and then compares with the limit. The leader
/// lowers the limit by the space of a batch before it lowers `taken` by the same
/// amount. So the space of the file is never exceeded.
#[derive(Debug, Default)]
pub(crate) struct SpaceCredit {
    /// Space of the pending records, and of records to be appended.
    taken: AtomicU64,
    /// The limit up to which space is taken without the state's mutex. It is the limit of row
    /// records.
    limit: AtomicU64,
    /// Number of threads that wait for others to append or to release space.
    pub(crate) waiting: AtomicUsize,
}

impl SpaceCredit {
    /// Takes space for a record, if there is enough below the limit.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let before = self.taken.fetch_add(bytes, SeqCst);
        if before.saturating_add(bytes) <= self.limit.load(SeqCst) {
            return true;
        }
        self.release(bytes);
        false
    }

    /// Takes space without a check. Returns the space taken before.
    pub(crate) fn take_unchecked(&self, bytes: u64) -> u64 {
        self.taken.fetch_add(bytes, SeqCst)
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, SeqCst);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(SeqCst)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, SeqCst);
    }
}
