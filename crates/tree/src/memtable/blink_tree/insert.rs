//! Insertion into the memtable's B-link tree.
//!
//! Steps of an insertion:
//! 1. The thread tries the leaf in its *hint*, usually that of its last insertion. If this leaf
//!    does not cover the key, the thread searches the leaf from the root. It finds the key's slot
//!    without a lock.
//! 2. The entry is created.
//! 3. The leaf is locked, if it has not changed since step 1. Otherwise the slot is searched again,
//!    in this leaf or in a following one.
//! 4. A full leaf is split. If the key is after the last entry, only the new entry is put into the
//!    new leaf, so that insertions in key order leave full leaves.
//! 5. The leaf is unlocked; the new leaf is reachable from its left neighbour. Then the new leaf is
//!    added to the parent, which may split in turn.
//!
//! A thread never waits for the lock of a node while it holds the lock of another, so the locks of
//! nodes cannot cause a deadlock.

#![allow(unsafe_code)]

use super::{BlinkTree, HINTS, LEVELS, Path, Side};
use crate::memtable::blink_node::{BlinkNode, CAPACITY, LockedNode, NodeFields, ReadVersion, Slot};
use crate::memtable::entry::{Entry, Version};
use crate::memtable::sync::atomic::{AtomicPtr, Ordering};
use crate::memtable::sync::thread_number;
use teak_base::Operation;

impl BlinkTree {
    /// Adds the newest version of a key and returns the operation of the
    /// previous newest version.
    #[inline]
    pub(in crate::memtable) fn insert(
        &self,
        key: &[u8],
        version: Version<'_>,
    ) -> Option<Operation> {
        let hint = self.hint();
        let mut path: Path<'_> = [None; LEVELS];
        let (mut leaf, mut read, mut slot) = match self.place_by_hint(hint, key) {
            Some(place) => place,
            None => {
                let root = self.root().unwrap_or_else(|| self.first_root());
                let leaf = Self::descend(root, key, Side::At, 0, Some(&mut path));
                Self::place_in(leaf, key, 0)
            }
        };
        let mut older = Self::entry_at(leaf, slot);
        let mut entry = Entry::create(&self.arena, key, version, older);
        let locked = loop {
            if let Some(locked) = leaf.lock_at(read) {
                break locked;
            }
            (leaf, read, slot) = Self::place_in(leaf, key, 0);
            let found = Self::entry_at(leaf, slot);
            if found.map(Entry::as_ptr) != older.map(Entry::as_ptr) {
                // Another thread has inserted a version of the key since step 1. The callers' locks
                // prevent this, but even so no version is lost.
                older = found;
                entry = Entry::create(&self.arena, key, version, older);
            }
        };
        if slot.is_equal {
            locked.replace(slot.number, entry);
            locked.unlock_unchanged();
        } else if locked.is_full() {
            self.split_leaf(locked, slot.number, entry, &path, hint);
        } else {
            locked.insert(slot.number, entry, None);
            locked.unlock();
            hint.store(leaf.as_ptr(), Ordering::Release);
        }
        older.map(Entry::operation)
    }

    #[inline]
    fn hint(&self) -> &AtomicPtr<NodeFields> {
        let [first, ..] = &self.hints;
        &self.hints.get(thread_number() % HINTS).unwrap_or(first).0
    }

    /// Step 1, with the hint.
    #[inline]
    fn place_by_hint<'a>(
        &'a self,
        hint: &AtomicPtr<NodeFields>,
        key: &[u8],
    ) -> Option<(BlinkNode<'a>, ReadVersion, Slot)> {
        // SAFETY: a hint is null or a node of this tree, stored with Release.
        let leaf: BlinkNode<'a> = unsafe { BlinkNode::from_ptr(hint.load(Ordering::Acquire)) }?;
        let version = leaf.begin();
        if !leaf.has_inside(key) {
            return None;
        }
        let slot = match leaf.ends_before(key) {
            true => Slot {
                number: leaf.count(),
                is_equal: false,
            },
            false => leaf.search(key, 0),
        };
        leaf.is_unchanged(version).then_some((leaf, version, slot))
    }

    /// Steps 1, 3 and 5: the slot of a key from slot `first` on, in this node or
    /// to the right of it.
    #[inline]
    fn place_in<'a>(
        node: BlinkNode<'a>,
        key: &[u8],
        first: usize,
    ) -> (BlinkNode<'a>, ReadVersion, Slot) {
        loop {
            let (node, version) = Self::move_right(node, key, Side::At);
            let slot = node.search(key, first);
            if node.is_unchanged(version) {
                return (node, version, slot);
            }
        }
    }

    #[cold]
    fn first_root(&self) -> BlinkNode<'_> {
        let _growing = self.growing.lock();
        if let Some(root) = self.root() {
            return root;
        }
        let root = BlinkNode::create(&self.arena, 0, true);
        self.root.store(root.as_ptr(), Ordering::Release);
        root
    }

    /// Step 4, for a leaf.
    #[cold]
    fn split_leaf<'a>(
        &'a self,
        left: LockedNode<'a>,
        slot: usize,
        entry: Entry<'a>,
        path: &Path<'a>,
        hint: &AtomicPtr<NodeFields>,
    ) {
        let middle = if slot == CAPACITY { slot } else { CAPACITY / 2 };
        let low = match left.node.entry(middle.min(CAPACITY - 1)) {
            Some(low) if slot < CAPACITY => low,
            _ => entry,
        };
        let right = left.split(&self.arena, middle, low);
        let target = if slot > middle || slot == CAPACITY {
            right.insert(slot - middle, entry, None);
            right.node
        } else {
            left.insert(slot, entry, None);
            left.node
        };
        hint.store(target.as_ptr(), Ordering::Release);
        let new = right.node;
        right.unlock();
        left.unlock();
        self.add_child(1, new, low, path);
    }

    /// Step 5: adds a new node to the level above.
    fn add_child<'a>(&'a self, level: u32, child: BlinkNode<'a>, low: Entry<'a>, path: &Path<'a>) {
        let known = path.get(level as usize - 1).copied().flatten();
        let Some(start) = known.or_else(|| self.node_above(level, child, low)) else {
            return;
        };
        let key = low.key();
        let mut node = Self::descend(start, key, Side::At, level, None);
        let (parent, slot) = loop {
            let (place, version, slot) = Self::place_in(node, key, 1);
            if let Some(locked) = place.lock_at(version) {
                break (locked, slot.number);
            }
            node = place;
        };
        if !parent.is_full() {
            parent.insert(slot, low, Some(child));
            parent.unlock();
            return;
        }
        let middle = if slot == CAPACITY { slot } else { CAPACITY / 2 };
        let middle_low = match parent.node.entry(middle.min(CAPACITY - 1)) {
            Some(entry) if slot < CAPACITY => entry,
            _ => low,
        };
        let right = parent.split(&self.arena, middle, middle_low);
        if slot > middle || slot == CAPACITY {
            right.insert(slot - middle, low, Some(child));
        } else {
            parent.insert(slot, low, Some(child));
        }
        let new = right.node;
        right.unlock();
        parent.unlock();
        self.add_child(level + 1, new, middle_low, path);
    }

    /// Returns the root, if its level is at least `level`. Otherwise adds a
    /// root above it with both children, and returns `None`.
    fn node_above<'a>(
        &'a self,
        level: u32,
        child: BlinkNode<'a>,
        low: Entry<'a>,
    ) -> Option<BlinkNode<'a>> {
        let _growing = self.growing.lock();
        let old = self.root()?;
        if old.level() >= level {
            return Some(old);
        }
        let root = BlinkNode::create(&self.arena, level, true).lock();
        root.insert_first(old);
        root.insert(1, low, Some(child));
        let node = root.node;
        root.unlock();
        self.root.store(node.as_ptr(), Ordering::Release);
        None
    }
}
