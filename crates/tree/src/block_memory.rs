//! The memory of decoded blocks and of nodes, of all trees that share a page cache. Blocks that the
//! cache has evicted are counted as long as they are used, for example by a cursor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of decoded blocks and of nodes.
#[derive(Debug, Default)]
pub struct BlockMemory {
    blocks: AtomicU64,
    nodes: AtomicU64,
}

impl BlockMemory {
    /// Bytes of all pages, run indexes and separate values in memory, cached or not.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of the nodes of open trees, with the descriptions of their runs.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed)
    }

    fn sum(&self, kind: BlockUse) -> &AtomicU64 {
        match kind {
            BlockUse::Block => &self.blocks,
            BlockUse::Node => &self.nodes,
        }
    }
}

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockUse {
    /// A decoded page, run index or separate value.
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
}

impl BlockCharge {
    pub(crate) fn new(memory: &Arc<BlockMemory>, kind: BlockUse, bytes: usize) -> Self {
        let bytes = bytes as u64;
        memory.sum(kind).fetch_add(bytes, Ordering::Relaxed);
        Self {
            memory: Arc::clone(memory),
            kind,
            bytes,
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
    }
}
