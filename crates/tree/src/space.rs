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
//! Moving starts when the unused bytes exceed a fraction of the live bytes plus a constant
//! ([`SpaceGoal::tolerated`]). The limit leaves a smaller fraction ([`SpaceGoal::wanted`]), so a
//! few writes do not start it again. The caller makes a checkpoint after a certain number of moved
//! bytes, and stops as soon as the file is below the larger fraction. Before moving starts again,
//! the file must grow or its live bytes must shrink. So the moved bytes are a bounded part of the
//! written and freed bytes, apart from runs that cannot be moved: they are merged or flushed.
//!
//! A file that is small enough causes no I/O, with one exception: while the tree is written, a
//! checkpoint is made when many freed bytes become reusable by it ([`SpaceGoal::pending`]).

use crate::node::{Child, KeyRange, MissingNode, Node, NodeBlock, NodeLink};
use crate::tree::Tree;
use std::sync::Arc;
use teak_base::StorageResult;
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

    /// Maximum of the freed bytes that only a checkpoint makes reusable.
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

    /// Replaces nodes whose blocks end after `limit`, and the nodes above them, by copies in
    /// memory, which the next checkpoint writes into holes. That checkpoint also writes the list of
    /// shared runs again, if one of its blocks ends after `limit`. Returns whether there is
    /// anything to write. A call replaces a limited number of nodes; call it again after the
    /// checkpoint.
    ///
    /// # Errors
    /// Errors of reading nodes. Nothing is replaced then.
    pub fn relocate_nodes(&self, limit: u64) -> StorageResult<bool> {
        // Nodes that were read for the copies. They are not evicted while they are held.
        let mut held: Vec<Arc<Node>> = Vec::new();
        let version = self.version.load_full();
        self.load_distant(&version.root, &KeyRange::all(), limit, &mut held)?;
        drop(version);
        loop {
            let mut install = self.install.lock();
            let version = self.version.load_full();
            let mut copies = Copies::up_to(limit);
            match copies.copy(&version.root, &KeyRange::all()) {
                Ok(root) => {
                    let mut shared_blocks = install.shared_blocks.iter();
                    let moves_shared = shared_blocks.any(|block| block.end() > limit);
                    install.shared_changed |= moves_shared;
                    let has_moved = root.is_some();
                    if let Some(root) = root {
                        install.add_dropped(copies.replaced);
                        let version = version.with_root(root, &self.file, install.checkpoint_pin());
                        self.publish_version(version);
                    }
                    install.changed |= has_moved || moves_shared;
                    return Ok(has_moved || moves_shared);
                }
                Err(missing) => {
                    drop(install);
                    let node = self.nodes.load(&missing.link, &missing.range)?;
                    held.push(node.to_arc());
                }
            }
        }
    }

    /// Reads the nodes that [`Copies`] needs, so that the lock is rarely released to read one.
    fn load_distant(
        &self,
        node: &Node,
        range: &KeyRange,
        limit: u64,
        held: &mut Vec<Arc<Node>>,
    ) -> StorageResult<()> {
        for (child, child_range) in node.children_with_ranges(range) {
            if let Some(link) = &child.below
                && !is_near(link, limit)
                && held.len() < COPIES_MAX
            {
                let below = self.nodes.load(link, &child_range)?.to_arc();
                held.push(Arc::clone(&below));
                self.load_distant(&below, &child_range, limit, held)?;
            }
        }
        Ok(())
    }
}

/// Whether the blocks of a node and of all nodes below it end before `limit`.
fn is_near(link: &NodeLink, limit: u64) -> bool {
    let place = link.block().place();
    place.is_some_and(|place| place.blocks_end <= limit)
}

/// A call of [`Tree::relocate_nodes`] replaces at most about so many nodes.
const COPIES_MAX: usize = 1000;

/// Replaces nodes by copies, which are in no block yet.
struct Copies {
    limit: u64,
    replaced: Vec<Arc<NodeBlock>>,
}

impl Copies {
    fn up_to(limit: u64) -> Self {
        Self {
            limit,
            replaced: Vec::new(),
        }
    }

    /// The copy of a node; `None` if neither the node nor one below it ends after the limit.
    fn copy(
        &mut self,
        node: &Arc<Node>,
        range: &KeyRange,
    ) -> Result<Option<Arc<Node>>, MissingNode> {
        let own = node.block.place();
        let mut is_copied = own.is_some_and(|place| place.address.end() > self.limit);
        let mut children = Vec::with_capacity(node.children.len());
        for (child, child_range) in node.children_with_ranges(range) {
            let copy = match &child.below {
                Some(link) => self.copy_below(link, &child_range)?,
                None => None,
            };
            is_copied |= copy.is_some();
            children.push(match copy {
                Some(below) => {
                    let (runs, link) = (child.runs.clone(), NodeLink::to_node(&below));
                    Child::with_due(
                        child.id,
                        runs,
                        Some(link),
                        child.own_due,
                        child.garbage_due_at,
                    )
                }
                None => Arc::clone(child),
            });
        }
        if !is_copied {
            return Ok(None);
        }
        self.replaced.push(Arc::clone(&node.block));
        let pivots = node.pivots.clone();
        Ok(Some(Node::new(
            node.height,
            pivots,
            children,
            node.memory(),
        )))
    }

    fn copy_below(
        &mut self,
        link: &Arc<NodeLink>,
        range: &KeyRange,
    ) -> Result<Option<Arc<Node>>, MissingNode> {
        if is_near(link, self.limit) || self.replaced.len() >= COPIES_MAX {
            return Ok(None);
        }
        let node = link.require(range)?.to_arc();
        self.copy(&node, range)
    }
}
