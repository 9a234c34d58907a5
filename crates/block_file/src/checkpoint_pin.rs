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
use crate::record::{BlockRecord, CopiedCheckpoint};
use crate::shared::SharedFile;
use crate::space_map::SpaceMap;
use crate::superblock::{SuperblockInfo, SuperblockSlot};
use std::sync::Arc;
use teak_base::checksum::checksum;
use teak_base::cipher::ENVELOPE_BYTES;
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
    /// the number of bytes that were read and written, and `record` for each block. Returns the sum
    /// of the bytes, and the checksum of the superblock.
    ///
    /// # Errors
    /// `Corrupt` when a block or the space map is damaged; `Io`, `NoSpace`; errors of `copied` and
    /// `record`, which end the copying.
    pub fn copy_to(
        &self,
        target: &dyn DiskFile,
        record: &mut dyn FnMut(BlockRecord) -> StorageResult<()>,
        copied: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<CopiedCheckpoint> {
        let map = read_space_map(&*self.shared.file, &self.superblock)?;
        let mut copy = Copying {
            pin: self,
            target,
            packed_at: None,
            record,
            copied,
            total: 0,
            unsynced: 0,
        };
        for live in self.live(&map) {
            copy.range(live.offset, live.end())?;
        }
        let total = copy.total;
        // All blocks are synced with the superblock, so it need not list new ones.
        let encoded = self.encoded_superblock()?;
        target.set_len(self.superblock.end)?;
        for slot in SuperblockSlot::BOTH {
            target.write_all_at(&encoded, slot.offset())?;
        }
        target.sync()?;
        Ok(CopiedCheckpoint {
            bytes: total + 2 * encoded.len() as u64,
            superblock_checksum: checksum(&encoded),
        })
    }

    /// Copies the superblock and the blocks of the checkpoint that a base lacks to an empty file,
    /// one after another, and syncs it. `base` returns the blocks of the last durable checkpoint at the cut of the base, by
    /// offset, and `cut` is the number of that cut. Otherwise as [`CheckpointPin::copy_to`]; `record` is called
    /// for all blocks. The blocks that are not copied are not read.
    ///
    /// # Errors
    /// As [`CheckpointPin::copy_to`]; errors of `base`.
    pub fn copy_changes(
        &self,
        (base, cut): (&mut dyn Iterator<Item = StorageResult<BlockRecord>>, u64),
        target: &dyn DiskFile,
        record: &mut dyn FnMut(BlockRecord) -> StorageResult<()>,
        copied: &mut dyn FnMut(u64) -> StorageResult<()>,
    ) -> StorageResult<CopiedCheckpoint> {
        let map = read_space_map(&*self.shared.file, &self.superblock)?;
        let encoded = self.encoded_superblock()?;
        target.write_all_at(&encoded, 0)?;
        let mut copy = Copying {
            pin: self,
            target,
            packed_at: Some(encoded.len() as u64),
            record,
            copied,
            total: 0,
            unsynced: 0,
        };
        let is_map = |space: Extent| {
            let overlaps =
                |place: &Extent| place.offset < space.end() && space.offset < place.end();
            map.places.iter().any(overlaps)
        };
        let mut next = base.next().transpose()?;
        for live in self.live(&map) {
            let mut at = live.offset;
            while let Some(block) = next {
                let space = block.space();
                if space.offset >= live.end() {
                    break;
                }
                // A block that is live since the cut of the base: see the record of the decision.
                let is_same = space.offset >= at
                    && space.end() <= live.end()
                    && map.epochs.highest_in(space) <= cut
                    && !is_map(space);
                if is_same {
                    copy.range(at, space.offset)?;
                    (copy.record)(BlockRecord {
                        is_changed: false,
                        ..block
                    })?;
                    at = space.end();
                } else if space.end() > live.end() {
                    // It may overlap the next live range, too.
                    break;
                }
                next = base.next().transpose()?;
            }
            copy.range(at, live.end())?;
        }
        let total = copy.total;
        target.sync()?;
        Ok(CopiedCheckpoint {
            bytes: total + encoded.len() as u64,
            superblock_checksum: checksum(&encoded),
        })
    }

    /// Verifies the checksums of all blocks; no key is needed. Calls `verified` after every piece with the number of bytes
    /// that were read. Returns the number of blocks.
    ///
    /// # Errors
    /// `Corrupt` when a block or the space map is damaged; `Io`.
    pub fn verify(&self, verified: &mut dyn FnMut(u64)) -> StorageResult<u64> {
        let map = read_space_map(&*self.shared.file, &self.superblock)?;
        let mut blocks = 0;
        for live in self.live(&map) {
            let mut at = live.offset;
            while at < live.end() {
                let piece = self.read_blocks(at, live.end(), &mut |_| {
                    blocks += 1;
                    Ok(())
                })?;
                at += piece.len() as u64;
                verified(piece.len() as u64);
            }
        }
        Ok(blocks)
    }

    fn encoded_superblock(&self) -> StorageResult<Vec<u8>> {
        let superblock = SuperblockInfo {
            new_blocks: None,
            ..SuperblockInfo::clone(&self.superblock)
        };
        superblock.encode()
    }

    /// The ranges of blocks, by offset.
    fn live(&self, map: &SpaceMap) -> Vec<Extent> {
        let end = self.superblock.end;
        let mut ranges = Vec::new();
        let mut start = BLOCKS_START;
        for hole in map.free.iter() {
            ranges.push(Extent::between(start, hole.offset));
            start = hole.end();
        }
        ranges.push(Extent::between(start, end.max(start)));
        ranges.retain(|range| range.bytes > 0);
        ranges
    }

    /// Reads and verifies whole blocks from `at`, at least one and about [`WINDOW_BYTES`], but none
    /// from `end` on.
    fn read_blocks(
        &self,
        at: u64,
        end: u64,
        record: &mut dyn FnMut(BlockRecord) -> StorageResult<()>,
    ) -> StorageResult<Vec<u8>> {
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
        let whole = verify_blocks(file, self.superblock.file, at, &bytes, record)?;
        bytes.truncate(whole);
        Ok(bytes)
    }
}

/// A copy in progress.
struct Copying<'a> {
    pin: &'a CheckpointPin,
    target: &'a dyn DiskFile,
    /// Where the next blocks are written; `None`: at the offsets that they have in the file.
    packed_at: Option<u64>,
    record: &'a mut dyn FnMut(BlockRecord) -> StorageResult<()>,
    copied: &'a mut dyn FnMut(u64) -> StorageResult<()>,
    total: u64,
    unsynced: u64,
}

impl Copying<'_> {
    /// Copies the blocks in a range.
    fn range(&mut self, mut at: u64, end: u64) -> StorageResult<()> {
        while at < end {
            let piece = self.pin.read_blocks(at, end, self.record)?;
            let bytes = piece.len() as u64;
            self.target
                .write_all_at(&piece, self.packed_at.unwrap_or(at))?;
            if let Some(packed_at) = &mut self.packed_at {
                *packed_at += bytes;
            }
            at += bytes;
            self.total += bytes;
            self.unsynced += bytes;
            if self.unsynced >= SYNC_BYTES {
                self.target.sync()?;
                self.unsynced = 0;
            }
            (self.copied)(bytes)?;
        }
        Ok(())
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
    let bytes_max = BLOCK_HEADER_BYTES + ENVELOPE_BYTES + BLOCK_RAW_BYTES_MAX;
    let is_possible = block.address.bytes as usize <= bytes_max;
    is_possible.then_some((block, space))
}

/// Verifies the blocks in `bytes`, which begin at the offset `start` of the file. Returns the length
/// of the blocks that are complete, at least one.
fn verify_blocks(
    file: &dyn DiskFile,
    id: FileId,
    start: u64,
    bytes: &[u8],
    record: &mut dyn FnMut(BlockRecord) -> StorageResult<()>,
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
        record(BlockRecord {
            address,
            checksum: claimed.checksum,
            is_changed: true,
        })?;
        at += space;
    }
    if at == 0 {
        let reason = "no block begins here";
        return Err(StorageError::corrupt(file.path(), start, reason));
    }
    Ok(at)
}
