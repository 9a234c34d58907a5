//! The cache of decoded pages and run indexes, shared by all trees.

/// Counts of a [`PageCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Look-ups that found the block.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes that may be held.
    pub capacity_bytes: u64,
    /// Blocks held now.
    pub blocks: u64,
}

/// Decoded pages and run indexes, by file and offset, up to a number of bytes.
#[derive(Debug)]
pub struct PageCache {}

impl PageCache {
    /// A cache of at most `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let _ = capacity_bytes;
        todo!()
    }

    /// Changes the capacity, evicting as needed.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        let _ = capacity_bytes;
        todo!()
    }

    /// Counts and sizes.
    #[must_use]
    pub fn statistics(&self) -> CacheStatistics {
        todo!()
    }
}
