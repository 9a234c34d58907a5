//! Reading blocks, and the space map of a checkpoint, from the file.

use crate::address::BlockAddress;
use crate::block::{self, Block, BlockDescription, BlockKind};
use crate::layout::BLOCK_HEADER_BYTES;
use crate::space_map::{Decoder, EPOCHS_LAYOUT, HOLES_LAYOUT, SpaceMap};
use crate::superblock::SuperblockInfo;
use teak_base::bytes::Malformed;
use teak_base::pool::Pool;
use teak_base::{Encryption, FileId, KeyVersion, StorageError, StorageResult};
use teak_disk::DiskFile;

/// Maximum capacity of a read buffer that is put back into the pool.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

static SCRATCH: Pool<Vec<u8>> = Pool::new();

/// Reads, verifies, decrypts and decompresses one block of a file of `file_bytes`.
///
/// # Errors
/// `Corrupt` when the address has no valid block of that kind; `Io`, `Key`.
pub(crate) fn read_block(
    file: &dyn DiskFile,
    encryption: &Encryption,
    id: FileId,
    file_bytes: u64,
    (address, kind): (BlockAddress, BlockKind),
) -> StorageResult<Block> {
    check_address(file, file_bytes, address)?;
    let bytes = address.bytes as usize;
    let mut scratch = SCRATCH.take().unwrap_or_default();
    if scratch.len() < bytes {
        scratch.resize(bytes, 0);
    }
    let (buffer, _) = scratch.split_at_mut(bytes);
    let block = file
        .read_exact_at(buffer, address.offset)
        .and_then(|()| block::decode(file.path(), encryption, id, (address, kind), buffer));
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.put(scratch);
    }
    block
}

/// Reads, verifies and decrypts one block, and appends its bytes to `out`: the header, and what the codec has
/// written. Returns the description in the header and the length of the raw bytes.
///
/// # Errors
/// `Corrupt` when the address has no valid block of that kind; `Io`, `Key`. `out` may
/// have grown even then.
pub(crate) fn read_stored(
    file: &dyn DiskFile,
    encryption: &Encryption,
    (id, file_bytes): (FileId, u64),
    (address, kind): (BlockAddress, BlockKind),
    out: &mut Vec<u8>,
) -> StorageResult<(BlockDescription, u32)> {
    check_address(file, file_bytes, address)?;
    let start = out.len();
    out.resize(start + address.bytes as usize, 0);
    let (_, buffer) = out.split_at_mut(start);
    file.read_exact_at(buffer, address.offset)?;
    let block = block::verify(file.path(), id, address, kind, buffer)?;
    if block.is_encrypted {
        let mut decrypted = Vec::new();
        let path = file.path();
        let plain = block::decrypt(path, encryption, address, &block, buffer, &mut decrypted)?;
        let plain = plain.to_vec();
        out.truncate(start + BLOCK_HEADER_BYTES);
        out.extend_from_slice(&plain);
    }
    Ok((block.description, block.raw_bytes))
}

/// Reads the key of a block.
///
/// # Errors
/// `Corrupt` when no block of the file begins there; `Io`.
pub(crate) fn read_key(
    file: &dyn DiskFile,
    id: FileId,
    address: BlockAddress,
) -> StorageResult<Option<KeyVersion>> {
    let mut front = [0; BLOCK_HEADER_BYTES + 8];
    let bytes = front.len().min(address.bytes as usize);
    let (read, _) = front.split_at_mut(bytes);
    file.read_exact_at(read, address.offset)?;
    let claimed = block::claimed_block(read);
    if !claimed.is_some_and(|claimed| claimed.file == id && claimed.address == address) {
        let reason = "the block's header is damaged";
        return Err(StorageError::corrupt(file.path(), address.offset, reason));
    }
    Ok(block::claimed_key(read))
}

/// Checks, before memory is allocated for a block, that a block can have this address.
fn check_address(file: &dyn DiskFile, file_bytes: u64, address: BlockAddress) -> StorageResult<()> {
    let corrupt = |reason: &str| StorageError::corrupt(file.path(), address.offset, reason);
    let Some(extent) = address.extent() else {
        return Err(corrupt("no block can have this address"));
    };
    if extent.end() > file_bytes {
        return Err(corrupt("the block's address is beyond the end of the file"));
    }
    Ok(())
}

/// Reads the space map that a superblock refers to.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn read_space_map(
    file: &dyn DiskFile,
    superblock: &SuperblockInfo,
) -> StorageResult<SpaceMap> {
    let mut decoder = Decoder::new(superblock.end);
    let mut next = superblock.space_map;
    let mut offset = 0;
    let malformed = |offset: u64| {
        move |_: Malformed| StorageError::corrupt(file.path(), offset, "the space map is malformed")
    };
    while let Some(address) = next {
        decoder.enter(address).map_err(malformed(offset))?;
        offset = address.offset;
        let place = (address, BlockKind::SpaceMap);
        // It contains offsets only, and is not encrypted.
        let plain = Encryption::default();
        let block = read_block(file, &plain, superblock.file, superblock.end, place)?;
        next = match block.description.layout {
            HOLES_LAYOUT => decoder.block(&block.raw),
            EPOCHS_LAYOUT => decoder.epochs(&block.raw),
            _ => Err(Malformed),
        }
        .map_err(malformed(offset))?;
    }
    decoder.finish().map_err(malformed(offset))
}
