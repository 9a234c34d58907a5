//! The commit sequences that live readers look at. Merges keep what any of
//! them can see. Acquiring is O(1): published sequences only grow, so the
//! newest reader always belongs at the end.

use crate::sync::Mutex;
use std::collections::VecDeque;
use teak_base::CommitSequence;

#[derive(Default)]
struct Live {
    /// Ascending by sequence; a count of zero in the middle is swept lazily.
    counts: VecDeque<(CommitSequence, u64)>,
    empty: usize,
}

/// Registry of live snapshots.
#[derive(Default)]
pub struct Snapshots {
    live: Mutex<Live>,
}

impl Snapshots {
    /// Registers a reader of the newest published sequence, which `newest`
    /// yields. Every sequence acquired later is at least as new.
    pub fn acquire(&self, newest: impl FnOnce() -> CommitSequence) -> CommitSequence {
        let mut live = self.live.lock();
        let sequence = newest();
        match live.counts.back_mut() {
            Some((last, count)) if *last == sequence => {
                let revived = *count == 0;
                *count += 1;
                if revived {
                    live.empty -= 1;
                }
            }
            _ => live.counts.push_back((sequence, 1)),
        }
        sequence
    }

    /// Gives up one registration of `sequence`.
    ///
    /// # Panics
    /// When the sequence is not registered.
    pub fn release(&self, sequence: CommitSequence) {
        let mut live = self.live.lock();
        let place = live
            .counts
            .binary_search_by_key(&sequence, |(sequence, _)| *sequence);
        let slot = place.ok().and_then(|place| live.counts.get_mut(place));
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

    /// The live snapshots, ascending, and the newest published sequence last
    /// (once, even when it is held as well).
    pub fn list(&self, newest: impl FnOnce() -> CommitSequence) -> Vec<CommitSequence> {
        let live = self.live.lock();
        let newest = newest();
        let mut list: Vec<CommitSequence> = live
            .counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(sequence, _)| *sequence)
            .collect();
        if list.last() != Some(&newest) {
            list.push(newest);
        }
        list
    }

    /// The oldest live snapshot, or the newest published sequence.
    pub fn oldest(&self, newest: impl FnOnce() -> CommitSequence) -> CommitSequence {
        let live = self.live.lock();
        let newest = newest();
        // The front is never empty: release sweeps it.
        live.counts
            .front()
            .map_or(newest, |(sequence, _)| *sequence)
    }

    /// How many readers are registered.
    pub fn count(&self) -> u64 {
        self.live.lock().counts.iter().map(|(_, count)| count).sum()
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

    proptest! {
        #[test]
        fn oldest_is_the_smallest_held(steps in proptest::collection::vec((any::<bool>(), 0usize..8), 1..400)) {
            let snapshots = Snapshots::default();
            let mut held: Vec<u64> = Vec::new();
            let mut newest = 0;
            for (acquire, place) in steps {
                if acquire {
                    newest += place as u64;
                    held.push(snapshots.acquire(|| CommitSequence(newest)).0);
                } else if !held.is_empty() {
                    let sequence = held.swap_remove(place % held.len());
                    snapshots.release(CommitSequence(sequence));
                }
                let oldest = held.iter().copied().min().unwrap_or(newest);
                prop_assert_eq!(snapshots.oldest(|| CommitSequence(newest)).0, oldest);
                let mut expected = held.clone();
                expected.push(newest);
                expected.sort_unstable();
                expected.dedup();
                let list: Vec<u64> = snapshots.list(|| CommitSequence(newest)).into_iter().map(|s| s.0).collect();
                prop_assert_eq!(list, expected);
            }
        }
    }
}
