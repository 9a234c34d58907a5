//! Damaged bytes: no reader panics, and each kind of damage is reported.

use crate::common::{FILE, PAGE, PATH, checkpoint, create, open, read};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use teak_base::checksum::checksum_parts;
use teak_base::{Codec, FileId, StorageError};
use teak_block_file::{
    BLOCK_HEADER_BYTES, BLOCKS_START, BlockAddress, BlockDescription, BlockFile, BlockKind,
    read_superblocks,
};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::Random;

const SUPERBLOCK_BYTES: usize = 4096;

/// Returns the bytes and blocks of a file with holes after a few checkpoints.
fn image() -> (Vec<u8>, Vec<BlockAddress>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = create(&disk);
    let mut live = Vec::new();
    for round in 0..4u8 {
        let mut writer = file.writer(0);
        for (number, codec) in Codec::ALL.into_iter().enumerate() {
            let raw = vec![round; 100 + 300 * number];
            let description = BlockDescription { codec, ..PAGE };
            live.push(writer.write(description, &raw).unwrap());
        }
        let freed: Vec<_> = (0..3).map(|_| live.remove(live.len() / 2)).collect();
        file.publish(vec![writer.finish().unwrap()], &freed);
        checkpoint(&file, &[round; 10]);
    }
    let bytes = disk.open(Path::new(PATH)).unwrap();
    let mut image = vec![0; usize::try_from(bytes.len().unwrap()).unwrap()];
    bytes.read_exact_at(&mut image, 0).unwrap();
    (image, live)
}

fn disk_of(image: &[u8]) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = disk.create(Path::new(PATH)).unwrap();
    file.write_all_at(image, 0).unwrap();
    disk
}

/// Opens, reads and checkpoints the damaged file. Every step may fail.
fn try_everything(image: &[u8], blocks: &[BlockAddress]) {
    let disk = disk_of(image);
    let _ = read_superblocks(&disk, Path::new(PATH)).unwrap();
    let Ok((file, _)) = BlockFile::open(&disk, Path::new(PATH), None) else {
        return;
    };
    for &address in blocks {
        for kind in BlockKind::ALL {
            let _ = file.read_block(address, kind);
        }
    }
    file.publish(Vec::new(), blocks);
    for payload in [b"1", b"2"] {
        let mut writer = file.writer(0);
        let address = writer.write(PAGE, &[9; 500]).unwrap();
        file.publish(vec![writer.finish().unwrap()], &[]);
        assert_eq!(read(&file, address), [9; 500]);
        if let Ok(mut prepared) = file.prepare_checkpoint() {
            prepared.commit(payload).unwrap();
        }
    }
}

fn set_superblock_checksum(image: &mut [u8], slot: usize) {
    let superblock = &mut image[slot * SUPERBLOCK_BYTES..][..SUPERBLOCK_BYTES];
    let sum = checksum_parts(&[&superblock[..4088]]);
    superblock[4088..].copy_from_slice(&sum.to_le_bytes());
}

fn set_block_checksum(image: &mut [u8], address: BlockAddress) {
    let start = usize::try_from(address.offset).unwrap();
    let block = &mut image[start..][..address.bytes as usize];
    let sum = checksum_parts(&[&block[..28], &block[BLOCK_HEADER_BYTES..]]);
    block[28..36].copy_from_slice(&sum.to_le_bytes());
}

fn space_map(image: &[u8]) -> BlockAddress {
    let infos = read_superblocks(&disk_of(image), Path::new(PATH)).unwrap();
    let [first, _] = infos;
    first.unwrap().space_map.unwrap()
}

/// Changes some bytes of a range.
fn damage(image: &mut [u8], start: usize, length: usize, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = start + usize::try_from(random.below(length as u64)).unwrap();
        image[at] = match random.below(3) {
            0 => image[at] ^ (1 << random.below(8)),
            1 => [0, 1, 0x7f, 0x80, 0xff][usize::try_from(random.below(5)).unwrap()],
            _ => u8::try_from(random.below(256)).unwrap(),
        };
    }
}

#[test]
fn damaged_files_give_errors_and_never_panic() {
    let (image, blocks) = image();
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let mut bad = image.clone();
        damage(&mut bad, 0, image.len(), &mut random);
        if random.one_in(4) {
            bad.truncate(usize::try_from(random.below(image.len() as u64)).unwrap());
        }
        try_everything(&bad, &blocks);
    }
}

/// Superblocks with a correct checksum and wrong fields.
#[test]
fn false_superblocks_give_errors_and_never_panic() {
    let (image, blocks) = image();
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut bad = image.clone();
        for slot in 0..2 {
            // From the format version to the payload, or the list of new blocks.
            let (start, length) = [(8, 56), (3128, 48)][usize::from(random.one_in(3))];
            damage(
                &mut bad,
                slot * SUPERBLOCK_BYTES + start,
                length,
                &mut random,
            );
            set_superblock_checksum(&mut bad, slot);
            if random.one_in(2) {
                bad.copy_within(
                    slot * SUPERBLOCK_BYTES..(slot + 1) * SUPERBLOCK_BYTES,
                    (1 - slot) * SUPERBLOCK_BYTES,
                );
                break;
            }
        }
        try_everything(&bad, &blocks);
    }
}

/// Space maps with a correct checksum and wrong extents.
#[test]
fn false_space_maps_give_errors_and_never_panic() {
    let (image, blocks) = image();
    let map = space_map(&image);
    let start = usize::try_from(map.offset).unwrap();
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut bad = image.clone();
        let length = map.bytes as usize - BLOCK_HEADER_BYTES;
        damage(
            &mut bad,
            start + BLOCK_HEADER_BYTES,
            length.min(40),
            &mut random,
        );
        set_block_checksum(&mut bad, map);
        try_everything(&bad, &blocks);
    }
}

/// Blocks with a correct checksum and a wrong header or payload.
#[test]
fn false_blocks_give_errors_and_never_panic() {
    let (image, blocks) = image();
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut bad = image.clone();
        let index = usize::try_from(random.below(blocks.len() as u64)).unwrap();
        let address = blocks[index];
        let start = usize::try_from(address.offset).unwrap();
        damage(&mut bad, start, address.bytes as usize, &mut random);
        set_block_checksum(&mut bad, address);
        let disk = disk_of(&bad);
        let (file, _) = open(&disk);
        let _ = file.read_block(address, BlockKind::Page);
    }
}

proptest! {
    #[test]
    fn any_address_is_read_or_refused(offset: u64, near in 0u64..40_000, bytes: u32, few in 0u32..3000) {
        let (image, _) = image();
        let (file, _) = open(&disk_of(&image));
        for offset in [offset, near, near * 128] {
            for bytes in [bytes, few] {
                for kind in BlockKind::ALL {
                    let _ = file.read_block(BlockAddress { offset, bytes }, kind);
                }
            }
        }
    }
}

fn reason(result: Result<impl std::fmt::Debug, StorageError>) -> String {
    match result.unwrap_err() {
        StorageError::Corrupt { reason, path, .. } => {
            assert_eq!(path, Path::new(PATH));
            reason
        }
        other => other.to_string(),
    }
}

/// A change of the file, whether to correct the checksum, and the expected error text.
type Check<'a> = (&'a dyn Fn(&mut Vec<u8>), bool, &'a str);

#[test]
fn each_kind_of_damage_is_reported() {
    let (image, blocks) = image();
    let address = blocks[0];
    let start = usize::try_from(address.offset).unwrap();
    let read_with = |change: &dyn Fn(&mut Vec<u8>), fix: bool| {
        let mut bad = image.clone();
        change(&mut bad);
        if fix {
            set_block_checksum(&mut bad, address);
        }
        let (file, _) = open(&disk_of(&bad));
        reason(file.read_block(address, BlockKind::Page))
    };
    let at = |offset: usize, value: u8| move |bad: &mut Vec<u8>| bad[start + offset] = value;
    let checks: [Check<'_>; 9] = [
        (&at(0, 99), true, "names file 99"),
        (&at(8, 99), true, "as its own"),
        (&at(56, 99), false, "checksum does not match"),
        (&at(29, 99), false, "checksum does not match"),
        (&at(20, 99), true, "but its address specifies"),
        (&at(24, 99), true, "kind 99 is unknown"),
        (&at(24, 3), true, "a Node block was found"),
        (&at(26, 99), true, "codec 99 is unknown"),
        (&at(16, 99), true, "is not 99 bytes"),
    ];
    for (change, fix, expected) in checks {
        let reason = read_with(change, fix);
        assert!(reason.contains(expected), "{reason}");
    }
    let newer = read_with(&at(27, 3), true);
    assert!(newer.contains("format version 3"), "{newer}");
    let no_envelope = read_with(&at(27, 2), true);
    assert!(no_envelope.contains("envelope"), "{no_envelope}");
    let huge = read_with(&|bad| bad[start + 19] = 0xff, true);
    assert!(huge.contains("exceed the limit"), "{huge}");
}

#[test]
fn a_block_at_the_wrong_offset_is_reported() {
    let (image, blocks) = image();
    let (from, to) = (blocks[0], blocks[1]);
    let start = usize::try_from(from.offset).unwrap();
    let mut bad = image.clone();
    bad.copy_within(
        start..start + from.bytes as usize,
        usize::try_from(to.offset).unwrap(),
    );
    let (file, _) = open(&disk_of(&bad));
    let moved = BlockAddress {
        offset: to.offset,
        bytes: from.bytes,
    };
    let error = reason(file.read_block(moved, BlockKind::Page));
    assert!(error.contains("as its own"), "{error}");
}

#[test]
fn a_block_of_another_file_is_reported() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let file = create(&disk);
    let address = crate::common::write(&file, b"abc");
    let bytes = &mut [0; 128];
    let raw = disk.open(Path::new(PATH)).unwrap();
    raw.read_exact_at(bytes, address.offset).unwrap();
    let other = Path::new("/d/other.teak");
    let second = BlockFile::create(&disk, other, FileId(6), b"").unwrap();
    assert_eq!(crate::common::write(&second, b"def"), address);
    disk.open(other)
        .unwrap()
        .write_all_at(bytes, address.offset)
        .unwrap();
    let error = second.read_block(address, BlockKind::Page).unwrap_err();
    assert!(error.to_string().contains("names file 5"), "{error}");
}

#[test]
fn opening_reports_a_file_shorter_than_its_blocks() {
    let (image, _) = image();
    for length in [0, 4096, 8192, image.len() - 128] {
        let disk = disk_of(&image[..length]);
        let error = BlockFile::open(&disk, Path::new(PATH), None).unwrap_err();
        assert!(error.is_corrupt(), "{error}");
    }
}

#[test]
fn a_newer_format_is_not_read() {
    let (image, _) = image();
    for slot in 0..2 {
        let mut bad = image.clone();
        bad[slot * SUPERBLOCK_BYTES + 8] = 3;
        set_superblock_checksum(&mut bad, slot);
        let newer = BlockFile::open(&disk_of(&bad), Path::new(PATH), None);
        let is_newer = matches!(
            newer,
            Err(StorageError::UnsupportedFormat {
                found: 3,
                supported: 2,
                ..
            })
        );
        assert!(is_newer, "{newer:?}");
    }
}

#[test]
fn other_files_are_refused() {
    for (bytes, expected) in [
        (vec![0; 9000], "is empty"),
        (vec![7; 9000], "not an index file"),
    ] {
        let error = BlockFile::open(&disk_of(&bytes), Path::new(PATH), Some(FILE));
        assert!(reason(error).contains(expected));
    }
}

#[test]
fn contradicting_superblocks_are_reported() {
    let (image, _) = image();
    let mut bad = image.clone();
    bad[16] = 9;
    set_superblock_checksum(&mut bad, 0);
    let error = reason(BlockFile::open(&disk_of(&bad), Path::new(PATH), None));
    assert!(error.contains("different file ids"), "{error}");
    let mut bad = image;
    bad[56] ^= 1;
    set_superblock_checksum(&mut bad, 0);
    let error = reason(BlockFile::open(&disk_of(&bad), Path::new(PATH), None));
    assert!(error.contains("one generation differ"), "{error}");
}

#[test]
fn blocks_start_after_the_superblocks() {
    assert_eq!(BLOCKS_START, 2 * SUPERBLOCK_BYTES as u64);
}
