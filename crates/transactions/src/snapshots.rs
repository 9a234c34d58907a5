//! The snapshots of live readers. Merges retain every version that one of them sees. Taking a
//! snapshot is O(1): published sequences only increase, so the newest reader is always added at the
//! end.
//!
//! Each thread registers its readers in one part. The horizon of a merge is computed in this order:
//! 1. Read the newest published sequence.
//! 2. Visit the parts one by one and copy the sequences held.
//!
//! A reader that step 2 misses registered after its part was visited. It reads
//! the published sequence under the part's lock, so its snapshot is the sequence
//! of step 1 or a newer one.

use crate::sync::{Mutex, current_stripe};
use std::collections::VecDeque;
use teak_base::CommitSequence;
use teak_base::stripes::{Stripe, Striped};

#[derive(Default)]
struct Live {
    /// Readers per sequence, ascending. Zero counts after the front are removed
    /// lazily.
    counts: VecDeque<(CommitSequence, u64)>,
    empty: usize,
}

/// Registry of live snapshots.
#[derive(Default)]
pub struct Snapshots {
    live: Striped<Mutex<Live>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSnapshot {
    pub(crate) sequence: CommitSequence,
    stripe: Stripe,
}

impl Snapshots {
    /// Registers a reader of the newest published sequence, which `newest`
    /// returns. Every sequence acquired later is at least as new.
    pub(crate) fn acquire(&self, newest: impl FnOnce() -> CommitSequence) -> HeldSnapshot {
        let stripe = current_stripe();
        let mut live = self.live.get(stripe).lock();
        let sequence = newest();
        match live.counts.back_mut() {
            Some((last, count)) if *last == sequence => {
                let was_empty = *count == 0;
                *count += 1;
                if was_empty {
                    live.empty -= 1;
                }
            }
            _ => live.counts.push_back((sequence, 1)),
        }
        HeldSnapshot { sequence, stripe }
    }

    /// Ends a registration.
    pub(crate) fn release(&self, held: HeldSnapshot) {
        let mut live = self.live.get(held.stripe).lock();
        let position = live
            .counts
            .binary_search_by_key(&held.sequence, |(sequence, _)| *sequence);
        let slot = position
            .ok()
            .and_then(|position| live.counts.get_mut(position));
        let became_empty = match slot {
            Some((_, count)) if *count > 0 => {
                *count -= 1;
                *count == 0
            }
            _ => {
                debug_assert!(false, "released a snapshot that is not held");
                false
            }
        };
        if !became_empty {
            return;
        }
        live.empty += 1;
        while matches!(live.counts.front(), Some((_, 0))) {
            live.counts.pop_front();
            live.empty -= 1;
        }
        if live.empty > 64 && live.empty * 2 > live.counts.len() {
            live.counts.retain(|(_, count)| *count > 0);
            live.empty = 0;
        }
    }

    /// The live snapshots, ascending, followed by the newest published sequence (without
    /// duplicates). Snapshots taken during the call may be missing; they are not older than the
    /// last element.
    pub fn list(&self, newest: impl FnOnce() -> CommitSequence) -> Vec<CommitSequence> {
        let newest = newest();
        let mut list = Vec::new();
        for live in self.live.iter() {
            let live = live.lock();
            let held = live.counts.iter().filter(|(_, count)| *count > 0);
            list.extend(held.map(|(sequence, _)| *sequence));
        }
        list.retain(|sequence| *sequence < newest);
        list.push(newest);
        list.sort_unstable();
        list.dedup();
        list
    }

    /// The oldest live snapshot, or the newest published sequence.
    pub fn oldest(&self, newest: impl FnOnce() -> CommitSequence) -> CommitSequence {
        let newest = newest();
        // The count at the front is never zero: `release` removes it.
        let oldest = |live: &Mutex<Live>| live.lock().counts.front().map(|(held, _)| *held);
        let oldest = self.live.iter().filter_map(oldest).min();
        oldest.map_or(newest, |oldest| oldest.min(newest))
    }

    /// Number of registered readers.
    pub fn count(&self) -> u64 {
        let count = |live: &Mutex<Live>| {
            live.lock()
                .counts
                .iter()
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        self.live.iter().map(count).sum()
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_is_ascending_and_ends_with_the_newest() {
        let snapshots = Snapshots::default();
        let a = snapshots.acquire(|| CommitSequence(3));
        let b = snapshots.acquire(|| CommitSequence(3));
        let c = snapshots.acquire(|| CommitSequence(7));
        let list = |newest| {
            snapshots
                .list(|| CommitSequence(newest))
                .into_iter()
                .map(|sequence| sequence.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(list(9), [3, 7, 9]);
        snapshots.release(a);
        assert_eq!(list(7), [3, 7]);
        snapshots.release(b);
        assert_eq!(list(9), [7, 9]);
        snapshots.release(c);
        assert_eq!(list(9), [9]);
        assert_eq!(snapshots.oldest(|| CommitSequence(9)), CommitSequence(9));
    }

    #[test]
    fn readers_of_all_threads_are_listed() {
        let snapshots = Snapshots::default();
        // Sequences only increase within a part, which threads may share, so only one thread
        // acquires at a time.
        let acquire = |newest| {
            let acquire = || snapshots.acquire(|| CommitSequence(newest));
            std::thread::scope(|scope| scope.spawn(acquire).join().unwrap())
        };
        let held = [3, 3, 4, 5].map(acquire);
        let list = |newest| snapshots.list(|| CommitSequence(newest));
        assert_eq!(list(6), [3, 4, 5, 6].map(CommitSequence));
        // Readers newer than `newest` are not listed.
        assert_eq!(list(4), [3, 4].map(CommitSequence));
        assert_eq!(snapshots.oldest(|| CommitSequence(6)), CommitSequence(3));
        assert_eq!(snapshots.oldest(|| CommitSequence(2)), CommitSequence(2));
        assert_eq!(snapshots.count(), 4);
        for held in held {
            snapshots.release(held);
        }
        assert_eq!(list(6), [CommitSequence(6)]);
        assert_eq!(snapshots.count(), 0);
    }

    proptest! {
        #[test]
        fn oldest_is_the_smallest_held(steps in proptest::collection::vec((any::<bool>(), 0usize..8), 1..400)) {
            let snapshots = Snapshots::default();
            let mut held = Vec::new();
            let mut newest = 0;
            for (acquire, place) in steps {
                if acquire {
                    newest += place as u64;
                    held.push(snapshots.acquire(|| CommitSequence(newest)));
                } else if !held.is_empty() {
                    snapshots.release(held.swap_remove(place % held.len()));
                }
                let sequences = held.iter().map(|held| held.sequence.0);
                let oldest = sequences.clone().min().unwrap_or(newest);
                prop_assert_eq!(snapshots.oldest(|| CommitSequence(newest)).0, oldest);
                let mut expected: Vec<u64> = sequences.collect();
                expected.push(newest);
                expected.sort_unstable();
                expected.dedup();
                let list: Vec<u64> = snapshots.list(|| CommitSequence(newest)).into_iter().map(|s| s.0).collect();
                prop_assert_eq!(list, expected);
            }
        }
    }
}
