//! One index file: two superblocks, free space, checksummed compressed blocks,
//! and the versions and pins that decide when space can be reused.
//!
//! This crate does not interpret keys, pages or trees: a block is a sequence of bytes
//! and a kind, and the superblock has a payload that only the tree understands. The
//! crate starts no threads.
//!
//! The lifecycle of a block:
//! 1. A [`BlockWriter`] allocates space and writes the block; nothing refers to
//!    it yet.
//! 2. [`BlockFile::publish`] makes it live: the current root refers to it.
//! 3. A later `publish` frees it: newer roots do not refer to it.
//! 4. Its space is reused when no [`Pin`] and no checkpoint that may be on disk
//!    is of a version between steps 2 and 3. A block that is freed before any
//!    checkpoint captures it does not need a checkpoint to be reused, and a pin never
//!    retains blocks that were published after it was taken.
//!
//! A [`BlockMover`] copies live blocks to holes near the start of the file, so
//! that the end can be truncated: the copies are published, and the old places
//! are freed, like any other blocks.
//!
//! Invariant: space is never overwritten while the last durable superblock, a
//! newer superblock that may be on disk, a pin, or the current root refers to it.
//! So a crash at any point leaves the last durable checkpoint intact.
//!
//! The byte format is in `docs/design/format.md`, section "Index file".

mod address;
mod block;
mod capture;
mod checkpoint;
mod checkpoint_pin;
mod damaged;
mod epochs;
mod extent;
mod extent_map;
mod extents;
mod file;
mod file_map;
mod free_space;
mod layout;
mod mover;
mod new_blocks;
mod pin;
mod publication;
mod read_ahead;
mod reader;
mod record;
mod scan;
mod shared;
mod space;
mod space_map;
mod statistics;
mod superblock;
mod writer;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use address::BlockAddress;
pub use block::{Block, BlockDescription, BlockKind};
pub use checkpoint::{CheckpointTurn, PreparedCheckpoint};
pub use checkpoint_pin::CheckpointPin;
pub use epochs::BackupEpochs;
pub use file::BlockFile;
pub use file_map::{FileMap, FileRange, RangeUse};
pub use layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START};
pub use mover::BlockMover;
pub use pin::Pin;
pub use read_ahead::ReadAhead;
pub use record::{BlockRecord, CopiedCheckpoint, SUPERBLOCK_SIZE, verify_superblock};
pub use statistics::{BlockFileCounters, BlockFileCounts, BlockFileStatistics};
pub use superblock::{PAYLOAD_BYTES_MAX, SuperblockInfo, read_superblocks};
pub use writer::{BlockWriter, WrittenBlocks};
