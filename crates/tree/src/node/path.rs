//! The path from the root to one leaf: the runs that may contain a key, newest
//! first.

use super::{KeyRange, Node, RunRef};

/// All runs that a reader of one leaf's range needs.
#[derive(Debug)]
pub(crate) struct LeafPath {
    /// Newest first. All of them overlap the range.
    pub(crate) runs: Vec<RunRef>,
    /// The leaf's range.
    pub(crate) range: KeyRange,
}

impl LeafPath {
    /// Builds the path to the leaf whose range contains `key`.
    pub(crate) fn to_key(root: &Node, key: &[u8]) -> Self {
        Self::descend(root, |node| node.child_position(key))
    }

    /// Builds the path to the last leaf whose range has keys below `key`, or to
    /// the first leaf if there is none.
    pub(crate) fn before(root: &Node, key: &[u8]) -> Self {
        Self::descend(root, |node| node.child_position_before(key))
    }

    /// The path to the last leaf.
    pub(crate) fn to_last(root: &Node) -> Self {
        Self::descend(root, |node| node.pivots.len())
    }

    fn descend(root: &Node, choose: impl Fn(&Node) -> usize) -> Self {
        let mut runs = Vec::new();
        let mut range = KeyRange::all();
        let mut node = root;
        loop {
            let position = choose(node);
            range = node.child_range(position, &range);
            let Some(child) = node.children.get(position) else {
                return Self { runs, range };
            };
            for run in &child.runs {
                runs.push(run.clone());
            }
            match &child.below {
                Some(below) => node = below,
                None => break,
            }
        }
        runs.retain(|run| run.range().overlaps(&range));
        Self { runs, range }
    }
}
