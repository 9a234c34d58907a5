//! A node of the memtable's skip list, as it lies in the arena:
//!
//! ```text
//! link[height-1] ... link[1] link[0] | Header | key bytes | value bytes
//!                                    ^ a node's pointer points here
//! ```
//!
//! The links stand before the header so that the two things a search reads of
//! most nodes, the lowest link and the key's prefix, are neighbours.
//!
//! A node is complete before a link to it is published with Release; whoever
//! loads a link with Acquire sees the whole node. After that only its links
//! and its `shadowed` mark change, and both are atomic.

#![allow(unsafe_code)]

use super::arena::{ALIGNMENT, Arena};
use std::cmp::Ordering as KeyOrder;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use teak_base::{Operation, WriteId};

/// Levels of the skip list. With a quarter of the nodes on each next level,
/// this serves some hundred million entries.
pub(super) const LEVELS: usize = 13;

pub(super) type Link = AtomicPtr<Header>;

/// The fixed part of a node.
#[repr(C)]
pub(super) struct Header {
    /// The first eight bytes of the key, zero-padded, big-endian.
    prefix: u64,
    key_bytes: u32,
    value_bytes: u32,
    write_id: WriteId,
    /// Age within the memtable, to order points and range tombstones.
    sequence: u32,
    operation: Operation,
    /// Whether a newer version of the key stands before this node.
    shadowed: AtomicBool,
}

const _: () = assert!(size_of::<Header>() == 32);
const _: () = assert!(size_of::<Link>() == ALIGNMENT && align_of::<Header>() <= ALIGNMENT);

/// A key prepared for comparison with nodes.
#[derive(Clone, Copy)]
pub(super) struct SearchKey<'k> {
    prefix: u64,
    bytes: &'k [u8],
}

impl<'k> SearchKey<'k> {
    #[inline]
    pub(super) fn new(bytes: &'k [u8]) -> Self {
        let prefix = match bytes.first_chunk::<8>() {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => {
                let mut padded = [0u8; 8];
                for (to, from) in padded.iter_mut().zip(bytes) {
                    *to = *from;
                }
                u64::from_be_bytes(padded)
            }
        };
        Self { prefix, bytes }
    }

    #[inline]
    pub(super) fn bytes(self) -> &'k [u8] {
        self.bytes
    }
}

/// A node of a list that lives for `'a`, or the list's head, which has links
/// but no key.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    header: NonNull<Header>,
    list: PhantomData<&'a Header>,
}

// SAFETY: a node is read-only memory but for atomics.
unsafe impl Send for Node<'_> {}
// SAFETY: as above.
unsafe impl Sync for Node<'_> {}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({:p})", self.header)
    }
}

impl<'a> Node<'a> {
    /// Makes an unlinked node in the arena, with `height` null links.
    ///
    /// # Panics
    /// When key or value exceed u32, or the height is not in `1..=LEVELS`.
    #[inline]
    pub(super) fn create(
        arena: &'a Arena,
        height: usize,
        sequence: u32,
        write_id: WriteId,
        operation: Operation,
        key: SearchKey<'_>,
        value: &[u8],
    ) -> Self {
        assert!((1..=LEVELS).contains(&height));
        let (Ok(key_bytes), Ok(value_bytes)) =
            (u32::try_from(key.bytes.len()), u32::try_from(value.len()))
        else {
            unreachable!("the caller checks the limits of keys and values")
        };
        let links = height * size_of::<Link>();
        let total = links + size_of::<Header>() + key.bytes.len() + value.len();
        let start = arena.allocate(total);
        // SAFETY: the arena gave us `total` bytes, aligned for links and the
        // header (asserted above), that nobody else knows of. All writes stay
        // within: links first, then header, key and value, as `total` adds up.
        // `key` and `value` are other memory, for the range is new.
        unsafe {
            let header = start.add(links).cast::<Header>();
            for link in 1..=height {
                header
                    .cast::<Link>()
                    .sub(link)
                    .write(AtomicPtr::new(ptr::null_mut()));
            }
            header.write(Header {
                prefix: key.prefix,
                key_bytes,
                value_bytes,
                write_id,
                sequence,
                operation,
                shadowed: AtomicBool::new(false),
            });
            let bytes = header.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key.bytes).cast::<u8>(), key.bytes.len());
            bytes
                .add(key.bytes.len())
                .copy_from_nonoverlapping(NonNull::from(value).cast::<u8>(), value.len());
            Self::from_header(header)
        }
    }

    /// # Safety
    /// `header` belongs to a node that lives for `'a` and is fully visible to
    /// this thread, and its pointer may reach the links and bytes around it.
    #[inline]
    pub(super) unsafe fn from_header(header: NonNull<Header>) -> Self {
        Self {
            header,
            list: PhantomData,
        }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut Header {
        self.header.as_ptr()
    }

    /// The node without the lifetime of its list.
    ///
    /// # Safety
    /// The caller keeps the list alive as long as it uses the result, and lets
    /// nothing derived from it out for longer.
    #[inline]
    pub(super) unsafe fn detach(self) -> Node<'static> {
        Node {
            header: self.header,
            list: PhantomData,
        }
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: per `from_header`, the header lives for 'a and changes only
        // in its atomic field.
        unsafe { self.header.as_ref() }
    }

    /// # Safety
    /// The node has more than `level` links.
    #[inline]
    pub(super) unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: links stand directly before the header, and the caller says
        // that this one exists.
        unsafe { self.header.cast::<Link>().sub(level + 1).as_ref() }
    }

    /// The next node of a level.
    ///
    /// # Safety
    /// The node has more than `level` links.
    #[inline]
    pub(super) unsafe fn next_at(self, level: usize) -> Option<Node<'a>> {
        // Acquire pairs with the Release that published the next node.
        // SAFETY: per this function's contract; a link points to a node of
        // the same list, published after it was completed.
        unsafe {
            let next = self.link(level).load(Ordering::Acquire);
            NonNull::new(next).map(|next| Self::from_header(next))
        }
    }

    /// The next entry in order. Every node has the lowest link.
    #[inline]
    pub(super) fn next(self) -> Option<Node<'a>> {
        // SAFETY: `create` makes at least one link.
        unsafe { self.next_at(0) }
    }

    /// Whether the node's key is less than `key`. Must not be asked of a head.
    #[inline]
    pub(super) fn is_less(self, key: SearchKey<'_>) -> bool {
        let prefix = self.header().prefix;
        if prefix != key.prefix {
            return prefix < key.prefix;
        }
        self.order_after_prefix(key) == KeyOrder::Less
    }

    /// Whether the node's key is `key`. Must not be asked of a head.
    #[inline]
    pub(super) fn has_key(self, key: SearchKey<'_>) -> bool {
        self.header().prefix == key.prefix && self.order_after_prefix(key) == KeyOrder::Equal
    }

    #[inline]
    fn order_after_prefix(self, key: SearchKey<'_>) -> KeyOrder {
        let own = self.key();
        match (own.get(8..), key.bytes.get(8..)) {
            (Some(own), Some(other)) => own.cmp(other),
            // One key ends within the prefix: as the padded prefixes are
            // equal, it is the beginning of the other.
            _ => own.len().cmp(&key.bytes.len()),
        }
    }

    #[inline]
    fn bytes(self, from: usize, length: usize) -> &'a [u8] {
        // SAFETY: callers pass ranges within key and value, which follow the
        // header, were initialised by `create` and never change.
        unsafe {
            let start = self.header.add(1).cast::<u8>().add(from);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.header().key_bytes as usize)
    }

    #[inline]
    pub(super) fn search_key(self) -> SearchKey<'a> {
        SearchKey {
            prefix: self.header().prefix,
            bytes: self.key(),
        }
    }

    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let header = self.header();
        self.bytes(header.key_bytes as usize, header.value_bytes as usize)
    }

    #[inline]
    pub(super) fn write_id(self) -> WriteId {
        self.header().write_id
    }

    #[inline]
    pub(super) fn operation(self) -> Operation {
        self.header().operation
    }

    #[inline]
    pub(super) fn sequence(self) -> u32 {
        self.header().sequence
    }

    #[inline]
    pub(super) fn is_shadowed(self) -> bool {
        self.header().shadowed.load(Ordering::Relaxed)
    }

    /// Notes that a newer version is about to be linked before this node.
    #[inline]
    pub(super) fn set_shadowed(self) {
        self.header().shadowed.store(true, Ordering::Relaxed);
    }
}

/// The node before all others: every link, no key.
#[repr(C)]
pub(super) struct Head {
    links: [Link; LEVELS],
    header: Header,
}

const _: () = assert!(std::mem::offset_of!(Head, header) == LEVELS * size_of::<Link>());

/// Owns the head of a list.
pub(super) struct HeadBox {
    head: NonNull<Head>,
}

// SAFETY: the head is atomics and a header that never changes.
unsafe impl Send for HeadBox {}
// SAFETY: as above.
unsafe impl Sync for HeadBox {}

impl HeadBox {
    pub(super) fn new() -> Self {
        let head = Box::new(Head {
            links: [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS],
            header: Header {
                prefix: 0,
                key_bytes: 0,
                value_bytes: 0,
                write_id: WriteId::SETTLED,
                sequence: 0,
                operation: Operation::Delete,
                shadowed: AtomicBool::new(false),
            },
        });
        Self {
            head: NonNull::from(Box::leak(head)),
        }
    }

    #[inline]
    pub(super) fn node(&self) -> Node<'_> {
        let head = self.head.as_ptr();
        // SAFETY: the head lives as long as `self`; the pointer is derived
        // from the whole head, so it reaches the links, which stand directly
        // before the header (asserted above).
        unsafe { Node::from_header(NonNull::new_unchecked(&raw mut (*head).header)) }
    }
}

impl Drop for HeadBox {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak` in `new`, released only here.
        drop(unsafe { Box::from_raw(self.head.as_ptr()) });
    }
}

impl fmt::Debug for HeadBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeadBox")
    }
}
