//! The size of the file compared with its live bytes, and the steps that make the file smaller.
//!
//! A file is larger than its live bytes because of holes, and of freed blocks that the last
//! checkpoint or a reader's version still needs. Two steps make it smaller:
//! 1. A new checkpoint frees the blocks that only the previous checkpoint needs, and truncates a
//!    free tail.
//! 2. Moving blocks from the end of the file to holes makes the tail free. Blocks that end after a
//!    limit (the size that the file should have) are moved to holes before the limit. The next
//!    checkpoint frees their old places.
//!
//! Moving starts when the unused bytes exceed one share of the live bytes, and stops when they are
//! below a smaller share. Between two rounds of moves, at least the difference of the shares is
//! written or freed. A round moves at most the bytes after the limit. So the moved bytes are a
//! bounded share of the written and freed bytes. A file that is small enough causes no I/O.

use crate::node::Node;
use crate::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_block_file::BLOCKS_START;

/// The maximum size of a file, relative to its live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceGoal {
    /// For a tree that is being written. The file may be larger than the live bytes by a quarter
    /// and some MiB.
    Busy,
    /// For a tree that is not being written. The file may be larger than the live bytes by less
    /// than a twentieth and some KiB.
    Idle,
}

/// The next step towards a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceAction {
    /// The file is small enough, or cannot be made smaller now.
    Nothing,
    /// A checkpoint frees or truncates space.
    Checkpoint,
    /// Blocks are moved from after the limit to before it.
    Move {
        /// The offset after which no block should end.
        limit: u64,
    },
}

/// A step that frees fewer bytes is not taken.
const SMALL_BYTES: u64 = 64 * 1024;

impl SpaceGoal {
    /// Bytes in addition to the live bytes above which steps begin.
    fn tolerated(self, live: u64) -> u64 {
        match self {
            Self::Busy => live / 4 + 12 * 1024 * 1024,
            Self::Idle => live / 24 + SMALL_BYTES,
        }
    }

    /// Bytes in addition to the live bytes that moving leaves.
    fn wanted(self, live: u64) -> u64 {
        match self {
            Self::Busy => live / 8 + 4 * 1024 * 1024,
            Self::Idle => live / 48 + SMALL_BYTES / 2,
        }
    }

    /// Freed bytes that may wait for a checkpoint.
    fn pending(self, live: u64) -> u64 {
        match self {
            Self::Busy => live / 8 + 4 * 1024 * 1024,
            Self::Idle => u64::MAX,
        }
    }
}

impl Tree {
    /// The next step that brings the file to the goal.
    #[must_use]
    pub fn space_action(&self, goal: SpaceGoal) -> SpaceAction {
        let file = self.file.statistics();
        let live = file.live_bytes;
        let beyond = file.unused_bytes();
        // Bytes that the next checkpoint frees.
        let held = file.pending_free_bytes - file.pinned_bytes;
        if held > goal.pending(live) {
            return SpaceAction::Checkpoint;
        }
        if beyond <= goal.tolerated(live) || self.load_version().awaits_base {
            return SpaceAction::Nothing;
        }
        // Bytes at the end of the file that are free already.
        let tail = beyond.saturating_sub(file.free_bytes + file.unavailable_bytes);
        if held.max(tail) >= SMALL_BYTES && held + tail >= beyond / 8 {
            return SpaceAction::Checkpoint;
        }
        // Blocks cannot be moved to space that is still unavailable, so the limit includes it. The
        // next checkpoint frees some of it.
        let limit = BLOCKS_START + live + goal.wanted(live) + file.unavailable_bytes;
        if limit + SMALL_BYTES > file.file_bytes {
            return SpaceAction::Nothing;
        }
        SpaceAction::Move { limit }
    }

    /// Makes the next checkpoint write again the nodes whose blocks end after `limit`, and the
    /// nodes above them. Returns whether there are any.
    pub fn relocate_nodes(&self, limit: u64) -> bool {
        let mut install = self.install.lock();
        let version = self.version.load_full();
        if !reaches_beyond(&version.root, limit) {
            return false;
        }
        self.node_limit.store(limit, Ordering::Relaxed);
        install.changed = true;
        true
    }

    /// Removes the addresses of the nodes that [`Tree::relocate_nodes`] has chosen, so that the
    /// nodes are written again. A checkpoint calls this before it writes nodes.
    pub(crate) fn forget_relocated_nodes(&self, root: &Arc<Node>) {
        let limit = self.node_limit.swap(u64::MAX, Ordering::Relaxed);
        if limit < u64::MAX {
            forget_addresses(root, limit);
        }
    }
}

fn ends_after(node: &Node, limit: u64) -> bool {
    let address = *node.address.lock();
    address.is_some_and(|address| address.end() > limit)
}

fn reaches_beyond(node: &Node, limit: u64) -> bool {
    let mut below = node
        .children
        .iter()
        .filter_map(|child| child.below.as_ref());
    ends_after(node, limit) || below.any(|node| reaches_beyond(node, limit))
}

/// Removes the addresses of nodes whose blocks end after `limit`, and those of the nodes above
/// them, whose blocks contain these addresses. Returns whether it removed the address of `node`.
fn forget_addresses(node: &Node, limit: u64) -> bool {
    let mut forget = ends_after(node, limit);
    for below in node
        .children
        .iter()
        .filter_map(|child| child.below.as_ref())
    {
        forget |= forget_addresses(below, limit);
    }
    if forget {
        *node.address.lock() = None;
    }
    forget
}
