//! Single superblocks and blocks.

use crate::address::BlockAddress;
use crate::block::{self, Block, BlockDescription, BlockKind, NewBlock};
use crate::extents::Extent;
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START};
use crate::new_blocks::NewBlocks;
use crate::superblock::{SUPERBLOCK_BYTES, SuperblockInfo, SuperblockSlot};
use std::path::Path;
use teak_base::bytes::Put;
use teak_base::checksum::{checksum, checksum_parts};
use teak_base::fuzzing::Input;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Codec, Encryption, EncryptionState, FileId, KeyId, KeyVersion, StorageResult};

const FILE: FileId = FileId(3);
const CHECKSUM_BYTES: usize = 8;

/// Decodes a superblock. If this succeeds, it must encode to the same bytes.
pub(super) fn superblock(bytes: &[u8]) {
    let path = Path::new("fuzz");
    let _ = SuperblockInfo::decode(path, SuperblockSlot::First, bytes);
    let mut sealed = bytes.to_vec();
    sealed.resize(SUPERBLOCK_BYTES - CHECKSUM_BYTES, 0);
    let sum = checksum(&sealed);
    sealed.put_u64(sum);
    if let Ok(info) = SuperblockInfo::decode(path, SuperblockSlot::Second, &sealed) {
        let again = info.encode().expect("a decoded payload fits");
        assert!(again == sealed, "a superblock encodes to itself");
    }
}

pub(super) fn superblock_seeds() -> Vec<Vec<u8>> {
    let extent = |unit: u64, units: u64| Extent {
        offset: BLOCKS_START + unit * BLOCK_UNIT_BYTES,
        bytes: units * BLOCK_UNIT_BYTES,
    };
    let full = SuperblockInfo {
        file: FILE,
        generation: 7,
        space_map: Some(BlockAddress {
            offset: BLOCKS_START,
            bytes: 100,
        }),
        end: BLOCKS_START + 4 * BLOCK_UNIT_BYTES,
        payload: b"payload of the tree".to_vec(),
        encryption: EncryptionState {
            with: KeyId::new(2).map(|key| KeyVersion { key, version: 5 }),
            is_mixed: true,
        },
        new_blocks: Some(NewBlocks {
            checksum: 99,
            extents: vec![extent(0, 1), extent(2, 2)],
        }),
    };
    let new = SuperblockInfo {
        space_map: None,
        payload: Vec::new(),
        new_blocks: None,
        ..full.clone()
    };
    let encode = |info: SuperblockInfo| {
        let mut bytes = info.encode().expect("it fits");
        // The target appends the zeros at the end.
        let mut used = bytes.iter().take(SUPERBLOCK_BYTES - CHECKSUM_BYTES);
        let end = used.rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        bytes
    };
    vec![encode(full), encode(new)]
}

/// Decodes a block without a cipher.
fn decode(
    file: FileId,
    address: BlockAddress,
    kind: BlockKind,
    bytes: &[u8],
) -> StorageResult<Block> {
    let plain = Encryption::default();
    block::decode(Path::new("fuzz"), &plain, file, (address, kind), bytes)
}

/// Decodes a block. The file id, the offset and the stored length in its header are corrected
/// first, unless the first byte of the input excludes them.
pub(super) fn block(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let leave = input.u8();
    let kind = input.one_of(&BlockKind::ALL);
    let offset = BLOCKS_START + u64::from(input.u8()) * BLOCK_UNIT_BYTES;
    let mut stored = input.rest().to_vec();
    let address = |bytes: usize| BlockAddress {
        offset,
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
    };
    let _ = decode(FILE, address(stored.len()), kind, &stored);
    if stored.len() < BLOCK_HEADER_BYTES {
        return;
    }
    let mut payload = stored.split_off(BLOCK_HEADER_BYTES);
    let mut header = stored;
    let stored_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let fields: [(u8, usize, &[u8]); 3] = [
        (1, 0, &FILE.0.to_le_bytes()),
        (2, 8, &offset.to_le_bytes()),
        (4, 20, &stored_bytes.to_le_bytes()),
    ];
    for (flag, at, field) in fields {
        if leave & flag == 0 {
            set(&mut header, at, field);
        }
    }
    header.truncate(BLOCK_HEADER_BYTES - CHECKSUM_BYTES);
    let sum = checksum_parts(&[&header, &payload]);
    header.put_u64(sum);
    let mut sealed = header.clone();
    sealed.append(&mut payload);

    let here = address(sealed.len());
    let Ok(found) = decode(FILE, here, kind, &sealed) else {
        return;
    };
    assert!(found.raw.len() <= BLOCK_RAW_BYTES_MAX && found.description.kind == kind);
    let (_, payload) = sealed.split_at(BLOCK_HEADER_BYTES);
    let raw_bytes = u32::try_from(found.raw.len()).unwrap_or(u32::MAX);
    let new = NewBlock {
        file: FILE,
        offset,
        description: found.description,
        raw_bytes,
        key: None,
    };
    let again = new.plain_header(payload);
    assert!(again == *header, "a header encodes to itself");
    // The same bytes must not be valid at another address, in another file or as another kind.
    let moved = BlockAddress {
        offset: offset + BLOCK_UNIT_BYTES,
        ..here
    };
    let elsewhere = [
        decode(FILE, moved, kind, &sealed),
        decode(FileId(FILE.0 + 1), here, kind, &sealed),
    ];
    let others = BlockKind::ALL.into_iter().filter(|other| *other != kind);
    let others = others.map(|other| decode(FILE, here, other, &sealed));
    assert!(
        elsewhere
            .into_iter()
            .chain(others)
            .all(|found| found.is_err())
    );
}

fn set(bytes: &mut [u8], at: usize, field: &[u8]) {
    for (byte, new) in bytes.iter_mut().skip(at).zip(field) {
        *byte = *new;
    }
}

pub(super) fn block_seeds() -> Vec<Vec<u8>> {
    let raw = b"an entry, an entry, an entry; ".repeat(4);
    let mut seeds = Vec::new();
    for (number, kind) in (0u8..).zip(BlockKind::ALL) {
        for codec in Codec::ALL {
            let mut stored = Vec::new();
            let codec = codec.compress(&raw, &mut stored);
            let description = BlockDescription {
                kind,
                layout: 1,
                codec,
            };
            let new = NewBlock {
                file: FILE,
                offset: BLOCKS_START,
                description,
                raw_bytes: u32::try_from(raw.len()).unwrap_or(0),
                key: None,
            };
            let header = new.plain_header(&stored);
            seeds.push([&[0, number, 0][..], &header, &stored].concat());
        }
    }
    seeds
}
