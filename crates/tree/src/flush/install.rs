//! What the install lock guards.

use crate::node::ChildId;
use std::collections::HashSet;
use teak_base::Lsn;
use teak_block_file::BlockAddress;

/// State behind the install lock.
#[derive(Debug)]
pub(crate) struct InstallState {
    /// Children that running jobs work on.
    pub(crate) claimed: HashSet<ChildId>,
    pub(crate) next_child_id: u64,
    /// Everything logged before this is in runs.
    pub(crate) flushed_lsn: Lsn,
    /// Node blocks that the last captured checkpoint refers to.
    pub(crate) written_nodes: HashSet<BlockAddress>,
    pub(crate) user_payload: Vec<u8>,
    /// Whether anything changed since the last durable checkpoint.
    pub(crate) changed: bool,
}

impl InstallState {
    pub(crate) fn new(flushed_lsn: Lsn, next_child_id: u64, user_payload: Vec<u8>) -> Self {
        Self {
            claimed: HashSet::new(),
            next_child_id,
            flushed_lsn,
            written_nodes: HashSet::new(),
            user_payload,
            changed: false,
        }
    }

    pub(crate) fn take_child_id(&mut self) -> ChildId {
        let id = ChildId(self.next_child_id);
        self.next_child_id += 1;
        id
    }
}
