//! Which jobs run in idle time: in a large table only those that write little for each changed row.

use crate::common::Subject;
use crate::common::settled::{SETTLED, count, flush, settle};
use std::sync::Arc;
use teak_base::{Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{JobKind, TreeOptions};

const ROWS: usize = 6000;

fn put(subject: &Subject, number: usize, value: &[u8]) {
    let key = format!("{number:08}").into_bytes();
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(1), Operation::Put, &key, value);
}

/// A merged tree with many leaves.
fn large() -> Subject {
    let subject = Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny());
    for number in 0..ROWS {
        put(&subject, number, b"a value of some bytes");
    }
    settle(&subject);
    assert!(subject.tree.statistics().height >= 3);
    subject
}

/// Changes these rows, and runs the jobs that are due and those of idle time. Returns the bytes that
/// were flushed and written.
fn change(subject: &Subject, numbers: impl Iterator<Item = usize>) -> (u64, u64) {
    let before = subject.tree.statistics();
    for number in numbers {
        put(subject, number, b"a value of other bytes");
    }
    flush(subject);
    while let Some(job) = subject.tree.next_worthwhile_job(&SETTLED).unwrap() {
        job.run(&SETTLED).unwrap();
    }
    assert!(subject.tree.is_merged_for_idle_time());
    subject.tree.verify(&mut |_| true).unwrap();
    assert_eq!(count(subject), ROWS as u64);
    let after = subject.tree.statistics();
    (
        after.raw_bytes_flushed - before.raw_bytes_flushed,
        after.raw_bytes_written - before.raw_bytes_written,
    )
}

#[test]
fn few_changes_of_a_large_table_do_not_rewrite_it() {
    let subject = large();
    let (flushed, written) = change(&subject, (0..ROWS).step_by(100));
    assert!(written <= 3 * flushed, "{written} of {flushed}");
    assert!(!subject.tree.is_fully_merged());
}

#[test]
fn leaves_with_many_changes_are_merged() {
    let subject = large();
    let (flushed, written) = change(&subject, 1000..1300);
    // Apart from the leaves at the ends of the range.
    let upper_bytes = subject.tree.statistics().upper_bytes;
    assert!(upper_bytes <= flushed / 20, "{upper_bytes} of {flushed}");
    assert!(written <= 6 * flushed, "{written} of {flushed}");
}

#[test]
fn a_table_of_few_leaves_is_merged_fully() {
    let subject = Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny());
    for number in 0..100 {
        put(&subject, number, b"a value of some bytes");
    }
    settle(&subject);
    assert!(subject.tree.statistics().leaves > 1);
    put(&subject, 50, b"a value of other bytes");
    flush(&subject);
    assert!(!subject.tree.is_merged_for_idle_time());
    let job = subject.tree.next_worthwhile_job(&SETTLED).unwrap().unwrap();
    assert_eq!(job.kind(), JobKind::Leaf);
    job.run(&SETTLED).unwrap();
    assert!(subject.tree.is_fully_merged() && subject.tree.is_merged_for_idle_time());
}
