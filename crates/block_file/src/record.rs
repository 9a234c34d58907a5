//! What a copy of a checkpoint says about its blocks.

use crate::address::BlockAddress;
use crate::block::{self, claimed_block};
use crate::extents::Extent;
use crate::layout::{BLOCK_UNIT_BYTES, BLOCKS_START, whole_units};
use crate::superblock::{SUPERBLOCK_BYTES, SuperblockInfo, SuperblockSlot};
use std::path::Path;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum;
use teak_base::{FileId, StorageError, StorageResult};

/// A block of a copied checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockRecord {
    /// Where the block is in the index file.
    pub address: BlockAddress,
    /// The checksum in its header.
    pub checksum: u64,
    /// Whether the copy contains the block; otherwise the base of the copy contains it.
    pub is_changed: bool,
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopiedCheckpoint {
    /// Bytes that were written.
    pub bytes: u64,
    /// XXH3 of the superblock.
    pub superblock_checksum: u64,
}

impl BlockRecord {
    /// The space of the block.
    pub(crate) fn space(&self) -> Extent {
        Extent {
            offset: self.address.offset,
            bytes: whole_units(self.address.bytes.into()),
        }
    }

    /// The bytes of the file that the block occupies.
    #[must_use]
    pub fn space_bytes(&self) -> u64 {
        self.space().bytes
    }

    /// Appends the record. `end` is one past the space of the previous one, and is advanced.
    pub fn encode(&self, end: &mut u64, out: &mut Vec<u8>) {
        let space = self.space();
        let units = (space.offset - *end) / BLOCK_UNIT_BYTES;
        out.put_varint(units << 1 | u64::from(self.is_changed));
        out.put_varint(self.address.bytes.into());
        out.put_u64(self.checksum);
        *end = space.end();
    }

    /// Decodes a record, and advances `end`.
    ///
    /// # Errors
    /// `Malformed` if no block can have this address.
    pub fn decode(end: &mut u64, take: &mut Take<'_>) -> Result<Self, Malformed> {
        let word = take.varint()?;
        let gap = (word >> 1).checked_mul(BLOCK_UNIT_BYTES);
        let offset = gap.and_then(|gap| end.checked_add(gap));
        let address = BlockAddress {
            offset: offset.ok_or(Malformed)?,
            bytes: u32::try_from(take.varint()?).map_err(|_| Malformed)?,
        };
        let space = address.extent().ok_or(Malformed)?;
        if space.offset < BLOCKS_START {
            return Err(Malformed);
        }
        *end = space.end();
        Ok(Self {
            address,
            checksum: take.u64()?,
            is_changed: word & 1 == 1,
        })
    }

    /// Verifies the bytes of the block, which were read from `path`.
    ///
    /// # Errors
    /// `Corrupt` if they are not those of this block.
    pub fn verify(&self, path: &Path, file: FileId, bytes: &[u8]) -> StorageResult<()> {
        let corrupt = |reason: &str| StorageError::corrupt(path, self.address.offset, reason);
        let claimed = claimed_block(bytes);
        let kind = claimed.as_ref().and_then(|claimed| claimed.kind);
        let (Some(claimed), Some(kind)) = (claimed, kind) else {
            return Err(corrupt("a block of the backup is missing"));
        };
        block::verify(path, file, self.address, kind, bytes)?;
        match claimed.checksum == self.checksum {
            true => Ok(()),
            false => Err(corrupt("the file has another block than the backup lists")),
        }
    }
}

/// Verifies that `bytes` are the superblock of a copied checkpoint. Returns one past the last byte of the
/// checkpoint.
///
/// # Errors
/// `Corrupt`, `UnsupportedFormat`.
pub fn verify_superblock(
    path: &Path,
    bytes: &[u8],
    (file, generation, sum): (FileId, u64, u64),
) -> StorageResult<u64> {
    let decoded = SuperblockInfo::decode(path, SuperblockSlot::First, bytes)?;
    if decoded.file != file || decoded.generation != generation || checksum(bytes) != sum {
        let reason = "the superblock is not the one that the backup lists";
        return Err(StorageError::corrupt(path, 0, reason));
    }
    Ok(decoded.end)
}

/// The bytes of a superblock.
pub const SUPERBLOCK_SIZE: usize = SUPERBLOCK_BYTES;
