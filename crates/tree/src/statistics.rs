//! Counts and sizes of a tree.

use crate::FilterStatistics;
use crate::node::LeafPath;
use crate::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{Codec, StorageResult};

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
    /// Deletes among these entries.
    pub deletes: u64,
    /// Range tombstones in runs.
    pub range_tombstones: u64,
    /// Estimated rows, including memtables.
    pub rows: u64,
    /// Raw bytes of runs, with separate values.
    pub raw_bytes: u64,
    /// Bytes of runs in the file, with separate values.
    pub stored_bytes: u64,
    /// Pages of runs.
    pub pages: u64,
    /// Values stored apart from their entries.
    pub separate_values: u64,
    /// Bytes of these values in the file.
    pub separate_bytes: u64,
    /// Size of the upper runs, as planning counts it.
    pub upper_bytes: u64,
    /// Bytes of the active memtable.
    pub memtable_bytes: u64,
    /// Bytes of frozen memtables.
    pub frozen_bytes: u64,
    /// Memtable flushes. This and the following counts begin when the tree is opened.
    pub memtable_flushes: u64,
    /// Flushes of inner children.
    pub child_flushes: u64,
    /// Merges of leaves.
    pub leaf_merges: u64,
    /// Other jobs: consolidations, marks and relocations.
    pub other_jobs: u64,
    /// Entries that jobs have read.
    pub entries_merged: u64,
    /// Raw bytes that memtable flushes have written.
    pub raw_bytes_flushed: u64,
    /// Raw bytes that jobs have written, without bulk loads and relocations. Divided by
    /// `raw_bytes_flushed` this is the write amplification of the tree, without the log.
    pub raw_bytes_written: u64,
    /// Bytes that these jobs have written to the file.
    pub stored_bytes_written: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
}

/// Sizes of a tree that are cheap to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeSizes {
    /// Levels of nodes.
    pub height: u64,
    /// References to runs.
    pub runs: u64,
    /// Deletes and range tombstones in runs.
    pub deletes: u64,
    /// Estimated rows, including memtables.
    pub rows: u64,
    /// Raw bytes of runs, with separate values.
    pub raw_bytes: u64,
    /// Raw bytes of a page on average, at most those that the options set.
    pub page_bytes: u64,
    /// Bytes of memtables that are not flushed.
    pub memtable_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// The codec of bottom runs.
    pub codec: Codec,
    /// See [`Tree::cached_bytes`].
    pub cached_bytes: u64,
    /// See [`Tree::cached_entry_bytes`].
    pub cached_entry_bytes: u64,
    /// See [`Tree::cache_bytes_limit`].
    pub cache_bytes_limit: u64,
}

impl Tree {
    /// Sizes. Cheap enough for each statement: reads one version of the tree.
    #[must_use]
    pub fn sizes(&self) -> TreeSizes {
        let version = self.load_version();
        let summary = &version.root.summary;
        let options = self.options.load();
        // Separate values are not in pages.
        let page_bytes_max = u64::from(options.page_bytes);
        let page_bytes = summary.raw_bytes.checked_div(summary.pages);
        TreeSizes {
            height: u64::from(version.root.height),
            runs: summary.runs,
            deletes: summary.deletes + summary.range_tombstones,
            rows: version.rows(),
            raw_bytes: summary.raw_bytes,
            page_bytes: page_bytes.map_or(page_bytes_max, |bytes| bytes.min(page_bytes_max)),
            memtable_bytes: version.active.memtable.bytes() + version.frozen_bytes(),
            file_bytes: self.file_bytes(),
            codec: options.codec,
            cached_bytes: self.cached_bytes(),
            cached_entry_bytes: self.cached_entry_bytes(),
            cache_bytes_limit: self.cache_bytes_limit(),
        }
    }

    /// The counters of the file, which remain readable when the tree is closed.
    #[must_use]
    pub fn file_counters(&self) -> &Arc<teak_block_file::BlockFileCounters> {
        self.file.counters()
    }

    /// Sizes and counts of the file.
    #[must_use]
    pub fn file_statistics(&self) -> teak_block_file::BlockFileStatistics {
        self.file.statistics()
    }

    /// The ranges of the file that contain neither superblocks nor live blocks, see
    /// [`BlockFile::unused_ranges`](teak_block_file::BlockFile::unused_ranges).
    #[must_use]
    pub fn unused_ranges(&self) -> Vec<(u64, u64)> {
        self.file.unused_ranges()
    }

    /// Length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// Bytes of the file's blocks in memory, decoded: in the cache, or used by cursors.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    /// Bytes of the entries of the file's pages in memory, as if they had been decoded with all columns.
    #[must_use]
    pub fn cached_entry_bytes(&self) -> u64 {
        self.blocks.entry_bytes()
    }

    /// The filters of the file's index blocks: those in memory, and their checks since the tree was opened.
    #[must_use]
    pub fn filter_statistics(&self) -> FilterStatistics {
        let memory = self.cache.blocks_in_memory();
        let filters = memory.file_filters(self.file.file_id());
        FilterStatistics {
            checks: filters.checks.since(&self.checks_opened),
            ..filters
        }
    }

    /// Limit of the cache that the tree shares with others, in bytes.
    #[must_use]
    pub fn cache_bytes_limit(&self) -> u64 {
        self.cache.capacity_bytes()
    }

    /// Shape, sizes and counts.
    #[must_use]
    pub fn statistics(&self) -> TreeStatistics {
        let version = self.load_version();
        let summary = &version.root.summary;
        let counters = &self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TreeStatistics {
            height: u64::from(version.root.height),
            nodes: summary.nodes,
            leaves: summary.leaves,
            runs: summary.runs,
            entries: summary.entries,
            deletes: summary.deletes,
            range_tombstones: summary.range_tombstones,
            rows: version.rows(),
            raw_bytes: summary.raw_bytes,
            stored_bytes: summary.stored_bytes,
            pages: summary.pages,
            separate_values: summary.separate_values,
            separate_bytes: summary.separate_bytes,
            upper_bytes: summary.upper_bytes,
            memtable_bytes: version.active.memtable.bytes(),
            frozen_bytes: version.frozen_bytes(),
            memtable_flushes: count(&counters.memtable_flushes),
            child_flushes: count(&counters.child_flushes),
            leaf_merges: count(&counters.leaf_merges),
            other_jobs: count(&counters.other_jobs),
            entries_merged: count(&counters.entries_merged),
            raw_bytes_flushed: count(&counters.raw_bytes_flushed),
            raw_bytes_written: count(&counters.raw_bytes_written),
            stored_bytes_written: count(&counters.stored_bytes_written),
            checkpoints: count(&counters.checkpoints),
        }
    }

    /// The number of runs that may have a key, by their key ranges. A lookup reads the filter of
    /// each until it finds the key.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub fn runs_with_key(&self, key: &[u8]) -> StorageResult<u64> {
        let version = self.load_version();
        let path = LeafPath::to_key(&version.root, key, &self.nodes)?;
        let runs = path.runs.iter().filter(|run| run.may_contain(key));
        Ok(runs.count() as u64)
    }
}
