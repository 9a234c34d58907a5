//! Maps of the files of trees.

use crate::common::settled::SETTLED;
use std::path::Path;
use std::sync::Arc;
use teak_base::{FileId, Lsn, Operation, StorageError, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{MappedRange, PageCache, RangeKind, RangeUse, Tree, TreeOptions};

fn put(tree: &Arc<Tree>, rows: impl Iterator<Item = u32>, value: &[u8], lsn: u64) {
    for row in rows {
        let guard = tree.write_guard();
        guard.insert(WriteId(1), Operation::Put, &row.to_be_bytes(), value);
    }
    tree.freeze(|| Lsn(lsn));
}

fn checkpoint(tree: &Arc<Tree>) {
    let mut checkpoint = tree.begin_checkpoint().capture().unwrap();
    checkpoint.commit().unwrap();
}

fn tree() -> Arc<Tree> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(1 << 20));
    let tree = Tree::create(
        &disk,
        Path::new("/t"),
        FileId(1),
        TreeOptions::tiny(),
        &cache,
    );
    let tree = tree.unwrap();
    put(&tree, 0..3000, b"value", 1);
    tree.settle(&SETTLED).unwrap();
    checkpoint(&tree);
    tree
}

/// The map in the order of offsets. Every byte of the file is in one range.
fn map(tree: &Tree) -> Vec<MappedRange> {
    let mut ranges = Vec::new();
    let visit = &mut |range: &MappedRange| {
        ranges.push(*range);
        true
    };
    tree.map_blocks(visit).unwrap();
    ranges.sort_unstable_by_key(|range| range.offset);
    let mut end = 0;
    for range in &ranges {
        assert_eq!(range.offset, end, "{range:?}");
        end += range.bytes;
    }
    assert_eq!(end, tree.file_bytes());
    ranges
}

fn count(ranges: &[MappedRange], is_kind: impl Fn(&RangeKind) -> bool) -> u64 {
    let ranges = ranges.iter().filter(|range| is_kind(&range.kind));
    ranges.map(|range| range.blocks.unwrap_or(1)).sum()
}

fn is_page(kind: &RangeKind) -> bool {
    matches!(kind, RangeKind::Pages(_))
}

#[test]
fn every_byte_is_mapped_and_all_blocks_are_found() {
    let tree = tree();
    let ranges = map(&tree);
    let inspected = tree.inspect(&mut |_| true).unwrap();
    assert_eq!(count(&ranges, is_page), tree.statistics().pages);
    let is_bottom_index = |kind: &RangeKind| matches!(kind, RangeKind::Index(run) if run.is_bottom);
    assert_eq!(count(&ranges, is_bottom_index), inspected.index_blocks);
    let is_node = |kind: &RangeKind| matches!(kind, RangeKind::Node { .. });
    assert_eq!(count(&ranges, is_node), tree.statistics().nodes);
    let is_root = |kind: &RangeKind| {
        let height = tree.statistics().height as u8;
        matches!(kind, RangeKind::Node { height: found } if *found == height)
    };
    assert_eq!(count(&ranges, is_root), 1);
    assert_eq!(count(&ranges, |kind| *kind == RangeKind::Unlisted), 0);
    let superblocks = ranges[0].kind;
    assert_eq!(superblocks, RangeKind::Other(RangeUse::Superblocks));
}

#[test]
fn adjacent_pages_of_a_run_are_one_range() {
    let tree = tree();
    let ranges = map(&tree);
    let pages = ranges.iter().filter(|range| is_page(&range.kind)).count();
    assert!((pages as u64) < tree.statistics().pages);
}

#[test]
fn separate_values_and_replaced_nodes_are_not_listed() {
    let tree = tree();
    put(&tree, 1000..1010, &[7; 2000], 2);
    tree.settle(&SETTLED).unwrap();
    let is_unlisted = |kind: &RangeKind| *kind == RangeKind::Unlisted;
    assert!(count(&map(&tree), is_unlisted) > 0);
    checkpoint(&tree);
    let ranges = map(&tree);
    let unlisted = ranges.iter().filter(|range| is_unlisted(&range.kind));
    let bytes: u64 = unlisted.map(|range| range.bytes).sum();
    assert_eq!(bytes, tree.statistics().separate_bytes);
}

#[test]
fn freed_blocks_are_unavailable_until_a_checkpoint() {
    let tree = tree();
    put(&tree, 0..3000, b"other", 2);
    tree.settle(&SETTLED).unwrap();
    let is_unavailable = |kind: &RangeKind| *kind == RangeKind::Other(RangeUse::Unavailable);
    let bytes = |ranges: &[MappedRange]| -> u64 {
        let ranges = ranges.iter().filter(|range| is_unavailable(&range.kind));
        ranges.map(|range| range.bytes).sum()
    };
    let before = bytes(&map(&tree));
    assert!(before > 0);
    checkpoint(&tree);
    checkpoint(&tree);
    assert!(bytes(&map(&tree)) < before / 4);
}

#[test]
fn a_map_can_be_interrupted() {
    let tree = tree();
    let mut ranges = 0;
    let mapped = tree.map_blocks(&mut |_| {
        ranges += 1;
        ranges < 5
    });
    assert!(matches!(mapped, Err(StorageError::Interrupted)));
    assert_eq!(ranges, 5);
}
