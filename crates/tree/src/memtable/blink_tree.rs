//! The ordered map of a memtable: a B-link tree (Lehman, Yao 1981) whose nodes are read without
//! locks. It has no deletions. It maps each key to its newest entry, which links to the older ones.

#![allow(unsafe_code)]

mod estimate;
mod insert;

use super::arena::Arena;
use super::blink_node::{BlinkNode, CAPACITY, NodeFields, ReadVersion, Slot};
use super::entry::Entry;
use super::sync::Mutex;
use super::sync::atomic::{AtomicPtr, Ordering};
use crate::memory::Charge;
use std::cmp::Ordering as KeyOrder;
use std::ptr;

/// Maximum levels above the leaves that a [`Path`] records: enough for 24^12 leaves, if half of the
/// slots are in use.
const LEVELS: usize = 12;
/// Hints per tree. More threads than this share hints.
const HINTS: usize = 8;
/// Number of entries to prefetch ahead of a step.
const AHEAD: usize = 4;

#[repr(align(64))]
#[derive(Debug)]
struct Hint(AtomicPtr<NodeFields>);

#[derive(Debug)]
pub(super) struct BlinkTree {
    /// Null before the first insertion.
    root: AtomicPtr<NodeFields>,
    /// Held while a root is created.
    growing: Mutex<()>,
    hints: [Hint; HINTS],
    arena: Arena,
}

/// The position of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// The newest version of the key at the time of the search.
    pub entry: Entry<'a>,
    leaf: BlinkNode<'a>,
    version: ReadVersion,
    slot: usize,
}

impl Position<'_> {
    /// The position without the lifetime of its memtable.
    ///
    /// # Safety
    /// As for [`Entry::detach`].
    #[inline]
    pub(super) unsafe fn detach(self) -> Position<'static> {
        Position {
            // SAFETY: per this function's contract.
            entry: unsafe { self.entry.detach() },
            // SAFETY: per this function's contract.
            leaf: unsafe { self.leaf.detach() },
            version: self.version,
            slot: self.slot,
        }
    }
}

/// The inner nodes on the path to a leaf, by level.
type Path<'a> = [Option<BlinkNode<'a>>; LEVELS];

/// Selects the node if a key is the boundary between two nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The node that covers the key.
    At,
    /// The node that covers the keys directly before the key.
    Before,
}

impl BlinkTree {
    pub(super) fn new(charge: Charge) -> Self {
        Self {
            root: AtomicPtr::new(ptr::null_mut()),
            growing: Mutex::new(()),
            hints: [const { Hint(AtomicPtr::new(ptr::null_mut())) }; HINTS],
            arena: Arena::new(charge),
        }
    }

    pub(super) fn charge(&self) -> &Charge {
        self.arena.charge()
    }

    /// Memory allocated, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    #[inline]
    fn root(&self) -> Option<BlinkNode<'_>> {
        // SAFETY: stored with Release, after the node was complete.
        unsafe { BlinkNode::from_ptr(self.root.load(Ordering::Acquire)) }
    }

    /// Descends from `node` to the node of `level` on the given side of a key. If that node is
    /// split at the same time, the key may be in a node to the right of the returned one.
    #[inline]
    fn descend<'a>(
        mut node: BlinkNode<'a>,
        key: &[u8],
        side: Side,
        level: u32,
        mut path: Option<&mut Path<'a>>,
    ) -> BlinkNode<'a> {
        while node.level() > level {
            let version;
            (node, version) = Self::move_right(node, key, side);
            let slot = node.search(key, 1);
            let passes = slot.is_equal && side == Side::At;
            let number = slot.number - usize::from(!passes);
            let child = node.child(number.min(CAPACITY - 1));
            if let Some(child) = child
                && node.is_unchanged(version)
            {
                child.prefetch();
                if let Some(path) = &mut path
                    && let Some(place) = path.get_mut(node.level() as usize - 1)
                {
                    *place = Some(node);
                }
                node = child;
            }
        }
        node
    }

    /// The node that covers the key, at or to the right of `node`, and its version. Data that is
    /// read from the node afterwards is valid if [`BlinkNode::is_unchanged`] is true for that
    /// version.
    #[inline]
    fn move_right<'a>(
        mut node: BlinkNode<'a>,
        key: &[u8],
        side: Side,
    ) -> (BlinkNode<'a>, ReadVersion) {
        loop {
            let version = node.begin();
            match Self::right_of(node, key, side) {
                None => return (node, version),
                Some(next) if node.is_unchanged(version) => node = next,
                Some(_) => {}
            }
        }
    }

    /// The next node, if the key is not in the range of this node, because a split has moved it.
    #[inline]
    fn right_of<'a>(node: BlinkNode<'a>, key: &[u8], side: Side) -> Option<BlinkNode<'a>> {
        match node.high_order(key) {
            KeyOrder::Greater => None,
            KeyOrder::Equal if side == Side::Before => None,
            _ => node.next(),
        }
    }

    /// The first key at or after `key` (after it, unless `or_equal`), starting
    /// at a leaf at or before its position.
    #[inline]
    fn bound_from<'a>(leaf: BlinkNode<'a>, key: &[u8], or_equal: bool) -> Option<Position<'a>> {
        loop {
            let (leaf, version) = Self::move_right(leaf, key, Side::At);
            let slot = leaf.search(key, 0);
            let number = slot.number + usize::from(slot.is_equal && !or_equal);
            if number < leaf.count() {
                if let Some(found) = Self::at(leaf, version, number) {
                    return Some(found);
                }
                continue;
            }
            let next = leaf.next();
            if leaf.is_unchanged(version) {
                return Self::first_of(next?);
            }
        }
    }

    /// Prefetches the next entries after a position, as far as they are in the same leaf.
    #[inline]
    pub(super) fn prefetch_following(position: &Position<'_>) {
        let slot = position.slot;
        (slot + 1..=slot + AHEAD).for_each(|slot| position.leaf.prefetch_entry(slot));
    }

    /// The first key of a leaf that is not the first leaf. Such a leaf is never empty.
    fn first_of(leaf: BlinkNode<'_>) -> Option<Position<'_>> {
        leaf.prefetch();
        (1..AHEAD).for_each(|slot| leaf.prefetch_entry(slot));
        loop {
            let version = leaf.begin();
            if let Some(found) = Self::at(leaf, version, 0) {
                return Some(found);
            }
        }
    }

    /// The entry of a slot, if the leaf is unchanged.
    #[inline]
    fn at(leaf: BlinkNode<'_>, version: ReadVersion, slot: usize) -> Option<Position<'_>> {
        let entry = leaf.entry(slot)?;
        leaf.is_unchanged(version).then_some(Position {
            entry,
            leaf,
            version,
            slot,
        })
    }

    /// The first key at or after `key`.
    #[inline]
    pub(super) fn lower_bound(&self, key: &[u8]) -> Option<Position<'_>> {
        let leaf = Self::descend(self.root()?, key, Side::At, 0, None);
        Self::bound_from(leaf, key, true)
    }

    /// The newest entry of a key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        let leaf = Self::descend(self.root()?, key, Side::At, 0, None);
        loop {
            let (leaf, version) = Self::move_right(leaf, key, Side::At);
            let entry = Self::entry_at(leaf, leaf.search(key, 0));
            if leaf.is_unchanged(version) {
                return entry;
            }
        }
    }

    /// The newest entry of the key that was searched, if the leaf has it.
    #[inline]
    fn entry_at(leaf: BlinkNode<'_>, slot: Slot) -> Option<Entry<'_>> {
        if slot.is_equal {
            leaf.entry(slot.number)
        } else {
            None
        }
    }

    /// The last key before `key`.
    pub(super) fn last_before(&self, key: &[u8]) -> Option<Position<'_>> {
        let leaf = Self::descend(self.root()?, key, Side::Before, 0, None);
        loop {
            let (leaf, version) = Self::move_right(leaf, key, Side::Before);
            // Every leaf except the first begins with its low key, which is before `key`. So only
            // the first leaf may have no key before `key`.
            match leaf.search(key, 0).number.checked_sub(1) {
                Some(slot) => {
                    if let Some(found) = Self::at(leaf, version, slot) {
                        return Some(found);
                    }
                }
                None if leaf.is_unchanged(version) => return None,
                None => {}
            }
        }
    }

    /// The first key.
    pub(super) fn first(&self) -> Option<Position<'_>> {
        self.lower_bound(&[])
    }

    /// The last key.
    pub(super) fn last(&self) -> Option<Position<'_>> {
        let mut node = self.root()?;
        loop {
            let version = node.begin();
            if let Some(next) = node.next() {
                if node.is_unchanged(version) {
                    node = next;
                }
                continue;
            }
            let Some(slot) = node.count().checked_sub(1) else {
                // Only the first leaf can be empty, before the first insertion.
                if node.is_unchanged(version) {
                    return None;
                }
                continue;
            };
            if node.level() == 0 {
                if let Some(found) = Self::at(node, version, slot) {
                    return Some(found);
                }
            } else if let Some(child) = node.child(slot)
                && node.is_unchanged(version)
            {
                node = child;
            }
        }
    }

    /// The key after a position.
    #[inline]
    pub(super) fn next<'a>(position: &Position<'a>) -> Option<Position<'a>> {
        let leaf = position.leaf;
        let slot = position.slot + 1;
        if slot < leaf.count()
            && let Some(found) = Self::at(leaf, position.version, slot)
        {
            leaf.prefetch_entry(slot + AHEAD);
            return Some(found);
        }
        // The leaf ends here, or has changed.
        Self::bound_from(leaf, position.entry.key(), false)
    }

    /// The key before a position, if it is in the same leaf and the leaf is
    /// unchanged. Otherwise use [`BlinkTree::last_before`].
    #[inline]
    pub(super) fn previous_near<'a>(position: &Position<'a>) -> Option<Position<'a>> {
        let slot = position.slot.checked_sub(1)?;
        let found = Self::at(position.leaf, position.version, slot)?;
        if let Some(ahead) = slot.checked_sub(AHEAD) {
            position.leaf.prefetch_entry(ahead);
        }
        Some(found)
    }
}
