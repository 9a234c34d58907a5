//! Room on disk. A record is accepted only when there is space set aside for
//! it in the segment's file: so a full disk refuses a record, before anybody
//! relies on it, and not the batch that holds it.
//!
//! Some of the space is kept for the records that end things: a transaction
//! that has written may commit on a full disk, and a table can be dropped.
//! File systems that cannot set space aside still refuse batches; those wait in
//! memory then, see `log.rs`.

use crate::format::BATCH_HEADER_BYTES;
use crate::record::Record;

/// How much room a log keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomPolicy {
    /// Bytes that ordinary records leave alone.
    kept_bytes: u64,
    /// Bytes set aside at once, where the disk has them.
    pub(crate) wanted_bytes: u64,
}

impl RoomPolicy {
    /// For pending buffers of this size.
    pub(crate) fn new(pending_bytes: usize) -> Self {
        let pending = pending_bytes as u64;
        let kept_bytes = (pending / 8).clamp(16 << 10, 1 << 20);
        Self {
            kept_bytes,
            wanted_bytes: 2 * pending + kept_bytes,
        }
    }

    /// The least that a new log needs.
    pub(crate) fn least_bytes(self) -> u64 {
        self.kept_bytes
    }

    /// What a record must leave that can do without being logged.
    pub(crate) fn kept_from_spare(self) -> u64 {
        self.kept_bytes
    }

    /// What a record must leave for more important ones.
    pub(crate) fn kept_from(self, record: &Record<'_>) -> u64 {
        match record {
            Record::TableDropped { .. } => 0,
            // A commit logs the counters that moved; a prepared transaction may
            // end either way.
            Record::Commit { .. } | Record::Abort { .. } | Record::Counter { .. } => {
                self.kept_bytes / 2
            }
            _ => self.kept_bytes,
        }
    }
}

/// The room of an open log and who has a claim on it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes set aside that no batch under way may take.
    free_bytes: u64,
    /// What the pending records may take of them.
    claimed_bytes: u64,
}

/// The most that a record takes in the file: it may be a batch of its own.
pub(crate) fn record_claim(record_bytes: usize) -> u64 {
    (record_bytes + BATCH_HEADER_BYTES) as u64
}

impl Room {
    /// Takes `claim` bytes; false when that would leave less than `kept`.
    pub(crate) fn claim(&mut self, claim: u64, kept: u64) -> bool {
        let fits = self.claimed_bytes + claim + kept <= self.free_bytes;
        if fits {
            self.claimed_bytes += claim;
        }
        fits
    }

    /// The pending records become a batch; returns what it may take.
    pub(crate) fn begin_batch(&mut self) -> u64 {
        let claim = std::mem::take(&mut self.claimed_bytes);
        self.free_bytes = self.free_bytes.saturating_sub(claim);
        claim
    }

    /// A batch was written, or waits with its claim. `file_bytes` are set aside
    /// now behind what is written.
    pub(crate) fn end_batch(&mut self, file_bytes: u64, waiting: u64) {
        self.free_bytes = file_bytes.saturating_sub(waiting);
    }
}
