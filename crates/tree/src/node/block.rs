//! The block of a node: where it is in the file, once a checkpoint has written it.
//!
//! 1. A new node is *unwritten*: it exists in memory only.
//! 2. A checkpoint writes it, children before parents.
//! 3. The checkpoint publishes it. From then on the node can be read again, so it may be evicted.
//!
//! The node is unwritten again if the checkpoint fails between 2 and 3, or if the node was replaced
//! before the checkpoint was captured. A published node keeps its place: nodes are moved by
//! replacing them.

use parking_lot::{Mutex, MutexGuard};
use teak_block_file::BlockAddress;

/// The place of a node in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePlace {
    pub(crate) address: BlockAddress,
    /// One past the last byte of the blocks of this node and of all nodes below it.
    pub(crate) blocks_end: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BlockState {
    Unwritten,
    Written(NodePlace),
    Published(NodePlace),
}

/// The block of one node. Its lock also protects the eviction of the node.
#[derive(Debug)]
pub(crate) struct NodeBlock(Mutex<BlockState>);

impl NodeBlock {
    pub(crate) fn unwritten() -> Self {
        Self(Mutex::new(BlockState::Unwritten))
    }

    pub(crate) fn published(place: NodePlace) -> Self {
        Self(Mutex::new(BlockState::Published(place)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BlockState> {
        self.0.lock()
    }

    /// The place of a node that was written.
    pub(crate) fn place(&self) -> Option<NodePlace> {
        match *self.lock() {
            BlockState::Unwritten => None,
            BlockState::Written(place) | BlockState::Published(place) => Some(place),
        }
    }

    /// The place of a node that can be read.
    pub(crate) fn published_place(&self) -> Option<NodePlace> {
        match *self.lock() {
            BlockState::Published(place) => Some(place),
            BlockState::Unwritten | BlockState::Written(_) => None,
        }
    }

    pub(crate) fn set_written(&self, place: NodePlace) {
        *self.lock() = BlockState::Written(place);
    }

    /// The checkpoint that has written the node has published its block.
    pub(crate) fn set_published(&self) {
        let mut state = self.lock();
        if let BlockState::Written(place) = *state {
            *state = BlockState::Published(place);
        }
    }

    /// The checkpoint that has written the node has failed, or frees the block.
    pub(crate) fn set_unwritten(&self) {
        *self.lock() = BlockState::Unwritten;
    }
}
