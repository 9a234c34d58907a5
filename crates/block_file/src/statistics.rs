//! Statistics of a file, and the counters behind them.

use std::sync::atomic::AtomicU64;

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
    /// Freed space that waits for a pin or a checkpoint, in bytes.
    pub pending_free_bytes: u64,
    /// Blocks written since the file was opened.
    pub blocks_written: u64,
    /// Bytes of these blocks, headers and padding included.
    pub bytes_written: u64,
    /// Blocks read since the file was opened.
    pub blocks_read: u64,
    /// Bytes of those, headers included.
    pub bytes_read: u64,
    /// Syncs since the file was opened.
    pub syncs: u64,
}

/// Counters of one open file.
#[derive(Debug, Default)]
pub(crate) struct BlockFileCounters {
    pub blocks_written: AtomicU64,
    pub bytes_written: AtomicU64,
    pub blocks_read: AtomicU64,
    pub bytes_read: AtomicU64,
    pub syncs: AtomicU64,
}
