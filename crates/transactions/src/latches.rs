//! Latches: short mutual exclusion of rows by hash, held while a row's newest
//! version is checked and the new one inserted. A thread that holds a latch does
//! not wait for other transactions and does no I/O.
//!
//! Lock order: latches are taken first, several of them in stripe order.

use crate::lock_id::LockId;
use crate::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::time::Instant;
use teak_base::latency::{Histogram, Latencies};
use teak_base::stripes::CachePadded;

const STRIPES: usize = 512;

/// The latches of one engine.
pub struct Latches {
    stripes: Box<[CachePadded<Mutex<()>>]>,
    waits: Histogram,
}

/// Latches held; released together on drop.
pub struct LatchGuard<'a> {
    _held: SmallVec<[MutexGuard<'a, ()>; 4]>,
}

impl Default for Latches {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| CachePadded(Mutex::new(()))).collect(),
            waits: Histogram::default(),
        }
    }
}

impl Latches {
    fn stripe(&self, lock: LockId) -> usize {
        // Uses the high bits, because the low bits select buckets of the lock table.
        usize::try_from(lock.hash() >> 32).unwrap_or(0) % self.stripes.len()
    }

    /// Latches one row.
    pub fn one(&self, lock: LockId) -> LatchGuard<'_> {
        let mut held = SmallVec::new();
        if let Some(stripe) = self.stripes.get(self.stripe(lock)) {
            held.push(self.latch(&stripe.0));
        }
        LatchGuard { _held: held }
    }

    #[inline]
    fn latch<'a>(&self, stripe: &'a Mutex<()>) -> MutexGuard<'a, ()> {
        stripe.try_lock().unwrap_or_else(|| self.wait_for(stripe))
    }

    #[cold]
    fn wait_for<'a>(&self, stripe: &'a Mutex<()>) -> MutexGuard<'a, ()> {
        let since = Instant::now();
        let held = stripe.lock();
        self.waits.record_since(since);
        held
    }

    /// Durations of the waits for latches.
    #[must_use]
    pub fn waits(&self) -> Latencies {
        self.waits.read()
    }

    /// Latches several rows, in stripe order, so that two writers do not
    /// deadlock.
    pub fn several(&self, locks: impl Iterator<Item = LockId>) -> LatchGuard<'_> {
        let mut stripes: SmallVec<[usize; 8]> = locks.map(|lock| self.stripe(lock)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let held = stripes
            .iter()
            .filter_map(|stripe| self.stripes.get(*stripe))
            .map(|stripe| self.latch(&stripe.0))
            .collect();
        LatchGuard { _held: held }
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use teak_base::FileId;

    #[test]
    fn opposite_orders_do_not_deadlock() {
        let latches = Arc::new(Latches::default());
        let keys: Vec<LockId> = (0..64u64)
            .map(|n| LockId::new(FileId(n % 3), &n.to_be_bytes()))
            .collect();
        std::thread::scope(|scope| {
            for turn in 0..2 {
                let latches = Arc::clone(&latches);
                let mut keys = keys.clone();
                if turn == 1 {
                    keys.reverse();
                }
                scope.spawn(move || {
                    for window in keys.windows(5).cycle().take(5000) {
                        drop(latches.several(window.iter().copied()));
                    }
                });
            }
        });
    }

    #[test]
    fn waits_for_a_latch_are_counted() {
        let latches = Latches::default();
        let lock = LockId::new(FileId(1), b"a");
        drop(latches.one(lock));
        assert_eq!(latches.waits().count(), 0);
        while latches.waits().count() == 0 {
            let held = latches.one(lock);
            std::thread::scope(|scope| {
                scope.spawn(|| drop(latches.several([lock].into_iter())));
                std::thread::yield_now();
                drop(held);
            });
        }
    }

    #[test]
    fn rows_of_one_stripe_are_latched_once() {
        let latches = Latches::default();
        let lock = LockId::new(FileId(1), b"a");
        drop(latches.several([lock, lock].into_iter()));
        drop(latches.one(lock));
    }
}
