//! Prefetching begins to read the blocks that a lookup then reads, and no others.

use crate::common::committed::{flush, newest};
use crate::common::text_rows::{key, put};
use crate::common::{Subject, options_of_large_leaves};
use std::sync::Arc;
use teak_base::Lsn;
use teak_disk::MemoryDisk;
use teak_tree::{PageCounts, Visit};

const ROWS: u64 = 20_000;

/// Every row is in a leaf, and each fiftieth row in a batch above the leaves, too. The cache is empty.
fn subject() -> Subject {
    let subject = Subject::create(Arc::new(MemoryDisk::new()), options_of_large_leaves());
    for row in 0..ROWS {
        put(&subject, 1, row);
    }
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&newest()).unwrap();
    for row in (0..ROWS).step_by(50) {
        put(&subject, 2, row);
    }
    flush(&subject, &newest());
    assert!(subject.tree.statistics().upper_bytes > 0);
    subject.cache.set_capacity(0);
    subject.cache.set_capacity(16 << 20);
    subject
}

fn prefetched(subject: &Subject, row: u64) -> u64 {
    let before = subject.tree.file_statistics().blocks_prefetched;
    let read = PageCounts::of_thread().read;
    subject.tree.prefetch(&key(row));
    assert_eq!(
        PageCounts::of_thread().read,
        read,
        "prefetching must not wait"
    );
    subject.tree.file_statistics().blocks_prefetched - before
}

fn read(subject: &Subject, row: u64) -> u64 {
    let before = PageCounts::of_thread().read;
    let visitor = &mut |_, _, _: teak_tree::StoredValue<'_>| Visit::Stop;
    subject.tree.visit(&key(row), visitor).unwrap();
    PageCounts::of_thread().read - before
}

#[test]
fn a_lookup_reads_the_pages_that_were_prefetched() {
    let subject = subject();
    let (mut of_rows, mut of_batch, mut false_positives) = (0, 0, 0);
    for row in (0..ROWS).step_by(25) {
        // Index blocks that are not in memory are prefetched first, then pages.
        let mut steps = 0;
        while prefetched(&subject, row) > 0 && steps < 4 {
            let read = read(&subject, row);
            assert!(read >= 1, "row {row}");
            steps += 1;
        }
        assert_eq!(read(&subject, row), 0, "row {row}");
        // A further row of the same pages needs nothing.
        assert_eq!(prefetched(&subject, row), 0);
        match row % 50 {
            0 => of_batch += steps,
            _ => of_rows += steps,
        }
        false_positives += u64::from(steps > 1);
    }
    assert!(of_rows > 100 && of_batch > 10, "{of_rows} {of_batch}");
    assert!(false_positives < 100, "{false_positives}");
}

#[test]
fn a_page_of_each_of_many_keys_is_prefetched_once_its_index_block_is_in_memory() {
    let subject = subject();
    // Rows of different pages, without entries in the batch.
    let rows = || (1..ROWS).step_by(199).filter(|row| row % 50 != 0);
    for row in rows() {
        read(&subject, row);
    }
    // Index blocks have a higher priority than pages, so a smaller cache retains them.
    let bytes = subject.cache.statistics().bytes;
    subject.cache.set_capacity(bytes / 2);
    let (mut both, mut evicted) = (0, 0);
    for row in rows() {
        let (prefetched, read) = (prefetched(&subject, row), read(&subject, row));
        evicted += u64::from(read > 0);
        both += u64::from(prefetched == read);
    }
    assert!(evicted > 20, "{evicted}");
    // A false positive of the batch's filter makes a lookup read a page more.
    let count = rows().count() as u64;
    assert!(both >= count - count / 20, "{both} of {count}");
}

#[test]
fn absent_keys_and_keys_in_memory_are_not_prefetched() {
    let subject = subject();
    put(&subject, 3, 7);
    for row in [ROWS, ROWS + 1, u64::MAX] {
        assert_eq!(prefetched(&subject, row), 0);
    }
    let empty = Subject::create(Arc::new(MemoryDisk::new()), options_of_large_leaves());
    assert_eq!(prefetched(&empty, 1), 0);
}
