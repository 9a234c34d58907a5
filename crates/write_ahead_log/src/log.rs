//! The open log and its shared state. Appending is in `append.rs`, group commit in
//! `group_commit.rs`, writing in `leader.rs`.

use crate::bound::LogBound;
use crate::options::{LogIdentity, SegmentCreation};
use crate::segment_pool::SegmentPool;
use crate::segments::{SegmentEntry, SegmentList};
use crate::space::{SpaceCredit, SpacePolicy};
use crate::state::State;
use crate::statistics::{LogCounters, LogStatistics};
use crate::writer::Writer;
use parking_lot::{Condvar, Mutex};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use teak_base::{Encryption, KeyVersion, Lsn, StorageResult};
use teak_disk::Disk;

/// An open log, which all threads share. It starts no threads.
#[derive(Debug)]
pub struct WriteAheadLog {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) instance: u64,
    pub(crate) encryption: Encryption,
    /// See `Writer`.
    pub(crate) next_key: Arc<Mutex<Option<KeyVersion>>>,
    pub(crate) pending_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_creation: SegmentCreation,
    pub(crate) policy: SpacePolicy,
    pub(crate) bound: LogBound,
    pub(crate) credit: SpaceCredit,
    pub(crate) state: Mutex<State>,
    /// Locked by the leader, and to revoke a record while no thread leads. No thread ever waits for
    /// it.
    pub(crate) writer: Mutex<Writer>,
    /// Log position before which all records are durable.
    pub(crate) durable: AtomicU64,
    /// Threads wait here for space for a record, or for the end of a leadership.
    pub(crate) space_available: Condvar,
    /// The caller of `wait_for_pending` waits here.
    pub(crate) pending_grew: Condvar,
    pub(crate) segments: Mutex<SegmentList>,
    /// Bytes of the segment files in `segments`.
    pub(crate) file_bytes: AtomicU64,
    /// The log's size as defined in `bound.rs`, without the pending buffer.
    pub(crate) used_bytes: AtomicU64,
    pub(crate) pool: Mutex<SegmentPool>,
    /// Held by `prepare_segments` and `remove_spare_files`, and while the leader creates a segment
    /// on demand.
    pub(crate) preparing: Mutex<()>,
    /// The caller of `wait_for_preparation` waits here.
    pub(crate) preparation_wanted: Condvar,
    pub(crate) counters: LogCounters,
}

impl WriteAheadLog {
    /// What readers of the segments need to know.
    pub(crate) fn identity(&self) -> LogIdentity<'_> {
        LogIdentity {
            instance: self.instance,
            encryption: &self.encryption,
        }
    }

    /// The position of the next record.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.state.lock().end())
    }

    /// The position of the oldest record in the segment files.
    #[must_use]
    pub fn start(&self) -> Lsn {
        Lsn(self.segments.lock().first_lsn())
    }

    /// The position before which all records are durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Acquire))
    }

    /// Removes the segments from the log that have no record at or after `before`, except the
    /// newest one, and the predecessor of a prepared segment without a durable batch. With
    /// [`SegmentCreation::OnDemand`] this call removes their files; otherwise
    /// [`WriteAheadLog::prepare_segments`] reuses or removes them. No commit waits for this work.
    ///
    /// # Errors
    /// `Io`; the next call tries again to remove the remaining files.
    pub fn trim(&self, before: Lsn) -> StorageResult<()> {
        let (trimmed, totals) = {
            let mut segments = self.segments.lock();
            let trimmed = segments.take_before(before.0, self.durable().0);
            let totals = segments.totals();
            self.file_bytes.store(totals.bytes, Relaxed);
            (trimmed, totals)
        };
        {
            let mut state = self.state.lock();
            state.needed_from = state.needed_from.max(before.0.min(state.end()));
            self.publish_limit(&mut state);
        }
        self.retire(trimmed, totals.count)
    }

    /// Adds files of trimmed segments to those that are reused or removed. `segments` is the number
    /// of segments that remain in the log.
    pub(crate) fn retire(&self, trimmed: Vec<SegmentEntry>, segments: u64) -> StorageResult<()> {
        self.add_trimmed(trimmed, segments);
        match self.segment_creation {
            SegmentCreation::OnDemand => self.remove_trimmed(),
            SegmentCreation::Ahead | SegmentCreation::AheadOrOnDemand => Ok(()),
        }
    }

    /// Memory of the buffers when a batch was last written, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.counters.buffer_bytes.load(Relaxed)
    }

    /// Activity since the log was opened, and its size now.
    #[must_use]
    pub fn statistics(&self) -> LogStatistics {
        let totals = self.segments.lock().totals();
        let spare_bytes = self.pool.lock().file_bytes();
        self.counters.statistics(totals, spare_bytes)
    }
}
