//! Append-only memory of a memtable. An allocation is one atomic addition, unless a new chunk is
//! needed. All memory is freed together.
//!
//! Memory comes from the current chunk. Chunks start small, so that thousands of idle tables use
//! little memory, and grow with the arena up to the size of a huge page: a new chunk is at most a
//! quarter of the previous ones together, except in small arenas. Chunks of that size use huge
//! pages if the system provides them, because page faults would cost more than the insertions.
//! Requests above [`LARGE_BYTES`] get chunks of their own, so that the rest of the current chunk
//! remains in use.
//!
//! Whenever another [`CHARGE_BYTES`] are in use, the arena raises its charge. A
//! huge chunk is charged as a whole, because the system provides it as a whole.

#![allow(unsafe_code)]

use super::sync::Mutex;
use super::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::huge_chunk::{HUGE_CHUNK_BYTES, HugeChunk};
use crate::memory::Charge;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// Enough for a root and a few rows: thousands of tables may have a few rows each in memory.
const CHUNK_BYTES_FIRST: usize = 2 * 1024;
/// Up to this size, a new chunk doubles the arena's memory.
const CHUNK_BYTES_DOUBLING: usize = 8 * 1024;
/// A larger chunk has at most the arena's memory divided by this number.
const CHUNK_SHARE: usize = 4;
const LARGE_BYTES: usize = 64 * 1024;
/// The charge is raised in steps of this size.
const CHARGE_BYTES: usize = 4 * 1024;

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;
/// Alignment of all memory of the arena.
pub(super) const ALIGNMENT: usize = 8;

#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    capacity: usize,
    /// Bytes allocated. Exceeds `capacity` after a request that did not fit.
    used: AtomicUsize,
    /// The owner of the memory if it is a huge chunk; otherwise it comes from
    /// the allocator.
    huge: Option<HugeChunk>,
}

#[derive(Debug)]
pub(super) struct Arena {
    /// The chunk to allocate from; null before the first request.
    current: AtomicPtr<Chunk>,
    /// All chunks, to free them. The lock also protects the replacement of
    /// `current`.
    chunks: Mutex<Vec<NonNull<Chunk>>>,
    /// Bytes of all chunks except the current one.
    closed_bytes: AtomicU64,
    charge: Charge,
}

// SAFETY: chunks are plain memory owned by the arena. `Chunk` is shared only as
// `&Chunk`, whose only mutable field is atomic, and the list is locked.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(super) fn new(charge: Charge) -> Self {
        Self {
            charge,
            current: AtomicPtr::new(ptr::null_mut()),
            chunks: Mutex::new(Vec::new()),
            closed_bytes: AtomicU64::new(0),
        }
    }

    /// Returns `bytes` bytes of uninitialised memory, aligned to [`ALIGNMENT`],
    /// that are exclusive to the caller and live as long as the arena.
    #[inline]
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > LARGE_BYTES {
            return self.allocate_large(bytes);
        }
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: a non-null `current` was stored with Release after the
            // chunk was created, and chunks live as long as the arena.
            if let Some(chunk) = unsafe { current.as_ref() } {
                // Relaxed: the addition alone makes the range exclusive. The sum cannot overflow:
                // each thread adds at most once after a chunk is full.
                let offset = chunk.used.fetch_add(bytes, Ordering::Relaxed);
                let end = offset + bytes;
                if end <= chunk.capacity {
                    if offset / CHARGE_BYTES != end / CHARGE_BYTES {
                        self.raise_charge();
                    }
                    // SAFETY: the range is inside the chunk's memory.
                    return unsafe { chunk.start.add(offset) };
                }
            }
            self.replace(current, bytes);
        }
    }

    /// [`Arena::allocate`], aligned to a cache line.
    pub(super) fn allocate_lines(&self, bytes: usize) -> NonNull<u8> {
        let start = self.allocate(bytes + LINE_BYTES - ALIGNMENT);
        // SAFETY: at most `LINE_BYTES - ALIGNMENT` bytes are skipped, as the
        // start is aligned to ALIGNMENT.
        unsafe { start.add(start.align_offset(LINE_BYTES)) }
    }

    /// Memory in use, in bytes. All of a chunk that is no longer current counts as used.
    pub(super) fn bytes(&self) -> u64 {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: as in `allocate`.
        let open = unsafe { current.as_ref() }.map_or(0, |chunk| {
            chunk.used.load(Ordering::Relaxed).min(chunk.capacity)
        });
        self.closed_bytes.load(Ordering::Relaxed) + open as u64
    }

    #[cold]
    fn allocate_large(&self, bytes: usize) -> NonNull<u8> {
        let chunk = Self::new_chunk(bytes, bytes);
        // SAFETY: `new_chunk` returns a valid chunk that has not been shared.
        let start = unsafe { chunk.as_ref() }.start;
        self.chunks.lock().push(chunk);
        self.closed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.raise_charge();
        start
    }

    /// Charges the memory in use, rounded up to whole steps, and huge chunks as a whole.
    #[cold]
    fn raise_charge(&self) {
        // Excludes `replace`, which changes the chunk and the sum in two steps.
        let _chunks = self.chunks.lock();
        self.charge.grow_to(self.charged_bytes());
    }

    fn charged_bytes(&self) -> u64 {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: as in `allocate`.
        let open = unsafe { current.as_ref() }.map_or(0, |chunk| {
            let used = match chunk.huge {
                Some(_) => chunk.capacity,
                None => chunk.used.load(Ordering::Relaxed).max(1),
            };
            used.next_multiple_of(CHARGE_BYTES).min(chunk.capacity)
        });
        self.closed_bytes.load(Ordering::Relaxed) + open as u64
    }

    pub(super) fn charge(&self) -> &Charge {
        &self.charge
    }

    /// Makes a chunk with at least `bytes` free bytes current, unless another
    /// thread has already replaced the full one.
    #[cold]
    fn replace(&self, full: *mut Chunk, bytes: usize) {
        let mut chunks = self.chunks.lock();
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        // SAFETY: as in `allocate`.
        if let Some(chunk) = unsafe { full.as_ref() } {
            let closed = chunk.capacity as u64;
            self.closed_bytes.fetch_add(closed, Ordering::Relaxed);
        }
        let closed = self.closed_bytes.load(Ordering::Relaxed);
        let closed = usize::try_from(closed).unwrap_or(usize::MAX);
        let share = closed / CHUNK_SHARE;
        let chunk = match share >= HUGE_CHUNK_BYTES {
            true => self.huge_chunk(),
            false => {
                let doubled = closed.clamp(CHUNK_BYTES_FIRST, CHUNK_BYTES_DOUBLING);
                let wanted = share.max(doubled);
                let capacity = (wanted + 1).next_power_of_two() / 2;
                Self::new_chunk(capacity.max(2 * bytes), 0)
            }
        };
        chunks.push(chunk);
        self.current.store(chunk.as_ptr(), Ordering::Release);
        self.charge.grow_to(self.charged_bytes());
    }

    fn layout(capacity: usize) -> Layout {
        let layout = Layout::from_size_align(capacity, ALIGNMENT);
        // The limits of keys and values bound the capacity.
        layout.unwrap_or_else(|_| unreachable!("an entry of {capacity} bytes"))
    }

    fn new_chunk(capacity: usize, used: usize) -> NonNull<Chunk> {
        let layout = Self::layout(capacity);
        assert!(capacity > 0);
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        Self::leak(Chunk {
            start,
            capacity,
            used: AtomicUsize::new(used),
            huge: None,
        })
    }

    fn huge_chunk(&self) -> NonNull<Chunk> {
        let huge = self.charge.memory().take_chunk();
        Self::leak(Chunk {
            start: huge.start(),
            capacity: HUGE_CHUNK_BYTES,
            used: AtomicUsize::new(0),
            huge: Some(huge),
        })
    }

    fn leak(chunk: Chunk) -> NonNull<Chunk> {
        NonNull::from(Box::leak(Box::new(chunk)))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.charge.release();
        for chunk in self.chunks.get_mut().drain(..) {
            // SAFETY: the chunk came from `leak` and is released only here;
            // `&mut self` excludes other users.
            let chunk = unsafe { *Box::from_raw(chunk.as_ptr()) };
            match chunk.huge {
                Some(huge) => self.charge.memory().return_chunk(huge),
                // SAFETY: allocated in `new_chunk` with this layout.
                None => unsafe { dealloc(chunk.start.as_ptr(), Self::layout(chunk.capacity)) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemtableMemory, TreeAccount};
    use std::sync::Arc;
    use teak_base::FileId;

    #[test]
    fn ranges_are_aligned_and_do_not_overlap() {
        let memory: Arc<MemtableMemory> = Arc::default();
        let account = TreeAccount::new(&memory, FileId(1));
        let arena = Arena::new(Charge::new(&account));
        assert_eq!(arena.bytes(), 0);
        let sizes = [1, 8, 9, 100, 5_000, 20_000, 70_000, 3];
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for size in sizes.into_iter().cycle().take(100) {
            let start = arena.allocate(size).as_ptr();
            // SAFETY: the arena gave us `size` bytes.
            unsafe { start.write_bytes(0xaa, size) };
            assert!(start.addr().is_multiple_of(ALIGNMENT));
            ranges.push((start.addr(), start.addr() + size));
        }
        ranges.sort_unstable();
        assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0));
        let taken: usize = ranges.iter().map(|range| range.1 - range.0).sum();
        assert!(arena.bytes() >= taken as u64);
        assert!(arena.bytes() <= 2 * taken as u64 + HUGE_CHUNK_BYTES as u64);
        let charged = memory.used().active;
        assert!(charged >= arena.bytes() - CHARGE_BYTES as u64, "{charged}");
        assert!(charged <= arena.bytes() + CHARGE_BYTES as u64, "{charged}");
        drop(arena);
        assert_eq!(memory.used().total(), 0);
    }

    /// The charge of a large arena is the memory that the system provides for it, which is at most
    /// about a huge chunk more than the memory in use.
    #[test]
    fn a_large_arena_charges_huge_chunks_as_a_whole() {
        let memory: Arc<MemtableMemory> = Arc::default();
        memory.set_spare_bytes_max(16 << 20);
        let account = TreeAccount::new(&memory, FileId(1));
        let arena = Arena::new(Charge::new(&account));
        while arena.bytes() < 20 << 20 {
            arena.allocate(1000);
            let (used, charged) = (arena.bytes(), memory.used().active);
            assert!(charged + CHARGE_BYTES as u64 >= used, "{charged}, {used}");
            let unused = (used / 3).min(HUGE_CHUNK_BYTES as u64) + CHARGE_BYTES as u64;
            assert!(charged <= used + unused, "{charged}, {used}");
        }
        assert_eq!(memory.spare_bytes(), 0);
        drop(arena);
        assert_eq!(memory.used().total(), 0);
        let spare = memory.spare_bytes();
        assert!((8 << 20..=16 << 20).contains(&spare), "{spare}");
        memory.release_spare();
        assert_eq!(memory.spare_bytes(), 0);
    }

    #[test]
    fn an_arena_with_few_bytes_is_small() {
        let memory: Arc<MemtableMemory> = Arc::default();
        let account = TreeAccount::new(&memory, FileId(1));
        let arena = Arena::new(Charge::new(&account));
        arena.allocate(1000);
        arena.allocate(1000);
        assert_eq!(memory.used().active, 2048);
        arena.allocate(800);
        assert_eq!(memory.used().active, 2 * 2048);
        arena.allocate(1900);
        assert_eq!(memory.used().active, 2 * 2048 + 4096);
    }

    #[test]
    fn a_large_request_does_not_close_the_current_chunk() {
        let arena = Arena::new(Charge::detached());
        let first = arena.allocate(8).as_ptr().addr();
        arena.allocate(1_000_000);
        assert_eq!(arena.allocate(8).as_ptr().addr(), first + 8);
        assert_eq!(arena.bytes(), 1_000_016);
    }
}
