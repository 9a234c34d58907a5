//! Reads nodes from the file of a tree, and checks them against the links to them.

use super::block::BlockState;
use super::codec::{NODE_LAYOUT, RawChild, RawNode, RawRun, decode_node};
use super::{
    Child, ChildId, Key, KeyRange, LoadedNode, Node, NodeBlock, NodeLink, NodePlace, NodeTotals,
    RunHandle, RunRef,
};
use crate::{PageCache, Run};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockFile, BlockKind};

/// Reads the nodes of one tree.
#[derive(Debug)]
pub(crate) struct NodeReader {
    file: BlockFile,
    cache: Arc<PageCache>,
    /// All children in the file have smaller numbers.
    child_ids_end: AtomicU64,
}

impl NodeReader {
    pub(crate) fn new(file: &BlockFile, cache: &Arc<PageCache>, child_ids_end: u64) -> Self {
        Self {
            file: file.clone(),
            cache: Arc::clone(cache),
            child_ids_end: AtomicU64::new(child_ids_end),
        }
    }

    /// A checkpoint writes children with numbers below `end`.
    pub(crate) fn raise_child_ids_end(&self, end: u64) {
        self.child_ids_end.fetch_max(end, Ordering::Relaxed);
    }

    /// Reads the root.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn read_root(&self, address: BlockAddress) -> StorageResult<Arc<Node>> {
        self.read_node(address, None, &KeyRange::all())
    }

    /// The node, from memory or from the file. `range` is that of the child.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    #[inline]
    pub(crate) fn load(&self, link: &Arc<NodeLink>, range: &KeyRange) -> StorageResult<LoadedNode> {
        match link.loaded() {
            Some(node) => Ok(node),
            None => self.load_cold(link, range),
        }
    }

    #[cold]
    fn load_cold(&self, link: &Arc<NodeLink>, range: &KeyRange) -> StorageResult<LoadedNode> {
        let place = {
            let state = link.block.lock();
            if let Some(node) = link.node.load_full() {
                return Ok(LoadedNode::new(node));
            }
            match *state {
                BlockState::Published(place) => place,
                BlockState::Unwritten | BlockState::Written(_) => {
                    unreachable!("only published nodes are evicted")
                }
            }
        };
        let node = self.read(place, &link.totals, range)?;
        let (node, is_first) = {
            let _state = link.block.lock();
            match link.node.load_full() {
                Some(first) => (first, false),
                None => {
                    link.node.store(Some(Arc::clone(&node)));
                    link.used.store(true, Ordering::Relaxed);
                    (node, true)
                }
            }
        };
        if is_first {
            let memory = Arc::clone(node.memory());
            memory.count_read();
            memory.add_evictable(std::iter::once(link.to_evict(&node)));
        }
        Ok(LoadedNode::new(node))
    }

    /// Reads the node of a link. `range` is that of the child.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    fn read(
        &self,
        place: NodePlace,
        totals: &NodeTotals,
        range: &KeyRange,
    ) -> StorageResult<Arc<Node>> {
        self.read_node(place.address, Some((place, totals)), range)
    }

    /// Reads the node of a link again, even if it is in memory, and does not install it. A node
    /// that is in no published block is returned as it is. `range` is that of the child.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn read_again(
        &self,
        link: &Arc<NodeLink>,
        range: &KeyRange,
    ) -> StorageResult<Arc<Node>> {
        match link.block().published_place() {
            Some(place) => self.read(place, link.totals(), range),
            None => Ok(self.load(link, range)?.to_arc()),
        }
    }

    /// The node of this height on the path of a key.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    #[cold]
    pub(crate) fn load_on_path(
        &self,
        root: &Arc<Node>,
        key: &[u8],
        height: u8,
    ) -> StorageResult<LoadedNode> {
        let mut node = LoadedNode::new(Arc::clone(root));
        let mut range = KeyRange::all();
        while node.height > height {
            let position = node.child_position(key);
            range = node.child_range(position, &range);
            let link = node
                .children
                .get(position)
                .and_then(|child| child.below.as_ref());
            let Some(link) = link else {
                unreachable!("every node above the bottom has links")
            };
            let below = self.load(link, &range)?;
            node = below;
        }
        Ok(node)
    }

    fn read_node(
        &self,
        address: BlockAddress,
        link: Option<(NodePlace, &NodeTotals)>,
        range: &KeyRange,
    ) -> StorageResult<Arc<Node>> {
        let corrupt =
            |reason: &str| StorageError::corrupt(self.file.path(), address.offset, reason);
        let block = self.file.read_block(address, BlockKind::Node)?;
        let layout = block.description.layout;
        StorageError::check_version(self.file.path(), layout.into(), NODE_LAYOUT.into())?;
        let raw = decode_node(&block.raw).map_err(|_| corrupt("the node is malformed"))?;
        if link.is_some_and(|(_, totals)| totals.height != raw.height) {
            return Err(corrupt("the node has the wrong height"));
        }
        let node = self.build(raw, address, range).map_err(corrupt)?;
        if let Some((place, totals)) = link
            && (node.block.place() != Some(place) || !totals.agree_with(&node.totals()))
        {
            return Err(corrupt("a node and the link to it disagree"));
        }
        Ok(node)
    }

    /// Appends the link to the node with these raw bytes, which is at `address`. False if they are
    /// malformed.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn encode_link_to(
        &self,
        raw: &[u8],
        address: BlockAddress,
        range: &KeyRange,
        out: &mut Vec<u8>,
    ) -> bool {
        let built = decode_node(raw).map(|raw| self.build(raw, address, range));
        let Ok(Ok(node)) = built else {
            return false;
        };
        if let Some(place) = node.block.place() {
            super::codec::encode_link(place, &node.totals(), out);
        }
        true
    }

    fn build(
        &self,
        raw: RawNode,
        address: BlockAddress,
        range: &KeyRange,
    ) -> Result<Arc<Node>, &'static str> {
        let RawNode {
            height,
            children: raw,
        } = raw;
        let pivots: Vec<Key> = raw
            .iter()
            .skip(1)
            .map(|child| child.pivot.clone())
            .collect();
        let ids_end = self.child_ids_end.load(Ordering::Relaxed);
        let mut ids = HashSet::new();
        let mut children = Vec::with_capacity(raw.len());
        let mut blocks_end = address.end();
        for (position, child) in raw.into_iter().enumerate() {
            let lower = position
                .checked_sub(1)
                .and_then(|before| pivots.get(before));
            let child_range = KeyRange {
                lower: lower.unwrap_or(&range.lower).clone(),
                upper: pivots.get(position).or(range.upper.as_ref()).cloned(),
            };
            if child_range.is_empty() || !range.covers(&child_range) {
                return Err("a pivot is outside the node's range");
            }
            if child.id == ChildId::ROOT || child.id.0 >= ids_end || !ids.insert(child.id) {
                return Err("a child's number is not valid");
            }
            if let Some((place, _)) = &child.below {
                blocks_end = blocks_end.max(place.blocks_end);
            }
            children.push(self.child(child, &child_range)?);
        }
        let place = NodePlace {
            address,
            blocks_end,
        };
        let block = NodeBlock::published(place);
        let memory = self.cache.nodes();
        Ok(Node::in_block(height, pivots, children, block, memory))
    }

    fn child(&self, raw: RawChild, range: &KeyRange) -> Result<Arc<Child>, &'static str> {
        let mut runs = Vec::with_capacity(raw.runs.len());
        for run in raw.runs {
            let run = self.run(run);
            if !range.covers(&run.range()) {
                return Err("a run is outside its child's range");
            }
            runs.push(run);
        }
        let below = raw
            .below
            .map(|(place, totals)| NodeLink::to_place(place, totals));
        let (own_due, garbage_due_at) = (raw.own_due, raw.garbage_due_at);
        Ok(Child::with_due(
            raw.id,
            runs,
            below,
            own_due,
            garbage_due_at,
        ))
    }

    fn run(&self, raw: RawRun) -> RunRef {
        let run = Run::open(&self.file, &self.cache, raw.description);
        let handle = RunHandle::new(run, raw.form, raw.marks, raw.number);
        RunRef {
            handle: Arc::new(handle),
            clip: raw.clip,
        }
    }
}
