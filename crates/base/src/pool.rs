//! A bounded pool of values that are costly to create, shared by all threads.
//!
//! A thread takes a value for a short operation and puts it back. So the number of values depends
//! on the number of threads that use a value at the same time, not on the number of all threads. A
//! value that finds no free place is dropped.

use crate::stripes::{CachePadded, thread_number};
use std::sync::{Mutex, OnceLock};

/// Maximum number of values in a pool.
const PLACES: usize = 64;

/// A pool with a capacity of two values per processor, but at least 4 and at most 64.
#[derive(Debug)]
pub struct Pool<T> {
    places: [CachePadded<Mutex<Option<T>>>; PLACES],
}

/// The number of places that pools use: two per processor, because threads may be preempted while
/// they have a value.
fn used_places() -> usize {
    static USED: OnceLock<usize> = OnceLock::new();
    *USED.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (2 * processors).clamp(4, PLACES)
    })
}

impl<T> Pool<T> {
    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            places: [const { CachePadded(Mutex::new(None)) }; PLACES],
        }
    }

    /// The places, in an order that starts at the calling thread's own place.
    fn in_order(&self) -> impl Iterator<Item = &Mutex<Option<T>>> {
        let (places, _) = self.places.split_at(used_places());
        let (after, first) = places.split_at(thread_number() % places.len());
        first.iter().chain(after).map(|place| &place.0)
    }

    /// Takes a value out of the pool, if it finds one. Does not wait: skips locked places.
    pub fn take(&self) -> Option<T> {
        self.in_order()
            .find_map(|place| place.try_lock().ok().and_then(|mut value| value.take()))
    }

    /// Puts a value into the pool, or drops it if no place is free. Does not
    /// wait: skips locked places.
    pub fn put(&self, value: T) {
        for place in self.in_order() {
            if let Ok(mut place) = place.try_lock()
                && place.is_none()
            {
                *place = Some(value);
                return;
            }
        }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_value_is_used_again_by_any_thread() {
        let pool = Pool::new();
        assert_eq!(pool.take(), None);
        pool.put(7);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(pool.take(), Some(7)));
        });
        assert_eq!(pool.take(), None);
    }

    /// A value that counts how many of its kind exist.
    struct Counted<'a>(&'a AtomicUsize);

    impl<'a> Counted<'a> {
        fn new(count: &'a AtomicUsize) -> Self {
            count.fetch_add(1, Ordering::SeqCst);
            Self(count)
        }
    }

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_number_of_values_does_not_grow_with_that_of_threads() {
        let count = AtomicUsize::new(0);
        let pool = Pool::new();
        let threads = 4 * PLACES;
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let value = pool.take().unwrap_or_else(|| Counted::new(&count));
                    barrier.wait();
                    pool.put(value);
                });
            }
        });
        assert!(count.load(Ordering::SeqCst) <= used_places());
        drop(pool);
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}
