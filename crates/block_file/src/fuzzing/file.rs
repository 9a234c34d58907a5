//! Fuzz target of a whole index file: it is opened, written, checkpointed and opened again.

use crate::address::BlockAddress;
use crate::block::{BlockDescription, BlockKind, NewBlock};
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START, whole_units};
use crate::superblock::{SuperblockInfo, SuperblockSlot};
use crate::{BlockFile, Pin};
use std::path::Path;
use std::sync::Arc;
use teak_base::bytes::Put;
use teak_base::fuzzing::Input;
use teak_base::{Codec, FileId, StorageResult};
use teak_disk::{Disk, MemoryDisk};

const FILE: FileId = FileId(3);
const PAGE: BlockDescription = BlockDescription {
    kind: BlockKind::Page,
    layout: 1,
    codec: Codec::Lz4,
};

/// The input contains the length of the file, two superblocks, and blocks of space maps, all with
/// correct checksums (see `superblock` and `map_block`). If the file opens, it is written, and must
/// then open with the same contents.
pub(super) fn index_file(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    build(&disk, &mut input).expect("the memory disk accepts everything");
    let Ok((file, _)) = BlockFile::open(&disk, path(), None) else {
        return;
    };
    let pin: Pin = file.pin();
    let written = use_file(&file, &mut input).expect("a file that opens can be written");
    drop(pin);
    let statistics = file.statistics();
    drop(file);
    let (file, payload) = BlockFile::open(&disk, path(), None).expect("it was checkpointed");
    assert_eq!(payload, b"again");
    let live = file.statistics().live_bytes;
    assert_eq!(live, statistics.live_bytes, "live blocks remain live");
    for (address, raw) in written {
        let block = file.read_block(address, BlockKind::Page);
        assert!(block.is_ok_and(|block| block.raw == raw));
    }
}

fn path() -> &'static Path {
    Path::new("/fuzz.teak")
}

fn build(disk: &Arc<dyn Disk>, input: &mut Input<'_>) -> StorageResult<()> {
    let units = u64::from(input.u16() % 512);
    let file = disk.create(path())?;
    file.set_len(BLOCKS_START + units * BLOCK_UNIT_BYTES)?;
    for slot in SuperblockSlot::BOTH {
        if !input.rarely() {
            file.write_all_at(&superblock(input).encode()?, slot.offset())?;
        }
    }
    for _ in 0..input.below(4) {
        let (offset, bytes) = map_block(input);
        file.write_all_at(&bytes, offset)?;
    }
    Ok(())
}

fn superblock(input: &mut Input<'_>) -> SuperblockInfo {
    let generation = u64::from(input.u8());
    let other_file = u64::from(input.rarely());
    let generation = generation | u64::from(input.rarely()) << 62;
    let space_map = BlockAddress {
        offset: BLOCKS_START + u64::from(input.u16()) * BLOCK_UNIT_BYTES,
        bytes: u32::from(input.u16()),
    };
    let end = BLOCKS_START + u64::from(input.u16()) * BLOCK_UNIT_BYTES;
    SuperblockInfo {
        encryption: Default::default(),
        file: FileId(FILE.0 + other_file),
        generation,
        space_map: (space_map.bytes > 0).then_some(space_map),
        end,
        payload: input.short_bytes().to_vec(),
        new_blocks: None,
    }
}

/// Builds a block of a space map: its offset, the address of the next block, and extents.
fn map_block(input: &mut Input<'_>) -> (u64, Vec<u8>) {
    let offset = BLOCKS_START + u64::from(input.u16()) * BLOCK_UNIT_BYTES;
    let mut raw = Vec::new();
    match input.u16() {
        0 => raw.resize(BlockAddress::ENCODED_BYTES, 0),
        unit => {
            raw.put_u64(BLOCKS_START + u64::from(unit) * BLOCK_UNIT_BYTES);
            raw.put_u32(u32::from(input.u16()));
        }
    }
    raw.put_u32(u32::from(input.u8()));
    raw.extend_from_slice(input.short_bytes());
    let description = BlockDescription {
        kind: BlockKind::SpaceMap,
        layout: 0,
        codec: Codec::None,
    };
    let new = NewBlock {
        file: FILE,
        offset,
        description,
        raw_bytes: u32::try_from(raw.len()).unwrap_or(0),
        key: None,
    };
    let header = new.plain_header(&raw);
    (offset, [&header[..], &raw].concat())
}

type Written = Vec<(BlockAddress, Vec<u8>)>;

/// Writes and frees some blocks, and ends with a checkpoint.
fn use_file(file: &BlockFile, input: &mut Input<'_>) -> StorageResult<Written> {
    let mut live: Written = Vec::new();
    for round in 0..3 {
        let mut writer = file.writer(u64::from(input.u8()));
        for _ in 0..=input.below(3) {
            let raw = vec![input.u8(); 1 + usize::from(input.u8()) * 16];
            live.push((writer.write(PAGE, &raw)?, raw));
        }
        let written = writer.finish()?;
        let freed = match input.below(2) {
            0 if live.len() > 3 => vec![live.remove(0).0],
            _ => Vec::new(),
        };
        file.publish(vec![written], &freed);
        if round != 1 {
            file.prepare_checkpoint()?.commit(b"again")?;
        }
    }
    Ok(live)
}

pub(super) fn index_file_seeds() -> Vec<Vec<u8>> {
    let superblock = |seed: &mut Vec<u8>, generation: u8, map: (u16, u16), end: u16| {
        seed.extend([0, generation, 0, 0]);
        seed.put_u16(map.0);
        seed.put_u16(map.1);
        seed.put_u16(end);
        seed.extend(b"\x03abc");
    };
    let extents = [0, 2, 4, 1, 3, 10];
    let map_bytes = BLOCK_HEADER_BYTES + BlockAddress::ENCODED_BYTES + 4 + extents.len();
    assert!(whole_units(map_bytes as u64) == BLOCK_UNIT_BYTES);
    let map_bytes = u16::try_from(map_bytes).unwrap_or(0);
    let mut mapped = Vec::new();
    mapped.put_u16(40);
    superblock(&mut mapped, 4, (30, map_bytes), 40);
    superblock(&mut mapped, 3, (0, 0), 40);
    mapped.push(1);
    mapped.put_u16(30);
    mapped.put_u16(0);
    mapped.extend([3, 6]);
    mapped.extend(extents);
    mapped.extend(b"some blocks to write afterwards");
    let mut new = Vec::new();
    new.put_u16(0);
    superblock(&mut new, 1, (0, 0), 0);
    superblock(&mut new, 1, (0, 0), 0);
    new.extend(b"\x00some blocks to write afterwards");
    vec![mapped, new]
}
