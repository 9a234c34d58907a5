//! Support for the tests of index files.

use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, FileId};
use teak_block_file::{BlockAddress, BlockDescription, BlockFile, BlockKind};
use teak_disk::Disk;

pub const PATH: &str = "/d/t.teak";
pub const FILE: FileId = FileId(5);

pub const PAGE: BlockDescription = BlockDescription {
    kind: BlockKind::Page,
    layout: 3,
    codec: Codec::None,
};

/// A new file whose name is durable.
pub fn create(disk: &Arc<dyn Disk>) -> BlockFile {
    let file = BlockFile::create(disk, Path::new(PATH), FILE, b"empty").unwrap();
    disk.sync_directory(Path::new("/d")).unwrap();
    file
}

/// Opens the file again. Returns it and its payload.
pub fn open(disk: &Arc<dyn Disk>) -> (BlockFile, Vec<u8>) {
    BlockFile::open(disk, Path::new(PATH), Some(FILE)).unwrap()
}

/// Writes and publishes one block.
pub fn write(file: &BlockFile, raw: &[u8]) -> BlockAddress {
    let mut writer = file.writer(raw.len() as u64);
    let address = writer.write(PAGE, raw).unwrap();
    file.publish(vec![writer.finish().unwrap()], &[]);
    address
}

/// Makes a checkpoint, which must succeed.
pub fn checkpoint(file: &BlockFile, payload: &[u8]) {
    file.prepare_checkpoint().unwrap().commit(payload).unwrap();
}

/// Reads a page, which must succeed.
pub fn read(file: &BlockFile, address: BlockAddress) -> Vec<u8> {
    file.read_block(address, BlockKind::Page).unwrap().raw
}
