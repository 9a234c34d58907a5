//! Finding intact blocks without anything that refers to them.

use crate::common::{FILE, PAGE, PATH, checkpoint, create, open, write};
use std::path::Path;
use std::sync::Arc;
use teak_block_file::{BlockDescription, BlockFile, BlockKind};
use teak_disk::{Disk, MemoryDisk};

/// The contents of all pages that are found.
fn found(file: &BlockFile) -> Vec<Vec<u8>> {
    let mut pages = Vec::new();
    let mut progress = 0;
    file.visit_intact(
        BlockKind::Page,
        &mut |at| {
            assert!(at >= progress);
            progress = at;
        },
        &mut |address, block| {
            assert_eq!(
                file.read_block(address, BlockKind::Page).unwrap().raw,
                block.raw
            );
            pages.push(block.raw);
            Ok(())
        },
    )
    .unwrap();
    pages
}

/// A file with pages of different lengths, of which one was freed, and a block of another kind.
fn sample() -> (Arc<dyn Disk>, Vec<Vec<u8>>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    disk.create_directories(Path::new("/d")).unwrap();
    let file = create(&disk);
    let mut pages = Vec::new();
    for number in 0..40u8 {
        let raw = vec![number; 1 + usize::from(number) * 61];
        let address = write(&file, &raw);
        match number {
            7 => file.publish(Vec::new(), &[address]),
            _ => pages.push(raw),
        }
    }
    let mut writer = file.writer(10);
    let node = BlockDescription {
        kind: BlockKind::Node,
        ..PAGE
    };
    writer.write(node, b"node").unwrap();
    file.publish(vec![writer.finish().unwrap()], &[]);
    checkpoint(&file, b"root");
    (disk, pages)
}

#[test]
fn all_live_blocks_of_a_kind_are_found() {
    let (disk, pages) = sample();
    let (file, _) = open(&disk);
    assert_eq!(found(&file), pages);
}

#[test]
fn damaged_blocks_and_those_after_the_end_are_left_out() {
    let (disk, pages) = sample();
    let handle = disk.open(Path::new(PATH)).unwrap();
    let bytes = handle.len().unwrap();
    for part in (1..30).rev() {
        handle.set_len(8192 + (bytes - 8192) * part / 30).unwrap();
        let (file, _, _) = BlockFile::open_damaged(&disk, Path::new(PATH), FILE, 0).unwrap();
        let left = found(&file);
        // Without the space map, the freed page is found, too.
        let live: Vec<_> = left.into_iter().filter(|page| page[0] != 7).collect();
        assert!(pages.starts_with(&live) && live.len() < pages.len());
    }
    let (disk, pages) = sample();
    let handle = disk.open(Path::new(PATH)).unwrap();
    // The first page has one byte.
    handle.write_all_at(b"x", 8192 + 36).unwrap();
    let (file, _) = open(&disk);
    assert_eq!(found(&file), pages[1..]);
}
