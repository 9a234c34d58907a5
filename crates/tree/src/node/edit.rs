//! Edits of a tree of immutable nodes: each change builds a new path and shares
//! the other nodes. Splits and removals happen on the way back up.
//!
//! All of this runs under the install lock and does no I/O.
//!
//! Rules on the way up:
//! 1. A child whose node has too many children is split into parts of about the fanout; its runs
//!    are clipped to the parts. A claimed child is not split, because its job must find it; a later
//!    change splits it.
//! 2. A child without runs on or below it is dropped when it has siblings; a
//!    neighbour takes over its range.
//! 3. A root with too many children gets a new root above it. A root with a
//!    single child that has no runs is replaced by the node below.

use super::{Child, ChildId, HEIGHT_MAX, Key, KeyRange, Node, RunHandle, RunRef};
use crate::TreeOptions;
use std::collections::HashSet;
use std::sync::Arc;

/// The replacement of a child: children with their first keys, the first of
/// which is the child's own. Empty: the child is dropped.
pub(crate) type Replacement = Vec<(Key, Arc<Child>)>;

/// Identifies the level of a change on the path of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Depth {
    /// At a child of the root.
    Root,
    /// At this child.
    Child(ChildId),
    /// At a child of this child's node.
    Below(ChildId),
    /// At the leaf.
    Leaf,
}

/// Builds the root of the next version.
pub(crate) struct Editor<'a> {
    root: Arc<Node>,
    options: &'a TreeOptions,
    /// Children that other jobs have claimed.
    claimed: &'a HashSet<ChildId>,
    /// The child of the job that is being installed, until it is released.
    own: Option<ChildId>,
    next_child_id: &'a mut u64,
    /// Runs that lost their last reference during the edit.
    unreferenced: Vec<Arc<RunHandle>>,
}

impl<'a> Editor<'a> {
    pub(crate) fn new(
        root: Arc<Node>,
        options: &'a TreeOptions,
        claimed: &'a HashSet<ChildId>,
        own: ChildId,
        next_child_id: &'a mut u64,
    ) -> Self {
        Self {
            root,
            options,
            claimed,
            own: Some(own),
            next_child_id,
            unreferenced: Vec::new(),
        }
    }

    /// The changed root, and the runs that it no longer refers to.
    pub(crate) fn finish(mut self) -> (Arc<Node>, Vec<Arc<RunHandle>>) {
        self.balance_root();
        let mut freed: Vec<Arc<RunHandle>> = Vec::new();
        for handle in self.unreferenced {
            if handle.references() == 0 && !freed.iter().any(|known| Arc::ptr_eq(known, &handle)) {
                freed.push(handle);
            }
        }
        (self.root, freed)
    }

    pub(crate) fn is_claimed(&self, id: ChildId) -> bool {
        self.own == Some(id) || self.claimed.contains(&id)
    }

    /// Allows the job's own child to be split and dropped by later edits.
    pub(crate) fn release_own(&mut self) {
        self.own = None;
    }

    pub(crate) fn options(&self) -> &'a TreeOptions {
        self.options
    }

    pub(crate) fn take_child_id(&mut self) -> ChildId {
        let id = ChildId(*self.next_child_id);
        *self.next_child_id += 1;
        id
    }

    /// Creates a child with a new number.
    pub(crate) fn new_child(&mut self, runs: Vec<RunRef>, below: Option<Arc<Node>>) -> Arc<Child> {
        let id = self.take_child_id();
        Child::new(id, runs, below, self.options)
    }

    /// Adds a run before the runs of all children at `depth` that it overlaps, clipped to each
    /// child's range. `then` is called for each of these children, and may split it.
    pub(crate) fn add_run(
        &mut self,
        run: &RunRef,
        depth: Depth,
        then: &dyn Fn(&mut Self, Arc<Child>, &KeyRange) -> Replacement,
    ) {
        let mut key: Key = run.lower().into();
        loop {
            let mut reached = None;
            self.change(&key, depth, &mut |editor, child, range| {
                reached.clone_from(&range.upper);
                let mut runs = Vec::with_capacity(child.runs.len() + 1);
                runs.extend(run.clipped(range));
                runs.extend(child.runs.iter().cloned());
                let child = Child::new(child.id, runs, child.below.clone(), editor.options);
                then(editor, child, range)
            });
            match reached {
                Some(upper) if run.upper().is_none_or(|end| *upper < *end) => key = upper,
                _ => return,
            }
        }
    }

    /// Replaces the child at `depth` on the path of `key`.
    ///
    /// # Panics
    /// When there is none. This is a bug: the caller's claim prevents the removal of the child.
    pub(crate) fn change(
        &mut self,
        key: &[u8],
        depth: Depth,
        make: &mut dyn FnMut(&mut Self, &Arc<Child>, &KeyRange) -> Replacement,
    ) {
        let root = Arc::clone(&self.root);
        let range = KeyRange::all();
        let at_root = matches!(depth, Depth::Root);
        let changed = self.change_below(&root, &range, key, depth, at_root, make);
        self.root = match changed {
            Some(root) => root,
            None => {
                let leaf = self.new_child(Vec::new(), None);
                Node::new(1, Vec::new(), vec![leaf])
            }
        };
    }

    /// The changed node; `None` when no child is left.
    fn change_below(
        &mut self,
        node: &Arc<Node>,
        range: &KeyRange,
        key: &[u8],
        depth: Depth,
        here: bool,
        make: &mut dyn FnMut(&mut Self, &Arc<Child>, &KeyRange) -> Replacement,
    ) -> Option<Arc<Node>> {
        let position = node.child_position(key);
        let child_range = node.child_range(position, range);
        let child = node.children.get(position)?;
        let here = here
            || match depth {
                Depth::Child(id) => child.id == id,
                Depth::Leaf => child.is_leaf(),
                Depth::Root | Depth::Below(_) => false,
            };
        if here {
            let made = make(self, child, &child_range);
            self.count_references(child, &made);
            let mut replacement = Vec::with_capacity(made.len());
            for (lower, new) in made {
                replacement.extend(self.split_when_due(lower, new, &child_range));
            }
            return self.splice(node, position, replacement);
        }
        let below = child.below.as_ref();
        assert!(below.is_some(), "a claimed child remains in the tree");
        let next_here = matches!(depth, Depth::Below(id) if child.id == id);
        let below = self.change_below(below?, &child_range, key, depth, next_here, make);
        let replacement = self.rebuilt(child, &child_range, below);
        self.splice(node, position, replacement)
    }

    /// The replacement of a child whose node below has changed.
    fn rebuilt(
        &mut self,
        child: &Arc<Child>,
        range: &KeyRange,
        below: Option<Arc<Node>>,
    ) -> Replacement {
        let below = match below {
            Some(below) => below,
            None if child.runs.is_empty() && !self.is_claimed(child.id) => return Vec::new(),
            None => self.empty_node(child.below.as_ref().map_or(1, |node| node.height)),
        };
        let rebuilt = Child::new(child.id, child.runs.clone(), Some(below), self.options);
        self.split_when_due(range.lower.clone(), rebuilt, range)
    }

    /// The child, or its parts if its node has too many children. `range` contains the child's
    /// range.
    fn split_when_due(&mut self, lower: Key, child: Arc<Child>, range: &KeyRange) -> Replacement {
        match &child.below {
            Some(below)
                if below.children.len() > self.options.children_max()
                    && !self.is_claimed(child.id) =>
            {
                let parts = self.split(&child, range, below);
                self.count_references(&child, &parts);
                parts
            }
            _ => vec![(lower, child)],
        }
    }

    /// A chain of nodes down to one empty leaf.
    fn empty_node(&mut self, height: u8) -> Arc<Node> {
        let leaf = self.new_child(Vec::new(), None);
        let mut node = Node::new(1, Vec::new(), vec![leaf]);
        for height in 2..=height {
            let child = self.new_child(Vec::new(), Some(node));
            node = Node::new(height, Vec::new(), vec![child]);
        }
        node
    }

    /// Divides the children of `below` into parts of about the fanout, and the
    /// child's runs with them.
    fn split(&mut self, child: &Arc<Child>, range: &KeyRange, below: &Arc<Node>) -> Replacement {
        let mut parts = Vec::new();
        for (lower, node) in divide(below, self.options.fanout as usize) {
            parts.push((lower.unwrap_or_else(|| range.lower.clone()), node));
        }
        let uppers: Vec<Option<Key>> = parts
            .iter()
            .skip(1)
            .map(|(lower, _)| Some(lower.clone()))
            .chain([range.upper.clone()])
            .collect();
        let mut replacement = Vec::new();
        for ((lower, node), upper) in parts.into_iter().zip(uppers) {
            let part = KeyRange {
                lower: lower.clone(),
                upper,
            };
            let runs = child.runs.iter().filter_map(|run| run.clipped(&part));
            let runs = runs.collect();
            let id = if replacement.is_empty() {
                child.id
            } else {
                self.take_child_id()
            };
            replacement.push((lower, Child::new(id, runs, Some(node), self.options)));
        }
        replacement
    }

    /// Counts the references of new children, then removes the references of the old one.
    fn count_references(&mut self, old: &Child, new: &Replacement) {
        for (_, child) in new {
            for run in &child.runs {
                run.handle.add_reference();
            }
        }
        for run in &old.runs {
            if run.handle.remove_reference() {
                self.unreferenced.push(Arc::clone(&run.handle));
            }
        }
    }

    /// A node with one child replaced, and empty children dropped.
    fn splice(
        &mut self,
        node: &Arc<Node>,
        position: usize,
        replacement: Replacement,
    ) -> Option<Arc<Node>> {
        let mut pivots = node.pivots.clone();
        let mut children = node.children.clone();
        let mut lowers: Vec<Key> = Vec::new();
        let mut new: Vec<Arc<Child>> = Vec::new();
        for (lower, child) in replacement {
            // Neighbours take over the range of an empty child.
            if child.is_empty() && children.len() + new.len() > 1 && !self.is_claimed(child.id) {
                continue;
            }
            lowers.push(lower);
            new.push(child);
        }
        if new.is_empty() {
            children.remove(position);
            if !pivots.is_empty() {
                // The left neighbour takes over the range; without one, the right neighbour.
                pivots.remove(position.saturating_sub(1));
            }
            return (!children.is_empty()).then(|| Node::new(node.height, pivots, children));
        }
        // The first new child keeps the pivot of the replaced one.
        let added = lowers.into_iter().skip(1);
        pivots.splice(position..position, added);
        children.splice(position..=position, new);
        Some(Node::new(node.height, pivots, children))
    }

    fn balance_root(&mut self) {
        while self.root.children.len() > self.options.children_max()
            && self.root.height < HEIGHT_MAX
        {
            let mut pivots = Vec::new();
            let mut children = Vec::new();
            for (lower, node) in divide(&self.root, self.options.fanout as usize) {
                pivots.extend(lower);
                children.push(self.new_child(Vec::new(), Some(node)));
            }
            self.root = Node::new(self.root.height + 1, pivots, children);
        }
        while let [only] = self.root.children.as_slice()
            && only.runs.is_empty()
            && !self.is_claimed(only.id)
            && let Some(below) = &only.below
        {
            self.root = Arc::clone(below);
        }
    }
}

/// Splits a node into nodes of about `fanout` children. Returns each with the pivot before it; the
/// first has none.
fn divide(node: &Node, fanout: usize) -> Vec<(Option<Key>, Arc<Node>)> {
    let parts = (node.children.len() / fanout.max(2)).max(2);
    let mut divided = Vec::new();
    let mut children = node.children.as_slice();
    // The pivot before each child but the first.
    let mut pivots = node.pivots.as_slice();
    let mut before = None;
    for left in (1..=parts).rev() {
        let take = children.len().div_ceil(left);
        let Some((front, rest)) = children.split_at_checked(take) else {
            break;
        };
        if front.is_empty() {
            break;
        }
        let within = pivots.get(..take - 1).unwrap_or_default();
        let part = Node::new(node.height, within.to_vec(), front.to_vec());
        divided.push((before, part));
        before = pivots.get(take - 1).cloned();
        pivots = pivots.get(take..).unwrap_or_default();
        children = rest;
    }
    divided
}
