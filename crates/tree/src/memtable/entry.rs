//! The layout of an entry in the arena: one version of one key.
//!
//! ```text
//! [pointer to the next older version] | Header | key bytes | value bytes
//!                                     ^ an entry's pointer points here
//! ```
//!
//! The first part exists only if there is an older version. An entry is
//! complete before its pointer is published with Release, and never changes. A
//! thread that loads the pointer with Acquire sees all of it.

#![allow(unsafe_code)]

use super::arena::{ALIGNMENT, Arena, LINE_BYTES};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use teak_base::{Operation, WriteId};

/// The fixed part of an entry. Packed to 4 bytes, so that the key follows
/// without a gap; the entry itself is aligned to 8.
#[repr(C, packed(4))]
pub(super) struct Header {
    write_id: WriteId,
    value_bytes: u32,
    /// Bits 0-23: length of the key; 24-25: operation; 31: an older version
    /// exists.
    key_word: u32,
    /// Sequence number, to order entries and range tombstones.
    sequence: u32,
}

const _: () = assert!(size_of::<Header>() == 20);
const KEY_BYTES_MASK: u32 = (1 << 24) - 1;
const OPERATION_SHIFT: u32 = 24;
const HAS_OLDER: u32 = 1 << 31;
const PREFETCHED_LINES: usize = 4;

/// A version of a key, in a memtable that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    header: NonNull<Header>,
    arena: PhantomData<&'a Header>,
}

// SAFETY: an entry never changes.
unsafe impl Send for Entry<'_> {}
// SAFETY: as above.
unsafe impl Sync for Entry<'_> {}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:p})", self.header)
    }
}

/// A new entry without its key.
#[derive(Clone, Copy)]
pub(super) struct Version<'v> {
    pub sequence: u32,
    pub write_id: WriteId,
    pub operation: Operation,
    pub value: &'v [u8],
}

impl<'a> Entry<'a> {
    /// Copies an entry into the arena.
    ///
    /// # Panics
    /// When key or value exceed the limits of `teak_base::limits` and their lengths do not fit into
    /// the header.
    #[inline]
    pub(super) fn create(
        arena: &'a Arena,
        key: &[u8],
        version: Version<'_>,
        older: Option<Entry<'a>>,
    ) -> Self {
        let value = version.value;
        let (Ok(key_bytes), Ok(value_bytes)) =
            (u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            unreachable!("the caller checks the limits of keys and values");
        };
        assert!(key_bytes <= KEY_BYTES_MASK);
        let mut key_word = key_bytes | u32::from(version.operation.number()) << OPERATION_SHIFT;
        let mut before = 0;
        if older.is_some() {
            key_word |= HAS_OLDER;
            before = ALIGNMENT;
        }
        let start = arena.allocate(before + size_of::<Header>() + key.len() + value.len());
        // SAFETY: the arena returned exclusive memory for all parts, aligned
        // for the pointer and for the header after it. The sizes add up, so the
        // writes stay inside; key and value are elsewhere.
        unsafe {
            let header = start.add(before).cast::<Header>();
            if let Some(older) = older {
                start.cast::<NonNull<Header>>().write(older.header);
            }
            header.write(Header {
                write_id: version.write_id,
                value_bytes,
                key_word,
                sequence: version.sequence,
            });
            let bytes = header.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes
                .add(key.len())
                .copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
            Self::from_header(header)
        }
    }

    /// # Safety
    /// The pointer came from [`Entry::as_ptr`] of an entry in an arena that
    /// lives for `'a`, and was loaded with Acquire after a store with Release.
    #[inline]
    pub(super) unsafe fn from_ptr(pointer: *mut Header) -> Option<Self> {
        // SAFETY: per this function's contract.
        NonNull::new(pointer).map(|header| unsafe { Self::from_header(header) })
    }

    #[inline]
    unsafe fn from_header(header: NonNull<Header>) -> Self {
        Self {
            header,
            arena: PhantomData,
        }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut Header {
        self.header.as_ptr()
    }

    /// The entry without the lifetime of its memtable.
    ///
    /// # Safety
    /// The caller keeps the memtable alive as long as it uses the result, and
    /// no value derived from the result lives longer.
    #[inline]
    pub(super) unsafe fn detach(self) -> Entry<'static> {
        Entry {
            header: self.header,
            arena: PhantomData,
        }
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: entries live for 'a and never change.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    fn key_bytes(self) -> usize {
        (self.header().key_word & KEY_BYTES_MASK) as usize
    }

    #[inline]
    fn bytes(self, from: usize, length: usize) -> &'a [u8] {
        // SAFETY: callers pass ranges inside key and value, which follow the
        // header, were initialised by `create` and never change.
        unsafe {
            let start = self.header.add(1).cast::<u8>().add(from);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.key_bytes())
    }

    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        self.bytes(self.key_bytes(), self.header().value_bytes as usize)
    }

    #[inline]
    pub(super) fn write_id(self) -> WriteId {
        self.header().write_id
    }

    #[inline]
    pub(super) fn operation(self) -> Operation {
        match (self.header().key_word >> OPERATION_SHIFT) & 3 {
            1 => Operation::Put,
            _ => Operation::Delete,
        }
    }

    #[inline]
    pub(super) fn sequence(self) -> u32 {
        self.header().sequence
    }

    /// The next older version of the key.
    #[inline]
    pub(super) fn older(self) -> Option<Entry<'a>> {
        if self.header().key_word & HAS_OLDER == 0 {
            return None;
        }
        // SAFETY: with this flag, `create` wrote the pointer directly before
        // the header. The thread that created this entry had acquired the older
        // one, so a thread that sees this entry sees the older one.
        unsafe {
            Some(Self::from_header(
                self.header.cast::<NonNull<Header>>().sub(1).read(),
            ))
        }
    }

    /// Prefetches the cache lines of an entry of typical size.
    #[inline]
    pub(super) fn prefetch(pointer: *mut Header) {
        for line in 0..PREFETCHED_LINES {
            prefetch(pointer.cast::<u8>().wrapping_add(line * LINE_BYTES));
        }
    }
}

/// Prefetches the cache line of an address, valid or not.
#[inline]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint without effect on memory; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
