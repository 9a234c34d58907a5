//! Options of a log.

use crate::record::RECORD_BYTES_MAX;
use teak_base::Encryption;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;

/// Options of a log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// Size at which the log switches to a new segment file, in bytes.
    pub segment_bytes: u64,
    /// Size of the pending buffer, in bytes; at most 16 MiB. An append that finds the buffer full
    /// first writes it to the file.
    pub pending_bytes: usize,
    /// Identifies the instance; segments of another instance cause an error.
    pub instance: u64,
    /// Bound of the log's size, in bytes; zero means no bound. It is raised to the size of eight
    /// segments or of eight pending buffers if it is smaller.
    pub bytes_max: u64,
    /// When segment files are created.
    pub segment_creation: SegmentCreation,
    /// Whether a second thread reads and decompresses the log while it is opened.
    pub reads_ahead: bool,
    /// How batches are encrypted. A segment uses the version of the key that was the newest when it was prepared; one that is not prepared, that of
    /// the segment before.
    pub encryption: Encryption,
}

/// When segment files are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentCreation {
    /// The thread that finds a segment full creates the next one, and a trim
    /// removes the files of trimmed segments.
    OnDemand,
    /// [`WriteAheadLog::prepare_segments`](crate::WriteAheadLog::prepare_segments)
    /// creates, reuses and removes files. A thread must call it: while no
    /// segment is prepared, the full one grows.
    Ahead,
    /// As [`SegmentCreation::Ahead`], but the thread that finds a segment full
    /// creates the next one if none is prepared.
    AheadOrOnDemand,
}

/// What a reader of a log needs to know.
#[derive(Clone, Copy)]
pub(crate) struct LogIdentity<'a> {
    /// See [`LogOptions::instance`].
    pub(crate) instance: u64,
    /// Has the cipher of the batches.
    pub(crate) encryption: &'a Encryption,
}

impl LogOptions {
    /// The defaults: segments of 64 MiB, created on demand; a pending buffer of
    /// 8 MiB; no bound.
    #[must_use]
    pub fn new(instance: u64) -> Self {
        Self {
            segment_bytes: 64 << 20,
            pending_bytes: PENDING_BYTES_DEFAULT,
            instance,
            bytes_max: 0,
            segment_creation: SegmentCreation::OnDemand,
            reads_ahead: false,
            encryption: Encryption::default(),
        }
    }

    /// The size of the pending buffer within its limits.
    pub(crate) fn bounded_pending_bytes(&self) -> usize {
        self.pending_bytes.clamp(1, PENDING_BYTES_MAX)
    }
}

const PENDING_BYTES_DEFAULT: usize = 8 << 20;
const PENDING_BYTES_MAX: usize = 16 << 20;

// A batch is at most a full pending buffer and one more record.
const _: () = assert!(PENDING_BYTES_MAX + RECORD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX);
