//! State in parts, of which each thread has one, so that threads that go their
//! own ways do not pass cache lines to each other.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts of striped state.
const STRIPES: usize = 16;

/// A value on cache lines of its own; processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// Names a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe(usize);

/// The calling thread's number, always the same. Threads that began one after
/// the other have numbers that follow each other.
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
    /// The calling thread's, always the same.
    #[must_use]
    pub fn own() -> Self {
        Self::of(thread_number())
    }

    /// That of a thread by its number.
    #[must_use]
    pub fn of(thread: usize) -> Self {
        Self(thread % STRIPES)
    }
}

/// State in parts.
#[derive(Debug, Default)]
pub struct Striped<T>([CachePadded<T>; STRIPES]);

impl<T> Striped<T> {
    /// One part.
    #[allow(
        clippy::indexing_slicing,
        reason = "a stripe's number is less than their count"
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
        let count = || *counts.get(Stripe::own()).lock().unwrap() += 1;
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
