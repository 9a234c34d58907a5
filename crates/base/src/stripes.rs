//! Striped state: each thread uses one of 16 parts, so that threads rarely contend for cache lines.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of parts.
const STRIPES: usize = 16;

/// A value on its own pair of cache lines; processors prefetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// The number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe(usize);

/// The calling thread's number, which never changes. Threads get consecutive numbers in the order
/// of their first call.
#[inline]
#[must_use]
pub fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl Stripe {
    /// The stripe of the calling thread, which never changes.
    #[must_use]
    pub fn current() -> Self {
        Self::of(thread_number())
    }

    /// The stripe of a thread by its number.
    #[must_use]
    pub fn of(thread: usize) -> Self {
        Self(thread % STRIPES)
    }
}

/// Striped state.
#[derive(Debug, Default)]
pub struct Striped<T>([CachePadded<T>; STRIPES]);

impl<T> Striped<T> {
    /// One part.
    #[allow(
        clippy::indexing_slicing,
        reason = "the number of a stripe is less than STRIPES"
    )]
    #[must_use]
    pub fn get(&self, stripe: Stripe) -> &T {
        &self.0[stripe.0].0
    }

    /// All parts.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &part.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_thread_keeps_its_part() {
        let counts: Striped<Mutex<u32>> = Striped::default();
        let count = || *counts.get(Stripe::current()).lock().unwrap() += 1;
        std::thread::scope(|scope| {
            for _ in 0..STRIPES {
                scope.spawn(|| {
                    count();
                    count();
                });
            }
        });
        let counted: Vec<u32> = counts.iter().map(|part| *part.lock().unwrap()).collect();
        assert!(counted.iter().all(|count| count % 2 == 0), "{counted:?}");
        assert_eq!(counted.iter().sum::<u32>(), 32);
        for thread in 0..100 {
            assert_eq!(Stripe::of(thread), Stripe::of(thread + STRIPES));
        }
        assert_ne!(Stripe::of(3), Stripe::of(4));
    }
}
