//! The superblock codec and the choice between the two slots.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `TEAKINDX` |
//! | 8 | 4 | format version |
//! | 12 | 4 | payload bytes |
//! | 16 | 8 | file id |
//! | 24 | 8 | generation |
//! | 32 | 8 | space map: offset, or 0 for none |
//! | 40 | 4 | space map: bytes |
//! | 44 | 4 | zero |
//! | 48 | 8 | one past the last live byte |
//! | 56 | 3072 | payload, then zeros |
//! | 3128 | 960 | zeros |
//! | 4088 | 8 | checksum of bytes 0..4088 |
//!
//! Magic, format version and checksum keep their places in every version.

use crate::address::{BLOCK_UNIT_BYTES, BLOCKS_START, BlockAddress};
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum;
use teak_base::{FileId, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// The most a superblock carries for the tree, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 3072;

pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const CHECKED_BYTES: usize = 4088;
const PAYLOAD_OFFSET: usize = 56;
const _: () = assert!(PAYLOAD_OFFSET + PAYLOAD_BYTES_MAX <= CHECKED_BYTES);
const _: () = assert!(CHECKED_BYTES + 8 == SUPERBLOCK_BYTES);
const _: () = assert!(2 * SUPERBLOCK_BYTES as u64 == BLOCKS_START);

const MAGIC: &[u8; 8] = b"TEAKINDX";
/// Version 1 is the first.
const FORMAT_VERSION: u32 = 1;

/// One of the two places of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    First,
    Second,
}

impl Slot {
    pub const BOTH: [Slot; 2] = [Slot::First, Slot::Second];

    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    pub fn offset(self) -> u64 {
        match self {
            Self::First => 0,
            Self::Second => SUPERBLOCK_BYTES as u64,
        }
    }
}

/// A decoded superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SuperblockInfo {
    /// The file's id.
    pub file: FileId,
    /// Counts checkpoints; the valid superblock of the higher one counts.
    pub generation: u64,
    /// The first block of the space map; `None` in a new file.
    pub space_map: Option<BlockAddress>,
    /// One past the last live byte.
    pub end: u64,
    /// The tree's own state.
    pub payload: Vec<u8>,
}

impl SuperblockInfo {
    /// # Errors
    /// `TooLarge` when the payload exceeds [`PAYLOAD_BYTES_MAX`].
    pub(crate) fn encode(&self) -> StorageResult<Vec<u8>> {
        let payload_bytes = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(StorageError::TooLarge {
                what: "superblock payload",
                bytes: u64::from(payload_bytes),
                limit: PAYLOAD_BYTES_MAX as u64,
            });
        }
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.extend_from_slice(MAGIC);
        out.put_u32(FORMAT_VERSION);
        out.put_u32(payload_bytes);
        out.put_u64(self.file.0);
        out.put_u64(self.generation);
        self.space_map
            .unwrap_or(BlockAddress::NONE)
            .encode(&mut out);
        out.put_u32(0);
        out.put_u64(self.end);
        out.extend_from_slice(&self.payload);
        out.resize(CHECKED_BYTES, 0);
        let sum = checksum(&out);
        out.put_u64(sum);
        Ok(out)
    }

    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`.
    pub(crate) fn decode(path: &Path, slot: Slot, bytes: &[u8]) -> StorageResult<Self> {
        let corrupt = |reason: &str| StorageError::corrupt(path, slot.offset(), reason);
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(corrupt("the superblock is empty"));
        }
        let (checked, sum) = bytes
            .split_at_checked(CHECKED_BYTES)
            .ok_or_else(|| corrupt("the superblock is too short"))?;
        let mut take = Take::new(checked);
        let short = |_: Malformed| corrupt("the superblock is too short");
        if take.take(MAGIC.len()).map_err(short)? != MAGIC {
            return Err(corrupt("this is not an index file"));
        }
        if Take::new(sum).u64().map_err(short)? != checksum(checked) {
            return Err(corrupt("the superblock's checksum does not match"));
        }
        let found = take.u32().map_err(short)?;
        if found != FORMAT_VERSION {
            return Err(StorageError::UnsupportedFormat {
                path: path.to_path_buf(),
                found,
                supported: FORMAT_VERSION,
            });
        }
        Self::fields(&mut take).map_err(|_| corrupt("the superblock's fields do not fit"))
    }

    fn fields(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let payload_bytes = take.u32()? as usize;
        let file = FileId(take.u64()?);
        let generation = take.u64()?;
        let space_map = BlockAddress::decode(take)?;
        let reserved = take.u32()?;
        let end = take.u64()?;
        let aligned = end.is_multiple_of(BLOCK_UNIT_BYTES) && end >= BLOCKS_START;
        // Generations count up by one; this one would soon overflow.
        let countable = generation < u64::MAX / 2;
        if payload_bytes > PAYLOAD_BYTES_MAX || reserved != 0 || !aligned || !countable {
            return Err(Malformed);
        }
        let payload = take.take(payload_bytes)?.to_vec();
        if take.rest().iter().any(|&byte| byte != 0) {
            return Err(Malformed);
        }
        Ok(Self {
            file,
            generation,
            space_map: (space_map != BlockAddress::NONE).then_some(space_map),
            end,
            payload,
        })
    }
}

/// Reads both superblocks, for inspection. Each slot may be damaged on its
/// own: a crash may tear the one being written.
///
/// # Errors
/// `NotFound`, `Io` for the file as a whole.
pub fn all_superblock_info(
    disk: &Arc<dyn Disk>,
    path: &Path,
) -> StorageResult<[StorageResult<SuperblockInfo>; 2]> {
    let file = disk.open(path)?;
    Ok(read_both(&*file))
}

pub(crate) fn read_both(file: &dyn DiskFile) -> [StorageResult<SuperblockInfo>; 2] {
    Slot::BOTH.map(|slot| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, slot.offset())?;
        SuperblockInfo::decode(file.path(), slot, &bytes)
    })
}

/// Chooses the superblock that counts.
///
/// A damaged slot is passed over, for it may be the torn write of a crash. A
/// slot of a newer format is not: the other slot is then out of date.
///
/// # Errors
/// What is wrong with the first slot when neither is valid;
/// `UnsupportedFormat`; `Io`; `Corrupt` when the two contradict each other.
pub(crate) fn choose(
    path: &Path,
    both: [StorageResult<SuperblockInfo>; 2],
) -> StorageResult<(Slot, SuperblockInfo)> {
    for slot in &both {
        if let Err(error) = slot
            && !error.is_corrupt()
        {
            return Err(error.clone());
        }
    }
    match both {
        [Ok(first), Ok(second)] => {
            if first.file != second.file {
                let reason = "the superblocks name two files";
                return Err(StorageError::corrupt(path, 0, reason));
            }
            if first.generation == second.generation && first != second {
                let reason = "two superblocks of one generation differ";
                return Err(StorageError::corrupt(path, 0, reason));
            }
            if second.generation > first.generation {
                Ok((Slot::Second, second))
            } else {
                Ok((Slot::First, first))
            }
        }
        [Ok(first), Err(_)] => Ok((Slot::First, first)),
        [Err(_), Ok(second)] => Ok((Slot::Second, second)),
        [Err(error), Err(_)] => Err(error),
    }
}
