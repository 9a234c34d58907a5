//! Counts and sizes of a tree.

use crate::tree::Tree;
use std::sync::atomic::AtomicU64;

/// Counts since the tree was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushes: AtomicU64,
}

/// Shape, sizes and counts of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStatistics {
    /// Levels of nodes.
    pub height: u64,
    /// Nodes.
    pub nodes: u64,
    /// Leaves.
    pub leaves: u64,
    /// References to runs.
    pub runs: u64,
    /// Entries in runs.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
    /// Range tombstones in runs.
    pub range_tombstones: u64,
    /// Rows, about, memtables included.
    pub rows: u64,
    /// Raw bytes of runs.
    pub raw_bytes: u64,
    /// Bytes of runs in the file.
    pub stored_bytes: u64,
    /// Raw bytes of runs that are not leaf data yet.
    pub upper_bytes: u64,
    /// Bytes of the active memtable.
    pub memtable_bytes: u64,
    /// Bytes of frozen memtables.
    pub frozen_bytes: u64,
}

impl Tree {
    /// Shape, sizes and counts.
    #[must_use]
    pub fn statistics(&self) -> TreeStatistics {
        let version = self.load_version();
        let summary = &version.root.summary;
        TreeStatistics {
            height: u64::from(version.root.height),
            nodes: summary.nodes,
            leaves: summary.leaves,
            runs: summary.runs,
            entries: summary.entries,
            deletes: summary.deletes,
            range_tombstones: summary.range_tombstones,
            rows: self.estimate_entries(),
            raw_bytes: summary.raw_bytes,
            stored_bytes: summary.stored_bytes,
            upper_bytes: summary.upper_bytes,
            memtable_bytes: self.memtable_bytes(),
            frozen_bytes: self.frozen_bytes(),
        }
    }
}
