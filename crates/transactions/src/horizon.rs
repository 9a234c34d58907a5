//! The horizon of a merge: decides which versions it may drop.

use crate::write_ids::WriteIdTable;
use std::sync::Arc;
use teak_base::{CommitSequence, Horizon, WriteId, WriteRangeStatus, WriteStatus};

/// The live snapshots at one moment, and the id table.
pub struct MergeHorizon {
    ids: Arc<WriteIdTable>,
    snapshots: Vec<CommitSequence>,
    decided: WriteId,
}

impl MergeHorizon {
    /// `snapshots` are ascending and end with the newest published sequence.
    pub(crate) fn new(ids: Arc<WriteIdTable>, snapshots: Vec<CommitSequence>) -> Self {
        let decided = ids.decided_below();
        Self {
            ids,
            snapshots,
            decided,
        }
    }
}

impl Horizon for MergeHorizon {
    fn status(&self, id: WriteId) -> WriteStatus {
        self.ids.status(id)
    }

    fn snapshots(&self) -> &[CommitSequence] {
        &self.snapshots
    }

    fn decided_below(&self) -> WriteId {
        self.decided
    }

    fn may_have_aborted(&self, min: WriteId, max: WriteId) -> bool {
        self.ids.may_have_aborted(min, max)
    }

    fn range_status(&self, min: WriteId, max: WriteId) -> WriteRangeStatus {
        let oldest = self.snapshots.first().copied().unwrap_or_default();
        self.ids.range_status(min, max, oldest)
    }
}
