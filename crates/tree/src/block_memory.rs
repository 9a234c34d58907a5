//! The memory of decoded blocks and of nodes, of all trees that share a page cache. Blocks that the
//! cache has evicted are counted as long as they are used, for example by a cursor. Blocks are also
//! counted by file, so that the cost of a look-up can be estimated.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::FileId;

/// Bytes of decoded blocks and of nodes.
#[derive(Debug, Default)]
pub struct BlockMemory {
    blocks: AtomicU64,
    nodes: AtomicU64,
    files: Mutex<Files>,
}

/// The bytes of decoded blocks of each file. Unused counters are removed when their number may have
/// doubled.
#[derive(Debug, Default)]
struct Files {
    bytes: HashMap<FileId, Arc<AtomicU64>>,
    sweep_at: usize,
}

/// Number of counters below which unused ones are retained.
const FILES_MIN: usize = 64;

impl Files {
    fn counter(&mut self, file: FileId) -> Arc<AtomicU64> {
        if let Some(bytes) = self.bytes.get(&file) {
            return Arc::clone(bytes);
        }
        if self.bytes.len() >= self.sweep_at.max(FILES_MIN) {
            self.bytes.retain(|_, bytes| Arc::strong_count(bytes) > 1);
            self.sweep_at = self.bytes.len() * 2;
        }
        Arc::clone(self.bytes.entry(file).or_default())
    }
}

impl BlockMemory {
    /// Bytes of all pages, index blocks and separate values in memory, cached or not.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of the nodes of open trees, with the descriptions of their runs.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Bytes of the blocks of one file in memory, cached or not.
    #[must_use]
    pub fn file_bytes(&self, file: FileId) -> u64 {
        let files = self.files.lock();
        let bytes = files.bytes.get(&file);
        bytes.map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// The counter of the blocks of one file.
    pub(crate) fn of_file(self: &Arc<Self>, file: FileId) -> FileBlocks {
        FileBlocks {
            memory: Arc::clone(self),
            bytes: self.files.lock().counter(file),
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
    bytes: Arc<AtomicU64>,
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
    /// The counter of the block's file.
    file: Option<Arc<AtomicU64>>,
}

impl BlockCharge {
    /// Counts a block of a file.
    pub(crate) fn of_block(file: &FileBlocks, bytes: usize) -> Self {
        file.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut charge = Self::new(&file.memory, BlockUse::Block, bytes);
        charge.file = Some(Arc::clone(&file.bytes));
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
            file: None,
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
            file.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockCharge, BlockMemory, FILES_MIN};
    use std::sync::Arc;
    use teak_base::FileId;

    #[test]
    fn blocks_are_counted_by_file_until_they_are_dropped() {
        let memory = Arc::new(BlockMemory::default());
        let (one, other) = (FileId(1), FileId(2));
        let first = BlockCharge::of_block(&memory.of_file(one), 100);
        let second = BlockCharge::of_block(&memory.of_file(one), 20);
        let third = BlockCharge::of_block(&memory.of_file(other), 3);
        assert_eq!((memory.file_bytes(one), memory.file_bytes(other)), (120, 3));
        assert_eq!(memory.block_bytes(), 123);
        drop(first);
        assert_eq!((memory.file_bytes(one), memory.file_bytes(other)), (20, 3));
        drop((second, third));
        assert_eq!((memory.file_bytes(one), memory.file_bytes(other)), (0, 0));
        assert_eq!(memory.block_bytes(), 0);
    }

    #[test]
    fn counters_of_files_without_blocks_are_removed() {
        let memory = Arc::new(BlockMemory::default());
        let held = BlockCharge::of_block(&memory.of_file(FileId(0)), 7);
        for number in 1..10_000 {
            drop(BlockCharge::of_block(&memory.of_file(FileId(number)), 1));
        }
        assert!(memory.files.lock().bytes.len() <= FILES_MIN + 1);
        assert_eq!(memory.file_bytes(FileId(0)), 7);
        drop(held);
    }
}
