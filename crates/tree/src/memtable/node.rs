//! A node of the memtable's tree: a sorted array of entries, read without
//! locks by version (a sequence lock: Lameter 2005; memory orders after Boehm,
//! "Can Seqlocks Get Along With Programming Language Memory Models?", 2012).
//!
//! Leaves hold entries; inner nodes hold children, each with the least entry
//! that was below it when it was made, its *low* key. The low key of slot 0 is
//! never compared: whoever is here belongs at or after it. A node covers the
//! keys from its low key up to, and without, its *high* key (none: no bound),
//! and `next` covers what comes after (Lehman, Yao 1981). Keys only ever move
//! to the right, and nodes are never removed, so a reader that finds that its
//! key has moved follows `next`, from any old place.
//!
//! Reading: take the version while nobody writes, read, and check that the
//! version is the same; else read again. All fields are atomic, so reading
//! beside a writer is defined; what was read may be a mixture, but a pointer is
//! always null or a complete thing, and the check discards mixtures.
//!
//! Comparing: all keys that belong to a node, and its high key, begin with the
//! same `skip` bytes; the next eight of each stand in `prefixes`, so most
//! comparisons touch no entry. Keys count as padded with zeros there; among
//! keys that are equal so far the shorter one comes first.

// Slots below `count <= CAPACITY` index arrays of CAPACITY elements; a count
// read beside a writer is cut to CAPACITY first.
#![allow(unsafe_code, clippy::indexing_slicing)]

use super::arena::{Arena, LINE_BYTES};
use super::entry::{Entry, Header, prefetch};
use crate::key_search::{common_bytes, order_after_prefix, prefix_at};
use std::cmp::Ordering as KeyOrder;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Slots of a node. Few in unit tests, so that small trees are deep.
pub(super) const CAPACITY: usize = if cfg!(test) { 6 } else { 48 };

const COMMON_WORDS: usize = 2;
const COMMON_BYTES: usize = COMMON_WORDS * 8;

/// Versions are even; a locked node's is odd.
const LOCKED: u64 = 1;
/// Rounds of waiting before the thread gives up its turn.
const SPINS: u32 = 64;

#[repr(C, align(64))]
pub(super) struct Fields {
    version: AtomicU64,
    count: AtomicU32,
    skip: AtomicU32,
    high_prefix: AtomicU64,
    /// The high key; null: no bound.
    high: AtomicPtr<Header>,
    next: AtomicPtr<Fields>,
    /// The common first `skip` bytes, as far as they fit, then zeros.
    common: [AtomicU64; COMMON_WORDS],
    /// 0 for leaves.
    level: u32,
    /// Whether no node of the level stands before this one.
    leftmost: bool,
    prefixes: [AtomicU64; CAPACITY],
    /// A leaf's entries; an inner node's low keys.
    entries: [AtomicPtr<Header>; CAPACITY],
}

const _: () = assert!(align_of::<Fields>() == LINE_BYTES);
const _: () = assert!(std::mem::offset_of!(Fields, prefixes) == LINE_BYTES);

/// Inner nodes have these after the fields.
type Children = [AtomicPtr<Fields>; CAPACITY];

/// A node in an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    fields: NonNull<Fields>,
    arena: PhantomData<&'a Fields>,
}

// SAFETY: a node is atomics, and words that never change.
unsafe impl Send for Node<'_> {}
// SAFETY: as above.
unsafe impl Sync for Node<'_> {}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({:p})", self.fields)
    }
}

/// Proof that a version was taken; what was read since holds if
/// [`Node::is_unchanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadVersion(u64);

/// The right to change a node, until [`Locked::unlock`] or
/// [`Locked::unlock_unchanged`].
pub(super) struct Locked<'a> {
    pub node: Node<'a>,
    version: u64,
}

/// Whether an entry with the looked-for key stands at the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub number: usize,
    pub is_equal: bool,
}

impl<'a> Node<'a> {
    /// Makes an empty node that nobody else knows of.
    pub(super) fn create(arena: &'a Arena, level: u32, leftmost: bool) -> Self {
        let bytes = size_of::<Fields>() + if level > 0 { size_of::<Children>() } else { 0 };
        let fields = arena.allocate_lines(bytes).cast::<Fields>();
        // SAFETY: the arena gave us memory for fields and children, aligned
        // for both, that nobody else knows of.
        unsafe {
            fields.write(Fields {
                version: AtomicU64::new(0),
                count: AtomicU32::new(0),
                skip: AtomicU32::new(0),
                high_prefix: AtomicU64::new(0),
                high: AtomicPtr::new(ptr::null_mut()),
                next: AtomicPtr::new(ptr::null_mut()),
                common: [const { AtomicU64::new(0) }; COMMON_WORDS],
                level,
                leftmost,
                prefixes: [const { AtomicU64::new(0) }; CAPACITY],
                entries: [const { AtomicPtr::new(ptr::null_mut()) }; CAPACITY],
            });
            if level > 0 {
                let children = [const { AtomicPtr::new(ptr::null_mut()) }; CAPACITY];
                fields.add(1).cast::<Children>().write(children);
            }
        }
        Self {
            fields,
            arena: PhantomData,
        }
    }

    /// # Safety
    /// The pointer came from [`Node::as_ptr`] of a node in an arena that lives
    /// for `'a`, and was loaded with Acquire where a store with Release had
    /// put it.
    #[inline]
    pub(super) unsafe fn from_ptr(pointer: *mut Fields) -> Option<Self> {
        NonNull::new(pointer).map(|fields| Self {
            fields,
            arena: PhantomData,
        })
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut Fields {
        self.fields.as_ptr()
    }

    /// The node without the lifetime of its memtable.
    ///
    /// # Safety
    /// As for [`Entry::detach`].
    #[inline]
    pub(super) unsafe fn detach(self) -> Node<'static> {
        Node {
            fields: self.fields,
            arena: PhantomData,
        }
    }

    #[inline]
    fn fields(self) -> &'a Fields {
        // SAFETY: nodes live for 'a; their fields are atomic or constant.
        unsafe { self.fields.as_ref() }
    }

    /// The children of an inner node.
    #[inline]
    fn children(self) -> &'a Children {
        assert!(self.level() > 0);
        // SAFETY: inner nodes are made with children after the fields.
        unsafe { self.fields.add(1).cast::<Children>().as_ref() }
    }

    #[inline]
    pub(super) fn level(self) -> u32 {
        self.fields().level
    }

    /// Asks the processor to have the parts that a search reads at hand.
    #[inline]
    pub(super) fn prefetch(self) {
        let start = self.fields.as_ptr().cast::<u8>();
        let end = size_of::<Fields>();
        for offset in (0..end).step_by(LINE_BYTES) {
            prefetch(start.wrapping_add(offset));
        }
    }

    // Reading.

    /// Starts reading, when nobody writes.
    #[inline]
    pub(super) fn begin(self) -> ReadVersion {
        let mut spins = 0;
        loop {
            // Acquire: what the last writer wrote is seen.
            let version = self.fields().version.load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return ReadVersion(version);
            }
            wait(&mut spins);
        }
    }

    /// Whether everything read since `begin` belongs together.
    #[inline]
    pub(super) fn is_unchanged(self, version: ReadVersion) -> bool {
        // If anything read was written after `begin`, this fence pairs with
        // the writer's Release fence, and the load sees the writer's lock.
        fence(Ordering::Acquire);
        self.fields().version.load(Ordering::Relaxed) == version.0
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        (self.fields().count.load(Ordering::Relaxed) as usize).min(CAPACITY)
    }

    #[inline]
    fn skip(self) -> usize {
        self.fields().skip.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(super) fn next(self) -> Option<Node<'a>> {
        // SAFETY: published with Release, after the node was complete.
        unsafe { Node::from_ptr(self.fields().next.load(Ordering::Acquire)) }
    }

    /// The entry or low key of a slot.
    #[inline]
    pub(super) fn entry(self, slot: usize) -> Option<Entry<'a>> {
        // SAFETY: stored with Release by one that had made or acquired it.
        unsafe { Entry::from_ptr(self.fields().entries[slot].load(Ordering::Acquire)) }
    }

    /// Asks the processor to have the entry of a slot at hand.
    #[inline]
    pub(super) fn prefetch_entry(self, slot: usize) {
        if let Some(entry) = self.fields().entries.get(slot) {
            Entry::prefetch(entry.load(Ordering::Relaxed));
        }
    }

    #[inline]
    pub(super) fn child(self, slot: usize) -> Option<Node<'a>> {
        // SAFETY: stored with Release, after the node was complete.
        unsafe { Node::from_ptr(self.children()[slot].load(Ordering::Acquire)) }
    }

    #[inline]
    fn high(self) -> Option<Entry<'a>> {
        // SAFETY: as in `entry`.
        unsafe { Entry::from_ptr(self.fields().high.load(Ordering::Acquire)) }
    }

    /// The order of the high key and `key`; `Greater` without a bound.
    #[inline]
    pub(super) fn high_order(self, key: &[u8]) -> KeyOrder {
        let Some(high) = self.high() else {
            return KeyOrder::Greater;
        };
        let skip = self.skip();
        self.common_order(key, skip, high)
            .then_with(|| {
                let prefix = self.fields().high_prefix.load(Ordering::Relaxed);
                prefix.cmp(&prefix_at(key, skip))
            })
            .then_with(|| order_after_prefix(high.key(), key, skip))
    }

    /// The order of the node's common bytes and those of any key.
    #[inline]
    fn common_order(self, key: &[u8], skip: usize, high: Entry<'_>) -> KeyOrder {
        if skip == 0 {
            return KeyOrder::Equal;
        }
        let common = &self.fields().common;
        for (number, word) in common.iter().enumerate() {
            let other = prefix_at(key, number * 8) & common_mask(skip, number);
            match word.load(Ordering::Relaxed).cmp(&other) {
                KeyOrder::Equal => {}
                order => return order,
            }
        }
        if skip <= COMMON_BYTES {
            return KeyOrder::Equal;
        }
        // A key that ends here is padded with zeros: equal if the common bytes
        // are zeros, but then the comparison that follows sees its length.
        let padding = std::iter::repeat(&0u8);
        let own = high.key().iter().take(skip).skip(COMMON_BYTES);
        own.cmp(key.iter().chain(padding).take(skip).skip(COMMON_BYTES))
    }

    /// Whether a key is covered by the node and not before its first entry.
    #[inline]
    pub(super) fn has_inside(self, key: &[u8]) -> bool {
        if self.high_order(key) != KeyOrder::Greater {
            return false;
        }
        let skip = self.skip();
        let (Some(first), true) = (self.entry(0), self.count() > 0) else {
            return false;
        };
        // Without a high key nothing is skipped.
        let common = match self.high() {
            Some(high) => self.common_order(key, skip, high),
            None => KeyOrder::Equal,
        };
        common
            .then_with(|| {
                let prefix = self.fields().prefixes[0].load(Ordering::Relaxed);
                prefix.cmp(&prefix_at(key, skip))
            })
            .then_with(|| order_after_prefix(first.key(), key, skip))
            .is_le()
    }

    /// Whether the last key is less than `key`, which belongs to the node.
    #[inline]
    pub(super) fn ends_before(self, key: &[u8]) -> bool {
        let Some(slot) = self.count().checked_sub(1) else {
            return true;
        };
        let skip = self.skip();
        let prefix = self.fields().prefixes[slot].load(Ordering::Relaxed);
        match prefix.cmp(&prefix_at(key, skip)) {
            KeyOrder::Equal => self
                .entry(slot)
                .is_some_and(|last| order_after_prefix(last.key(), key, skip) == KeyOrder::Less),
            order => order == KeyOrder::Less,
        }
    }

    /// The first slot from `from` on whose key is at or after `key`, which
    /// belongs to this node; `count` when there is none.
    #[inline]
    pub(super) fn search(self, key: &[u8], from: usize) -> Slot {
        let fields = self.fields();
        let skip = self.skip();
        let prefix = prefix_at(key, skip);
        let count = self.count();
        let prefix_of = |slot: usize| fields.prefixes[slot].load(Ordering::Relaxed);
        let mut low = from;
        let mut length = count.saturating_sub(from);
        // Without branches that cannot be foreseen.
        while length > 1 {
            let half = length / 2;
            if prefix_of(low + half - 1) < prefix {
                low += half;
            }
            length -= half;
        }
        if length == 1 && prefix_of(low) < prefix {
            low += 1;
        }
        if low >= count || prefix_of(low) != prefix {
            return Slot {
                number: low,
                is_equal: false,
            };
        }
        self.search_ties(key, prefix, skip, low, count)
    }

    /// Goes on with [`Node::search`] among slots with the key's prefix, of
    /// which `low` is the first.
    #[inline]
    fn search_ties(
        self,
        key: &[u8],
        prefix: u64,
        skip: usize,
        mut low: usize,
        mut high: usize,
    ) -> Slot {
        let order_of = |slot: usize| match self.entry(slot) {
            Some(entry) => order_after_prefix(entry.key(), key, skip),
            // A mixture, to be discarded.
            None => KeyOrder::Greater,
        };
        match order_of(low) {
            KeyOrder::Less => low += 1,
            order => {
                return Slot {
                    number: low,
                    is_equal: order == KeyOrder::Equal,
                };
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let order = self.fields().prefixes[middle]
                .load(Ordering::Relaxed)
                .cmp(&prefix)
                .then_with(|| order_of(middle));
            match order {
                KeyOrder::Less => low = middle + 1,
                KeyOrder::Greater => high = middle,
                KeyOrder::Equal => {
                    return Slot {
                        number: middle,
                        is_equal: true,
                    };
                }
            }
        }
        Slot {
            number: low,
            is_equal: false,
        }
    }

    // Writing.

    /// Locks the node if it has not changed since `begin`.
    #[inline]
    pub(super) fn lock_at(self, version: ReadVersion) -> Option<Locked<'a>> {
        // Acquire: we read and rewrite what the last writer wrote.
        let locked = self.fields().version.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Release, before all writes: whoever reads one of them finds the
        // node locked, or changed.
        fence(Ordering::Release);
        locked.is_ok().then_some(Locked {
            node: self,
            version: version.0,
        })
    }

    /// Locks the node.
    pub(super) fn lock(self) -> Locked<'a> {
        loop {
            if let Some(locked) = self.lock_at(self.begin()) {
                return locked;
            }
        }
    }
}

/// The bits of the common bytes' word that `skip` bytes fill.
#[inline]
fn common_mask(skip: usize, word: usize) -> u64 {
    match skip.saturating_sub(word * 8) {
        bytes @ 1..8 => u64::MAX << (64 - 8 * bytes),
        0 => 0,
        _ => u64::MAX,
    }
}

/// Waits a little for somebody else.
#[inline]
fn wait(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS && !cfg!(miri) {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

impl<'a> Locked<'a> {
    /// Lets others read and write again.
    #[inline]
    pub(super) fn unlock(self) {
        // Release: who reads this version sees all that was written.
        self.node
            .fields()
            .version
            .store(self.version + 2, Ordering::Release);
    }

    /// [`Locked::unlock`] when nothing was written but the pointer of a slot:
    /// readers may have the one or the other.
    #[inline]
    pub(super) fn unlock_unchanged(self) {
        self.node
            .fields()
            .version
            .store(self.version, Ordering::Release);
    }

    /// Replaces the entry of a slot by one of the same key.
    #[inline]
    pub(super) fn replace(&self, slot: usize, entry: Entry<'a>) {
        self.node.fields().entries[slot].store(entry.as_ptr(), Ordering::Release);
    }

    /// Whether there is no free slot.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.node.count() == CAPACITY
    }

    /// Puts an entry, or a child and its low key, before `slot`. The node is
    /// not full.
    #[inline]
    pub(super) fn insert(&self, slot: usize, entry: Entry<'a>, child: Option<Node<'a>>) {
        let fields = self.node.fields();
        let count = self.node.count();
        assert!(slot <= count && count < CAPACITY);
        for number in (slot..count).rev() {
            let prefix = fields.prefixes[number].load(Ordering::Relaxed);
            fields.prefixes[number + 1].store(prefix, Ordering::Relaxed);
        }
        for number in (slot..count).rev() {
            let moved = fields.entries[number].load(Ordering::Relaxed);
            // Release: readers may come by this store alone.
            fields.entries[number + 1].store(moved, Ordering::Release);
        }
        if let Some(child) = child {
            let children = self.node.children();
            for number in (slot..count).rev() {
                let moved = children[number].load(Ordering::Relaxed);
                children[number + 1].store(moved, Ordering::Release);
            }
            children[slot].store(child.as_ptr(), Ordering::Release);
        }
        let prefix = prefix_at(entry.key(), self.node.skip());
        fields.prefixes[slot].store(prefix, Ordering::Relaxed);
        fields.entries[slot].store(entry.as_ptr(), Ordering::Release);
        self.set_count(count + 1);
    }

    /// Adds a first child, without a low key.
    pub(super) fn insert_first(&self, child: Node<'a>) {
        assert!(self.node.count() == 0);
        self.node.children()[0].store(child.as_ptr(), Ordering::Release);
        self.set_count(1);
    }

    fn set_count(&self, count: usize) {
        // At most CAPACITY.
        let count = u32::try_from(count).unwrap_or(0);
        self.node.fields().count.store(count, Ordering::Relaxed);
    }

    /// Moves the slots from `slot` on to a new node after this one, which is
    /// returned locked. `low` is the key that the new node begins with.
    pub(super) fn split(&self, arena: &'a Arena, slot: usize, low: Entry<'a>) -> Locked<'a> {
        let left = self.node.fields();
        let right = Node::create(arena, left.level, false).lock();
        let count = self.node.count();
        right.set_skip(self.node.skip(), low);
        let fields = right.node.fields();
        for (to, from) in (slot..count).enumerate() {
            let prefix = left.prefixes[from].load(Ordering::Relaxed);
            fields.prefixes[to].store(prefix, Ordering::Relaxed);
            let moved = left.entries[from].load(Ordering::Relaxed);
            fields.entries[to].store(moved, Ordering::Release);
            if left.level > 0 {
                let moved = self.node.children()[from].load(Ordering::Relaxed);
                right.node.children()[to].store(moved, Ordering::Release);
            }
        }
        right.set_count(count - slot);
        right.set_high(self.node.high());
        let next = left.next.load(Ordering::Relaxed);
        fields.next.store(next, Ordering::Release);
        right.shorten_prefixes(Some(low));

        self.set_count(slot);
        self.set_high(Some(low));
        let own_low = (!left.leftmost).then(|| self.node.entry(0)).flatten();
        self.shorten_prefixes(own_low);
        // Last: readers come to the new node by this link.
        left.next.store(right.node.as_ptr(), Ordering::Release);
        right
    }

    /// Sets the number of common bytes; `any` is a key that has them.
    fn set_skip(&self, skip: usize, any: Entry<'a>) {
        let fields = self.node.fields();
        for (number, word) in fields.common.iter().enumerate() {
            let common = prefix_at(any.key(), number * 8) & common_mask(skip, number);
            word.store(common, Ordering::Relaxed);
        }
        // Keys are far shorter than 4 GiB.
        let skip = u32::try_from(skip).unwrap_or(0);
        fields.skip.store(skip, Ordering::Relaxed);
    }

    fn set_high(&self, high: Option<Entry<'a>>) {
        let fields = self.node.fields();
        let prefix = high.map_or(0, |high| prefix_at(high.key(), self.node.skip()));
        let pointer = high.map_or(ptr::null_mut(), Entry::as_ptr);
        fields.high_prefix.store(prefix, Ordering::Relaxed);
        fields.high.store(pointer, Ordering::Release);
    }

    /// Skips what all keys between the bounds have in common, when that is
    /// worth visiting all entries.
    fn shorten_prefixes(&self, low: Option<Entry<'a>>) {
        const GAIN_BYTES_MIN: usize = 4;
        let (Some(low), Some(high)) = (low, self.node.high()) else {
            return;
        };
        let skip = common_bytes(low.key(), high.key());
        if skip < self.node.skip() + GAIN_BYTES_MIN {
            return;
        }
        self.set_skip(skip, low);
        self.set_high(Some(high));
        let fields = self.node.fields();
        for slot in 0..self.node.count() {
            if let Some(entry) = self.node.entry(slot) {
                fields.prefixes[slot].store(prefix_at(entry.key(), skip), Ordering::Relaxed);
            }
        }
    }
}
