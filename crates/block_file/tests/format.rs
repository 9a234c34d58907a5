//! Checks `docs/design/format.md`: its example of an index file opens, and this build writes the
//! same bytes.

use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, FileId};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind, read_superblocks};
use teak_disk::{Disk, MemoryDisk};

const PAGE: &str = include_str!("../../../docs/design/format.md");
const FILE_BYTES: usize = 8576;
const BLOCK: BlockDescription = BlockDescription {
    kind: BlockKind::Page,
    layout: 1,
    codec: Codec::None,
};

/// The example in the section as bytes; omitted lines are zeros.
fn example() -> Vec<u8> {
    let section = PAGE
        .split("\n## ")
        .find(|part| part.starts_with("Index file\n"));
    let dump = section.unwrap().split("```").nth(1).unwrap();
    let mut bytes = vec![0; FILE_BYTES];
    for line in dump.lines().skip(1) {
        let mut words = line.split_whitespace();
        let offset = usize::from_str_radix(words.next().unwrap(), 16).unwrap();
        for (index, word) in words.enumerate() {
            bytes[offset + index] = u8::from_str_radix(word, 16).unwrap();
        }
    }
    bytes
}

#[test]
fn the_example_opens() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let path = Path::new("example.teak");
    disk.create(path)
        .unwrap()
        .write_all_at(&example(), 0)
        .unwrap();
    for superblock in read_superblocks(&disk, path).unwrap() {
        let superblock = superblock.unwrap();
        assert_eq!(superblock.generation, 2);
        assert_eq!(superblock.end, 8576);
        let map = BlockAddress {
            offset: 8448,
            bytes: 128,
        };
        assert_eq!(superblock.space_map, Some(map));
    }
    let (file, payload) = BlockFile::open(&disk, path, Some(FileId(7))).unwrap();
    assert_eq!(payload, b"root");
    let statistics = file.statistics();
    assert_eq!(statistics.free_bytes, 128);
    assert_eq!(statistics.live_bytes, 128);
    let address = BlockAddress {
        offset: 8320,
        bytes: 40,
    };
    let block = file.read_block(address, BlockKind::Page).unwrap();
    assert_eq!(block.raw, b"leaf");
    assert_eq!(block.description, BLOCK);
}

#[test]
fn the_example_is_written_byte_by_byte() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let path = Path::new("example.teak");
    let file = BlockFile::create(&disk, path, FileId(7), b"").unwrap();
    let mut writer = file.writer(0);
    // Compression does not make four bytes smaller, so codec none is recorded.
    let codec = Codec::Lz4;
    let old = writer
        .write(BlockDescription { codec, ..BLOCK }, b"free")
        .unwrap();
    writer
        .write(BlockDescription { codec, ..BLOCK }, b"leaf")
        .unwrap();
    file.publish(vec![writer.finish().unwrap()], &[]);
    // The pin prevents the space map from using the hole.
    let pin = file.pin();
    file.publish(Vec::new(), &[old]);
    file.prepare_checkpoint().unwrap().commit(b"root").unwrap();
    drop(pin);
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    // The hole still contains the freed block.
    bytes[8192..8320].fill(0);
    let mut dump = String::new();
    for (index, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|&byte| byte != 0) {
            let words: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            dump += &format!("{:04x}  {}\n", index * 16, words.join(" "));
        }
    }
    assert!(bytes == example(), "the page should show:\n{dump}");
}
