//! The blocks that were evicted before they were used again. If one is loaded again soon, it is retained for longer.
//!
//! `quick_cache` could remember evicted blocks itself, but each change of its capacity rounds their number down, so that it
//! remembers none after some hundred changes. It also retains all of them at the cost of the newest blocks, which are then
//! evicted before the look-up that has loaded them uses them again (decision 67).

use crate::recent_uses::Key;
use quick_cache::Lifecycle;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The blocks that a bucket remembers.
const WAYS: usize = 4;

/// Hashes of evicted blocks, newest first.
type Bucket = [AtomicU32; WAYS];

/// Hashes of blocks that were evicted lately.
#[derive(Debug, Default)]
pub(super) struct EvictedBlocks {
    buckets: RwLock<Box<[Bucket]>>,
    hashes: quick_cache::DefaultHashBuilder,
}

impl EvictedBlocks {
    /// Remembers at least this number of blocks, and less than twice as many. If it remembered fewer, it forgets them; it grows
    /// by powers of two, so that this is rare while the cache grows in small steps.
    pub(super) fn reserve(&self, blocks: usize) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() * WAYS < blocks {
            let count = blocks.div_ceil(WAYS).next_power_of_two();
            *buckets = std::iter::repeat_with(Bucket::default)
                .take(count)
                .collect();
        }
    }

    /// Calls `visit` for the bucket of a block, with the hash by which the block is known there.
    fn with_bucket<T>(&self, key: Key, visit: impl FnOnce(&Bucket, u32) -> T) -> Option<T> {
        let hash = self.hashes.hash_one(key);
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let place = hash.checked_rem(buckets.len() as u64)?;
        let bucket = buckets.get(usize::try_from(place).ok()?)?;
        // 0 stands for no block.
        let known_as = u32::try_from(hash >> 32).unwrap_or(0) | 1;
        Some(visit(bucket, known_as))
    }

    fn add(&self, key: Key) {
        self.with_bucket(key, |bucket, hash| {
            // Threads may overwrite each other's change: then a block is forgotten too early.
            let mut moved = hash;
            for place in bucket {
                moved = place.swap(moved, Ordering::Relaxed);
            }
        });
    }

    /// Whether the block was evicted lately; rarely also if another one was.
    pub(super) fn contains(&self, key: Key) -> bool {
        let has = |bucket: &Bucket, hash| {
            let mut places = bucket.iter();
            places.any(|place| place.load(Ordering::Relaxed) == hash)
        };
        self.with_bucket(key, has).unwrap_or(false)
    }
}

thread_local! {
    static INSERTED: Cell<Option<Key>> = const { Cell::new(None) };
}

/// Calls `insert`, which inserts a block. If it calls [`retain_inserted`] before that, the cache does not evict the block for itself:
/// otherwise it would if the block alone is larger than the part for new blocks.
pub(super) fn inserting<T>(insert: impl FnOnce() -> T) -> T {
    let result = insert();
    INSERTED.set(None);
    result
}

/// See [`inserting`]. The block must fit into its part of the cache.
pub(super) fn retain_inserted(key: Key) {
    INSERTED.set(Some(key));
}

/// Notes which blocks the cache evicts, and drops them after it has released its lock.
#[derive(Clone, Debug)]
pub(super) struct Evictions(pub(super) Arc<EvictedBlocks>);

impl<B> Lifecycle<Key, B> for Evictions {
    /// An insertion rarely evicts more than two blocks. The others are dropped under the lock.
    type RequestState = [Option<B>; 2];

    fn is_pinned(&self, key: &Key, _block: &B) -> bool {
        INSERTED.get().as_ref() == Some(key)
    }

    fn begin_request(&self) -> Self::RequestState {
        [None, None]
    }

    fn on_evict(&self, evicted: &mut Self::RequestState, _key: Key, block: B) {
        if let Some(free) = evicted.iter_mut().find(|place| place.is_none()) {
            *free = Some(block);
        }
    }

    fn on_evict_cold(&self, evicted: &mut Self::RequestState, key: Key, block: B) {
        self.0.add(key);
        self.on_evict(evicted, key, block);
    }
}
