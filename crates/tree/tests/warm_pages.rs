//! Pages that a merge writes enter the page cache if their entries were in it.

use crate::common::committed::{flush, newest};
use crate::common::text_rows::{key, put};
use crate::common::{Subject, options_of_large_leaves};
use std::ops::Range;
use std::sync::Arc;
use teak_base::Lsn;
use teak_disk::MemoryDisk;
use teak_tree::Visit;

const ROWS: u64 = 40_000;

fn read(subject: &Subject, rows: Range<u64>) {
    for row in rows {
        let mut found = false;
        let visitor = &mut |_, _, _: teak_tree::StoredValue<'_>| {
            found = true;
            Visit::Stop
        };
        subject.tree.visit(&key(row), visitor).unwrap();
        assert!(found);
    }
}

/// How many of the rows are found without a read of the file.
fn in_memory(subject: &Subject, rows: Range<u64>) -> usize {
    let is_in_memory = |row: &u64| {
        let visitor = &mut |_, _, _: teak_tree::StoredValue<'_>| Visit::Stop;
        subject.tree.visit_in_memory(&key(*row), visitor).unwrap()
    };
    rows.filter(is_in_memory).count()
}

/// A tree of one level of leaves, and an empty cache.
fn subject() -> Subject {
    let subject = Subject::create(Arc::new(MemoryDisk::new()), options_of_large_leaves());
    for row in 0..ROWS {
        put(&subject, 1, row);
    }
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&newest()).unwrap();
    subject.cache.set_capacity(0);
    subject.cache.set_capacity(16 << 20);
    assert_eq!(in_memory(&subject, 0..ROWS), 0);
    subject
}

#[test]
fn rows_that_were_cached_are_cached_after_a_merge() {
    let subject = subject();
    let hot = 10_000..12_000;
    read(&subject, hot.clone());
    let before = subject.cache.statistics();
    for row in (0..ROWS).step_by(50) {
        put(&subject, 2, row);
    }
    flush(&subject, &newest());
    subject.tree.settle(&newest()).unwrap();
    let found = in_memory(&subject, hot.clone());
    assert!(found >= 1950, "{found} of 2000 rows");
    assert!(in_memory(&subject, 0..ROWS) <= 2200);
    // The replaced pages have left the cache.
    let after = subject.cache.statistics();
    assert!(after.blocks <= before.blocks + 4, "{before:?} {after:?}");
    read(&subject, 0..ROWS);
}

#[test]
fn a_merge_of_pages_that_nobody_reads_leaves_the_cache_empty() {
    let subject = subject();
    for row in (0..ROWS).step_by(50) {
        put(&subject, 2, row);
    }
    flush(&subject, &newest());
    subject.tree.settle(&newest()).unwrap();
    assert_eq!(in_memory(&subject, 0..ROWS), 0);
    assert_eq!(subject.cache.statistics().blocks, 0);
    subject.tree.verify(&mut |_| true).unwrap();
}
