//! Edits of a tree of immutable nodes: each change builds a new path and shares
//! the other nodes. Splits and removals happen on the way back up.
//!
//! All of this runs under the install lock and does no I/O. If a node on the path is not in memory,
//! the edit stops without an effect; the caller reads the node and repeats the edit.
//!
//! Rules on the way up:
//! 1. A child whose node has too many children is split into parts of about the fanout; its runs
//!    are clipped to the parts. A claimed child is not split, because its job must find it; a later
//!    change splits it.
//! 2. A child without runs on or below it is dropped, unless it is claimed or has no siblings; a
//!    neighbour takes over its range.
//! 3. A root with too many children gets a new root above it ([`Editor::limit_root`]). A root with a
//!    single child that has no runs is replaced by the node below.

use super::{
    Child, ChildId, HEIGHT_MAX, Key, KeyRange, MissingNode, Node, NodeBlock, NodeLink, RunHandle,
    RunId, RunRef,
};
use crate::TreeOptions;
use crate::node_memory::NodeMemory;
use crate::shared_runs::SharedRuns;
use std::collections::{HashMap, HashSet};
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

/// Why an edit has stopped. It has had no effect.
#[derive(Debug)]
pub(crate) enum EditStop {
    /// A node must be read first.
    Missing(MissingNode),
    /// The nodes contradict each other: the file is damaged.
    Damaged(&'static str),
}

impl From<MissingNode> for EditStop {
    fn from(missing: MissingNode) -> Self {
        Self::Missing(missing)
    }
}

/// The result of an edit.
pub(crate) struct Edited {
    pub(crate) root: Arc<Node>,
    /// The runs that the root no longer refers to.
    pub(crate) freed: Vec<Arc<RunHandle>>,
    /// The references to the runs that were touched, by the offset of their first index block.
    pub(crate) references: Vec<(u64, u32)>,
    /// The blocks of the nodes that the root no longer refers to.
    pub(crate) dropped: Vec<Arc<NodeBlock>>,
}

/// The references to a run that an edit has added and removed.
struct Touched {
    handle: Arc<RunHandle>,
    before: u32,
    added: u32,
    removed: u32,
}

/// What an edit reads.
pub(crate) struct EditBase<'a> {
    pub(crate) options: &'a TreeOptions,
    /// The references to shared runs before the edit.
    pub(crate) shared: &'a SharedRuns,
    /// Children that other jobs have claimed.
    pub(crate) claimed: &'a HashSet<ChildId>,
}

/// Builds the root of the next version.
pub(crate) struct Editor<'a> {
    root: Arc<Node>,
    base: EditBase<'a>,
    memory: Arc<NodeMemory>,
    /// The child of the job that is being installed.
    own: ChildId,
    /// Whether later edits may split or drop that child.
    is_released: bool,
    /// A child above the job's own that is being replaced. It is not dropped, even without runs.
    retained: Option<ChildId>,
    next_child_id: &'a mut u64,
    /// Children above which the root gets a new root above it.
    root_children_max: usize,
    touched: HashMap<u64, Touched>,
    dropped: Vec<Arc<NodeBlock>>,
}

impl<'a> Editor<'a> {
    pub(crate) fn new(
        root: Arc<Node>,
        base: EditBase<'a>,
        own: ChildId,
        next_child_id: &'a mut u64,
    ) -> Self {
        Self {
            memory: Arc::clone(root.memory()),
            root,
            root_children_max: base.options.children_max(),
            base,
            own,
            is_released: false,
            retained: None,
            next_child_id,
            touched: HashMap::new(),
            dropped: Vec::new(),
        }
    }

    /// Limits the number of the root's children, below the limit of other nodes.
    pub(crate) fn limit_root(&mut self, children: usize) {
        self.root_children_max = self.root_children_max.min(children);
    }

    /// The changed root, and what it no longer refers to.
    pub(crate) fn finish(mut self) -> Result<Edited, EditStop> {
        self.balance_root()?;
        let mut freed = Vec::new();
        let mut references = Vec::new();
        for (offset, run) in self.touched {
            let added = u64::from(run.before) + u64::from(run.added);
            let left = added.checked_sub(u64::from(run.removed));
            let left = left.and_then(|left| u32::try_from(left).ok());
            let Some(left) = left else {
                return Err(EditStop::Damaged("a run's references are miscounted"));
            };
            if left == 0 {
                freed.push(run.handle);
            }
            references.push((offset, left));
        }
        Ok(Edited {
            root: self.root,
            freed,
            references,
            dropped: self.dropped,
        })
    }

    pub(crate) fn is_claimed(&self, id: ChildId) -> bool {
        match id == self.own {
            true => !self.is_released,
            false => self.base.claimed.contains(&id),
        }
    }

    /// Whether this is the job's child, and not released.
    fn is_own(&self, id: ChildId) -> bool {
        id == self.own && !self.is_released
    }

    /// Allows the job's own child to be split and dropped by later edits.
    pub(crate) fn release_own(&mut self) {
        self.is_released = true;
    }

    pub(crate) fn options(&self) -> &'a TreeOptions {
        self.base.options
    }

    pub(crate) fn take_child_id(&mut self) -> ChildId {
        let id = ChildId(*self.next_child_id);
        *self.next_child_id += 1;
        id
    }

    /// Creates a child with a new number. `range` contains its keys.
    pub(crate) fn new_child(
        &mut self,
        runs: Vec<RunRef>,
        below: Option<Arc<NodeLink>>,
        range: &KeyRange,
    ) -> Arc<Child> {
        let id = self.take_child_id();
        Child::new(id, runs, below, range, self.base.options)
    }

    fn empty_child(&mut self, below: Option<Arc<NodeLink>>) -> Arc<Child> {
        self.new_child(Vec::new(), below, &KeyRange::all())
    }

    fn new_node(&self, height: u8, pivots: Vec<Key>, children: Vec<Arc<Child>>) -> Arc<Node> {
        Node::new(height, pivots, children, &self.memory)
    }

    /// Adds a run before the runs of all children at `depth` that it overlaps, clipped to each
    /// child's range. `then` is called for each of these children, and may split it.
    pub(crate) fn add_run(
        &mut self,
        run: &RunRef,
        depth: Depth,
        then: &dyn Fn(&mut Self, Arc<Child>, &KeyRange) -> Replacement,
    ) -> Result<(), EditStop> {
        let mut key: Key = run.lower().into();
        loop {
            let mut reached = None;
            self.change(&key, depth, &mut |editor, child, range| {
                reached.clone_from(&range.upper);
                let mut runs = Vec::with_capacity(child.runs.len() + 1);
                runs.extend(run.clipped(range));
                runs.extend(child.runs.iter().cloned());
                let child =
                    Child::new(child.id, runs, child.below.clone(), range, editor.options());
                then(editor, child, range)
            })?;
            match reached {
                Some(upper) if run.upper().is_none_or(|end| *upper < *end) => key = upper,
                _ => return Ok(()),
            }
        }
    }

    /// Replaces the child at `depth` on the path of `key`.
    pub(crate) fn change(
        &mut self,
        key: &[u8],
        depth: Depth,
        make: &mut dyn FnMut(&mut Self, &Arc<Child>, &KeyRange) -> Replacement,
    ) -> Result<(), EditStop> {
        let root = Arc::clone(&self.root);
        let range = KeyRange::all();
        let at_root = matches!(depth, Depth::Root);
        let changed = self.change_below(&root, &range, key, depth, at_root, make)?;
        self.root = match changed {
            Some(root) => root,
            None => {
                let leaf = self.empty_child(None);
                self.new_node(1, Vec::new(), vec![leaf])
            }
        };
        Ok(())
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
    ) -> Result<Option<Arc<Node>>, EditStop> {
        let position = node.child_position(key);
        let child_range = node.child_range(position, range);
        let Some(child) = node.children.get(position) else {
            return Ok(None);
        };
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
                replacement.extend(self.split_if_large(lower, new, &child_range)?);
            }
            self.retained = None;
            return self.splice(node, position, replacement);
        }
        // A claimed child is not dropped, so a path that does not reach it means damage.
        let Some(link) = &child.below else {
            let reason = "a claimed child is not on the path of its key";
            return Err(EditStop::Damaged(reason));
        };
        let next_here = matches!(depth, Depth::Below(id) if child.id == id);
        let below = link.require(&child_range)?.to_arc();
        let below = self.change_below(&below, &child_range, key, depth, next_here, make)?;
        let replacement = self.rebuilt(child, &child_range, below)?;
        // The children above the job's own remain even if there is no run below them now.
        let is_above_own = matches!(depth, Depth::Child(id) if self.is_own(id));
        self.retained = is_above_own.then_some(child.id);
        self.splice(node, position, replacement)
    }

    /// The replacement of a child whose node below has changed.
    fn rebuilt(
        &mut self,
        child: &Arc<Child>,
        range: &KeyRange,
        below: Option<Arc<Node>>,
    ) -> Result<Replacement, EditStop> {
        let below = match below {
            Some(below) => below,
            None if child.runs.is_empty() && !self.is_claimed(child.id) => return Ok(Vec::new()),
            None => self.empty_node(child.below.as_ref().map_or(1, |link| link.totals().height)),
        };
        let link = NodeLink::to_node(&below);
        let rebuilt = Child::new(
            child.id,
            child.runs.clone(),
            Some(link),
            range,
            self.options(),
        );
        self.split_if_large(range.lower.clone(), rebuilt, range)
    }

    /// The child, or its parts if its node has too many children. `range` contains the child's
    /// range.
    fn split_if_large(
        &mut self,
        lower: Key,
        child: Arc<Child>,
        range: &KeyRange,
    ) -> Result<Replacement, EditStop> {
        match &child.below {
            Some(link)
                if link.totals().children > self.options().children_max() as u64
                    && !self.is_claimed(child.id) =>
            {
                let below = link.require(range)?.to_arc();
                let parts = self.split(&child, range, &below);
                self.count_references(&child, &parts);
                self.dropped.push(Arc::clone(&below.block));
                Ok(parts)
            }
            _ => Ok(vec![(lower, child)]),
        }
    }

    /// A chain of nodes down to one empty leaf.
    fn empty_node(&mut self, height: u8) -> Arc<Node> {
        let leaf = self.empty_child(None);
        let mut node = self.new_node(1, Vec::new(), vec![leaf]);
        for height in 2..=height {
            let child = self.empty_child(Some(NodeLink::to_node(&node)));
            node = self.new_node(height, Vec::new(), vec![child]);
        }
        node
    }

    /// Divides the children of `below` into parts of about the fanout, and the
    /// child's runs with them.
    fn split(&mut self, child: &Arc<Child>, range: &KeyRange, below: &Node) -> Replacement {
        let mut parts = Vec::new();
        for (lower, node) in divide(below, self.options().fanout as usize) {
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
            let link = NodeLink::to_node(&node);
            let part = Child::new(id, runs, Some(link), &part, self.options());
            replacement.push((lower, part));
        }
        replacement
    }

    /// Counts the references of new children, and those of the old one as removed.
    fn count_references(&mut self, old: &Child, new: &Replacement) {
        for run in &old.runs {
            if let Some(touched) = self.touch(run, true) {
                touched.removed += 1;
            }
        }
        for run in new.iter().flat_map(|(_, child)| &child.runs) {
            if let Some(touched) = self.touch(run, false) {
                touched.added += 1;
            }
        }
    }

    /// The count of a run that has blocks. An edit removes a reference before it adds others, so a
    /// run that is added first is new.
    fn touch(&mut self, run: &RunRef, is_removed: bool) -> Option<&mut Touched> {
        let RunId::Block(offset) = run.handle.id() else {
            return None;
        };
        let shared = self.base.shared;
        Some(self.touched.entry(offset).or_insert_with(|| Touched {
            handle: Arc::clone(&run.handle),
            before: shared.references(offset).unwrap_or(u32::from(is_removed)),
            added: 0,
            removed: 0,
        }))
    }

    /// A node with one child replaced, and empty children dropped.
    fn splice(
        &mut self,
        node: &Arc<Node>,
        position: usize,
        replacement: Replacement,
    ) -> Result<Option<Arc<Node>>, EditStop> {
        self.dropped.push(Arc::clone(&node.block));
        let mut pivots = node.pivots.clone();
        let mut children = node.children.clone();
        let mut lowers: Vec<Key> = Vec::new();
        let mut new: Vec<Arc<Child>> = Vec::new();
        for (lower, child) in replacement {
            // Neighbours take over the range of an empty child.
            let is_retained = self.is_claimed(child.id) || self.retained == Some(child.id);
            if child.is_empty() && children.len() + new.len() > 1 && !is_retained {
                if let Some(link) = &child.below {
                    self.drop_below(link)?;
                }
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
            return Ok(match children.is_empty() {
                true => None,
                false => Some(self.new_node(node.height, pivots, children)),
            });
        }
        // The first new child keeps the pivot of the replaced one.
        let added = lowers.into_iter().skip(1);
        pivots.splice(position..position, added);
        children.splice(position..=position, new);
        Ok(Some(self.new_node(node.height, pivots, children)))
    }

    /// Drops the nodes at and below a link, which have no runs.
    fn drop_below(&mut self, link: &Arc<NodeLink>) -> Result<(), EditStop> {
        // The range of the nodes does not matter: they have no runs.
        let node = link.require(&KeyRange::all())?.to_arc();
        self.dropped.push(Arc::clone(&node.block));
        let mut links = node
            .children
            .iter()
            .filter_map(|child| child.below.as_ref());
        links.try_for_each(|link| self.drop_below(link))
    }

    /// Puts a new root above the current one, whose children are divided into parts of about the fanout.
    pub(crate) fn raise_root(&mut self) {
        let mut pivots = Vec::new();
        let mut children = Vec::new();
        self.dropped.push(Arc::clone(&self.root.block));
        for (lower, node) in divide(&self.root, self.options().fanout as usize) {
            pivots.extend(lower);
            children.push(self.empty_child(Some(NodeLink::to_node(&node))));
        }
        self.root = self.new_node(self.root.height + 1, pivots, children);
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    fn balance_root(&mut self) -> Result<(), EditStop> {
        while self.root.children.len() > self.root_children_max && self.root.height < HEIGHT_MAX {
            self.raise_root();
        }
        while let [only] = self.root.children.as_slice()
            && only.runs.is_empty()
            && !self.is_claimed(only.id)
            && let Some(link) = &only.below
        {
            let below = link.require(&KeyRange::all())?.to_arc();
            self.dropped.push(Arc::clone(&self.root.block));
            self.root = below;
        }
        Ok(())
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
        let part = Node::new(node.height, within.to_vec(), front.to_vec(), node.memory());
        divided.push((before, part));
        before = pivots.get(take - 1).cloned();
        pivots = pivots.get(take..).unwrap_or_default();
        children = rest;
    }
    divided
}
