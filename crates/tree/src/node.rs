//! The nodes of the tree. They are immutable and shared by versions of the
//! tree. A change replaces the nodes on the path to it.
//!
//! A node divides a key range among its children by pivots. Each child has a
//! list of runs, newest first, and, unless it is a leaf, the node below. For
//! any key, the runs on the path from the root to the leaf are ordered by age:
//! higher ones are newer.

mod codec;
mod edit;
mod key_range;
mod path;
mod run_ref;
mod summary;

pub(crate) use codec::{NodeLoader, OnDamage, encode_node, node_block_description};
pub(crate) use edit::{Depth, Editor, Replacement};
pub(crate) use key_range::{Key, KeyRange, separator};
pub(crate) use path::LeafPath;
pub(crate) use run_ref::{RunForm, RunHandle, RunRef};
pub(crate) use summary::{LeafShape, Summary, run_load};

use crate::TreeOptions;
use crate::key_search::key_order;
use parking_lot::Mutex;
use std::sync::Arc;
use teak_block_file::BlockAddress;

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

/// The end of the data of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndOfData {
    /// The child has no data.
    Empty,
    /// All data is below this key.
    Before(Vec<u8>),
    /// A range tombstone without an end.
    Unbounded,
}

/// One part of a node's key range.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: ChildId,
    /// Newest first.
    pub(crate) runs: Vec<RunRef>,
    /// The node below an inner child; `None` for a leaf.
    pub(crate) below: Option<Arc<Node>>,
    /// Urgency of a job on the child itself. The job is due at 1.0 and above.
    pub(crate) own_due: f64,
    pub(crate) summary: Summary,
}

impl Child {
    pub(crate) fn new(
        id: ChildId,
        runs: Vec<RunRef>,
        below: Option<Arc<Node>>,
        options: &TreeOptions,
    ) -> Arc<Self> {
        let summary_below = below.as_deref().map(|node| &node.summary);
        let own_due = summary::own_due(&runs, summary_below, options);
        let summary = Summary::of_child(&runs, summary_below, own_due, options);
        Arc::new(Self {
            id,
            runs,
            below,
            own_due,
            summary,
        })
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.below.is_none()
    }

    /// Whether the child has twice as many upper runs as make it due. Due flushes from the level
    /// above then wait. Memtables, and jobs that are not due, still add runs.
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
            let last = below.children.iter().rev().find(|child| !child.is_empty());
            if let Some(last) = last {
                end = end.max(last.end_of_data());
            }
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
    /// The node's block, once written. Set by checkpoints, one at a time.
    pub(crate) address: Mutex<Option<BlockAddress>>,
}

impl Node {
    pub(crate) fn new(height: u8, pivots: Vec<Key>, children: Vec<Arc<Child>>) -> Arc<Self> {
        assert!(
            !children.is_empty() && pivots.len() + 1 == children.len(),
            "a node has one pivot fewer than children"
        );
        let summary = Summary::of_node(children.iter().map(|child| &child.summary));
        Arc::new(Self {
            height,
            pivots,
            children,
            summary,
            address: Mutex::new(None),
        })
    }

    /// The root of an empty tree: one leaf without runs.
    pub(crate) fn empty(id: ChildId, options: &TreeOptions) -> Arc<Self> {
        let leaf = Child::new(id, Vec::new(), None, options);
        Self::new(1, Vec::new(), vec![leaf])
    }

    /// A node of this height over one leaf without runs, in place of a node that
    /// cannot be read.
    pub(crate) fn empty_subtree(height: u8, options: &TreeOptions) -> Arc<Self> {
        let below = (height > 1).then(|| Self::empty_subtree(height - 1, options));
        let child = Child::new(ChildId::MAX, Vec::new(), below, options);
        Self::new(height.max(1), Vec::new(), vec![child])
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
