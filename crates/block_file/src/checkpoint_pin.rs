//! Copying the last durable checkpoint of a file, while the file is in use.
//!
//! 1. Pin: the blocks of the checkpoint and its space map are retained, also while later
//!    checkpoints are made. This does no I/O.
//! 2. Read the space map of the checkpoint. What it does not list as free are the blocks.
//! 3. Copy the blocks to the same offsets of another file, and verify the checksum of each. Free
//!    space is not written, so the copy is a sparse file.
//! 4. Write the superblock to both slots, and sync.
//!
//! The source file may be removed or renamed during this: its handle remains usable.

use crate::address::BlockAddress;
use crate::block::{self, ClaimedBlock, claimed_block};
use crate::extents::Extent;
use crate::layout::{BLOCK_HEADER_BYTES, BLOCKS_START, whole_units};
use crate::reader::read_space_map;
use crate::shared::SharedFile;
use crate::superblock::{SuperblockInfo, SuperblockSlot};
use std::sync::Arc;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::DiskFile;

/// Bytes that one read requests from the disk, unless a block is larger.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes of a copy between two syncs. They limit how long a sync takes, and how much memory the operating system needs for the
/// copy.
const SYNC_BYTES: u64 = 64 << 20;

/// Retains the blocks of a checkpoint that was the last durable one.
#[derive(Debug)]
pub struct CheckpointPin {
    shared: Arc<SharedFile>,
    superblock: Arc<SuperblockInfo>,
    version: u64,
}

impl CheckpointPin {
    pub(crate) fn new(shared: Arc<SharedFile>) -> StorageResult<Self> {
        let pinned = shared.state().pin_durable();
        match pinned {
            Some((superblock, version)) => Ok(Self {
                shared,
                superblock,
                version,
            }),
            None => {
                let path = shared.file.path();
                Err(StorageError::corrupt(path, 0, "no superblock is valid"))
            }
        }
    }

    /// The number of the checkpoint.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.superblock.generation
    }

    /// One past the last byte of the checkpoint in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.superblock.end
    }

    /// Bytes of the file that could be reused without pins of this checkpoint.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let state = self.shared.state();
        state.space.held_bytes(self.version) + state.pinned_map_bytes()
    }

    /// Copies the checkpoint to an empty file, and syncs it. Calls `copied` after every piece with
    /// the number of bytes that were read and written. Returns the sum.
    ///
    /// # Errors
    /// `Corrupt` when a block or the space map is damaged; `Io`, `NoSpace`; errors of `copied`,
    /// which end the copying.
    pub fn copy_to(
        &self,
        target: &dyn DiskFile,
        copied: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<u64> {
        let source = &*self.shared.file;
        let end = self.superblock.end;
        let map = read_space_map(source, &self.superblock)?;
        let (mut total, mut unsynced) = (0, 0);
        let mut copy = |live: Extent| -> StorageResult<()> {
            let mut at = live.offset;
            while at < live.end() {
                let piece = self.read_blocks(at, live.end())?;
                target.write_all_at(&piece, at)?;
                let bytes = piece.len() as u64;
                at += bytes;
                total += bytes;
                unsynced += bytes;
                if unsynced >= SYNC_BYTES {
                    target.sync()?;
                    unsynced = 0;
                }
                copied(bytes)?;
            }
            Ok(())
        };
        let mut start = BLOCKS_START;
        for hole in map.free.iter() {
            copy(Extent::between(start, hole.offset))?;
            start = hole.end();
        }
        copy(Extent::between(start, end.max(start)))?;
        // All blocks are synced with the superblock, so it need not list new ones.
        let superblock = SuperblockInfo {
            new_blocks: None,
            ..SuperblockInfo::clone(&self.superblock)
        };
        let encoded = superblock.encode()?;
        target.set_len(end)?;
        for slot in SuperblockSlot::BOTH {
            target.write_all_at(&encoded, slot.offset())?;
        }
        target.sync()?;
        Ok(total + 2 * encoded.len() as u64)
    }

    /// Reads and verifies whole blocks from `at`, at least one and about [`WINDOW_BYTES`], but none
    /// from `end` on.
    fn read_blocks(&self, at: u64, end: u64) -> StorageResult<Vec<u8>> {
        let file = &*self.shared.file;
        let corrupt = |reason: &str| StorageError::corrupt(file.path(), at, reason);
        let length =
            |bytes: u64| usize::try_from(bytes).map_err(|_| corrupt("a block is too large"));
        let mut bytes = vec![0; length((end - at).min(WINDOW_BYTES))?];
        file.read_exact_at(&mut bytes, at)?;
        let (_, first) = block_and_space(&bytes).ok_or_else(|| corrupt("no block begins here"))?;
        if first > end - at {
            return Err(corrupt("a block ends after the space in use"));
        }
        if first > bytes.len() as u64 {
            let have = bytes.len();
            bytes.resize(length(first)?, 0);
            let (_, rest) = bytes.split_at_mut(have);
            file.read_exact_at(rest, at + have as u64)?;
        }
        let whole = verify_blocks(file, self.superblock.file, at, &bytes)?;
        bytes.truncate(whole);
        Ok(bytes)
    }
}

impl Drop for CheckpointPin {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.unpin_durable(self.superblock.generation, self.version);
    }
}

/// The block that begins `bytes` and its space, according to its header.
fn block_and_space(bytes: &[u8]) -> Option<(ClaimedBlock, u64)> {
    let block = claimed_block(bytes)?;
    let space = whole_units(block.address.bytes.into());
    let is_possible = block.address.bytes as usize <= BLOCK_RAW_BYTES_MAX + BLOCK_HEADER_BYTES;
    is_possible.then_some((block, space))
}

/// Verifies the blocks in `bytes`, which begin at the offset `start` of the file. Returns the length
/// of the blocks that are complete, at least one.
fn verify_blocks(
    file: &dyn DiskFile,
    id: FileId,
    start: u64,
    bytes: &[u8],
) -> StorageResult<usize> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let offset = start + at as u64;
        let corrupt = |reason: &str| StorageError::corrupt(file.path(), offset, reason);
        if rest.len() < BLOCK_HEADER_BYTES {
            break;
        }
        let block = block_and_space(rest);
        let (claimed, space) = block.ok_or_else(|| corrupt("no block begins here"))?;
        let space = usize::try_from(space).map_err(|_| corrupt("a block is too large"))?;
        if space > rest.len() {
            break;
        }
        let kind = claimed.kind;
        let kind = kind.ok_or_else(|| corrupt("the kind of the block is unknown"))?;
        let bytes = claimed.address.bytes;
        let address = BlockAddress { offset, bytes };
        let whole = rest.get(..bytes as usize).unwrap_or_default();
        block::verify(file.path(), id, address, kind, whole)?;
        at += space;
    }
    if at == 0 {
        let reason = "no block begins here";
        return Err(StorageError::corrupt(file.path(), start, reason));
    }
    Ok(at)
}
