//! The size of an open log, and the space that is left for records.

use crate::bound::LogUse;
use crate::log::WriteAheadLog;
use crate::state::State;
use std::sync::atomic::Ordering::Relaxed;

impl WriteAheadLog {
    /// Updates the log's size, the stop position of row records, and the space that records may
    /// take without the state's mutex: the minimum of the space in the pending buffer, in the file,
    /// and below the bound.
    pub(crate) fn publish_limit(&self, state: &mut State) {
        let file_bytes = self.file_bytes.load(Relaxed);
        let records = state.pending_start.saturating_sub(state.needed_from);
        self.used_bytes.store(records.max(file_bytes), Relaxed);
        state.stop_position = self.bound.stop_position(state.needed_from, file_bytes);
        let file = state.space.file_bytes;
        let file = file.saturating_sub(self.policy.headroom_of_rows());
        let bound = state.stop_position.saturating_sub(state.pending_start);
        let limit = file.min(bound).min(self.pending_bytes as u64);
        self.credit.set_limit(limit);
    }

    /// The size of the log and its bound. Records count from the position of the
    /// last [`WriteAheadLog::trim`] on, without those in the pending buffer.
    #[inline]
    #[must_use]
    pub fn log_use(&self) -> LogUse {
        LogUse {
            bytes: self.used_bytes.load(Relaxed),
            bytes_max: match self.bound.bytes_max {
                0 => u64::MAX,
                bytes => bytes,
            },
            stop_bytes: self.bound.stop_bytes(),
        }
    }
}
