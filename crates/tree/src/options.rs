//! The options of a tree.

use crate::run::SEPARATE_FRACTION;
use crate::{FilterKeys, PageColumns, ValueReference};
use teak_base::{Codec, KeyId};

/// The shape of a tree and the format of its blocks. Stored in the superblock. Changed options
/// apply to blocks that are written afterwards, and to the planning of later jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Maximum raw bytes of a page, approximately. A larger entry gets a page of its own. The writer
    /// of a run chooses this size, half or a quarter of it.
    pub page_bytes: u32,
    /// Codec of bottom runs.
    pub codec: Codec,
    /// The key with which blocks are encrypted; `None`: they are not. The superblock of the file has it.
    pub encryption_key: Option<KeyId>,
    /// Codec of upper runs, which are short-lived.
    pub upper_codec: Codec,
    /// The parts of keys that are in the filters of runs.
    pub filter_keys: FilterKeys,
    /// Leading bytes of values, which contain columns of fixed width. Pages of bottom runs store
    /// these bytes as byte planes.
    pub value_planes: u32,
    /// The columns of keys and values, which pages of bottom runs encode by type. Not stored in the
    /// superblock.
    pub columns: PageColumns,
    /// Minimum bytes of a value that is stored apart from its entry.
    pub separate_value_bytes: u32,
    /// Target size of a leaf, in raw bytes. A leaf splits above 1.5 times this size.
    pub leaf_bytes: u64,
    /// Target number of children of a node. A node splits above twice this number.
    pub fanout: u32,
    /// Number of pending runs at which a leaf is merged, or its pending runs are merged with each
    /// other.
    pub leaf_runs_max: u32,
    /// Raw bytes of runs at which an inner child is flushed.
    pub child_buffer_bytes: u64,
    /// Number of runs at which an inner child is flushed, or some of its runs are merged in place.
    pub child_runs_max: u32,
    /// Maximum raw bytes of an upper run, approximately.
    pub run_bytes_max: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            page_bytes: 64 * 1024,
            codec: Codec::Zstd,
            encryption_key: None,
            upper_codec: Codec::Lz4,
            filter_keys: FilterKeys::Whole,
            value_planes: 0,
            columns: PageColumns::default(),
            separate_value_bytes: 16 * 1024,
            leaf_bytes: 8 * MIB,
            fanout: 16,
            leaf_runs_max: 6,
            child_buffer_bytes: 32 * MIB,
            child_runs_max: 8,
            run_bytes_max: 32 * MIB,
        }
    }
}

impl TreeOptions {
    /// Tiny pages, leaves and fanout for tests: a few hundred entries make a
    /// tree of several levels.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            page_bytes: 256,
            codec: Codec::Zstd,
            encryption_key: None,
            upper_codec: Codec::Lz4,
            filter_keys: FilterKeys::Whole,
            value_planes: 2,
            columns: PageColumns::default(),
            separate_value_bytes: 250,
            leaf_bytes: 1024,
            fanout: 4,
            leaf_runs_max: 3,
            child_buffer_bytes: 2048,
            child_runs_max: 3,
            run_bytes_max: 4096,
        }
    }

    /// Whether the options are valid: sizes are not zero and their sums do not overflow, pages fit
    /// into blocks, and `fanout` and the numbers of runs are at least two.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        const PAGE_BYTES_MAX: u32 = 8 << 20;
        const COUNT_MAX: u32 = 1 << 16;
        // So that the counts of a run are below 2^32.
        const BYTES_MAX: u64 = 1 << 31;
        let counts = [self.fanout, self.leaf_runs_max, self.child_runs_max];
        let sizes = [self.leaf_bytes, self.child_buffer_bytes, self.run_bytes_max];
        (1..=PAGE_BYTES_MAX).contains(&self.page_bytes)
            && self.separate_value_bytes > 0
            && counts.iter().all(|count| (2..=COUNT_MAX).contains(count))
            && sizes.iter().all(|bytes| (1..=BYTES_MAX).contains(bytes))
    }

    /// The size, as planning counts it, that an entry of a memtable will have in a run: a separate
    /// value counts its reference and a fraction of its bytes.
    pub(crate) fn merge_bytes(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        let is_separate = value_bytes as u64 >= u64::from(self.separate_value_bytes);
        key_bytes as u64
            + match is_separate {
                true => {
                    let reference = ValueReference::ENCODED_BYTES as u64;
                    reference + value_bytes as u64 / SEPARATE_FRACTION
                }
                false => value_bytes as u64,
            }
    }

    /// Minimum raw bytes of the pages of a run, approximately.
    pub(crate) fn page_bytes_min(&self) -> usize {
        self.page_bytes as usize / 4
    }

    /// Minimum size of a tail that is written as bottom runs (see `flush::partition`).
    pub(crate) fn bottom_run_bytes_min(&self) -> u64 {
        self.leaf_bytes / 16
    }

    /// Raw bytes of each part of a flush that is divided over threads.
    pub(crate) fn divided_bytes(&self) -> u64 {
        (self.child_buffer_bytes / 4).max(1)
    }

    /// Size above which a leaf splits, as planning counts it.
    pub(crate) fn leaf_bytes_max(&self) -> u64 {
        self.leaf_bytes + self.leaf_bytes / 2
    }

    /// The size below which the runs of a flush are small: a leaf needs dozens of them until its merge
    /// is worthwhile.
    pub(crate) fn small_run_bytes(&self) -> u64 {
        self.leaf_bytes / 64
    }

    /// Children above which a root that gets small runs is raised.
    pub(crate) fn small_run_children_max(&self) -> usize {
        (self.fanout as usize / 4).max(2)
    }

    /// Children above which a node splits.
    pub(crate) fn children_max(&self) -> usize {
        (self.fanout as usize * 2).max(4)
    }
}
