//! Memory of the size of a huge page, which is mapped from the system and unmapped separately.
//!
//! Large memtables use it. On Linux it does not come from the allocator, because the advice to use
//! huge pages outlives an allocation: later small allocations at the same address would keep a
//! whole huge page resident. On other systems, and under Miri, it comes from the allocator.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// The size of a huge page on common processors.
pub(crate) const HUGE_CHUNK_BYTES: usize = 2 * 1024 * 1024;

/// Memory of [`HUGE_CHUNK_BYTES`], aligned to its size. Not initialised: it may
/// contain anything.
#[derive(Debug)]
pub(crate) struct HugeChunk(NonNull<u8>);

// SAFETY: plain memory that only the owner of the value uses.
unsafe impl Send for HugeChunk {}

impl HugeChunk {
    /// Maps new memory.
    pub(crate) fn map() -> Self {
        let layout = Layout::from_size_align(HUGE_CHUNK_BYTES, HUGE_CHUNK_BYTES);
        let layout = layout.unwrap_or_else(|_| unreachable!("a power of two"));
        match system::map(layout) {
            Some(start) => Self(start),
            None => handle_alloc_error(layout),
        }
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0
    }
}

impl Drop for HugeChunk {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; the owner has ended all uses.
        unsafe { system::unmap(self.0) }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use super::HUGE_CHUNK_BYTES;
    use std::alloc::Layout;
    use std::ptr::{self, NonNull};

    /// Maps an aligned range: maps twice the size and unmaps what is outside.
    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        let mapped_bytes = 2 * layout.size();
        // SAFETY: an anonymous mapping at an address that the system chooses.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let mapped = NonNull::new(mapped.cast::<u8>())?;
        let before = mapped.align_offset(layout.align());
        let after = mapped_bytes - before - layout.size();
        // SAFETY: both ranges are whole pages inside the mapping, outside of the
        // range that is returned. The advice does not change contents; a
        // refusal has no effect.
        unsafe {
            let start = mapped.add(before);
            if before > 0 {
                libc::munmap(mapped.as_ptr().cast(), before);
            }
            if after > 0 {
                libc::munmap(start.add(layout.size()).as_ptr().cast(), after);
            }
            libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE);
            Some(start)
        }
    }

    /// # Safety
    /// `start` came from `map`, and nothing uses the memory any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        // SAFETY: per this function's contract.
        unsafe { libc::munmap(start.as_ptr().cast(), HUGE_CHUNK_BYTES) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use super::HUGE_CHUNK_BYTES;
    use std::alloc::{Layout, alloc, dealloc};
    use std::ptr::NonNull;

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { alloc(layout) })
    }

    /// # Safety
    /// `start` came from `map`, and nothing uses the memory any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        if let Ok(layout) = Layout::from_size_align(HUGE_CHUNK_BYTES, HUGE_CHUNK_BYTES) {
            // SAFETY: allocated in `map` with this layout.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_aligned_and_writable() {
        let chunks: Vec<HugeChunk> = (0..3).map(|_| HugeChunk::map()).collect();
        for chunk in &chunks {
            assert!(chunk.start().addr().get().is_multiple_of(HUGE_CHUNK_BYTES));
            // SAFETY: the chunk's own memory.
            unsafe {
                chunk.start().write(1);
                chunk.start().add(HUGE_CHUNK_BYTES - 1).write(2);
                assert_eq!(chunk.start().read(), 1);
            }
        }
    }
}
