//! The size of the file: holes are filled, the end is truncated, and a cursor prevents only the
//! reuse of space that its version refers to.

use crate::common::Subject;
use crate::common::settled::*;
use std::sync::Arc;
use teak_base::{Operation, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{SpaceAction, SpaceGoal, TreeOptions};

/// Trees of some MiB, with enough pages that single blocks do not matter.
fn options() -> TreeOptions {
    TreeOptions {
        page_bytes: 2048,
        leaf_bytes: 64 * 1024,
        child_buffer_bytes: 128 * 1024,
        run_bytes_max: 128 * 1024,
        ..TreeOptions::tiny()
    }
}

const ROWS: u64 = 60_000;

fn key(number: u64) -> Vec<u8> {
    // Keys of consecutive numbers are scattered, and their first half is not compressible.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [mixed.to_be_bytes(), number.to_be_bytes()].concat()
}

fn write(subject: &Subject, operation: Operation, number: u64) {
    let value = match operation {
        Operation::Put => key(number.wrapping_mul(31)).repeat(3),
        Operation::Delete => Vec::new(),
    };
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(1), operation, &key(number), &value);
}

/// Writes all rows, and flushes them in parts. Calls `after_flush` after each flush.
fn load(subject: &mut Subject, mut after_flush: impl FnMut(&mut Subject)) {
    for number in 0..ROWS {
        write(subject, Operation::Put, number);
        if number % 2000 == 1999 {
            flush(subject);
            after_flush(subject);
        }
    }
}

fn load_and_settle(subject: &mut Subject) {
    load(subject, |_| {});
    settle(subject);
    subject.checkpoint().unwrap();
}

/// As [`crate::common::reclaim`].
fn reclaim(subject: &mut Subject, goal: SpaceGoal) -> u64 {
    crate::common::reclaim(subject, goal, &SETTLED)
}

fn ratio_is(subject: &Subject, percent: u64) {
    let file = subject.tree.file_statistics();
    assert!(
        file.file_bytes <= file.live_bytes * percent / 100 + 80 * 1024,
        "{file:?}"
    );
}

fn subject() -> Subject {
    Subject::create(Arc::new(MemoryDisk::new()), options())
}

#[test]
fn an_idle_file_is_hardly_larger_than_its_blocks() {
    let mut subject = subject();
    load_and_settle(&mut subject);
    reclaim(&mut subject, SpaceGoal::Idle);
    ratio_is(&subject, 105);
    subject.tree.verify(&mut |_| true).unwrap();
    assert_eq!(count(&subject), ROWS);
    subject.open_again();
    assert_eq!(count(&subject), ROWS);
    // A file that has reached its goal needs no further step.
    let goal = subject.tree.space_action(SpaceGoal::Idle);
    assert_eq!(goal, SpaceAction::Nothing);
}

#[test]
fn a_file_that_lost_most_rows_becomes_small() {
    let mut subject = subject();
    load_and_settle(&mut subject);
    let full = subject.tree.file_statistics().live_bytes;
    for number in 0..ROWS {
        if number % 10 != 0 {
            write(&subject, Operation::Delete, number);
        }
    }
    settle(&subject);
    let live = subject.tree.file_statistics().live_bytes;
    assert!(live < full / 5, "{live} of {full}");
    let moved = reclaim(&mut subject, SpaceGoal::Idle);
    ratio_is(&subject, 105);
    assert!(
        moved <= live * 5 / 4,
        "{moved} bytes moved for {live} live ones"
    );
    assert_eq!(count(&subject), ROWS / 10);
    subject.tree.verify(&mut |_| true).unwrap();
    subject.open_again();
    assert_eq!(count(&subject), ROWS / 10);
}

#[test]
fn a_file_under_load_keeps_its_ratio() {
    let mut subject = subject();
    load(&mut subject, |subject| {
        reclaim(subject, SpaceGoal::Busy);
        let file = subject.tree.file_statistics();
        let limit = file.live_bytes * 5 / 4 + (13 << 20);
        assert!(file.file_bytes <= limit, "{file:?}");
    });
    assert_eq!(count(&subject), ROWS);
}

#[test]
fn a_reader_keeps_only_what_it_can_reach() {
    let mut subject = subject();
    load_and_settle(&mut subject);
    reclaim(&mut subject, SpaceGoal::Idle);
    let reachable = subject.tree.file_statistics().live_bytes;
    let mut cursor = subject.tree.cursor(SeesAll);
    assert!(cursor.seek_first().unwrap());
    // Every round replaces all blocks.
    for _ in 0..4 {
        load_and_settle(&mut subject);
        reclaim(&mut subject, SpaceGoal::Idle);
        let file = subject.tree.file_statistics();
        // The nodes on disk may be newer than the cursor's version.
        let pinned_max = reachable * 51 / 50;
        assert!(file.pinned_bytes <= pinned_max, "{reachable}: {file:?}");
        assert!(
            file.file_bytes <= (file.live_bytes + reachable) * 5 / 4,
            "{file:?}"
        );
    }
    // The cursor reads the old version, at least to the end of its leaf.
    assert!(cursor.next().unwrap());
    drop(cursor);
    reclaim(&mut subject, SpaceGoal::Idle);
    assert_eq!(subject.tree.file_statistics().pinned_bytes, 0);
    ratio_is(&subject, 105);
}

#[test]
fn runs_with_many_index_blocks_are_moved() {
    // Index blocks are not larger than pages, so a run has many, and often only some are moved.
    let options = TreeOptions {
        page_bytes: 256,
        leaf_bytes: 1 << 20,
        child_buffer_bytes: 1 << 20,
        run_bytes_max: 1 << 20,
        ..options()
    };
    let mut subject = Subject::create(Arc::new(MemoryDisk::new()), options);
    load_and_settle(&mut subject);
    reclaim(&mut subject, SpaceGoal::Idle);
    ratio_is(&subject, 105);
    subject.checkpoint().unwrap();
    let report = subject.tree.verify(&mut |_| true).unwrap();
    let live = subject.tree.file_statistics().live_bytes;
    assert_eq!(report.block_bytes, live, "no space is lost");
}

#[test]
fn moved_pages_stay_in_the_cache() {
    let mut subject = subject();
    subject.cache.set_capacity(64 << 20);
    load_and_settle(&mut subject);
    assert_eq!(count(&subject), ROWS);
    let moved = reclaim(&mut subject, SpaceGoal::Idle);
    assert!(moved > 0, "nothing was to be moved");
    let misses = subject.cache.statistics().misses;
    assert_eq!(count(&subject), ROWS);
    let read = subject.cache.statistics().misses - misses;
    let runs = subject.tree.statistics().runs;
    // The index blocks of moved runs are new, so they are read.
    assert!(read <= runs, "{read} blocks read again, {runs} runs");
}
