//! The state that the install lock protects: claims, ids, and the log positions
//! that checkpoints cover.

use crate::node::ChildId;
use std::collections::HashSet;
use teak_base::Lsn;
use teak_block_file::BlockAddress;

/// The state that the install lock protects.
#[derive(Debug)]
pub(crate) struct InstallState {
    /// Children that are claimed by jobs.
    pub(crate) claimed: HashSet<ChildId>,
    pub(crate) next_child_id: u64,
    /// Everything that was logged before this position is in runs.
    pub(crate) flushed_lsn: Lsn,
    /// First record whose entries are in runs but in no durable or captured
    /// checkpoint.
    undurable_lsn: Option<Lsn>,
    /// First record whose entries are in the captured checkpoint, which is not
    /// durable yet.
    captured_lsn: Option<Lsn>,
    /// Everything that was logged before this position is in the durable
    /// checkpoint.
    pub(crate) durable_lsn: Lsn,
    /// Node blocks of the last captured checkpoint.
    pub(crate) written_nodes: HashSet<BlockAddress>,
    /// Whether anything changed since the last captured checkpoint.
    pub(crate) changed: bool,
}

impl InstallState {
    pub(crate) fn new(flushed_lsn: Lsn, next_child_id: u64) -> Self {
        Self {
            claimed: HashSet::new(),
            next_child_id,
            flushed_lsn,
            undurable_lsn: None,
            captured_lsn: None,
            durable_lsn: flushed_lsn,
            written_nodes: HashSet::new(),
            changed: false,
        }
    }

    pub(crate) fn take_child_id(&mut self) -> ChildId {
        let id = ChildId(self.next_child_id);
        self.next_child_id += 1;
        id
    }

    pub(crate) fn add_undurable(&mut self, lsn: Option<Lsn>) {
        self.undurable_lsn = self.undurable_lsn.into_iter().chain(lsn).min();
    }

    /// The first record that is in runs but in no durable checkpoint.
    pub(crate) fn oldest_undurable(&self) -> Option<Lsn> {
        self.undurable_lsn
            .into_iter()
            .chain(self.captured_lsn)
            .min()
    }

    /// Records that a checkpoint has captured all runs.
    pub(crate) fn capture_undurable(&mut self) {
        self.captured_lsn = self.oldest_undurable();
        self.undurable_lsn = None;
    }

    /// Records that the captured checkpoint is durable.
    pub(crate) fn captured_durable(&mut self, flushed_lsn: Lsn) {
        self.captured_lsn = None;
        self.durable_lsn = flushed_lsn;
    }

    /// Records that the captured checkpoint did not become durable.
    pub(crate) fn captured_failed(&mut self) {
        let captured = self.captured_lsn.take();
        self.add_undurable(captured);
        self.changed = true;
    }
}
