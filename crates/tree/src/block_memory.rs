//! The memory of decoded blocks and of nodes, of all trees that share a page cache. Blocks that the
//! cache has evicted are counted as long as they are used, for example by a cursor. Blocks are also
//! counted by file, so that the cost of a look-up can be estimated; and so are their filters, and what checks of these
//! have found.

use crate::filter_counts::{FileFilters, FilterChecks, FilterInMemory, FilterStatistics};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use teak_base::FileId;

/// Bytes of decoded blocks and of nodes.
#[derive(Debug, Default)]
pub struct BlockMemory {
    blocks: AtomicU64,
    nodes: AtomicU64,
    files: Mutex<Files>,
}

/// The counters of each file. Unused ones are removed when their number may have doubled.
#[derive(Debug, Default)]
struct Files {
    counters: HashMap<FileId, Arc<FileCounters>>,
    sweep_at: usize,
    /// The checks of the filters of files whose counters were removed.
    removed: FilterChecks,
}

/// The counters of one file.
#[derive(Debug, Default)]
struct FileCounters {
    /// Bytes of decoded blocks.
    bytes: AtomicU64,
    /// Bytes of the entries of decoded pages with all columns.
    entry_bytes: AtomicU64,
    filters: FileFilters,
}

/// Number of counters below which unused ones are retained.
const FILES_MIN: usize = 64;

impl Files {
    /// The counters of a file; `memory` counts what they have allocated.
    fn counters(&mut self, file: FileId, memory: &AtomicU64) -> Arc<FileCounters> {
        if let Some(counters) = self.counters.get(&file) {
            return Arc::clone(counters);
        }
        if self.counters.len() >= self.sweep_at.max(FILES_MIN) {
            let removed = &mut self.removed;
            self.counters.retain(|_, counters| {
                let is_used = Arc::strong_count(counters) > 1;
                if !is_used {
                    // Makes the counts visible that a thread added before it released the file.
                    fence(Ordering::Acquire);
                    removed.add(&counters.filters.checks());
                    memory.fetch_sub(counters.filters.memory_bytes(), Ordering::Relaxed);
                }
                is_used
            });
            self.sweep_at = self.counters.len() * 2;
        }
        Arc::clone(self.counters.entry(file).or_default())
    }
}

impl BlockMemory {
    /// Bytes of all pages, index blocks and separate values in memory, cached or not, and of the counters of filters.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of the nodes of open trees, with the descriptions of their runs.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// The filters of one file.
    pub(crate) fn file_filters(&self, file: FileId) -> FilterStatistics {
        let files = self.files.lock();
        let counters = files.counters.get(&file);
        counters.map_or_else(FilterStatistics::default, |counters| {
            counters.filters.statistics()
        })
    }

    /// The checks of the filters of all files.
    pub(crate) fn filter_checks(&self) -> FilterChecks {
        let files = self.files.lock();
        let mut sum = files.removed;
        for counters in files.counters.values() {
            sum.add(&counters.filters.checks());
        }
        sum
    }

    /// The counters of the blocks of one file.
    pub(crate) fn of_file(self: &Arc<Self>, file: FileId) -> FileBlocks {
        FileBlocks {
            memory: Arc::clone(self),
            counters: self.files.lock().counters(file, &self.blocks),
        }
    }

    fn sum(&self, kind: BlockUse) -> &AtomicU64 {
        match kind {
            BlockUse::Block => &self.blocks,
            BlockUse::Node => &self.nodes,
        }
    }
}

/// Counts the blocks of one file.
#[derive(Debug)]
pub(crate) struct FileBlocks {
    memory: Arc<BlockMemory>,
    counters: Arc<FileCounters>,
}

impl FileBlocks {
    /// Bytes of the blocks of the file in memory, cached or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.counters.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the entries of the pages of the file in memory, as if they had been decoded with all columns.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.counters.entry_bytes.load(Ordering::Relaxed)
    }

    /// Counts the check of a filter.
    #[inline]
    pub(crate) fn count_filter(&self, negative: bool) {
        let filters = &self.counters.filters;
        if !filters.count(negative) {
            let bytes = filters.count_first(negative);
            self.memory.blocks.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockUse {
    /// A decoded page, index block or separate value.
    Block,
    /// A node, or a run in it: the run's description and the references to the run.
    Node,
}

/// Counted memory. Dropping it subtracts the bytes.
#[derive(Debug)]
pub(crate) struct BlockCharge {
    memory: Arc<BlockMemory>,
    kind: BlockUse,
    bytes: u64,
    /// Of a page: see [`FileBlocks::entry_bytes`].
    entry_bytes: u64,
    /// The counters of the block's file.
    file: Option<Arc<FileCounters>>,
    /// The filter of an index block.
    filter: Option<FilterInMemory>,
}

impl BlockCharge {
    /// Counts a block of a file.
    pub(crate) fn of_block(file: &FileBlocks, bytes: usize) -> Self {
        let counters = &file.counters;
        counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut charge = Self::new(&file.memory, BlockUse::Block, bytes);
        charge.file = Some(Arc::clone(counters));
        charge
    }

    /// Counts a page of a file. `entry_bytes`: those of its entries with all columns.
    pub(crate) fn of_page(file: &FileBlocks, bytes: usize, entry_bytes: usize) -> Self {
        let mut charge = Self::of_block(file, bytes);
        charge.entry_bytes = entry_bytes as u64;
        let counter = &file.counters.entry_bytes;
        counter.fetch_add(charge.entry_bytes, Ordering::Relaxed);
        charge
    }

    /// Counts an index block of a file, and its filter.
    pub(crate) fn of_index_block(file: &FileBlocks, bytes: usize, filter: FilterInMemory) -> Self {
        file.counters.filters.add(filter);
        let mut charge = Self::of_block(file, bytes);
        charge.filter = Some(filter);
        charge
    }

    /// Counts what nodes have of a run.
    pub(crate) fn of_node(memory: &Arc<BlockMemory>, bytes: usize) -> Self {
        Self::new(memory, BlockUse::Node, bytes)
    }

    fn new(memory: &Arc<BlockMemory>, kind: BlockUse, bytes: usize) -> Self {
        let bytes = bytes as u64;
        memory.sum(kind).fetch_add(bytes, Ordering::Relaxed);
        Self {
            memory: Arc::clone(memory),
            kind,
            bytes,
            entry_bytes: 0,
            file: None,
            filter: None,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for BlockCharge {
    fn drop(&mut self) {
        let sum = self.memory.sum(self.kind);
        sum.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(file) = &self.file {
            file.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            file.entry_bytes
                .fetch_sub(self.entry_bytes, Ordering::Relaxed);
            if let Some(filter) = self.filter {
                file.filters.remove(filter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockCharge, BlockMemory, FILES_MIN};
    use crate::filter_counts::{FilterChecks, FilterInMemory, FilterStatistics};
    use std::sync::Arc;
    use teak_base::FileId;

    #[test]
    fn blocks_are_counted_by_file_until_they_are_dropped() {
        let memory = Arc::new(BlockMemory::default());
        let (one, other) = (FileId(1), FileId(2));
        let first = BlockCharge::of_block(&memory.of_file(one), 100);
        let second = BlockCharge::of_block(&memory.of_file(one), 20);
        let third = BlockCharge::of_block(&memory.of_file(other), 3);
        let bytes = || [one, other].map(|file| memory.of_file(file).bytes());
        assert_eq!(bytes(), [120, 3]);
        assert_eq!(memory.block_bytes(), 123);
        drop(first);
        assert_eq!(bytes(), [20, 3]);
        let page = BlockCharge::of_page(&memory.of_file(one), 30, 90);
        assert_eq!((bytes(), memory.of_file(one).entry_bytes()), ([50, 3], 90));
        drop(page);
        assert_eq!(memory.of_file(one).entry_bytes(), 0);
        drop((second, third));
        assert_eq!(bytes(), [0, 0]);
        assert_eq!(memory.block_bytes(), 0);
    }

    #[test]
    fn filters_are_counted_by_file_until_their_blocks_are_dropped() {
        let memory = Arc::new(BlockMemory::default());
        let blocks = memory.of_file(FileId(1));
        let filter = FilterInMemory {
            bytes: 64,
            entries: 50,
        };
        let charge = BlockCharge::of_index_block(&blocks, 1000, filter);
        blocks.count_filter(true);
        blocks.count_filter(false);
        blocks.count_filter(true);
        let counted = memory.file_filters(FileId(1));
        assert_eq!((counted.bytes, counted.entries), (64, 50));
        let checks = FilterChecks {
            checks: 3,
            negatives: 2,
        };
        assert_eq!(counted.checks, checks);
        assert_eq!(memory.file_filters(FileId(2)), FilterStatistics::default());
        assert!(memory.block_bytes() > 1000);
        drop(charge);
        let counted = memory.file_filters(FileId(1));
        assert_eq!(
            (counted.bytes, counted.entries, counted.checks),
            (0, 0, checks)
        );
        drop(blocks);
        for number in 2..1000 {
            drop(memory.of_file(FileId(number)));
        }
        // The counters of the file were removed, and the sum has their counts.
        assert_eq!(memory.file_filters(FileId(1)), FilterStatistics::default());
        assert_eq!(memory.filter_checks(), checks);
        assert_eq!(memory.block_bytes(), 0);
    }

    #[test]
    fn counters_of_files_without_blocks_are_removed() {
        let memory = Arc::new(BlockMemory::default());
        let held = BlockCharge::of_block(&memory.of_file(FileId(0)), 7);
        for number in 1..10_000 {
            drop(BlockCharge::of_block(&memory.of_file(FileId(number)), 1));
        }
        assert!(memory.files.lock().counters.len() <= FILES_MIN + 1);
        assert_eq!(memory.of_file(FileId(0)).bytes(), 7);
        drop(held);
    }
}
