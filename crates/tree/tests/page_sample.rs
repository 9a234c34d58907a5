//! Samples of the pages of bottom runs.

use crate::common::settled::SETTLED;
use std::path::Path;
use std::sync::Arc;
use teak_base::{FileId, Lsn, Operation, StorageError, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    Column, ColumnKind, PageCache, PageColumns, PagePart, Tree, TreeInspection, TreeOptions,
};

const ROWS: u32 = 20_000;

fn put(tree: &Arc<Tree>, rows: impl Iterator<Item = u32>, lsn: u64) {
    for row in rows {
        let value = (row / 3).to_le_bytes();
        let guard = tree.write_guard();
        guard.insert(WriteId(1), Operation::Put, &row.to_be_bytes(), &value);
    }
    tree.freeze(|| Lsn(lsn));
}

/// A tree of several levels with all rows at the bottom.
fn tree() -> Arc<Tree> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(1 << 20));
    let column = |kind| vec![Column::new(kind, 4).unwrap()];
    let options = TreeOptions {
        columns: PageColumns::new(
            column(ColumnKind::UnsignedBig),
            column(ColumnKind::UnsignedLittle),
        ),
        page_bytes: 2048,
        leaf_bytes: 8192,
        ..TreeOptions::tiny()
    };
    let tree = Tree::create(&disk, Path::new("/t"), FileId(1), options, &cache).unwrap();
    put(&tree, 0..ROWS, 1);
    tree.settle(&SETTLED).unwrap();
    assert!(tree.statistics().height > 1);
    tree
}

fn sample(tree: &Tree, count: u32) -> TreeInspection {
    tree.sample_pages(count, &mut || true).unwrap()
}

#[test]
fn a_sample_reads_few_pages_and_agrees_with_the_whole() {
    let tree = tree();
    let all = tree.inspect(&mut |_| true).unwrap();
    let before = tree.file_statistics().blocks_read;
    let sample = sample(&tree, 16);
    let read = tree.file_statistics().blocks_read - before;
    assert_eq!(sample.pages, 16);
    assert!(read <= 16 * (1 + tree.statistics().height), "{read} blocks");
    assert!(all.pages > 40, "{} pages", all.pages);
    assert!(sample.levels.is_empty());
    for part in [PagePart::KeyColumn(0), PagePart::FrontColumn(0)] {
        let (totals, sampled) = (&all.parts[&part], &sample.parts[&part]);
        assert_eq!(sampled.column, totals.column);
        let expected = totals.raw_bytes / all.pages;
        let found = sampled.raw_bytes / sample.pages;
        assert!(
            found.abs_diff(expected) <= expected / 2,
            "{part:?}: {found} of {expected}"
        );
    }
    let keys = &sample.parts[&PagePart::KeyColumn(0)];
    assert!(keys.values > sample.entries / 2 && keys.values <= sample.entries);
    assert_eq!(keys.raw_bytes, 4 * keys.values);
    assert!(
        keys.encodings_text().ends_with(" %"),
        "{}",
        keys.encodings_text()
    );
}

#[test]
fn a_large_sample_counts_every_page_once() {
    let tree = tree();
    let all = tree.inspect(&mut |_| true).unwrap();
    let sample = sample(&tree, 4 * all.pages as u32);
    assert_eq!(sample.pages, all.pages);
    assert_eq!(sample.parts, all.parts);
    assert_eq!(
        (sample.entries, sample.page_bytes),
        (all.entries, all.page_bytes)
    );
}

#[test]
fn pages_of_upper_runs_are_not_sampled() {
    let tree = tree();
    put(&tree, (0..ROWS).step_by(50), 2);
    let job = tree.next_memtable_job().unwrap();
    job.run(&SETTLED).unwrap();
    let all = tree.inspect(&mut |_| true).unwrap();
    let sample = sample(&tree, 4 * all.pages as u32);
    assert!(sample.pages > all.pages / 2 && sample.pages <= all.pages);
    assert!(sample.entries <= all.entries);
}

#[test]
fn an_empty_tree_has_an_empty_sample() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(1 << 20));
    let tree = Tree::create(
        &disk,
        Path::new("/t"),
        FileId(1),
        TreeOptions::tiny(),
        &cache,
    );
    assert_eq!(sample(&tree.unwrap(), 16), TreeInspection::default());
}

#[test]
fn a_sample_can_be_interrupted() {
    let tree = tree();
    let mut pages = 0;
    let sampled = tree.sample_pages(16, &mut || {
        pages += 1;
        pages <= 3
    });
    assert!(matches!(sampled, Err(StorageError::Interrupted)));
}
