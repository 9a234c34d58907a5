//! Searches for a child to work on. They are guided by the totals in links, and run under the
//! install lock: a search that needs a node which is not in memory stops, the node is read without
//! the lock, and the search is repeated.

use crate::install_state::InstallState;
use crate::node::{Child, ChildId, KeyRange, LoadedNode, MissingNode, Node, NodeLink};
use crate::tree::Tree;
use crate::version::TreeVersion;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use teak_base::StorageResult;

/// The result of a search, or the node that it needs.
pub(super) type Found<T> = Result<Option<T>, MissingNode>;

/// What the attempts of one search share.
#[derive(Default)]
pub(super) struct Search {
    /// Nodes read by earlier attempts, with their ranges. They are not evicted before the end.
    held: Vec<(Arc<Node>, KeyRange)>,
    /// The offsets of nodes that cannot be read. They are left out.
    unreadable: HashSet<u64>,
    /// Whether the search is in key order. Then it continues at the last node that it read.
    is_ordered: bool,
    from: Option<KeyRange>,
}

impl Search {
    /// A search that goes through the tree in key order until it finds something.
    pub(super) fn in_order() -> Self {
        Self {
            is_ordered: true,
            ..Self::default()
        }
    }

    /// The node below a child with this range; `None` for a leaf, if the node cannot be read, or if
    /// an earlier attempt has searched it.
    pub(super) fn below(&self, child: &Child, range: &KeyRange) -> Found<LoadedNode> {
        let Some(link) = &child.below else {
            return Ok(None);
        };
        let is_searched = self
            .from
            .as_ref()
            .is_some_and(|from| range.ends_at_or_before(&from.lower));
        if is_searched {
            return Ok(None);
        }
        match link.require(range) {
            Err(missing) if self.unreadable.contains(&missing.offset()) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(super) fn hold(&mut self, node: &LoadedNode, range: KeyRange) {
        if self.is_ordered {
            self.held.retain(|(_, held)| held.covers(&range));
            self.from = Some(range.clone());
        }
        self.held.push((node.to_arc(), range));
    }
}

impl Tree {
    /// Repeats a search under the install lock until no node is missing.
    ///
    /// # Errors
    /// Errors of reading nodes, if nothing was found elsewhere.
    pub(super) fn search<T>(
        &self,
        mut search: Search,
        mut attempt: impl FnMut(&mut InstallState, &Arc<TreeVersion>, &Search) -> Found<T>,
    ) -> StorageResult<Option<T>> {
        let mut failure = None;
        loop {
            // Retains the blocks of its nodes while one of them is read.
            let version;
            let missing = {
                let mut install = self.install.lock();
                version = self.version.load_full();
                match attempt(&mut install, &version, &search) {
                    Ok(None) => return failure.map_or(Ok(None), Err),
                    Ok(found) => return Ok(found),
                    Err(missing) => missing,
                }
            };
            match self.nodes.load(&missing.link, &missing.range) {
                Ok(node) => search.hold(&node, missing.range),
                Err(error) => {
                    search.unreadable.insert(missing.offset());
                    failure.get_or_insert(error);
                }
            }
            drop(version);
        }
    }
}

/// The priority of a child for a search, and the maximum priority below it.
pub(super) struct Priority<'a> {
    pub(super) own: &'a dyn Fn(&Child) -> u64,
    pub(super) below: &'a dyn Fn(&NodeLink) -> u64,
    /// Children with less are left out.
    pub(super) min: u64,
}

/// Where a search by priority continues.
struct Place {
    priority: u64,
    child: Arc<Child>,
    /// Of places with equal priority, the one with the smaller keys is visited first. So the search
    /// goes down one path, and does not read all nodes of a level.
    range: KeyRange,
    /// Of those that begin at the same key, the one that was added first is visited first.
    order: u64,
    /// Whether the place is the node below the child, and not the child itself.
    is_below: bool,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_priority = self.priority.cmp(&other.priority);
        let by_key = || other.range.lower.cmp(&self.range.lower);
        by_priority
            .then_with(by_key)
            .then(other.order.cmp(&self.order))
    }
}

/// The unclaimed child with the maximum priority that `choose` accepts.
pub(super) fn find_max<T>(
    root: &Node,
    claimed: &HashSet<ChildId>,
    search: &Search,
    priority: &Priority<'_>,
    choose: &mut dyn FnMut(&Arc<Child>, &KeyRange) -> Found<T>,
) -> Found<T> {
    let mut places = BinaryHeap::new();
    let mut order = 0;
    let mut add = |places: &mut BinaryHeap<Place>, node: &Node, range: &KeyRange| {
        for (child, child_range) in node.children_with_ranges(range) {
            let below = child.below.as_deref().map(priority.below);
            let own = Some((priority.own)(child)).filter(|_| !claimed.contains(&child.id));
            for (priority_of, is_below) in [(own, false), (below, true)] {
                if let Some(found) = priority_of
                    && found >= priority.min
                {
                    order += 1;
                    places.push(Place {
                        priority: found,
                        child: Arc::clone(child),
                        range: child_range.clone(),
                        order,
                        is_below,
                    });
                }
            }
        }
    };
    add(&mut places, root, &KeyRange::all());
    while let Some(place) = places.pop() {
        if place.is_below {
            if let Some(node) = search.below(&place.child, &place.range)? {
                add(&mut places, &node, &place.range);
            }
        } else if let Some(found) = choose(&place.child, &place.range)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
