//! Statistics of a file, and the counters behind them.

use crate::layout::BLOCKS_START;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sizes and counts of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BlockFileStatistics {
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Space of the blocks that the current root refers to, in bytes.
    pub live_bytes: u64,
    /// Space that can be allocated without growing the file, in bytes.
    pub free_bytes: u64,
    /// Freed space that is not available yet, because of a pin or until the next checkpoint, in
    /// bytes.
    pub pending_free_bytes: u64,
    /// The part of `pending_free_bytes` that is retained for pins, in bytes. The next checkpoint
    /// frees the rest.
    pub pinned_bytes: u64,
    /// Space that is neither live nor free, in bytes: reserved by writers, used by a space map, or
    /// freed but needed by a pin or a checkpoint.
    pub unavailable_bytes: u64,
    /// Blocks of successful writers since the file was opened, without space maps.
    pub blocks_written: u64,
    /// Bytes of these blocks, headers and padding included.
    pub bytes_written: u64,
    /// Bytes of the blocks that movers have written since the file was opened: moved blocks, and
    /// blocks that refer to them. They are also in `bytes_written`.
    pub bytes_moved: u64,
    /// Blocks read since the file was opened.
    pub blocks_read: u64,
    /// Bytes of these blocks, headers included.
    pub bytes_read: u64,
    /// Blocks that [`BlockFile::prefetch`](crate::BlockFile::prefetch) began to read since the file was opened.
    pub blocks_prefetched: u64,
    /// Syncs since the file was opened.
    pub syncs: u64,
}

impl BlockFileStatistics {
    /// Bytes of the file that contain no live block: free space, unavailable space, and a free tail
    /// that is not truncated yet. The superblocks are not counted.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        let blocks = self.file_bytes.saturating_sub(BLOCKS_START);
        blocks.saturating_sub(self.live_bytes)
    }
}

/// Counters of one open file. They can be read after the file was closed.
#[derive(Debug, Default)]
pub struct BlockFileCounters {
    pub(crate) blocks_written: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_moved: AtomicU64,
    pub(crate) blocks_read: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) blocks_prefetched: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// The values of [`BlockFileCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BlockFileCounts {
    /// Blocks of successful writers, without space maps.
    pub blocks_written: u64,
    /// Bytes of these blocks, headers and padding included.
    pub bytes_written: u64,
    /// Bytes of blocks that were moved to other places; also in `bytes_written`.
    pub bytes_moved: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Bytes of these blocks, headers included.
    pub bytes_read: u64,
    /// Blocks that the operating system was asked to read ahead.
    pub blocks_prefetched: u64,
    /// Syncs.
    pub syncs: u64,
}

impl BlockFileCounters {
    /// The values now.
    #[must_use]
    pub fn read(&self) -> BlockFileCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BlockFileCounts {
            blocks_written: load(&self.blocks_written),
            bytes_written: load(&self.bytes_written),
            bytes_moved: load(&self.bytes_moved),
            blocks_read: load(&self.blocks_read),
            bytes_read: load(&self.bytes_read),
            blocks_prefetched: load(&self.blocks_prefetched),
            syncs: load(&self.syncs),
        }
    }
}

impl BlockFileCounts {
    /// Adds the values of another file.
    pub fn add(&mut self, other: &Self) {
        self.blocks_written += other.blocks_written;
        self.bytes_written += other.bytes_written;
        self.bytes_moved += other.bytes_moved;
        self.blocks_read += other.blocks_read;
        self.bytes_read += other.bytes_read;
        self.blocks_prefetched += other.blocks_prefetched;
        self.syncs += other.syncs;
    }
}
