//! One index file: two superblocks, free space, checksummed compressed
//! blocks, and the versions and pins that say when space may be used again.
//!
//! It knows nothing of keys, pages or trees: a block is bytes of a kind, and
//! the superblock carries a payload that only the tree understands. It starts
//! no threads.
//!
//! The life of a block:
//! 1. A [`BlockWriter`] takes space and writes it; nobody else knows of it.
//! 2. [`BlockFile::publish`] makes it live: the current root refers to it.
//! 3. A later `publish` lists it as freed: newer roots do not refer to it.
//! 4. Its space returns once no [`Pin`] is older than step 3 and a checkpoint
//!    captured after step 3 is durable. (A block that no checkpoint ever
//!    captured waits for the pins alone.)
//!
//! Invariant: space that the last durable superblock, a pin, or the current
//! root needs is never written. So a crash between any two steps finds the
//! older checkpoint intact.
//!
//! Byte formats: `docs/file_format.md`, "Index file".

mod address;
mod block;
mod checkpoint;
mod extents;
mod file;
mod free_space;
mod space;
mod space_map;
mod superblock;
mod writer;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use address::{BLOCK_UNIT_BYTES, BLOCKS_START, BlockAddress};
pub use block::{BLOCK_HEADER_BYTES, Block, BlockDescription, BlockKind};
pub use checkpoint::PreparedCheckpoint;
pub use file::{BlockFile, Pin, Statistics};
pub use superblock::{PAYLOAD_BYTES_MAX, SuperblockInfo, all_superblock_info};
pub use writer::{BlockWriter, WrittenBlocks};
