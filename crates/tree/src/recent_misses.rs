//! The blocks that look-ups have missed in the page cache lately.
//!
//! A table with a place for each hash of a block, which has a part of this hash. A later miss with the same place
//! replaces it. So a miss is remembered until about as many others as there are places. Losing one, or taking one block
//! for another, costs only time.

use std::sync::atomic::{AtomicU32, Ordering};
use teak_base::FileId;

/// Bounds of the number of places; four bytes each.
const PLACES_MIN: usize = 1 << 10;
const PLACES_MAX: usize = 1 << 20;

fn hash_of(file: FileId, offset: u64) -> u64 {
    let mixed = (offset ^ file.0 << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

#[derive(Debug)]
pub(crate) struct RecentMisses {
    places: Box<[AtomicU32]>,
}

impl RecentMisses {
    /// For a cache of this many blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let count = blocks.clamp(PLACES_MIN, PLACES_MAX).next_power_of_two();
        Self {
            places: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Remembers a miss. Returns whether it is not remembered yet.
    pub(crate) fn is_first(&self, file: FileId, offset: u64) -> bool {
        let hash = hash_of(file, offset);
        // Zero is a place without a miss.
        let mark = u32::try_from(hash >> 32).unwrap_or(0) | 1;
        let number = usize::try_from(hash % self.places.len() as u64).unwrap_or(0);
        let Some(place) = self.places.get(number) else {
            return true;
        };
        place.swap(mark, Ordering::Relaxed) != mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_remembered_until_many_others() {
        let misses = RecentMisses::new(1);
        let file = FileId(3);
        assert!(misses.is_first(file, 4096));
        assert!(!misses.is_first(file, 4096));
        assert!(misses.is_first(FileId(4), 4096));
        let others = PLACES_MIN as u64 * 20;
        for offset in 1..others {
            misses.is_first(file, offset * 8192);
        }
        assert!(misses.is_first(file, 4096));
        let again = (others - 100..others).filter(|offset| !misses.is_first(file, offset * 8192));
        assert!(again.count() > 80);
    }
}
