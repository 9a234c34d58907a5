//! The state that the install lock protects: claims, ids, and the log positions
//! that checkpoints cover.

use crate::node::ChildId;
use std::collections::HashSet;
use teak_base::{Lsn, WriteId};

/// The state that the install lock protects.
#[derive(Debug)]
pub(crate) struct InstallState {
    /// Children that jobs have claimed; [`ChildId::ROOT`] is the claim on the memtables.
    pub(crate) claimed: HashSet<ChildId>,
    pub(crate) next_child_id: u64,
    /// Everything that was logged before this position is in runs.
    pub(crate) flushed_lsn: Lsn,
    /// The flushed records that neither the durable nor the captured checkpoint contains.
    undurable: Undurable,
    /// The flushed records that the captured checkpoint contains and the durable one does not.
    captured: Undurable,
    /// Everything that was logged before this position is in the durable
    /// checkpoint.
    pub(crate) durable_lsn: Lsn,
    /// Whether anything changed since the last captured checkpoint.
    pub(crate) changed: bool,
}

impl InstallState {
    pub(crate) fn new(flushed_lsn: Lsn, next_child_id: u64) -> Self {
        Self {
            claimed: HashSet::new(),
            next_child_id,
            flushed_lsn,
            undurable: Undurable::default(),
            captured: Undurable::default(),
            durable_lsn: flushed_lsn,
            changed: false,
        }
    }

    pub(crate) fn take_child_id(&mut self) -> ChildId {
        let id = ChildId(self.next_child_id);
        self.next_child_id += 1;
        id
    }

    /// Records that a memtable was flushed: its first log position, and its oldest unsettled write
    /// id.
    pub(crate) fn add_undurable(&mut self, lsn: Option<Lsn>, oldest: Option<WriteId>) {
        let flushed = Undurable { lsn, oldest };
        self.undurable = self.undurable.or(flushed);
    }

    /// The flushed records that the durable checkpoint does not contain.
    pub(crate) fn undurable(&self) -> Undurable {
        self.undurable.or(self.captured)
    }

    /// Records that a checkpoint has captured all runs.
    pub(crate) fn capture_undurable(&mut self) {
        self.captured = self.undurable();
        self.undurable = Undurable::default();
    }

    /// Records that the captured checkpoint is durable.
    pub(crate) fn captured_durable(&mut self, flushed_lsn: Lsn) {
        self.captured = Undurable::default();
        self.durable_lsn = flushed_lsn;
    }

    /// Records that the captured checkpoint did not become durable.
    pub(crate) fn captured_failed(&mut self) {
        self.undurable = self.undurable();
        self.captured = Undurable::default();
        self.changed = true;
    }
}

/// The oldest log record and the oldest write of some flushed memtables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undurable {
    /// The position of the first record.
    pub(crate) lsn: Option<Lsn>,
    /// The oldest write that was unsettled when its memtable was flushed.
    pub(crate) oldest: Option<WriteId>,
}

impl Undurable {
    fn or(self, other: Self) -> Self {
        Self {
            lsn: self.lsn.into_iter().chain(other.lsn).min(),
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}
