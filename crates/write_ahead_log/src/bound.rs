//! The bound of a log's size.
//!
//! The size of a log is the larger of two numbers: the bytes of the records from
//! the position that recovery needs, uncompressed, and the bytes of the segment
//! files. From fifteen sixteenths of the bound on, row records are refused, and
//! their writers wait until the log has been trimmed. The last sixteenth is for
//! commits, rollbacks, counters and table changes. These are accepted even beyond
//! the bound, so a full log never blocks the checkpoint that shortens it.

use crate::state::State;

/// Row records must leave one part in this many of the bound unused.
const RESERVED_SHARE: u64 = 16;

/// The smallest bound, in pending buffers.
const PENDING_BUFFERS_MIN: u64 = 8;

/// The smallest bound, in segments: only whole segments are trimmed.
const SEGMENTS_MIN: u64 = 8;

/// The bound of one log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBound {
    /// The bound, in bytes; zero means no bound.
    pub(crate) bytes_max: u64,
}

/// The size of a log, and its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogUse {
    /// The size of the log, in bytes.
    pub bytes: u64,
    /// The bound of the log's size, in bytes; `u64::MAX` means no bound.
    pub bytes_max: u64,
    /// The size at which row records are refused.
    pub stop_bytes: u64,
}

impl LogUse {
    /// A size, its bound, and the size at which row records are refused.
    #[must_use]
    pub fn new(bytes: u64, bytes_max: u64, stop_bytes: u64) -> Self {
        Self {
            bytes,
            bytes_max,
            stop_bytes,
        }
    }
}

impl LogBound {
    pub(crate) fn new(bytes_max: u64, segment_bytes: u64, pending_bytes: usize) -> Self {
        let min = (PENDING_BUFFERS_MIN * pending_bytes as u64).max(SEGMENTS_MIN * segment_bytes);
        Self {
            bytes_max: if bytes_max == 0 {
                0
            } else {
                bytes_max.max(min)
            },
        }
    }

    /// The size at which row records are refused.
    pub(crate) fn stop_bytes(self) -> u64 {
        match self.bytes_max {
            0 => u64::MAX,
            bytes => bytes - bytes / RESERVED_SHARE,
        }
    }

    /// The position after the last row record that is accepted now.
    /// `file_bytes` is the size of the segment files.
    pub(crate) fn stop_position(self, needed_from: u64, file_bytes: u64) -> u64 {
        if file_bytes >= self.stop_bytes() {
            return needed_from;
        }
        needed_from.saturating_add(self.stop_bytes())
    }

    /// Whether a row record of `bytes` may be appended at `position`. If the log is not larger than
    /// half of `stop_bytes`, the record may have any size.
    pub(crate) fn accepts(self, state: &State, position: u64, bytes: u64) -> bool {
        let half = state.needed_from.saturating_add(self.stop_bytes() / 2);
        position.saturating_add(bytes) <= state.stop_position
            || position <= half.min(state.stop_position)
    }
}
