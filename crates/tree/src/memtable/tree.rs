//! The ordered map of a memtable: a B-link tree (Lehman, Yao 1981) of nodes
//! that are read without locks; it only grows. It maps each key to its newest
//! entry, which leads to the older ones.
//!
//! Inserting:
//! 1. The leaf is the one this thread inserted into last (its *hint*), if the
//!    key belongs there; else it is looked for from the root. The key's slot
//!    is found without a lock.
//! 2. The entry is made.
//! 3. The leaf is locked, if it has not changed since step 1; else its slot is
//!    looked for again, there or further right.
//! 4. A full leaf is split. After the last entry, only the new entry goes to
//!    the new leaf, so that in-order insertion leaves full leaves behind.
//! 5. The leaf is unlocked; the new leaf is reachable from its left
//!    neighbour. Then the parent learns of it, which may split it in turn.
//!
//! At most one lock on nodes that others know of is held at a time.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::entry::{Entry, Version};
use super::node::{CAPACITY, Fields, Locked, Node, ReadVersion, Slot};
use parking_lot::Mutex;
use std::cmp::Ordering as KeyOrder;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use teak_base::Operation;
use teak_base::stripes::thread_number;

/// Levels above the leaves; half-full nodes make this many for 30^12 entries.
const LEVELS: usize = 12;
/// Hints per tree; threads share them when there are more.
const HINTS: usize = 8;
/// How many entries ahead of a step the processor is asked for.
const AHEAD: usize = 4;

#[repr(align(64))]
#[derive(Debug)]
struct Hint(AtomicPtr<Fields>);

#[derive(Debug)]
pub(super) struct Tree {
    /// Null before the first insertion.
    root: AtomicPtr<Fields>,
    /// Held to put a new root above the old one.
    growing: Mutex<()>,
    hints: [Hint; HINTS],
    arena: Arena,
}

/// Where an entry was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// The newest version of the key, then.
    pub entry: Entry<'a>,
    leaf: Node<'a>,
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

/// The inner nodes on the way to a leaf, by level.
type Path<'a> = [Option<Node<'a>>; LEVELS];

/// Which of the nodes that a key bounds is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The one that covers the key.
    At,
    /// The one that covers what comes directly before the key.
    Before,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            root: AtomicPtr::new(ptr::null_mut()),
            growing: Mutex::new(()),
            hints: [const { Hint(AtomicPtr::new(ptr::null_mut())) }; HINTS],
            arena: Arena::new(),
        }
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    #[inline]
    fn root(&self) -> Option<Node<'_>> {
        // SAFETY: stored with Release, after the node was complete.
        unsafe { Node::from_ptr(self.root.load(Ordering::Acquire)) }
    }

    // Finding.

    /// The node of `level` on the given side of a key, from `node` down.
    #[inline]
    fn descend<'a>(
        mut node: Node<'a>,
        key: &[u8],
        side: Side,
        level: u32,
        mut path: Option<&mut Path<'a>>,
    ) -> Node<'a> {
        while node.level() > level {
            let version = node.begin();
            if let Some(next) = Self::right_of(node, key, side) {
                if node.is_unchanged(version) {
                    node = next;
                }
                continue;
            }
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

    /// The next node, when the key has moved there.
    #[inline]
    fn right_of<'a>(node: Node<'a>, key: &[u8], side: Side) -> Option<Node<'a>> {
        match node.high_order(key) {
            KeyOrder::Greater => None,
            KeyOrder::Equal if side == Side::Before => None,
            _ => node.next(),
        }
    }

    /// The first key at or after (else: after) `key`, from a leaf at or before
    /// its place.
    #[inline]
    fn bound_from<'a>(mut leaf: Node<'a>, key: &[u8], or_equal: bool) -> Option<Position<'a>> {
        loop {
            let version = leaf.begin();
            if let Some(next) = Self::right_of(leaf, key, Side::At) {
                if leaf.is_unchanged(version) {
                    leaf = next;
                }
                continue;
            }
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

    /// Asks the processor for the entries that follow a position.
    #[inline]
    pub(super) fn prefetch_following(position: &Position<'_>) {
        let slot = position.slot;
        (slot + 1..=slot + AHEAD).for_each(|slot| position.leaf.prefetch_entry(slot));
    }

    /// The first key of a leaf that is not the first: its low key.
    fn first_of(leaf: Node<'_>) -> Option<Position<'_>> {
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
    fn at(leaf: Node<'_>, version: ReadVersion, slot: usize) -> Option<Position<'_>> {
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
        let mut leaf = Self::descend(self.root()?, key, Side::At, 0, None);
        loop {
            let version = leaf.begin();
            let next = Self::right_of(leaf, key, Side::At);
            if next.is_none() {
                let slot = leaf.search(key, 0);
                let entry = match slot.is_equal {
                    true => leaf.entry(slot.number),
                    false => None,
                };
                if leaf.is_unchanged(version) {
                    return entry;
                }
            } else if leaf.is_unchanged(version) {
                leaf = next?;
            }
        }
    }

    /// The last key before `key`.
    pub(super) fn last_before(&self, key: &[u8]) -> Option<Position<'_>> {
        let mut leaf = Self::descend(self.root()?, key, Side::Before, 0, None);
        loop {
            let version = leaf.begin();
            if let Some(next) = Self::right_of(leaf, key, Side::Before) {
                if leaf.is_unchanged(version) {
                    leaf = next;
                }
                continue;
            }
            // A leaf but the first begins with its low key, which is before
            // `key`, so only the first can have nothing before it.
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
        // The leaf has ended or changed.
        Self::bound_from(leaf, position.entry.key(), false)
    }

    /// The key before a position: its slot neighbour, if the leaf is
    /// unchanged and there is one; else to be found by
    /// [`Tree::last_before`].
    #[inline]
    pub(super) fn previous_near<'a>(position: &Position<'a>) -> Option<Position<'a>> {
        const BEHIND: usize = 4;
        let slot = position.slot.checked_sub(1)?;
        let found = Self::at(position.leaf, position.version, slot)?;
        if let Some(behind) = slot.checked_sub(BEHIND) {
            position.leaf.prefetch_entry(behind);
        }
        Some(found)
    }

    // Inserting.

    /// Adds the newest version of a key and returns the operation of the one
    /// that was newest before.
    #[inline]
    pub(super) fn insert(&self, key: &[u8], version: Version<'_>) -> Option<Operation> {
        let hint = self.hint();
        let mut path: Path<'_> = [None; LEVELS];
        let (mut leaf, mut read, mut slot) = match self.place_by_hint(hint, key) {
            Some(place) => place,
            None => {
                let root = self.root().unwrap_or_else(|| self.first_root());
                let leaf = Self::descend(root, key, Side::At, 0, Some(&mut path));
                Self::place_in(leaf, key)
            }
        };
        let mut older = Self::older_at(leaf, slot);
        let mut entry = Entry::create(&self.arena, key, version, older);
        let locked = loop {
            if let Some(locked) = leaf.lock_at(read) {
                break locked;
            }
            (leaf, read, slot) = Self::place_in(leaf, key);
            let found = Self::older_at(leaf, slot);
            if found.map(Entry::as_ptr) != older.map(Entry::as_ptr) {
                // Another version came in between, which the callers' locks
                // forbid; still, none is lost.
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
    fn older_at(leaf: Node<'_>, slot: Slot) -> Option<Entry<'_>> {
        if slot.is_equal {
            leaf.entry(slot.number)
        } else {
            None
        }
    }

    #[inline]
    fn hint(&self) -> &AtomicPtr<Fields> {
        let [first, ..] = &self.hints;
        &self.hints.get(thread_number() % HINTS).unwrap_or(first).0
    }

    /// Step 1, by the hint.
    #[inline]
    fn place_by_hint<'a>(
        &'a self,
        hint: &AtomicPtr<Fields>,
        key: &[u8],
    ) -> Option<(Node<'a>, ReadVersion, Slot)> {
        // SAFETY: hints are nodes of this tree, stored with Release.
        let leaf: Node<'a> = unsafe { Node::from_ptr(hint.load(Ordering::Acquire)) }?;
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

    /// Steps 1 and 3: the place of a key at or right of a leaf.
    #[inline]
    fn place_in<'a>(mut leaf: Node<'a>, key: &[u8]) -> (Node<'a>, ReadVersion, Slot) {
        loop {
            let version = leaf.begin();
            if let Some(next) = Self::right_of(leaf, key, Side::At) {
                if leaf.is_unchanged(version) {
                    leaf = next;
                }
                continue;
            }
            let slot = leaf.search(key, 0);
            if leaf.is_unchanged(version) {
                return (leaf, version, slot);
            }
        }
    }

    #[cold]
    fn first_root(&self) -> Node<'_> {
        let _growing = self.growing.lock();
        if let Some(root) = self.root() {
            return root;
        }
        let root = Node::create(&self.arena, 0, true);
        self.root.store(root.as_ptr(), Ordering::Release);
        root
    }

    /// Step 4, for a leaf.
    #[cold]
    fn split_leaf<'a>(
        &'a self,
        left: Locked<'a>,
        slot: usize,
        entry: Entry<'a>,
        path: &Path<'a>,
        hint: &AtomicPtr<Fields>,
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

    /// Step 5: tells the level above of a new node.
    fn add_child<'a>(&'a self, level: u32, child: Node<'a>, low: Entry<'a>, path: &Path<'a>) {
        let known = path.get(level as usize - 1).copied().flatten();
        let Some(start) = known.or_else(|| self.node_above(level, child, low)) else {
            return;
        };
        let key = low.key();
        let mut node = Self::descend(start, key, Side::At, level, None);
        let (parent, slot) = loop {
            let (place, version, slot) = Self::place_above(node, key);
            if let Some(locked) = place.lock_at(version) {
                break (locked, slot);
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

    /// The place of a low key in an inner node at or right of `node`.
    fn place_above<'a>(mut node: Node<'a>, key: &[u8]) -> (Node<'a>, ReadVersion, usize) {
        loop {
            let version = node.begin();
            if let Some(next) = Self::right_of(node, key, Side::At) {
                if node.is_unchanged(version) {
                    node = next;
                }
                continue;
            }
            let slot = node.search(key, 1).number;
            if node.is_unchanged(version) {
                return (node, version, slot);
            }
        }
    }

    /// The root, when it is of `level` or above; else puts a root above it
    /// that knows the child, and returns `None`.
    fn node_above<'a>(&'a self, level: u32, child: Node<'a>, low: Entry<'a>) -> Option<Node<'a>> {
        let _growing = self.growing.lock();
        let old = self.root()?;
        if old.level() >= level {
            return Some(old);
        }
        let root = Node::create(&self.arena, level, true).lock();
        root.insert_first(old);
        root.insert(1, low, Some(child));
        let node = root.node;
        root.unlock();
        self.root.store(node.as_ptr(), Ordering::Release);
        None
    }

    // Estimating.

    /// Estimates the keys from `lower` up to, and without, `upper`; `total`
    /// is the number of keys, about.
    pub(super) fn estimate(&self, lower: Option<&[u8]>, upper: Option<&[u8]>, total: u64) -> u64 {
        let Some(root) = self.root() else { return 0 };
        let start = match lower {
            Some(lower) => self.lower_bound(lower),
            None => self.first(),
        };
        let Some(start) = start else { return 0 };
        if let Some(near) = Self::count_near(&start, upper) {
            return near;
        }
        let from = lower.map_or(0.0, |key| Self::rank(root, key));
        let to = upper.map_or(1.0, |key| Self::rank(root, key));
        // Ranks are within 0 and 1, and a memtable holds at most u32::MAX.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let estimate = ((to - from).max(0.0) * total as f64) as u64;
        estimate
    }

    /// Counts the keys from a position up to `upper`, unless there are many.
    fn count_near(start: &Position<'_>, upper: Option<&[u8]>) -> Option<u64> {
        const LEAVES_MAX: usize = 8;
        let mut leaf = start.leaf;
        let mut first = start.slot;
        let mut count = 0;
        for _ in 0..LEAVES_MAX {
            let end = match upper {
                Some(upper) if leaf.high_order(upper) == KeyOrder::Greater => {
                    let end = leaf.search(upper, 0).number;
                    return Some(count + end.saturating_sub(first) as u64);
                }
                _ => leaf.count(),
            };
            count += end.saturating_sub(first) as u64;
            first = 0;
            let Some(next) = leaf.next() else {
                return Some(count);
            };
            leaf = next;
        }
        None
    }

    /// Where a key stands between the first (0) and the last (1), as if the
    /// children of each node held equally many keys.
    fn rank(root: Node<'_>, key: &[u8]) -> f64 {
        let mut rank = 0.0;
        let mut share = 1.0;
        let mut node = root;
        loop {
            let from = usize::from(node.level() > 0);
            let slot = node.search(key, from);
            // At most CAPACITY.
            #[allow(clippy::cast_precision_loss)]
            let count = node.count().max(1) as f64;
            if node.level() == 0 {
                #[allow(clippy::cast_precision_loss)]
                let number = slot.number as f64;
                return rank + share * number / count;
            }
            let number = slot.number - usize::from(!slot.is_equal);
            #[allow(clippy::cast_precision_loss)]
            let before = number as f64;
            rank += share * before / count;
            share /= count;
            match node.child(number.min(CAPACITY - 1)) {
                Some(child) => node = child,
                None => return rank,
            }
        }
    }
}
