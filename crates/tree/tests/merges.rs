//! Which merges become due because of deletes, small memtables and readers.

use crate::common::committed::{Snapshots, flush, newest};
use crate::common::{Random, Subject, options_of_large_leaves};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{CommitSequence, Lsn, Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{TreeStatistics, Visibility};

fn subject() -> Subject {
    Subject::create(Arc::new(MemoryDisk::new()), options_of_large_leaves())
}

/// A key of 24 bytes.
fn key(value: u64, row: u64) -> Vec<u8> {
    format!("{value:012}{row:012}").into_bytes()
}

fn write(subject: &Subject, id: u64, operation: Operation, key: &[u8]) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(id), operation, key, b"");
}

fn written_since(subject: &Subject, before: &TreeStatistics) -> f64 {
    let now = subject.tree.statistics();
    let flushed = now.raw_bytes_flushed - before.raw_bytes_flushed;
    (now.raw_bytes_written - before.raw_bytes_written) as f64 / flushed as f64
}

/// Each update of an indexed column is a delete and a put at random places.
#[test]
fn updates_of_an_indexed_column_do_not_rewrite_leaves_for_a_few_entries() {
    const ROWS: u64 = 60_000;
    let subject = subject();
    let mut random = Random(1);
    let mut values: Vec<u64> = (0..ROWS).map(|_| random.next() % 1_000_000_000).collect();
    for row in 0..ROWS {
        write(&subject, 1, Operation::Put, &key(values[row as usize], row));
    }
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&newest()).unwrap();
    let before = subject.tree.statistics();
    for round in 0..60 {
        for _ in 0..1500 {
            let row = random.next() % ROWS;
            let value = &mut values[row as usize];
            write(&subject, 2 + round, Operation::Delete, &key(*value, row));
            *value = random.next() % 1_000_000_000;
            write(&subject, 2 + round, Operation::Put, &key(*value, row));
        }
        flush(&subject, &newest());
    }
    let amplification = written_since(&subject, &before);
    println!("{amplification:.1} bytes written per byte");
    assert!(amplification < 9.0, "{amplification:.1}");
    subject.tree.settle(&newest()).unwrap();
    assert_eq!(subject.tree.entries(), ROWS);
    subject.tree.verify(&mut |_| true).unwrap();
}

/// With many small memtables, runs are merged in groups of similar size.
#[test]
fn small_memtables_cost_little_more_than_large_ones() {
    let amplification = |entries: u64, flushes: u64| {
        let subject = subject();
        let mut random = Random(7);
        for row in 0..120_000 {
            write(
                &subject,
                1,
                Operation::Put,
                &key(random.next() % 1_000_000, row),
            );
        }
        subject.tree.freeze(|| Lsn(0));
        subject.tree.settle(&newest()).unwrap();
        assert!(subject.tree.statistics().height >= 2);
        let before = subject.tree.statistics();
        for _ in 0..flushes {
            for row in 0..entries {
                write(
                    &subject,
                    1,
                    Operation::Put,
                    &key(random.next() % 1_000_000, row),
                );
            }
            flush(&subject, &newest());
            assert!(subject.tree.backlog().run_load <= 1.0);
        }
        written_since(&subject, &before)
    };
    let large = amplification(8000, 8);
    let small = amplification(250, 256);
    println!("large {large:.1}, small {small:.1} bytes written per byte");
    assert!(small < large + 8.0, "{small:.1} {large:.1}");
}

/// A leaf has deletes that an old snapshot still needs. Merging the leaf again would not drop them.
#[test]
fn deletes_that_a_snapshot_needs_do_not_make_a_leaf_due_again() {
    let subject = subject();
    for row in 0..6000 {
        write(&subject, 1, Operation::Put, &key(row, 0));
    }
    flush(&subject, &newest());
    let old = Snapshots(vec![CommitSequence(1), CommitSequence(1 << 40)]);
    for row in 0..4000 {
        write(&subject, 2, Operation::Delete, &key(row, 0));
    }
    flush(&subject, &old);
    subject.tree.settle(&old).unwrap();
    assert!(subject.tree.statistics().deletes >= 4000);
    let before = subject.tree.statistics();
    for round in 0..3 {
        write(&subject, 3 + round, Operation::Put, &key(round, 1));
        flush(&subject, &old);
    }
    let after = subject.tree.statistics();
    assert_eq!(after.leaf_merges, before.leaf_merges);
    // Without the old snapshot the deletes are dropped.
    subject.tree.settle(&newest()).unwrap();
    assert_eq!(subject.tree.statistics().deletes, 0);
}

/// While a snapshot needs deleted entries, planning does not merge leaves because of the deletes.
/// When it has ended, the entries are dropped, even if the tree is never idle.
#[test]
fn entries_that_a_snapshot_needed_are_dropped_when_it_has_ended() {
    const ROWS: u64 = 40_000;
    let subject = subject();
    for row in 0..ROWS {
        write(&subject, 1, Operation::Put, &key(row, 0));
    }
    flush(&subject, &newest());
    let old = Snapshots(vec![CommitSequence(1), CommitSequence(1 << 40)]);
    let before = subject.tree.statistics();
    for row in (0..ROWS).filter(|row| row % 3 > 0) {
        write(&subject, 2, Operation::Delete, &key(row, 0));
        if row % 500 == 1 {
            flush(&subject, &old);
        }
    }
    flush(&subject, &old);
    let written = written_since(&subject, &before);
    println!("{written:.1} bytes written per byte");
    // Leaves are merged when their pending deletes are large, but not when they are many.
    assert!(written < 6.0, "{written:.1}");
    // The deletes are in bottom runs, above the entries that they hide.
    subject.tree.settle(&old).unwrap();
    let statistics = subject.tree.statistics();
    assert_eq!(statistics.entries, ROWS + ROWS / 3 * 2);
    assert!(subject.tree.next_job().unwrap().is_none());
    // Writers are not slowed because of them.
    let backlog = subject.tree.backlog();
    assert_eq!(backlog.due_bytes, 0);
    assert_eq!(backlog.garbage_due_at, Some(WriteId(3)));
    subject.tree.note_settled(WriteId(2));
    assert!(subject.tree.next_job().unwrap().is_none());
    subject.tree.note_settled(WriteId(3));
    while let Some(job) = subject.tree.next_job().unwrap() {
        job.run(&newest()).unwrap();
    }
    assert_eq!(subject.tree.statistics().entries, ROWS.div_ceil(3));
    assert!(!subject.tree.backlog().has_work());
    subject.tree.verify(&mut |_| true).unwrap();
}

/// Rows that are inserted and deleted under an old snapshot are dropped, although the snapshot
/// remains open. Then nothing more is written.
#[test]
fn a_queue_under_an_endless_snapshot_neither_grows_nor_is_merged_again_and_again() {
    const QUEUED: u64 = 6000;
    let subject = subject();
    let old = Snapshots(vec![CommitSequence(1), CommitSequence(1 << 40)]);
    for row in 0..QUEUED {
        write(&subject, 1, Operation::Put, &key(row, 0));
    }
    flush(&subject, &newest());
    let before = subject.tree.statistics();
    for row in 0..20 * QUEUED {
        write(&subject, 2, Operation::Put, &key(QUEUED + row, 0));
        write(&subject, 3, Operation::Delete, &key(row, 0));
        if row % 1000 == 999 {
            flush(&subject, &old);
            // The queue, the rows of the snapshot and their deletes, and deletes that are not
            // merged yet.
            let entries = subject.tree.statistics().entries;
            assert!(entries <= 6 * QUEUED, "{entries}");
        }
    }
    let written = written_since(&subject, &before);
    println!("{written:.1} bytes written per byte");
    assert!(written < 3.0, "{written:.1}");
    for _ in 0..10 {
        let before = subject.tree.statistics();
        subject.tree.note_settled(WriteId(2));
        subject.tree.settle(&old).unwrap();
        let after = subject.tree.statistics();
        assert!(!subject.tree.backlog().has_work() || after.deletes > 0);
        if after.raw_bytes_written == before.raw_bytes_written {
            assert_eq!(after.deletes, QUEUED);
            subject.tree.verify(&mut |_| true).unwrap();
            return;
        }
    }
    panic!("something is merged again and again");
}

/// While a snapshot is between the rows and their deletes, a job that could drop them does nothing.
/// It is tried again after each flush.
#[test]
fn deletes_are_tried_again_when_the_snapshot_before_them_has_ended() {
    let subject = subject();
    let between = Snapshots([1, 2, 1 << 40].map(CommitSequence).to_vec());
    let old = Snapshots([1, 1 << 40].map(CommitSequence).to_vec());
    for row in 0..4000 {
        write(&subject, 2, Operation::Put, &key(row, 0));
    }
    flush(&subject, &between);
    let before = subject.tree.statistics();
    for row in 0..2000 {
        write(&subject, 3, Operation::Delete, &key(row, 0));
    }
    flush(&subject, &between);
    let retained = subject.tree.statistics();
    assert_eq!((retained.entries, retained.deletes), (6000, 2000));
    assert_eq!(retained.leaf_merges, before.leaf_merges);
    // The flush of the memtable.
    assert_eq!(retained.entries_merged, before.entries_merged + 2000);
    assert!(subject.tree.next_job().unwrap().is_none());
    for row in 4000..4010 {
        write(&subject, 4, Operation::Put, &key(row, 0));
        flush(&subject, &old);
    }
    let after = subject.tree.statistics();
    assert_eq!((after.entries, after.deletes), (2010, 0));
    assert!(subject.tree.next_job().unwrap().is_none());
}

/// Idle compaction after every few writes would rewrite all leaves again and again.
#[test]
fn jobs_that_are_not_due_write_a_bounded_multiple_of_the_flushed_bytes() {
    const ROWS: u64 = 60_000;
    let subject = subject();
    for row in 0..ROWS {
        write(&subject, 1, Operation::Put, &key(row, 0));
    }
    flush(&subject, &newest());
    let before = subject.tree.statistics();
    let mut random = Random(3);
    let mut idle_jobs = 0;
    for _ in 0..200 {
        for _ in 0..20 {
            write(&subject, 1, Operation::Put, &key(random.next() % ROWS, 1));
        }
        flush(&subject, &newest());
        while subject.tree.affords_optional_jobs()
            && let Some(job) = subject.tree.next_idle_job(&newest()).unwrap()
        {
            job.run(&newest()).unwrap();
            idle_jobs += 1;
        }
    }
    let after = subject.tree.statistics();
    let written = after.raw_bytes_written - before.raw_bytes_written;
    assert!(idle_jobs > 5, "{idle_jobs}");
    // 8 leaves and 8 times the flushed bytes, which include the loaded rows; what is due; and the
    // last job.
    let bound = 8 * (256 << 10) + 8 * after.raw_bytes_flushed + (4 << 20);
    assert!(written < bound, "{written}, not below {bound}");
    assert!(!subject.tree.affords_optional_jobs());
}

/// The merge of a leaf rewrites only the bottom runs between the first and the last pending key.
#[test]
fn bottom_runs_without_pending_entries_are_not_rewritten() {
    let subject = subject();
    for row in 0..6000 {
        write(&subject, 1, Operation::Put, &key(row, 0));
        // Each part becomes a bottom run.
        if row % 1000 == 999 {
            flush(&subject, &newest());
        }
    }
    let before = subject.tree.statistics();
    assert_eq!((before.leaves, before.runs), (1, 6));
    for row in 5200..5300 {
        write(&subject, 2, Operation::Put, &key(row, 0));
    }
    write(&subject, 2, Operation::Delete, &key(5999, 0));
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&newest()).unwrap();
    let after = subject.tree.statistics();
    assert_eq!(
        after.entries_merged - before.entries_merged,
        101 + 101 + 1000
    );
    assert_eq!((after.entries, after.runs), (5999, 6));
    subject.tree.verify(&mut |_| true).unwrap();
}

/// Sees all writes, and counts the calls.
struct Counting<'a>(&'a AtomicU64);

impl Visibility for Counting<'_> {
    fn is_visible(&self, _id: WriteId) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// The rows of a queue are deleted at one end and inserted at the other. The
/// deletes that a reader passes to find the first row are bounded.
#[test]
fn readers_of_a_queue_pass_a_bounded_number_of_deletes() {
    let subject = subject();
    let queued = 20_000;
    for row in 0..queued {
        write(&subject, 1, Operation::Put, &key(row, 0));
    }
    flush(&subject, &newest());
    subject.tree.settle(&newest()).unwrap();
    let (mut max, mut total) = (0, 0);
    for row in 0..queued {
        let asked = AtomicU64::new(0);
        let mut cursor = subject.tree.cursor(Counting(&asked));
        assert!(cursor.seek_first().unwrap());
        assert_eq!(cursor.key(), key(row, 0));
        drop(cursor);
        let passed = asked.load(Ordering::Relaxed);
        max = max.max(passed);
        total += passed;
        // Neighbours have different write ids, so each is checked separately.
        write(&subject, 2 + row % 2, Operation::Delete, &key(row, 0));
        write(&subject, 2, Operation::Put, &key(queued + row, 0));
        if !subject.cache.memtables().take_slow_reads().is_empty() {
            if subject.tree.memtable_slows_readers() {
                flush(&subject, &newest());
            }
            if let Some(job) = subject.tree.next_reader_job(&newest()).unwrap() {
                job.run(&newest()).unwrap();
            }
        }
    }
    println!(
        "at most {max} deletes passed, {} on average",
        total / queued
    );
    assert!(max <= 4000, "{max}");
    assert!(total / queued <= 2000, "{}", total / queued);
}
