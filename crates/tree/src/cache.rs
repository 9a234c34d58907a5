//! The cache of decoded pages, index blocks and separate values, which the trees of an engine
//! share: a `quick_cache` with sizes in bytes. A block that was loaded is evicted after [`NEW_SHARE`] of the cache was
//! loaded after it, unless it was used again or evicted before. The others are evicted in the order of a clock. So it is an
//! S3-FIFO, except that the evicted blocks are remembered here (decision 67).
//!
//! Space of a file is reused after its block is freed. The thread that writes a new block removes
//! the cached one at the same offset. No reader can insert the old block again, because space is
//! reused only after the last pin that retains the old block is dropped.

mod evicted;

use crate::Page;
use crate::block_memory::BlockMemory;
use crate::lock_times::LockTimes;
use crate::memory::MemtableMemory;
use crate::node_memory::NodeMemory;
use crate::page::RowPage;
use crate::page_counts::count_access;
use crate::recent_uses::{Key, repeats_use};
use crate::run::IndexBlock;
use crate::value::SeparateValue;
use evicted::{EvictedBlocks, Evictions, inserting, retain_inserted};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::stripes::{Stripe, Striped};
use teak_base::{Cipher, Encryption, FileId, KeyId, StorageResult};

/// Statistics of a [`PageCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups that did not find the block.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Limit of the bytes held.
    pub capacity_bytes: u64,
    /// Blocks held now.
    pub blocks: u64,
    /// Filters checked since the start.
    pub filter_checks: u64,
    /// Filters that ruled out the key.
    pub filter_negatives: u64,
}

/// How long the cache retains a block after it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Blocks that are not used again are evicted first.
    Normal,
    /// As if the block had been used again. For index blocks that look-ups read: each saves the
    /// look-ups of many keys the read of a page.
    High,
}

/// The number of uses that a high priority counts as. The cache counts at most two.
const HIGH_PRIORITY_USES: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) enum Cached {
    Page(Arc<Page>),
    Rows(Arc<RowPage>),
    Index(Arc<IndexBlock>),
    Value(Arc<SeparateValue>),
}

#[derive(Clone, Debug)]
struct Weigher;

/// Overhead of the cache per entry, in bytes, approximately.
const ENTRY_BYTES: usize = 96;

impl Weighter<Key, Cached> for Weigher {
    fn weight(&self, _key: &Key, value: &Cached) -> u64 {
        let bytes = match value {
            Cached::Page(page) => page.memory_bytes(),
            Cached::Rows(page) => page.memory_bytes(),
            Cached::Index(block) => block.memory_bytes(),
            Cached::Value(value) => value.memory_bytes(),
        };
        (bytes + ENTRY_BYTES) as u64
    }
}

/// Decoded pages, index blocks and separate values, by file and offset, with a limit in bytes.
#[derive(Debug)]
pub struct PageCache {
    blocks: Cache<Key, Cached, Weigher, DefaultHashBuilder, Evictions>,
    evicted: Arc<EvictedBlocks>,
    /// That of `blocks`, which would lock each of its parts to add it up.
    capacity_bytes: AtomicU64,
    /// Lookups that did not find the block. They are counted here because `quick_cache` counts a
    /// lookup twice if it loads the block.
    misses: AtomicU64,
    /// Uses that were counted only to give new blocks a high priority.
    uses_by_priority: AtomicU64,
    /// Hits of blocks that were not counted as uses. See [`repeats_use`].
    repeated_hits: Striped<AtomicU64>,
    memtables: Arc<MemtableMemory>,
    lock_times: LockTimes,
    blocks_in_memory: Arc<BlockMemory>,
    nodes: Arc<NodeMemory>,
    /// The cipher of the files whose blocks are cached.
    cipher: Option<Arc<dyn Cipher>>,
    /// The capacity of each part of `blocks`. An entry evicts others of its part, which a hash of the key chooses.
    part_bytes: AtomicU64,
}

/// Assumed bytes of a block, to size the cache's table. Many runs have pages of 16 KiB.
const BLOCK_BYTES_TYPICAL: u64 = 16 * 1024;

/// The part of the cache for blocks that were loaded and not yet used again.
const NEW_SHARE: f64 = 0.05;

fn typical_blocks(bytes: u64) -> usize {
    usize::try_from(bytes / BLOCK_BYTES_TYPICAL).unwrap_or(usize::MAX)
}

/// A separate value is cached if it is at most this fraction of a part of the cache.
const VALUE_FRACTION: u64 = 16;

impl PageCache {
    /// Creates a cache of at most `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let items = typical_blocks(capacity_bytes);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items.max(16))
            .weight_capacity(capacity_bytes)
            .hot_allocation(1.0 - NEW_SHARE)
            .ghost_allocation(0.0)
            .build();
        let Ok(options) = options else {
            unreachable!("the options that have no default are set");
        };
        let evicted = Arc::<EvictedBlocks>::default();
        evicted.reserve(items);
        let hashes = DefaultHashBuilder::default();
        let evictions = Evictions(Arc::clone(&evicted));
        let blocks = Cache::with_options(options, Weigher, hashes, evictions);
        let blocks_in_memory = Arc::default();
        Self {
            part_bytes: AtomicU64::new(blocks.shard_capacity()),
            capacity_bytes: AtomicU64::new(blocks.capacity()),
            blocks,
            evicted,
            misses: AtomicU64::new(0),
            uses_by_priority: AtomicU64::new(0),
            repeated_hits: Striped::default(),
            memtables: Arc::default(),
            lock_times: LockTimes::default(),
            nodes: NodeMemory::new(&blocks_in_memory),
            blocks_in_memory,
            cipher: None,
        }
    }

    /// Sets the cipher of the files of all trees that use this cache.
    #[must_use]
    pub fn with_cipher(self, cipher: Option<Arc<dyn Cipher>>) -> Self {
        Self { cipher, ..self }
    }

    /// How a file of such a tree with this key is encrypted.
    pub(crate) fn encryption(&self, key: Option<KeyId>) -> Encryption {
        Encryption {
            cipher: self.cipher.clone(),
            key,
        }
    }

    /// The waits for locks of all trees that use this cache.
    #[must_use]
    pub fn lock_times(&self) -> &LockTimes {
        &self.lock_times
    }

    /// The memory of the memtables of all trees that use this cache.
    #[must_use]
    pub fn memtables(&self) -> &Arc<MemtableMemory> {
        &self.memtables
    }

    /// The memory of the decoded blocks and the nodes of all trees that use this cache.
    #[must_use]
    pub fn blocks_in_memory(&self) -> &Arc<BlockMemory> {
        &self.blocks_in_memory
    }

    /// The nodes in memory of all trees that use this cache.
    #[must_use]
    pub fn nodes(&self) -> &Arc<NodeMemory> {
        &self.nodes
    }

    /// Bytes of decoded blocks that the cache does not hold: cursors and merges
    /// use them.
    #[must_use]
    pub fn uncached_bytes(&self) -> u64 {
        let overhead = (self.blocks.len() * ENTRY_BYTES) as u64;
        let cached = self.blocks.weight().saturating_sub(overhead);
        let in_memory = self.blocks_in_memory.block_bytes();
        in_memory.saturating_sub(cached)
    }

    /// Changes the capacity, evicting as needed.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.evicted.reserve(typical_blocks(capacity_bytes) / 2);
        self.blocks.set_capacity(capacity_bytes);
        self.capacity_bytes
            .store(self.blocks.capacity(), Ordering::Relaxed);
        self.part_bytes
            .store(self.blocks.shard_capacity(), Ordering::Relaxed);
    }

    /// Limit of the bytes held.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Whether new blocks replace no others.
    pub(crate) fn has_free_memory(&self) -> bool {
        self.held_bytes() < self.capacity_bytes() / 4 * 3
    }

    /// Returns counts and sizes. Adds up the counts of all files.
    #[must_use]
    pub fn statistics(&self) -> CacheStatistics {
        let uses_by_priority = self.uses_by_priority.load(Ordering::Relaxed);
        let repeated = self.repeated_hits.iter();
        let repeated: u64 = repeated.map(|hits| hits.load(Ordering::Relaxed)).sum();
        let filters = self.blocks_in_memory.filter_checks();
        CacheStatistics {
            hits: self.blocks.hits().saturating_sub(uses_by_priority) + repeated,
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.blocks.weight(),
            capacity_bytes: self.capacity_bytes(),
            blocks: self.blocks.len() as u64,
            filter_checks: filters.checks,
            filter_negatives: filters.negatives,
        }
    }

    /// Maximum size of a separate value that is cached, in bytes.
    pub(crate) fn value_bytes_max(&self) -> u64 {
        self.part_bytes.load(Ordering::Relaxed) / VALUE_FRACTION
    }

    /// Returns a block if it is cached. Counts only a hit: a caller that needs the block loads it
    /// then, which counts the miss.
    #[inline]
    pub(crate) fn get_cached(&self, file: FileId, offset: u64) -> Option<Cached> {
        let held = self.use_block(file, offset)?;
        count_access();
        Some(held)
    }

    /// Returns a block if it is cached, and retains it for longer, unless the thread has used it just before.
    #[inline]
    fn use_block(&self, file: FileId, offset: u64) -> Option<Cached> {
        if !repeats_use(file, offset) {
            return self.blocks.get(&(file, offset));
        }
        let held = self.blocks.peek(&(file, offset))?;
        let hits = self.repeated_hits.get(Stripe::current());
        hits.fetch_add(1, Ordering::Relaxed);
        Some(held)
    }

    /// Counts the miss of a block that the caller reads.
    pub(crate) fn count_miss(&self) {
        count_access();
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a block if it is cached. Neither counts the access nor retains the block for longer.
    /// For merges, which read every block of a leaf once, and for estimates.
    pub(crate) fn peek(&self, file: FileId, offset: u64) -> Option<Cached> {
        self.blocks.peek(&(file, offset))
    }

    /// Caches a new block. It replaces the block at the same offset.
    pub(crate) fn insert(&self, file: FileId, offset: u64, priority: Priority, block: Cached) {
        let was_evicted = self.evicted.contains((file, offset));
        self.put((file, offset), block);
        self.prioritise(file, offset, priority, was_evicted);
    }

    /// Returns the cached block at the offset, or loads and caches it. Other threads that request
    /// the same block wait for this load.
    ///
    /// # Errors
    /// Errors of `load`.
    #[inline]
    pub(crate) fn get_or_load(
        &self,
        file: FileId,
        offset: u64,
        priority: Priority,
        load: impl FnOnce() -> StorageResult<Cached>,
    ) -> StorageResult<Cached> {
        count_access();
        match self.use_block(file, offset) {
            Some(held) => Ok(held),
            None => self.load(file, offset, priority, load),
        }
    }

    #[cold]
    fn load(
        &self,
        file: FileId,
        offset: u64,
        priority: Priority,
        load: impl FnOnce() -> StorageResult<Cached>,
    ) -> StorageResult<Cached> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let was_evicted = self.evicted.contains((file, offset));
        let load = || {
            let block = load()?;
            self.retain_if_it_fits((file, offset), &block);
            Ok(block)
        };
        let loaded = inserting(|| self.blocks.get_or_insert_with(&(file, offset), load))?;
        self.prioritise(file, offset, priority, was_evicted);
        Ok(loaded)
    }

    fn put(&self, key: Key, block: Cached) {
        inserting(|| {
            self.retain_if_it_fits(key, &block);
            self.blocks.insert(key, block);
        });
    }

    /// Called before the block is inserted.
    fn retain_if_it_fits(&self, key: Key, block: &Cached) {
        let part = self.part_bytes.load(Ordering::Relaxed);
        if Weigher.weight(&key, block) <= part / 2 {
            retain_inserted(key);
        }
    }

    fn prioritise(&self, file: FileId, offset: u64, priority: Priority, was_evicted: bool) {
        let uses = match priority {
            Priority::High => HIGH_PRIORITY_USES,
            Priority::Normal => u64::from(was_evicted),
        };
        for _ in 0..uses {
            if self.blocks.get(&(file, offset)).is_some() {
                self.uses_by_priority.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn forget(&self, file: FileId, offset: u64) {
        self.blocks.remove(&(file, offset));
    }

    /// Removes what is cached at `to` and, if the block at `from` is cached, caches it at `to` too.
    /// Called after the block was copied from `from` to `to`, before a version refers to the copy.
    pub(crate) fn moved(&self, file: FileId, from: u64, to: u64) {
        self.forget(file, to);
        if let Some(block) = self.blocks.peek(&(file, from)) {
            self.put((file, to), block);
        }
    }
}

#[cfg(test)]
mod tests;
