//! What may be chosen per tree.

use teak_base::Codec;

/// The shape of a tree and the form of its blocks. Kept in the superblock;
/// changing an option affects what is written from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Raw bytes of a page at which the next one begins.
    pub page_bytes: u32,
    /// Codec of bottom runs.
    pub codec: Codec,
    /// Codec of the runs above, which will soon be merged.
    pub upper_codec: Codec,
    /// Whether runs get filters: worth their bytes where exact keys are looked
    /// up, as in primary and unique keys.
    pub filters: bool,
    /// Leading bytes of values that hold columns of fixed width; bottom pages
    /// keep them column by column.
    pub value_planes: u32,
    /// Raw bytes of a leaf; it splits at one and a half times as many.
    pub leaf_bytes: u64,
    /// Children of a node; it splits above twice as many.
    pub fanout: u32,
    /// Pending runs at which a leaf is merged.
    pub leaf_runs_max: u32,
    /// Raw bytes of runs at which an inner child is flushed.
    pub child_buffer_bytes: u64,
    /// Runs at which an inner child is flushed or merged within itself.
    pub child_runs_max: u32,
    /// Raw bytes at which an upper run is cut.
    pub run_bytes_max: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            page_bytes: 64 * 1024,
            codec: Codec::Zstd,
            upper_codec: Codec::Lz4,
            filters: true,
            value_planes: 0,
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
    /// Tiny pages, leaves and fanout, so that a few hundred entries make a
    /// tree of several levels.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            page_bytes: 256,
            codec: Codec::Zstd,
            upper_codec: Codec::Lz4,
            filters: true,
            value_planes: 2,
            leaf_bytes: 1024,
            fanout: 4,
            leaf_runs_max: 3,
            child_buffer_bytes: 2048,
            child_runs_max: 3,
            run_bytes_max: 4096,
        }
    }

    /// Whether a tree can work with these: sizes that are not zero and whose
    /// sums do not overflow, pages that fit blocks, and room for two of
    /// whatever is counted.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        const PAGE_BYTES_MAX: u32 = 8 << 20;
        const COUNT_MAX: u32 = 1 << 16;
        const BYTES_MAX: u64 = 1 << 40;
        let counts = [self.fanout, self.leaf_runs_max, self.child_runs_max];
        let sizes = [self.leaf_bytes, self.child_buffer_bytes, self.run_bytes_max];
        (1..=PAGE_BYTES_MAX).contains(&self.page_bytes)
            && counts.iter().all(|count| (2..=COUNT_MAX).contains(count))
            && sizes.iter().all(|bytes| (1..=BYTES_MAX).contains(bytes))
    }

    /// Raw bytes below which a batch is not worth a bottom run of its own.
    pub(crate) fn bottom_run_bytes_min(&self) -> u64 {
        self.leaf_bytes / 16
    }

    /// Raw bytes above which a leaf splits.
    pub(crate) fn leaf_bytes_max(&self) -> u64 {
        self.leaf_bytes + self.leaf_bytes / 2
    }

    /// Children above which a node splits.
    pub(crate) fn children_max(&self) -> usize {
        (self.fanout as usize * 2).max(4)
    }
}
