//! The nodes of the tree. They are immutable and shared by versions of the
//! tree. A change replaces the nodes on the path to it.
//!
//! A node divides a key range among its children by pivots. Each child has a
//! list of runs, newest first, and, unless it is a leaf, a link to the node
//! below. For any key, the runs on the path from the root to the leaf are ordered
//! by age: higher ones are newer.
//!
//! A link has the totals of the node, so that planning and estimates do not read it. The node is
//! read when a descent, a job or a check needs it ([`NodeReader`]), and may be evicted again while
//! it is not in use.
//!
//! Versions share links. A reader of any version that refers to a link can read the node: its pins
//! retain the block (see [`TreeVersion`](crate::version::TreeVersion)).

mod block;
mod codec;
mod edit;
mod garbage;
mod key_range;
mod path;
mod reader;
mod run_ref;
mod summary;
mod totals;

pub(crate) use block::{NodeBlock, NodePlace};
pub(crate) use codec::{encode_node, node_block_description};
pub(crate) use edit::{Depth, EditBase, EditStop, Edited, Editor, Replacement};
pub(crate) use garbage::{WATERMARK_MIN, is_garbage_due};
pub(crate) use key_range::{Key, KeyRange, separator};
pub(crate) use path::LeafPath;
pub(crate) use reader::NodeReader;
pub(crate) use run_ref::{RunForm, RunHandle, RunId, RunMarks, RunRef, tombstone_range};
pub(crate) use summary::{
    LeafShape, Summary, is_large_part, is_worth_idle_job, prefers_consolidation, run_load,
};
pub(crate) use totals::{EndOfData, NodeTotals};

use crate::TreeOptions;
use crate::key_search::key_order;
use crate::node_memory::{Evictable, EvictableNode, NodeCharge, NodeMemory};
use arc_swap::{ArcSwapOption, Guard};
use block::BlockState;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use teak_base::WriteId;

/// The number of upper runs of a child, relative to the number at which a job is due, from which on
/// due flushes from the level above wait.
pub(crate) const RUN_LOAD_MAX: f64 = 2.0;

/// Maximum levels of nodes; bounds the recursion on damaged files.
pub(crate) const HEIGHT_MAX: u8 = 16;

/// Identifies a child for the lifetime of its tree. A job uses it to find its child again after
/// other jobs have changed the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChildId(pub(crate) u64);

impl ChildId {
    /// The root, in claims.
    pub(crate) const ROOT: ChildId = ChildId(0);
    /// The maximum valid number. Numbers are allocated in sequence, so a larger one is malformed.
    pub(crate) const MAX: ChildId = ChildId(1 << 60);
}

/// One part of a node's key range.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: ChildId,
    /// Newest first.
    pub(crate) runs: Vec<RunRef>,
    /// The link to the node below an inner child; `None` for a leaf.
    pub(crate) below: Option<Arc<NodeLink>>,
    /// Urgency of a job on the child itself, apart from garbage. The job is due at 1.0 and above.
    pub(crate) own_due: f64,
    /// The settled watermark from which on a job on the child itself is due because of garbage. At
    /// least [`WATERMARK_MIN`]. `None` if the child has little garbage.
    pub(crate) garbage_due_at: Option<WriteId>,
    pub(crate) summary: Summary,
}

impl Child {
    /// `range` contains the keys of the child.
    pub(crate) fn new(
        id: ChildId,
        runs: Vec<RunRef>,
        below: Option<Arc<NodeLink>>,
        range: &KeyRange,
        options: &TreeOptions,
    ) -> Arc<Self> {
        let summary_below = below.as_deref().map(NodeLink::summary);
        let own_due = summary::own_due(&runs, below.is_none(), options);
        let garbage_due_at = garbage::garbage_due_at(&runs, summary_below, range, options);
        Self::with_due(id, runs, below, own_due, garbage_due_at)
    }

    /// A child of which is known when jobs on it are due.
    pub(crate) fn with_due(
        id: ChildId,
        runs: Vec<RunRef>,
        below: Option<Arc<NodeLink>>,
        own_due: f64,
        garbage_due_at: Option<WriteId>,
    ) -> Arc<Self> {
        let summary_below = below.as_deref().map(NodeLink::summary);
        let summary = Summary::of_child(&runs, summary_below, own_due, garbage_due_at);
        Arc::new(Self {
            id,
            runs,
            below,
            own_due,
            garbage_due_at,
            summary,
        })
    }

    /// Whether a job on the child itself is due because of garbage, at this settled watermark.
    pub(crate) fn is_garbage_due(&self, settled_below: WriteId) -> bool {
        self.garbage_due_at.is_some_and(|at| at <= settled_below)
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.below.is_none()
    }

    /// Whether the child has twice as many upper runs as make it due. Memtables, and due flushes from
    /// the level above, then wait. Jobs that are not due, and loads, still add runs.
    pub(crate) fn is_full(&self, options: &TreeOptions) -> bool {
        let upper_runs = summary::upper_runs(&self.runs);
        summary::run_load(upper_runs, self.is_leaf(), options) >= RUN_LOAD_MAX
    }

    /// The first key above all data of the child and the nodes below.
    pub(crate) fn end_of_data(&self) -> EndOfData {
        let mut end = EndOfData::Empty;
        for run in &self.runs {
            end = end.max(match run.upper() {
                Some(upper) => EndOfData::Before(upper.to_vec()),
                None => EndOfData::Unbounded,
            });
        }
        if let Some(below) = &self.below {
            end = end.max(below.totals().end.clone());
        }
        end
    }

    /// Whether neither the child nor the nodes below have a run.
    pub(crate) fn is_empty(&self) -> bool {
        self.summary.runs == 0
    }
}

/// Children and the pivots between them.
#[derive(Debug)]
pub(crate) struct Node {
    /// Levels of nodes from here down. The children of a node of height 1 are
    /// leaves.
    pub(crate) height: u8,
    /// Ascending; one fewer than children. Child `i` starts at pivot `i - 1`.
    pub(crate) pivots: Vec<Key>,
    /// Never empty.
    pub(crate) children: Vec<Arc<Child>>,
    pub(crate) summary: Summary,
    pub(crate) block: Arc<NodeBlock>,
    charge: NodeCharge,
}

impl Node {
    /// A new node, which no checkpoint has written.
    pub(crate) fn new(
        height: u8,
        pivots: Vec<Key>,
        children: Vec<Arc<Child>>,
        memory: &Arc<NodeMemory>,
    ) -> Arc<Self> {
        Self::in_block(height, pivots, children, NodeBlock::unwritten(), memory)
    }

    fn in_block(
        height: u8,
        pivots: Vec<Key>,
        children: Vec<Arc<Child>>,
        block: NodeBlock,
        memory: &Arc<NodeMemory>,
    ) -> Arc<Self> {
        assert!(
            !children.is_empty() && pivots.len() + 1 == children.len(),
            "a node has one pivot fewer than children"
        );
        let summary = Summary::of_node(children.iter().map(|child| &child.summary));
        let pivot_bytes = pivots.iter().map(|pivot| size_of::<Key>() + pivot.len());
        let child_bytes = children.iter().map(|child| {
            let below = child.below.as_ref();
            let link = below.map_or(0, |link| link.memory_bytes());
            size_of::<Arc<Child>>() + size_of::<Child>() + link
        });
        let bytes = size_of::<Self>() + pivot_bytes.sum::<usize>() + child_bytes.sum::<usize>();
        Arc::new(Self {
            height,
            pivots,
            children,
            summary,
            block: Arc::new(block),
            charge: NodeCharge::new(memory, bytes),
        })
    }

    /// The root of an empty tree: one leaf without runs.
    pub(crate) fn empty(id: ChildId, options: &TreeOptions, memory: &Arc<NodeMemory>) -> Arc<Self> {
        let leaf = Child::new(id, Vec::new(), None, &KeyRange::all(), options);
        Self::new(1, Vec::new(), vec![leaf], memory)
    }

    fn totals(&self) -> NodeTotals {
        let last = self.children.iter().rev().find(|child| !child.is_empty());
        NodeTotals {
            height: self.height,
            children: self.children.len() as u64,
            end: last.map_or(EndOfData::Empty, |last| last.end_of_data()),
            summary: self.summary.clone(),
        }
    }

    /// The account of the node's memory.
    pub(crate) fn memory(&self) -> &Arc<NodeMemory> {
        self.charge.memory()
    }

    /// The position of the child whose range has the key.
    #[inline]
    pub(crate) fn child_position(&self, key: &[u8]) -> usize {
        self.pivots
            .partition_point(|pivot| key_order(pivot, key).is_le())
    }

    /// The position of the last child whose range has keys below `key`; of the
    /// first child when there is none.
    pub(crate) fn child_position_before(&self, key: &[u8]) -> usize {
        self.pivots
            .partition_point(|pivot| key_order(pivot, key).is_lt())
    }

    /// The range of a child, within the range of this node.
    pub(crate) fn child_range(&self, position: usize, node_range: &KeyRange) -> KeyRange {
        let lower = position.checked_sub(1).and_then(|p| self.pivots.get(p));
        let upper = self.pivots.get(position);
        KeyRange {
            lower: lower.unwrap_or(&node_range.lower).clone(),
            upper: upper.or(node_range.upper.as_ref()).cloned(),
        }
    }

    /// The children with their ranges.
    pub(crate) fn children_with_ranges<'a>(
        &'a self,
        node_range: &'a KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<Child>, KeyRange)> {
        self.children
            .iter()
            .enumerate()
            .map(move |(position, child)| (child, self.child_range(position, node_range)))
    }
}

/// A link to a node.
#[derive(Debug)]
pub(crate) struct NodeLink {
    totals: NodeTotals,
    block: Arc<NodeBlock>,
    /// The node, while it is in memory. Changed under the lock of the block.
    node: ArcSwapOption<Node>,
    /// Whether the node was used since an eviction last passed it.
    used: AtomicBool,
}

/// A reference to a node in memory. Cheaper than an `Arc`, for short use on one thread.
pub(crate) struct LoadedNode(Guard<Option<Arc<Node>>>);

/// A node that must be read before an operation can continue.
#[derive(Debug)]
pub(crate) struct MissingNode {
    pub(crate) link: Arc<NodeLink>,
    pub(crate) range: KeyRange,
}

impl MissingNode {
    /// Where the node is in the file.
    pub(crate) fn offset(&self) -> u64 {
        let place = self.link.block.place();
        place.map_or(0, |place| place.address.offset)
    }
}

impl NodeLink {
    /// The link to a node that is in memory.
    pub(crate) fn to_node(node: &Arc<Node>) -> Arc<Self> {
        Arc::new(Self {
            totals: node.totals(),
            block: Arc::clone(&node.block),
            node: ArcSwapOption::new(Some(Arc::clone(node))),
            used: AtomicBool::new(true),
        })
    }

    /// The link to a node in the file.
    fn to_place(place: NodePlace, totals: NodeTotals) -> Arc<Self> {
        Arc::new(Self {
            totals,
            block: Arc::new(NodeBlock::published(place)),
            node: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
        })
    }

    /// The link to `node`, for the list of evictable nodes.
    pub(crate) fn to_evict(self: &Arc<Self>, node: &Node) -> EvictableNode {
        let link: Weak<Self> = Arc::downgrade(self);
        let runs = node.children.iter().flat_map(|child| &child.runs);
        let run_bytes = runs.map(|run| run.handle.run.node_bytes());
        (link, node.charge.bytes() + run_bytes.sum::<u64>())
    }

    pub(crate) fn totals(&self) -> &NodeTotals {
        &self.totals
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.totals.summary
    }

    pub(crate) fn block(&self) -> &Arc<NodeBlock> {
        &self.block
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of::<NodeBlock>() + self.totals.end.bytes()
    }

    /// The node, if it is in memory.
    #[inline]
    pub(crate) fn loaded(&self) -> Option<LoadedNode> {
        let node = self.node.load();
        if node.is_none() {
            return None;
        }
        // A load avoids most writes.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(LoadedNode(node))
    }

    /// The node, if it is in memory. `range` is that of the child.
    pub(crate) fn require(self: &Arc<Self>, range: &KeyRange) -> Result<LoadedNode, MissingNode> {
        self.loaded().ok_or_else(|| MissingNode {
            link: Arc::clone(self),
            range: range.clone(),
        })
    }
}

impl Evictable for NodeLink {
    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn evict(&self) -> bool {
        let state = self.block.lock();
        if !matches!(*state, BlockState::Published(_)) {
            return false;
        }
        let Some(node) = self.node.swap(None) else {
            return true;
        };
        if Arc::strong_count(&node) > 1 {
            self.node.store(Some(node));
            return false;
        }
        drop(state);
        // Also drops the nodes below that are in memory.
        drop(node);
        true
    }
}

impl LoadedNode {
    fn new(node: Arc<Node>) -> Self {
        Self(Guard::from_inner(Some(node)))
    }

    /// A reference for longer use. The node is not evicted while it exists.
    pub(crate) fn to_arc(&self) -> Arc<Node> {
        match &*self.0 {
            Some(node) => Arc::clone(node),
            None => unreachable!("a loaded node is in memory"),
        }
    }
}

impl Deref for LoadedNode {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        match &*self.0 {
            Some(node) => node,
            None => unreachable!("a loaded node is in memory"),
        }
    }
}
