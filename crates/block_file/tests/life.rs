//! The life of a file without faults.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, FileId};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind};
use teak_disk::{Disk, MemoryDisk};

const PAGE: BlockDescription = BlockDescription {
    kind: BlockKind::Page,
    layout: 3,
    codec: Codec::Lz4,
    schema_version: 7,
};

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::new())
}

fn created(disk: &Arc<dyn Disk>) -> BlockFile {
    BlockFile::create(disk, Path::new("t.teak"), FileId(5), b"empty").unwrap()
}

fn write(file: &BlockFile, raws: &[Vec<u8>]) -> Vec<BlockAddress> {
    let mut writer = file.writer(0);
    let addresses = raws
        .iter()
        .map(|raw| writer.write(PAGE, raw).unwrap())
        .collect();
    file.publish(vec![writer.finish().unwrap()], &[]);
    addresses
}

#[test]
fn blocks_of_a_checkpoint_survive_reopening() {
    let disk = disk();
    let file = created(&disk);
    let raws: Vec<Vec<u8>> = (0..300u32)
        .map(|n| n.to_le_bytes().repeat(1 + n as usize * 7))
        .collect();
    let addresses = write(&file, &raws);
    file.prepare_checkpoint(b"state".to_vec())
        .unwrap()
        .commit()
        .unwrap();
    drop(file);
    let (file, payload) = BlockFile::open(&disk, Path::new("t.teak"), Some(FileId(5))).unwrap();
    assert_eq!(payload, b"state");
    for (address, raw) in addresses.iter().zip(&raws) {
        let block = file.read_block(*address, BlockKind::Page).unwrap();
        assert_eq!(&block.raw, raw);
        assert_eq!(block.description.layout, 3);
        assert_eq!(block.description.schema_version, 7);
    }
}

#[test]
fn opening_without_a_checkpoint_finds_the_empty_file() {
    let disk = disk();
    let file = created(&disk);
    write(&file, &[vec![1; 100]]);
    drop(file);
    let (file, payload) = BlockFile::open(&disk, Path::new("t.teak"), None).unwrap();
    assert_eq!(payload, b"empty");
    assert_eq!(file.statistics().live_bytes, 0);
}
