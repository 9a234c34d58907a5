//! The open log and its shared state. Appending is in `append.rs`, group commit in
//! `group_commit.rs`, writing in `leader.rs`.

use crate::segment::segment_path;
use crate::segments::SegmentList;
use crate::space::SpacePolicy;
use crate::state::State;
use crate::statistics::{LogCounters, LogStatistics};
use crate::writer::Writer;
use parking_lot::{Condvar, Mutex};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use teak_base::{Lsn, StorageResult};
use teak_disk::Disk;

/// An open log. All threads share it; it starts none.
#[derive(Debug)]
pub struct WriteAheadLog {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) pending_bytes: usize,
    pub(crate) policy: SpacePolicy,
    pub(crate) state: Mutex<State>,
    /// Only the leader locks it, so no thread ever waits for it.
    pub(crate) writer: Mutex<Writer>,
    /// Log position before which all records are durable.
    pub(crate) durable: AtomicU64,
    /// Appending threads wait here while both buffers are full, or until space
    /// is reserved.
    pub(crate) space_available: Condvar,
    /// The caller of `wait_for_pending` waits here.
    pub(crate) pending_grew: Condvar,
    pub(crate) segments: Mutex<SegmentList>,
    pub(crate) counters: LogCounters,
}

impl WriteAheadLog {
    /// The position of the next record.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.state.lock().end())
    }

    /// The position before which all records are durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Acquire))
    }

    /// Removes the segments that contain no record at or after `before`. The newest segment is
    /// always retained.
    ///
    /// # Errors
    /// `Io`; the segments not yet removed remain listed and readable.
    pub fn trim(&self, before: Lsn) -> StorageResult<()> {
        let remove = |number| self.disk.remove(&segment_path(&self.directory, number));
        self.segments.lock().trim(before.0, remove)
    }

    /// Activity since the log was opened, and its size now.
    #[must_use]
    pub fn statistics(&self) -> LogStatistics {
        let totals = self.segments.lock().totals();
        self.counters.statistics(totals)
    }
}
