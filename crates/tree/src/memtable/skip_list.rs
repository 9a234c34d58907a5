//! The ordered list of a memtable: a lock-free skip list (Pugh 1990; without
//! removal, so a compare-and-swap per level is all it takes).
//!
//! Inserting:
//! 1. The predecessors of the key are looked for near this thread's last
//!    insertion (its *hint*); when they are not there, from the top.
//! 2. The node is linked at level 0, then upwards. A lost race looks on from
//!    the same predecessor, which stays valid as nothing is ever removed.
//! 3. The hint becomes the new node.
//!
//! Equal keys: a node goes before all nodes of its key, on every level, so
//! versions stand newest first. Callers do not insert one key from two threads
//! at a time.

// Levels index arrays of LEVELS elements and never reach that length: heights
// are at most LEVELS, and descents start below `height`.
#![allow(unsafe_code, clippy::indexing_slicing)]

use super::arena::Arena;
use super::node::{HeadBox, LEVELS, Link, Node, SearchKey};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use teak_base::{Operation, WriteId};

/// Hints per list; threads share them when there are more.
const HINTS: usize = 8;
/// Nodes to pass from a hint before giving up: when the last insertion found
/// its place by its hint (in-order insertion, perhaps with others) and when not.
const HINT_STEPS: usize = 8;
const HINT_STEPS_MISSED: usize = 1;

/// The places of a thread's last insertion: per level a node, null at first.
/// Any node of the level will do, for its key is compared before it is used.
#[repr(align(128))]
#[derive(Debug)]
struct Hint {
    nodes: [Link; LEVELS],
    steps: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct SkipList {
    hints: [Hint; HINTS],
    /// Levels in use, at least 1. May lag behind, which costs time only.
    height: AtomicUsize,
    head: HeadBox,
    arena: Arena,
}

/// Per level the last node before a key, and the node after that.
struct Place<'a> {
    before: [Node<'a>; LEVELS],
    after: [*mut super::node::Header; LEVELS],
}

/// The predecessors of a backward cursor's key, so that the next step starts
/// there instead of at the top.
#[derive(Debug)]
pub(super) struct Finger<'a> {
    before: [Option<Node<'a>>; LEVELS],
}

impl Finger<'_> {
    pub(super) const NONE: Self = Self {
        before: [None; LEVELS],
    };
}

thread_local! {
    static HINT: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % HINTS
    };
}

/// One in four nodes reaches each next level; drawn from the sequence number,
/// so that a run can be repeated.
#[inline]
fn height_of(sequence: u32) -> usize {
    // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
    let mut bits = u64::from(sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (1 + bits.trailing_zeros() as usize / 2).min(LEVELS)
}

impl SkipList {
    pub(super) fn new() -> Self {
        Self {
            hints: [const {
                Hint {
                    nodes: [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS],
                    steps: AtomicUsize::new(HINT_STEPS_MISSED),
                }
            }; HINTS],
            height: AtomicUsize::new(1),
            head: HeadBox::new(),
            arena: Arena::new(),
        }
    }

    /// Memory taken by nodes, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    /// Adds the newest version of a key.
    #[inline]
    pub(super) fn insert(
        &self,
        sequence: u32,
        write_id: WriteId,
        operation: Operation,
        key: &[u8],
        value: &[u8],
    ) {
        let key = SearchKey::new(key);
        let height = height_of(sequence);
        let node = Node::create(
            &self.arena,
            height,
            sequence,
            write_id,
            operation,
            key,
            value,
        );
        let hint = &self.hints[HINT.with(|hint| *hint)];
        let mut place = Place {
            before: [self.head.node(); LEVELS],
            after: [ptr::null_mut(); LEVELS],
        };
        let by_hint = self.place_by_hint(hint, key, height, &mut place);
        if !by_hint {
            self.place_from_top(key, height, &mut place);
        }
        for level in 0..height {
            self.link(node, key, level, &mut place);
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        // Release: whoever takes the hint sees the node, linked up to its
        // height.
        for level in 0..height {
            hint.nodes[level].store(node.as_ptr(), Ordering::Release);
        }
        if by_hint {
            hint.steps.store(HINT_STEPS, Ordering::Relaxed);
            return;
        }
        hint.steps.store(HINT_STEPS_MISSED, Ordering::Relaxed);
        for level in height..LEVELS {
            hint.nodes[level].store(place.before[level].as_ptr(), Ordering::Release);
        }
    }

    /// Step 2: links `node` on one level, between `before` and `after`.
    #[inline]
    fn link<'a>(&'a self, node: Node<'a>, key: SearchKey<'_>, level: usize, place: &mut Place<'a>) {
        loop {
            let (before, after) = (place.before[level], place.after[level]);
            if level == 0
                // SAFETY: a link's content is null or a published node.
                && let Some(older) = unsafe { node_at::<'a>(after) }
                && older.has_key(key)
            {
                // Before the node can be seen, so that whoever knows of the
                // insertion finds the mark.
                older.set_shadowed();
            }
            // SAFETY: `node` is higher than `level`, and `before` was reached
            // by a link of this level or is the head.
            let (own, link) = unsafe { (node.link(level), before.link(level)) };
            // Relaxed: published by the exchange below.
            own.store(after, Ordering::Relaxed);
            // Release publishes the node; Acquire on failure, as the loop goes
            // on to read the node that is there instead.
            let linked =
                link.compare_exchange(after, node.as_ptr(), Ordering::Release, Ordering::Acquire);
            if linked.is_ok() {
                return;
            }
            let found = walk(before, key, level, usize::MAX);
            if let Some((before, after)) = found {
                place.before[level] = before;
                place.after[level] = after;
            }
        }
    }

    /// Step 1, near the hint: whether the place was found on all levels below
    /// `height`.
    #[inline]
    fn place_by_hint<'a>(
        &'a self,
        hint: &Hint,
        key: SearchKey<'_>,
        height: usize,
        place: &mut Place<'a>,
    ) -> bool {
        let steps = hint.steps.load(Ordering::Relaxed);
        for level in 0..height {
            let near = hint.nodes[level].load(Ordering::Acquire);
            // SAFETY: a hint is null or a node of this list that was linked on
            // this level (or the head) before it was stored with Release.
            let Some(near) = (unsafe { node_at::<'a>(near) }) else {
                return false;
            };
            if near != self.head.node() && !near.is_less(key) {
                return false;
            }
            let Some((before, after)) = walk(near, key, level, steps) else {
                return false;
            };
            place.before[level] = before;
            place.after[level] = after;
        }
        true
    }

    /// Step 1, from the top.
    #[inline]
    fn place_from_top<'a>(&'a self, key: SearchKey<'_>, height: usize, place: &mut Place<'a>) {
        let mut before = self.head.node();
        let mut bound = ptr::null_mut();
        for level in (0..self.height.load(Ordering::Relaxed).max(height)).rev() {
            let after = descend(&mut before, key, level, bound);
            place.before[level] = before;
            place.after[level] = after;
            bound = after;
        }
    }

    /// The first node.
    #[inline]
    pub(super) fn first(&self) -> Option<Node<'_>> {
        self.head.node().next()
    }

    /// The first node with a key of at least `key`.
    #[inline]
    pub(super) fn lower_bound(&self, key: SearchKey<'_>) -> Option<Node<'_>> {
        let mut before = self.head.node();
        let mut bound = ptr::null_mut();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            bound = descend(&mut before, key, level, bound);
        }
        // SAFETY: `descend` returns what a link holds.
        unsafe { node_at(bound) }
    }

    /// The last node with a key less than `key`: the oldest version of its key.
    #[inline]
    pub(super) fn last_before(&self, key: SearchKey<'_>) -> Option<Node<'_>> {
        let mut finger = Finger::NONE;
        // SAFETY: an empty finger holds no nodes.
        unsafe { self.last_before_near(key, &mut finger) }
    }

    /// [`SkipList::last_before`], from where `finger` was left by the last
    /// call, whose key should be a little greater.
    ///
    /// # Safety
    /// The finger was used with this list only.
    #[inline]
    pub(super) unsafe fn last_before_near<'f>(
        &self,
        key: SearchKey<'_>,
        finger: &mut Finger<'f>,
    ) -> Option<Node<'f>> {
        // SAFETY: the caller says that 'f serves this list's nodes.
        let head =
            unsafe { Node::<'f>::from_header(NonNull::new_unchecked(self.head.node().as_ptr())) };
        let height = self.height.load(Ordering::Relaxed);
        let mut level = 0;
        let mut before = loop {
            match finger.before[level] {
                Some(near) if near == head || near.is_less(key) => break near,
                Some(_) if level + 1 < LEVELS => level += 1,
                _ => {
                    level = height - 1;
                    break head;
                }
            }
        };
        let mut bound = ptr::null_mut();
        for level in (0..=level).rev() {
            bound = descend(&mut before, key, level, bound);
            finger.before[level] = Some(before);
        }
        (before != head).then_some(before)
    }

    /// The last node: the oldest version of the last key.
    pub(super) fn last(&self) -> Option<Node<'_>> {
        let head = self.head.node();
        let mut before = head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `before` was reached on this or a higher level.
            while let Some(next) = unsafe { before.next_at(level) } {
                before = next;
            }
        }
        (before != head).then_some(before)
    }

    /// Estimates the nodes from `lower` up to, and without, `upper`, by
    /// counting on the highest level that has enough of them.
    pub(super) fn estimate(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> u64 {
        const ENOUGH: u64 = 16;
        let lower = lower.map(SearchKey::new);
        let upper = upper.map(SearchKey::new);
        let mut before = self.head.node();
        let mut count = 0;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            if let Some(lower) = lower {
                descend(&mut before, lower, level, ptr::null_mut());
            }
            count = 0;
            let mut node = before;
            // SAFETY: `before` was reached on this or a higher level, `node`
            // on this.
            while let Some(next) = unsafe { node.next_at(level) }
                && upper.is_none_or(|upper| next.is_less(upper))
            {
                count += 1;
                node = next;
            }
            if count >= ENOUGH {
                return count << (2 * level);
            }
        }
        count
    }
}

/// # Safety
/// `header` is null or what a link or hint of a list that lives for `'a` held,
/// loaded with Acquire.
#[inline]
unsafe fn node_at<'a>(header: *mut super::node::Header) -> Option<Node<'a>> {
    // SAFETY: links and hints hold complete nodes.
    NonNull::new(header).map(|header| unsafe { Node::from_header(header) })
}

/// Moves `before` to the last node of the level that is less than `key`, and
/// returns the link after it. `bound` is known not to be less.
#[inline]
fn descend<'a>(
    before: &mut Node<'a>,
    key: SearchKey<'_>,
    level: usize,
    bound: *mut super::node::Header,
) -> *mut super::node::Header {
    loop {
        // SAFETY: callers start at a node of this or a higher level; the loop
        // goes on along this one. Acquire as in `Node::next_at`.
        let next = unsafe { before.link(level) }.load(Ordering::Acquire);
        if next == bound {
            return next;
        }
        // SAFETY: `next` is what a link held.
        match unsafe { node_at::<'a>(next) } {
            Some(node) if node.is_less(key) => *before = node,
            _ => return next,
        }
    }
}

/// [`descend`] without a bound, giving up after `steps` nodes.
#[inline]
fn walk<'a>(
    mut before: Node<'a>,
    key: SearchKey<'_>,
    level: usize,
    steps: usize,
) -> Option<(Node<'a>, *mut super::node::Header)> {
    for _ in 0..steps {
        // SAFETY: as in `descend`.
        let next = unsafe { before.link(level) }.load(Ordering::Acquire);
        // SAFETY: `next` is what a link held.
        match unsafe { node_at::<'a>(next) } {
            Some(node) if node.is_less(key) => before = node,
            _ => return Some((before, next)),
        }
    }
    None
}
