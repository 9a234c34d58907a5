//! A node of the memtable's B-link tree: a sorted array of entries. Readers
//! take no lock; they validate a version (a sequence lock: Lameter 2005; memory
//! orders after Boehm, "Can Seqlocks Get Along With Programming Language Memory
//! Models?", 2012).
//!
//! Leaves hold entries. Inner nodes hold children, each with its *low* key: the first key of the
//! child at its creation. The low key of slot 0 is never compared, because every key in the node is
//! at or after it. A node covers the keys from its low key (inclusive) to its *high* key
//! (exclusive; none: no bound). The node `next` covers the following keys (Lehman, Yao 1981). Keys
//! only move to the right, and nodes are never removed, so a reader whose key has moved to another
//! node finds it by following `next`.
//!
//! To read: load the version while the node is not locked, read, and check that the version is
//! unchanged; otherwise read again. All fields that change are atomic, so a read concurrent with a
//! write is defined. It may return a mixture of old and new fields, which the check discards. A
//! pointer is always null or points to a complete object.
//!
//! To compare: the first `skip` bytes of all keys of the node, and of its high
//! key, are equal. The next eight bytes of each key are in `prefixes`, so most
//! comparisons read no entry. Keys are padded with zeros there; among keys that
//! are equal so far, the shorter one comes first.

// Slots below `count <= CAPACITY` index arrays of CAPACITY elements. A count
// that is read concurrently with a write is limited to CAPACITY first.
#![allow(unsafe_code, clippy::indexing_slicing)]

mod locked;
mod search;

pub(super) use locked::LockedNode;
pub(super) use search::Slot;

use super::arena::{Arena, LINE_BYTES};
use super::entry::{Entry, Header, prefetch};
use super::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use super::sync::{YIELDS_WITHOUT_SPINNING, yield_now};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Slots of a node. Tests use few slots, so that small trees are deep.
pub(super) const CAPACITY: usize = if cfg!(feature = "schedules") {
    4
} else if cfg!(test) {
    6
} else {
    48
};

const COMMON_WORDS: usize = 2;
const COMMON_BYTES: usize = COMMON_WORDS * 8;

/// The lowest bit of the version: the node is locked.
const LOCKED: u64 = 1;
/// Spins before a waiting thread yields.
const SPINS: u32 = 64;

#[repr(C, align(64))]
pub(super) struct NodeFields {
    version: AtomicU64,
    count: AtomicU32,
    skip: AtomicU32,
    high_prefix: AtomicU64,
    /// The high key; null: no bound.
    high: AtomicPtr<Header>,
    next: AtomicPtr<NodeFields>,
    /// The common first `skip` bytes, as far as they fit, then zeros.
    common: [AtomicU64; COMMON_WORDS],
    /// 0 for leaves.
    level: u32,
    /// Whether this is the first node of its level.
    leftmost: bool,
    prefixes: [AtomicU64; CAPACITY],
    /// A leaf's entries; an inner node's low keys.
    entries: [AtomicPtr<Header>; CAPACITY],
}

const _: () = assert!(align_of::<NodeFields>() == LINE_BYTES);
#[cfg(not(feature = "schedules"))]
const _: () = assert!(std::mem::offset_of!(NodeFields, prefixes) == LINE_BYTES);

/// The children of an inner node, stored after the fields.
type Children = [AtomicPtr<NodeFields>; CAPACITY];

/// A node in an arena that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct BlinkNode<'a> {
    fields: NonNull<NodeFields>,
    arena: PhantomData<&'a NodeFields>,
}

// SAFETY: all fields of a node are atomic or never change.
unsafe impl Send for BlinkNode<'_> {}
// SAFETY: as above.
unsafe impl Sync for BlinkNode<'_> {}

impl PartialEq for BlinkNode<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl fmt::Debug for BlinkNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlinkNode({:p})", self.fields)
    }
}

/// The version at the start of a read. If [`BlinkNode::is_unchanged`] is true afterwards, the data
/// read is consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadVersion(u64);

impl<'a> BlinkNode<'a> {
    /// Creates an empty node that has not been shared.
    pub(super) fn create(arena: &'a Arena, level: u32, leftmost: bool) -> Self {
        let bytes = size_of::<NodeFields>() + if level > 0 { size_of::<Children>() } else { 0 };
        let fields = arena.allocate_lines(bytes).cast::<NodeFields>();
        // SAFETY: the arena returned exclusive memory for fields and children,
        // aligned for both.
        unsafe {
            fields.write(NodeFields {
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
    /// The pointer came from [`BlinkNode::as_ptr`] of a node in an arena that
    /// lives for `'a`, and was loaded with Acquire after a store with Release.
    #[inline]
    pub(super) unsafe fn from_ptr(pointer: *mut NodeFields) -> Option<Self> {
        NonNull::new(pointer).map(|fields| Self {
            fields,
            arena: PhantomData,
        })
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut NodeFields {
        self.fields.as_ptr()
    }

    /// The node without the lifetime of its memtable.
    ///
    /// # Safety
    /// As for [`Entry::detach`].
    #[inline]
    pub(super) unsafe fn detach(self) -> BlinkNode<'static> {
        BlinkNode {
            fields: self.fields,
            arena: PhantomData,
        }
    }

    #[inline]
    fn fields(self) -> &'a NodeFields {
        // SAFETY: nodes live for 'a; their fields are atomic or constant.
        unsafe { self.fields.as_ref() }
    }

    /// The children of an inner node.
    #[inline]
    fn children(self) -> &'a Children {
        assert!(self.level() > 0);
        // SAFETY: inner nodes are created with children after the fields.
        unsafe { self.fields.add(1).cast::<Children>().as_ref() }
    }

    #[inline]
    pub(super) fn level(self) -> u32 {
        self.fields().level
    }

    /// Prefetches the parts that a search reads.
    #[inline]
    pub(super) fn prefetch(self) {
        let start = self.fields.as_ptr().cast::<u8>();
        let end = size_of::<NodeFields>();
        for offset in (0..end).step_by(LINE_BYTES) {
            prefetch(start.wrapping_add(offset));
        }
    }

    /// Starts a read. Waits while the node is locked.
    #[inline]
    pub(super) fn begin(self) -> ReadVersion {
        let mut spins = 0;
        loop {
            // Acquire: the read sees everything that the last writer wrote.
            let version = self.fields().version.load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return ReadVersion(version);
            }
            wait(&mut spins);
        }
    }

    /// Whether all data read since `begin` is consistent.
    #[inline]
    pub(super) fn is_unchanged(self, version: ReadVersion) -> bool {
        // If anything that was read was written after `begin`, this fence pairs
        // with the writer's Release fence, and the load sees the writer's lock.
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
    pub(super) fn next(self) -> Option<BlinkNode<'a>> {
        // SAFETY: published with Release, after the node was complete.
        unsafe { BlinkNode::from_ptr(self.fields().next.load(Ordering::Acquire)) }
    }

    /// The entry or low key of a slot.
    #[inline]
    pub(super) fn entry(self, slot: usize) -> Option<Entry<'a>> {
        // SAFETY: stored with Release by a thread that had created or acquired
        // it.
        unsafe { Entry::from_ptr(self.fields().entries[slot].load(Ordering::Acquire)) }
    }

    /// Prefetches the entry of a slot.
    #[inline]
    pub(super) fn prefetch_entry(self, slot: usize) {
        if let Some(entry) = self.fields().entries.get(slot) {
            Entry::prefetch(entry.load(Ordering::Relaxed));
        }
    }

    #[inline]
    pub(super) fn child(self, slot: usize) -> Option<BlinkNode<'a>> {
        // SAFETY: stored with Release, after the node was complete.
        unsafe { BlinkNode::from_ptr(self.children()[slot].load(Ordering::Acquire)) }
    }

    #[inline]
    fn high(self) -> Option<Entry<'a>> {
        // SAFETY: as in `entry`.
        unsafe { Entry::from_ptr(self.fields().high.load(Ordering::Acquire)) }
    }
}

/// Waits a short time for another thread.
#[inline]
fn wait(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS && !YIELDS_WITHOUT_SPINNING {
        std::hint::spin_loop();
    } else {
        yield_now();
    }
}
