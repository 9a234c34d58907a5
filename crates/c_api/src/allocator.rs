//! The allocator of all Rust memory, with the feature `allocator`: jemalloc, whose symbols have a
//! prefix. The rest of the process uses another allocator.
//!
//! For months, threads allocate pages of tens of KiB that other threads free. The C library's
//! allocator then retains up to twice the memory that is in use; jemalloc returns unused memory to
//! the system. It also measures the allocated memory, so the memory budget includes memory that the
//! engine's own counters do not.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use teak_engine::{EngineOptions, Heap};
use tikv_jemalloc_sys::mallctl;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// A pointer to text that never changes.
#[repr(transparent)]
pub struct Text(*const c_char);

// SAFETY: the text is constant.
unsafe impl Sync for Text {}

/// Read by jemalloc when it starts: one arena for four processors; freed pages are returned to the
/// system after a second; a thread caches only a few freed allocations, of at most 1 KiB, because
/// each connection has a thread.
///
/// With more arenas, long-lived allocations such as those of open trees leave an arena that remains
/// half empty, when a thread that uses another arena replaces them.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static OPTIONS: Text = Text(
    c"narenas_ratio:0.25,dirty_decay_ms:1000,muzzy_decay_ms:0,lg_tcache_max:10,tcache_nslots_small_min:8,tcache_nslots_small_max:20"
        .as_ptr(),
);

/// The name of the jemalloc control that returns unused pages of all arenas; 4096 is
/// MALLCTL_ARENAS_ALL.
const DECAY_ALL: &CStr = c"arena.4096.decay";

/// The measurements of jemalloc.
struct Jemallocs;

/// Reads a number by its jemalloc name, and sets it if `new` is given. `None` after an error.
fn number<T: Copy + Default>(name: &CStr, new: Option<T>) -> Option<T> {
    let mut value = T::default();
    let mut bytes = size_of::<T>();
    let mut given = new.unwrap_or_default();
    let (new, new_bytes) = match new {
        Some(_) => ((&raw mut given).cast::<c_void>(), size_of::<T>()),
        None => (null_mut(), 0),
    };
    // SAFETY: the pointers are valid for the given lengths; jemalloc compares the lengths with the
    // size of the number's type.
    let failed = unsafe {
        mallctl(
            name.as_ptr(),
            (&raw mut value).cast(),
            &raw mut bytes,
            new,
            new_bytes,
        )
    };
    (failed == 0).then_some(value)
}

impl Heap for Jemallocs {
    fn allocated_bytes(&self) -> u64 {
        // Writing the epoch updates the statistics.
        number(c"epoch", Some(1u64));
        number::<usize>(c"stats.allocated", None).unwrap_or(0) as u64
    }

    fn release_unused(&self) {
        // SAFETY: this control has no value to read or write.
        unsafe {
            mallctl(
                DECAY_ALL.as_ptr(),
                null_mut(),
                null_mut(),
                null::<c_void>().cast_mut(),
                0,
            )
        };
    }
}

/// Gives the engine the measurements of the allocator.
pub(crate) fn measure(options: &mut EngineOptions) {
    options.heap = Some(Arc::new(Jemallocs));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_measures_what_is_allocated() {
        let before = Jemallocs.allocated_bytes();
        let block = vec![1u8; 40 << 20];
        let during = Jemallocs.allocated_bytes();
        assert!(during >= before + (40 << 20), "{before} {during}");
        drop(block);
        Jemallocs.release_unused();
        let after = Jemallocs.allocated_bytes();
        assert!(after < before + (4 << 20), "{before} {after}");
        assert_eq!(number::<isize>(c"opt.dirty_decay_ms", None), Some(1000));
        let arenas = number::<u32>(c"opt.narenas", None).unwrap();
        let processors = std::thread::available_parallelism().unwrap().get();
        assert!((1..=processors / 4 + 1).contains(&(arenas as usize)));
    }
}
