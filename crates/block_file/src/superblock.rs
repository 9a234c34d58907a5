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
//! | 44 | 4 | 1: blocks may be encrypted otherwise than the key at 3120 says; 0: they are not |
//! | 48 | 8 | one past the last live byte |
//! | 56 | 3064 | payload, then zeros |
//! | 3120 | 4 | id of the key with which all blocks but those of the space map are encrypted; 0: they are not |
//! | 3124 | 4 | the oldest version of the key that a block may have; 0 without a key |
//! | 3128 | 960 | new blocks, see `new_blocks`: |
//! | 3128 | 8 | checksum of their bytes, in the order of the list; 0 when none are listed |
//! | 3136 | 4 | number of extents, at most 59; 0 when the blocks were synced before |
//! | 3140 | 4 | zero |
//! | 3144 | 944 | for each extent its offset (8) and its length (8), ordered by offset, then zeros |
//! | 4088 | 8 | checksum of bytes 0..4088 |
//!
//! Magic, format version and checksum have the same offset in every version.

use crate::address::BlockAddress;
use crate::layout::{BLOCK_UNIT_BYTES, BLOCKS_START};
use crate::new_blocks::{self, NewBlocks};
use std::path::Path;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum;
use teak_base::{EncryptionState, FileId, KeyId, KeyVersion, StorageError, StorageResult};
use teak_disk::DiskFile;

/// Maximum length of the tree's payload in a superblock, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 3064;

pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const CHECKED_BYTES: usize = 4088;
const PAYLOAD_OFFSET: usize = 56;
const KEY_OFFSET: usize = PAYLOAD_OFFSET + PAYLOAD_BYTES_MAX;
const NEW_BLOCKS_OFFSET: usize = KEY_OFFSET + 8;
const _: () = assert!(NEW_BLOCKS_OFFSET + new_blocks::ENCODED_BYTES == CHECKED_BYTES);
const _: () = assert!(CHECKED_BYTES + 8 == SUPERBLOCK_BYTES);
const _: () = assert!(2 * SUPERBLOCK_BYTES as u64 == BLOCKS_START);

const MAGIC: &[u8; 8] = b"TEAKINDX";
/// Version 2 lists new blocks.
const FORMAT_VERSION: u32 = 2;

/// One of the two locations of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuperblockSlot {
    First,
    Second,
}

impl SuperblockSlot {
    pub const BOTH: [SuperblockSlot; 2] = [Self::First, Self::Second];

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
    /// Number of the checkpoint: the valid superblock with the higher
    /// generation is used, unless blocks that it lists are incomplete.
    pub generation: u64,
    /// The first block of the space map; `None` in a new file.
    pub space_map: Option<BlockAddress>,
    /// One past the last live byte.
    pub end: u64,
    /// The state of the tree.
    pub payload: Vec<u8>,
    /// How all blocks but those of the space map are encrypted.
    pub encryption: EncryptionState,
    /// Blocks that were not synced before the superblock was written.
    pub(crate) new_blocks: Option<NewBlocks>,
}

impl SuperblockInfo {
    /// The superblock of a file without blocks.
    pub(crate) fn new(file: FileId, generation: u64, payload: &[u8]) -> Self {
        Self {
            file,
            generation,
            space_map: None,
            end: BLOCKS_START,
            payload: payload.to_vec(),
            encryption: EncryptionState::default(),
            new_blocks: None,
        }
    }

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
        out.put_u32(self.encryption.is_mixed.into());
        out.put_u64(self.end);
        out.extend_from_slice(&self.payload);
        out.resize(KEY_OFFSET, 0);
        out.put_u32(KeyId::number(self.encryption.with.map(|with| with.key)));
        out.put_u32(self.encryption.with.map_or(0, |with| with.version));
        NewBlocks::encode(self.new_blocks.as_ref(), &mut out);
        let sum = checksum(&out);
        out.put_u64(sum);
        Ok(out)
    }

    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`.
    pub(crate) fn decode(path: &Path, slot: SuperblockSlot, bytes: &[u8]) -> StorageResult<Self> {
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
        StorageError::check_version(path, take.u32().map_err(short)?, FORMAT_VERSION)?;
        Self::fields(&mut take).map_err(|_| corrupt("the superblock's fields do not fit"))
    }

    fn fields(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let payload_bytes = take.u32()? as usize;
        let file = FileId(take.u64()?);
        let generation = take.u64()?;
        let space_map = BlockAddress::decode(take)?;
        let is_mixed = match take.u32()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let end = take.u64()?;
        let aligned = end.is_multiple_of(BLOCK_UNIT_BYTES) && end >= BLOCKS_START;
        // Generations increase by one, so no file reaches this limit. A higher generation is
        // malformed and could overflow.
        let countable = generation < u64::MAX / 2;
        if payload_bytes > PAYLOAD_BYTES_MAX || !aligned || !countable {
            return Err(Malformed);
        }
        let mut payload = Take::new(take.take(PAYLOAD_BYTES_MAX)?);
        let used = payload.take(payload_bytes)?.to_vec();
        if payload.rest().iter().any(|&byte| byte != 0) {
            return Err(Malformed);
        }
        let (key, version) = (KeyId::new(take.u32()?), take.u32()?);
        let new_blocks = NewBlocks::decode(take, end)?;
        if key.is_none() && version != 0 {
            return Err(Malformed);
        }
        Ok(Self {
            file,
            generation,
            space_map: (space_map != BlockAddress::NONE).then_some(space_map),
            end,
            payload: used,
            encryption: EncryptionState {
                with: key.map(|key| KeyVersion { key, version }),
                is_mixed,
            },
            new_blocks,
        })
    }
}

/// Reads both superblocks. One slot may be damaged, because a crash may tear a write.
///
/// # Errors
/// `NotFound`, `Io` for the file as a whole.
pub fn read_superblocks(
    disk: &std::sync::Arc<dyn teak_disk::Disk>,
    path: &Path,
) -> StorageResult<[StorageResult<SuperblockInfo>; 2]> {
    let file = disk.open(path)?;
    Ok(read_both(&*file))
}

pub(crate) fn read_both(file: &dyn DiskFile) -> [StorageResult<SuperblockInfo>; 2] {
    SuperblockSlot::BOTH.map(|slot| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, slot.offset())?;
        SuperblockInfo::decode(file.path(), slot, &bytes)
    })
}

/// The superblocks that may hold the state of the file, the newest first.
///
/// A damaged slot is skipped, because it may be the torn write of a crash. A slot
/// of a newer format is not skipped, because the other slot is then out of date.
/// Neither is a slot that cannot be read: it may be the newest, and blocks that the
/// older state needs may have been overwritten.
///
/// # Errors
/// The error of the first slot when neither is valid; `UnsupportedFormat`;
/// `Io`; `Corrupt` when the two contradict each other.
pub(crate) fn valid(
    path: &Path,
    both: [StorageResult<SuperblockInfo>; 2],
) -> StorageResult<Vec<(SuperblockSlot, SuperblockInfo)>> {
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
                let reason = "the superblocks have different file ids";
                return Err(StorageError::corrupt(path, 0, reason));
            }
            if first.generation == second.generation && first != second {
                let reason = "two superblocks of one generation differ";
                return Err(StorageError::corrupt(path, 0, reason));
            }
            let is_second_newer = second.generation > first.generation;
            let mut found = vec![
                (SuperblockSlot::First, first),
                (SuperblockSlot::Second, second),
            ];
            if is_second_newer {
                found.reverse();
            }
            Ok(found)
        }
        [Ok(first), Err(_)] => Ok(vec![(SuperblockSlot::First, first)]),
        [Err(_), Ok(second)] => Ok(vec![(SuperblockSlot::Second, second)]),
        [Err(error), Err(_)] => Err(error),
    }
}

/// Leaves out the superblocks before `generation_min`. `found` are the valid ones, the
/// newest first.
///
/// # Errors
/// `Corrupt` when none remains.
pub(crate) fn not_before(
    path: &Path,
    mut found: Vec<(SuperblockSlot, SuperblockInfo)>,
    generation_min: u64,
) -> StorageResult<Vec<(SuperblockSlot, SuperblockInfo)>> {
    let newest = found
        .first()
        .map(|(slot, newest)| (*slot, newest.generation));
    found.retain(|(_, superblock)| superblock.generation >= generation_min);
    match newest {
        Some((slot, generation)) if found.is_empty() => {
            let reason = format!(
                "the last valid checkpoint is number {generation}, but number {generation_min} \
                 was durable: a superblock is damaged, or this is an older copy of the file"
            );
            Err(StorageError::corrupt(path, slot.offset(), reason))
        }
        _ => Ok(found),
    }
}
