//! The memory of the nodes of all trees that share a page cache, and its limit.
//!
//! A node that can be read from the file is *evictable*. When the nodes exceed their share, the
//! thread that has loaded another one evicts evictable nodes that were not used since the last time
//! (the clock algorithm). Roots, nodes that no checkpoint has written yet, and nodes in use remain.
//! Because these may exceed the share, a part of it is left to evictable nodes.

use crate::block_memory::{BlockCharge, BlockMemory};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Statistics of the nodes of all trees that share a page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatistics {
    /// Nodes in memory.
    pub loaded: u64,
    /// Their bytes, with the descriptions of their runs.
    pub bytes: u64,
    /// The bytes above which nodes are evicted.
    pub bytes_max: u64,
    /// Nodes read from files when they were needed.
    pub reads: u64,
    /// Nodes evicted.
    pub evictions: u64,
}

/// A node that can be evicted from memory.
pub(crate) trait Evictable: std::fmt::Debug + Send + Sync {
    /// Clears the mark of a use. Returns whether it was set.
    fn take_used(&self) -> bool;

    /// Removes the node from memory. Returns false if it cannot be read again, or is in use.
    fn evict(&self) -> bool;
}

/// The nodes in memory of all trees that share a page cache.
#[derive(Debug)]
pub struct NodeMemory {
    in_memory: Arc<BlockMemory>,
    bytes_max: AtomicU64,
    loaded: AtomicU64,
    reads: AtomicU64,
    evictions: AtomicU64,
    evictable: Mutex<EvictableNodes>,
}

/// An evictable node, with the bytes of the node and of its runs.
pub(crate) type EvictableNode = (Weak<dyn Evictable>, u64);

/// Evictable nodes, each once, and those that were dropped since.
#[derive(Debug, Default)]
struct EvictableNodes {
    nodes: VecDeque<EvictableNode>,
    bytes: u64,
}

impl EvictableNodes {
    fn push(&mut self, node: EvictableNode) {
        self.bytes += node.1;
        self.nodes.push_back(node);
    }

    fn pop(&mut self) -> Option<EvictableNode> {
        let node = self.nodes.pop_front()?;
        self.bytes -= node.1;
        Some(node)
    }

    fn forget_dropped(&mut self) {
        self.nodes.retain(|(node, _)| node.strong_count() > 0);
        self.bytes = self.nodes.iter().map(|(_, bytes)| bytes).sum();
    }
}

/// The part of the share that is left to evictable nodes is the share divided by this number.
const RETAINED_SHARE: u64 = 4;

/// Dropped nodes are removed from the list when half of its length exceeds the number of nodes in
/// memory by this number.
const DROPPED_MAX: usize = 1024;

impl NodeMemory {
    pub(crate) fn new(in_memory: &Arc<BlockMemory>) -> Arc<Self> {
        Arc::new(Self {
            in_memory: Arc::clone(in_memory),
            bytes_max: AtomicU64::new(u64::MAX),
            loaded: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            evictable: Mutex::default(),
        })
    }

    /// Sets the bytes above which nodes are evicted, and evicts nodes. Initially there is no limit.
    pub fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
        self.evict();
    }

    /// Counts and sizes.
    #[must_use]
    pub fn statistics(&self) -> NodeStatistics {
        NodeStatistics {
            loaded: self.loaded.load(Ordering::Relaxed),
            bytes: self.in_memory.node_bytes(),
            bytes_max: self.bytes_max.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds nodes that have become evictable, and evicts nodes if there are too many. Called
    /// without locks.
    pub(crate) fn add_evictable(&self, nodes: impl Iterator<Item = EvictableNode>) {
        let mut evictable = self.evictable.lock();
        nodes.for_each(|node| evictable.push(node));
        let loaded = usize::try_from(self.loaded.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if evictable.nodes.len() / 2 > loaded.saturating_add(DROPPED_MAX) {
            evictable.forget_dropped();
        }
        drop(evictable);
        self.evict();
    }

    fn is_full(&self) -> bool {
        self.in_memory.node_bytes() > self.bytes_max.load(Ordering::Relaxed)
    }

    /// Evicts nodes until the others fit, until evictable nodes fit in the part that is left to
    /// them, or until no node can be evicted.
    fn evict(&self) {
        if !self.is_full() {
            return;
        }
        let retained = self.bytes_max.load(Ordering::Relaxed) / RETAINED_SHARE;
        // The first visit clears the mark of a use.
        let mut visits = 2 * self.evictable.lock().nodes.len();
        while visits > 0 && self.is_full() {
            visits -= 1;
            let next = {
                let mut evictable = self.evictable.lock();
                let is_enough = evictable.bytes <= retained;
                (!is_enough).then(|| evictable.pop()).flatten()
            };
            let Some((weak, bytes)) = next else {
                return;
            };
            let Some(node) = weak.upgrade() else {
                continue;
            };
            if node.take_used() || !node.evict() {
                self.evictable.lock().push((weak, bytes));
            } else {
                self.evictions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The memory of one node. Dropping it subtracts the bytes.
#[derive(Debug)]
pub(crate) struct NodeCharge {
    memory: Arc<NodeMemory>,
    bytes: BlockCharge,
}

impl NodeCharge {
    pub(crate) fn new(memory: &Arc<NodeMemory>, bytes: usize) -> Self {
        memory.loaded.fetch_add(1, Ordering::Relaxed);
        Self {
            memory: Arc::clone(memory),
            bytes: BlockCharge::of_node(&memory.in_memory, bytes),
        }
    }

    pub(crate) fn memory(&self) -> &Arc<NodeMemory> {
        &self.memory
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.bytes()
    }
}

impl Drop for NodeCharge {
    fn drop(&mut self) {
        self.memory.loaded.fetch_sub(1, Ordering::Relaxed);
    }
}
