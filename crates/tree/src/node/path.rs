//! The path from the root to one leaf: the runs that may contain a key, newest
//! first.

use super::{KeyRange, LoadedNode, Node, NodeLink, NodeReader, RunRef};
use std::sync::Arc;
use teak_base::StorageResult;

/// All runs that a reader of one leaf's range needs.
#[derive(Debug)]
pub(crate) struct LeafPath {
    /// Newest first. All of them overlap the range.
    pub(crate) runs: Vec<RunRef>,
    /// The leaf's range.
    pub(crate) range: KeyRange,
}

/// Reads the node of a link. The range is that of the child.
type Load<'a> = &'a mut dyn FnMut(&Arc<NodeLink>, &KeyRange) -> StorageResult<Option<LoadedNode>>;

fn every(
    nodes: &NodeReader,
) -> impl FnMut(&Arc<NodeLink>, &KeyRange) -> StorageResult<Option<LoadedNode>> {
    |link, range| nodes.load(link, range).map(Some)
}

impl LeafPath {
    /// Builds the path to the leaf whose range contains `key`.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub(crate) fn to_key(root: &Node, key: &[u8], nodes: &NodeReader) -> StorageResult<Self> {
        Self::descend(root, &mut every(nodes), |node| node.child_position(key))
    }

    /// The same, with a function that reads nodes. If it returns `None`, the part of the tree below
    /// is left out, and the range is that of the part.
    ///
    /// # Errors
    /// Those of `load`.
    pub(crate) fn to_key_with(root: &Node, key: &[u8], load: Load<'_>) -> StorageResult<Self> {
        Self::descend(root, load, |node| node.child_position(key))
    }

    /// Builds the path to the last leaf whose range has keys below `key`, or to
    /// the first leaf if there is none.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub(crate) fn before(root: &Node, key: &[u8], nodes: &NodeReader) -> StorageResult<Self> {
        Self::descend(root, &mut every(nodes), |node| {
            node.child_position_before(key)
        })
    }

    /// The path to the last leaf.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub(crate) fn to_last(root: &Node, nodes: &NodeReader) -> StorageResult<Self> {
        Self::descend(root, &mut every(nodes), |node| node.pivots.len())
    }

    fn descend(
        root: &Node,
        load: Load<'_>,
        choose: impl Fn(&Node) -> usize,
    ) -> StorageResult<Self> {
        let mut runs = Vec::new();
        let mut range = KeyRange::all();
        let mut node = root;
        let mut loaded: LoadedNode;
        loop {
            let position = choose(node);
            range = node.child_range(position, &range);
            let Some(child) = node.children.get(position) else {
                break;
            };
            for run in &child.runs {
                runs.push(run.clone());
            }
            match &child.below {
                // A part of the tree without runs is read like one leaf.
                Some(link) if link.summary().runs > 0 => {
                    let Some(below) = load(link, &range)? else {
                        break;
                    };
                    loaded = below;
                    node = &loaded;
                }
                _ => break,
            }
        }
        runs.retain(|run| run.range().overlaps(&range));
        Ok(Self { runs, range })
    }
}
