//! The bytes of memory that an engine uses, by their use.

/// Bytes of memory, by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// The page cache.
    pub page_cache: u64,
    /// Decoded blocks that cursors and merges use and the cache does not hold.
    pub uncached_blocks: u64,
    /// Active and frozen memtables, without frozen ones whose flushes fail.
    pub memtables_live: u64,
    /// Flushed memtables that readers keep, and frozen ones whose flushes fail.
    pub memtables_retired: u64,
    /// Memory of dropped memtables that the next memtables will use.
    pub memtables_spare: u64,
    /// Nodes of open trees.
    pub nodes: u64,
    /// Row and range locks.
    pub locks: u64,
    /// The table of write ids.
    pub write_ids: u64,
    /// Buffers of the log.
    pub log: u64,
    /// Sorts of the entries of new indexes, and of retained log records.
    pub sorts: u64,
    /// Memory of the engine's caller: rows that it keeps, and its handles of tables. Another allocator
    /// may have it.
    pub callers: u64,
    /// All memory except page cache and memtables, as the memory allocator reports it; `None`
    /// without such an allocator.
    pub measured: Option<u64>,
}

impl MemoryUse {
    /// Bytes that are neither in the page cache nor in memtables.
    pub(crate) fn others(&self) -> u64 {
        let counted = self.uncached_blocks + self.log + self.unshared();
        self.callers + counted.max(self.measured.unwrap_or(0))
    }

    /// The part of [`MemoryUse::others`] that exceeds `set_aside`, the shares of flusher
    /// threads and the log. Of the counted bytes, only uncached blocks and the log's
    /// buffers use these shares.
    pub(crate) fn others_beyond(&self, set_aside: u64) -> u64 {
        let shared = (self.uncached_blocks + self.log).saturating_sub(set_aside);
        let counted = shared + self.unshared();
        let measured = self.measured.unwrap_or(0);
        self.callers + counted.max(measured.saturating_sub(set_aside))
    }

    /// Counted bytes that never use the shares of flusher threads and the log.
    fn unshared(&self) -> u64 {
        self.nodes + self.locks + self.write_ids + self.sorts
    }

    /// All bytes.
    pub(crate) fn total(&self) -> u64 {
        let memtables = self.memtables_live + self.memtables_retired + self.memtables_spare;
        self.page_cache + memtables + self.others()
    }
}
