//! The state that the install lock protects: claims, ids, the nodes and references
//! that the next checkpoint must record, and the log positions that checkpoints
//! cover.

use crate::hidden_deletes::HiddenDeletes;
use crate::node::{ChildId, NodeBlock};
use crate::shared_runs::SharedRuns;
use crate::version::CheckpointPin;
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::{Lsn, WriteId};
use teak_block_file::{BlockAddress, Pin};

/// The state that the install lock protects.
#[derive(Debug)]
pub(crate) struct InstallState {
    /// Children that jobs have claimed; [`ChildId::ROOT`] is the claim on the memtables.
    pub(crate) claimed: HashSet<ChildId>,
    pub(crate) next_child_id: u64,
    /// Keys near which a merge may drop deletes under an old snapshot.
    pub(crate) hidden: HiddenDeletes,
    /// The last flushes of memtables that all wrote small runs.
    pub(crate) small_flushes: u32,
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
    /// References to runs that several children share.
    pub(crate) shared: SharedRuns,
    /// Whether they have changed since the last captured checkpoint.
    pub(crate) shared_changed: bool,
    /// The blocks of the list of shared runs.
    pub(crate) shared_blocks: Vec<BlockAddress>,
    /// Blocks of nodes that the root does not refer to any more.
    dropped_nodes: Vec<Arc<NodeBlock>>,
    /// Whether a checkpoint writes nodes, or will do so before it is captured.
    writes_nodes: bool,
    /// The pins of checkpoints that are not set yet. The last is that of the next capture.
    checkpoint_pins: Vec<CheckpointPin>,
}

impl InstallState {
    pub(crate) fn new(flushed_lsn: Lsn, next_child_id: u64) -> Self {
        Self {
            claimed: HashSet::new(),
            next_child_id,
            hidden: HiddenDeletes::default(),
            small_flushes: 0,
            flushed_lsn,
            undurable: Undurable::default(),
            captured: Undurable::default(),
            durable_lsn: flushed_lsn,
            changed: false,
            shared: SharedRuns::default(),
            shared_changed: false,
            shared_blocks: Vec::new(),
            dropped_nodes: Vec::new(),
            writes_nodes: false,
            checkpoint_pins: vec![CheckpointPin::default()],
        }
    }

    /// The pin of the next checkpoint, for a new version.
    pub(crate) fn checkpoint_pin(&self) -> CheckpointPin {
        self.checkpoint_pins.last().cloned().unwrap_or_default()
    }

    /// Records the references that an edit has counted.
    pub(crate) fn set_references(&mut self, references: &[(u64, u32)]) {
        for (offset, references) in references {
            self.shared_changed |= self.shared.set(*offset, *references);
        }
    }

    /// Records that the root does not refer to these nodes any more. The next checkpoint frees
    /// their blocks. Nodes without a block are forgotten, unless a checkpoint may be writing them.
    pub(crate) fn add_dropped(&mut self, nodes: Vec<Arc<NodeBlock>>) {
        let writes_nodes = self.writes_nodes;
        let with_block = nodes.into_iter();
        let with_block = with_block.filter(|block| writes_nodes || block.place().is_some());
        self.dropped_nodes.extend(with_block);
    }

    /// A checkpoint is going to write nodes of the current root.
    pub(crate) fn begin_writing_nodes(&mut self) {
        self.writes_nodes = true;
    }

    /// Captures the nodes and references for a checkpoint, whose state `pin` retains.
    pub(crate) fn capture_nodes(&mut self, pin: Pin) -> CapturedNodes {
        let pins = self.checkpoint_pins.iter();
        // Those of failed checkpoints remain while a version needs them.
        let pins = pins.filter(|pin| Arc::strong_count(pin) > 1).cloned();
        let pins: Vec<CheckpointPin> = pins.collect();
        self.checkpoint_pins.clone_from(&pins);
        self.checkpoint_pins.push(CheckpointPin::default());
        CapturedNodes {
            dropped: std::mem::take(&mut self.dropped_nodes),
            shared: std::mem::take(&mut self.shared_changed).then(|| self.shared.clone()),
            pins,
            pin: Arc::new(pin),
        }
    }

    /// The captured nodes are in published blocks. Before they can be evicted, the versions that
    /// were created before the capture get its pin.
    pub(crate) fn published_nodes(&mut self, captured: CapturedNodes) {
        self.writes_nodes = false;
        for pin in &captured.pins {
            // Each is set by the first checkpoint that was captured after its versions, and
            // published.
            let _ = pin.set(Arc::clone(&captured.pin));
        }
        let is_set = |pin: &CheckpointPin| pin.get().is_some();
        self.checkpoint_pins.retain(|pin| !is_set(pin));
    }

    /// The captured nodes were not published.
    pub(crate) fn writing_nodes_failed(&mut self, captured: Option<CapturedNodes>) {
        self.writes_nodes = false;
        if let Some(captured) = captured {
            self.dropped_nodes.extend(captured.dropped);
            self.shared_changed |= captured.shared.is_some();
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

/// What a checkpoint has captured with the root.
#[derive(Debug)]
pub(crate) struct CapturedNodes {
    /// Nodes that the captured root does not refer to.
    pub(crate) dropped: Vec<Arc<NodeBlock>>,
    /// References to shared runs, if they have changed.
    pub(crate) shared: Option<SharedRuns>,
    pins: Vec<CheckpointPin>,
    pin: Arc<Pin>,
}

/// The log records of some memtables that were flushed.
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
