//! The shape of the tree: splits, removals, growth, and the amount of rewriting.

use crate::common::committed::Snapshots;
use crate::common::settled::{self, SETTLED, SeesAll, count, flush};
use crate::common::{Random, Subject};
use std::ops::Bound;
use std::sync::Arc;
use teak_base::{CommitSequence, Lsn, Operation, StorageError, TransactionId, WriteId};
use teak_disk::MemoryDisk;
use teak_tree::{Horizon, JobKind, PageColumns, TreeOptions, Visibility, Visit, WriteStatus};

fn key(number: usize) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn subject() -> Subject {
    Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny())
}

fn put(subject: &Subject, number: usize, value: &[u8]) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(1), Operation::Put, &key(number), value);
}

fn delete(subject: &Subject, number: usize) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(1), Operation::Delete, &key(number), &[]);
}

fn settle(subject: &Subject) {
    settled::settle(subject);
    subject.tree.verify(&mut |_| true).unwrap();
}

#[test]
fn rows_in_key_order_are_written_once() {
    let subject = subject();
    for number in 0..6000 {
        put(&subject, number, b"a value of some bytes");
        if number % 100 == 99 {
            flush(&subject);
        }
    }
    settle(&subject);
    let statistics = subject.tree.statistics();
    assert_eq!(statistics.raw_bytes_written, statistics.raw_bytes_flushed);
    assert_eq!(statistics.entries, 6000);
    assert!(statistics.height >= 3, "{statistics:?}");
    assert_eq!(count(&subject), 6000);
}

#[test]
fn scattered_rows_settle_in_leaves_only() {
    let subject = subject();
    for number in 0..5000 {
        put(&subject, number * 7919 % 5000, b"a value of some bytes");
        if number % 150 == 149 {
            flush(&subject);
        }
    }
    settle(&subject);
    let statistics = subject.tree.statistics();
    assert_eq!(statistics.upper_bytes, 0);
    assert_eq!(statistics.entries, 5000);
    assert!(statistics.height >= 3, "{statistics:?}");
    assert_eq!(subject.tree.pending_work_bytes(), 0);
    assert_eq!(subject.tree.write_id_range(), None);
}

#[test]
fn empty_leaves_are_dropped_and_the_tree_shrinks() {
    let subject = subject();
    for number in 0..4000 {
        put(&subject, number, b"a value of some bytes");
    }
    settle(&subject);
    let before = subject.tree.statistics();
    assert!(before.height >= 2 && before.leaves > 50, "{before:?}");
    // A queue: rows are deleted at the front.
    for number in 0..3900 {
        delete(&subject, number);
    }
    settle(&subject);
    let queue = subject.tree.statistics();
    assert!(queue.leaves < 10, "{queue:?}");
    assert_eq!(count(&subject), 100);
    for number in 3900..4000 {
        delete(&subject, number);
    }
    settle(&subject);
    let empty = subject.tree.statistics();
    assert_eq!((empty.leaves, empty.height, empty.runs), (1, 1, 0));
    assert_eq!(count(&subject), 0);
    put(&subject, 1, b"again");
    settle(&subject);
    assert_eq!(count(&subject), 1);
}

#[test]
fn a_settled_range_deletion_of_everything_reads_no_rows() {
    let subject = subject();
    for number in 0..3000 {
        put(&subject, number, b"a value of some bytes");
    }
    settle(&subject);
    let merged = subject.tree.statistics().entries_merged;
    subject
        .tree
        .write_guard()
        .delete_range(WriteId(1), &[], &[]);
    settle(&subject);
    let statistics = subject.tree.statistics();
    assert_eq!(statistics.entries_merged, merged);
    assert_eq!((statistics.leaves, statistics.runs), (1, 0));
    assert_eq!(count(&subject), 0);
}

#[test]
fn versions_of_one_key_stay_together() {
    let mut subject = subject();
    // Every commit has its own snapshot, so no version may be dropped.
    let every = Snapshots((0..=3000).map(CommitSequence).collect());
    for version in 1..=3000u64 {
        let guard = subject.tree.write_guard();
        let value = format!("version {version}");
        guard.insert(WriteId(version), Operation::Put, &key(5), value.as_bytes());
        drop(guard);
        if version % 500 == 0 {
            subject.tree.freeze(|| Lsn(version));
            while let Some(job) = subject.tree.next_job().unwrap() {
                job.run(&every).unwrap();
            }
        }
    }
    put(&subject, 4, b"before");
    put(&subject, 6, b"after");
    subject.tree.freeze(|| Lsn(3001));
    subject.tree.settle(&every).unwrap();
    subject.tree.verify(&mut |_| true).unwrap();
    subject.checkpoint().unwrap();
    subject.open_again();
    let mut seen = Vec::new();
    let visit = subject.tree.visit(&key(5), &mut |id, _, value| {
        let expected = format!("version {}", id.0);
        assert_eq!(value.to_vec().unwrap(), expected.as_bytes());
        seen.push(id.0);
        Visit::Continue
    });
    visit.unwrap();
    assert_eq!(seen, (1..=3000).rev().collect::<Vec<_>>());
    // Merges drop the old versions when no snapshot needs them.
    settle(&subject);
    assert_eq!(subject.tree.statistics().entries, 3);
}

#[test]
fn a_value_larger_than_a_leaf_is_kept_whole() {
    let subject = subject();
    let large: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    for number in 0..20 {
        put(
            &subject,
            number,
            if number % 5 == 0 { &large } else { b"small" },
        );
    }
    flush(&subject);
    settle(&subject);
    for number in 0..20 {
        let value = subject.tree.get(&key(number), &SeesAll).unwrap().unwrap();
        assert!(
            value
                == if number % 5 == 0 {
                    large.as_slice()
                } else {
                    b"small"
                }
        );
    }
}

#[test]
fn a_cursor_sees_later_inserts_of_its_transaction() {
    let subject = subject();
    for number in [10, 20, 30, 40] {
        put(&subject, number, b"old");
    }
    settle(&subject);
    let mut cursor = subject.tree.cursor(SeesAll);
    assert!(cursor.seek(&key(10)).unwrap());
    put(&subject, 15, b"new");
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), key(15));
    subject.tree.freeze(|| Lsn(1));
    put(&subject, 17, b"newer");
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), key(17));
    assert_eq!(cursor.value().unwrap(), b"newer");
    assert!(cursor.previous().unwrap());
    assert_eq!(cursor.key(), key(15));
    assert!(cursor.next().unwrap() && cursor.next().unwrap());
    assert_eq!(cursor.key(), key(20));
    delete(&subject, 30);
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), key(40));
    assert!(!cursor.next().unwrap());
    assert!(cursor.previous().unwrap());
    assert_eq!(cursor.key(), key(40));
    assert!(cursor.seek_first().unwrap());
    assert!(!cursor.previous().unwrap());
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), key(10));
}

#[test]
fn settled_rows_are_marked_and_not_rewritten() {
    let subject = subject();
    for number in 0..500 {
        put(&subject, number, b"a value of some bytes");
    }
    // A horizon in which the write is still active at the flush.
    struct Active([CommitSequence; 1]);
    impl Horizon for Active {
        fn status(&self, _id: WriteId) -> WriteStatus {
            WriteStatus::Active(TransactionId(1))
        }
        fn snapshots(&self) -> &[CommitSequence] {
            &self.0
        }
    }
    subject.tree.freeze(|| Lsn(1));
    subject.tree.settle(&Active([CommitSequence(1)])).unwrap();
    assert!(subject.tree.write_id_range().is_some());
    let written = subject.tree.statistics().stored_bytes_written;
    while let Some(job) = subject.tree.next_idle_job(&SETTLED).unwrap() {
        assert_eq!(job.kind(), JobKind::Mark);
        job.run(&SETTLED).unwrap();
    }
    assert_eq!(subject.tree.write_id_range(), None);
    assert_eq!(subject.tree.statistics().stored_bytes_written, written);
    assert_eq!(count(&subject), 500);
    let mut subject = subject;
    subject.checkpoint().unwrap();
    subject.open_again();
    assert_eq!(subject.tree.write_id_range(), None);
}

/// A horizon in which write 1 is settled and the other write is active or aborted.
struct Second(WriteStatus, [CommitSequence; 1]);

impl Horizon for Second {
    fn status(&self, id: WriteId) -> WriteStatus {
        match id {
            WriteId(1) => WriteStatus::Committed(CommitSequence(1)),
            _ => self.0,
        }
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.1
    }
}

/// Sees only write 1, and counts how often another is checked.
#[derive(Default)]
struct SeesFirst(std::cell::Cell<usize>);

impl Visibility for SeesFirst {
    fn is_visible(&self, id: WriteId) -> bool {
        let hidden = id != WriteId(1);
        self.0.set(self.0.get() + usize::from(hidden));
        !hidden
    }
    fn hides_all(&self, min: WriteId, _max: WriteId) -> bool {
        min > WriteId(1)
    }
}

#[test]
fn aborted_runs_are_skipped_and_dropped_unread() {
    let subject = subject();
    for number in 0..2000 {
        put(&subject, number, b"a value of some bytes");
    }
    settle(&subject);
    let fill = |numbers: &mut dyn Iterator<Item = usize>| {
        let guard = subject.tree.write_guard();
        for number in numbers {
            guard.insert(WriteId(2), Operation::Put, &key(number), b"undone");
        }
        guard.delete_range(WriteId(2), &key(100), &key(900));
    };
    let active = Second(WriteStatus::Active(TransactionId(1)), [CommitSequence(1)]);
    let aborted = Second(WriteStatus::Aborted, [CommitSequence(1)]);
    fill(&mut (0..2000).step_by(97));
    subject.tree.freeze(|| Lsn(1));
    subject
        .tree
        .next_job()
        .unwrap()
        .unwrap()
        .run(&active)
        .unwrap();
    fill(&mut (0..2000).step_by(89));
    subject.tree.freeze(|| Lsn(2));

    let reader = SeesFirst::default();
    let mut cursor = subject.tree.cursor(&reader);
    let mut rows = usize::from(cursor.seek_first().unwrap());
    while cursor.next().unwrap() {
        rows += 1;
    }
    let got = subject.tree.get(&key(97), &reader).unwrap();
    assert_eq!(
        (rows, got.as_deref()),
        (2000, Some(&b"a value of some bytes"[..]))
    );
    // The cursor skips the frozen memtable and the run. Only the lookup reads the memtable.
    assert!(reader.0.get() <= 2, "asked {} times", reader.0.get());
    drop(cursor);

    // A new visibility of the same cursor may see writes that the first one does not.
    let reader = SeesFirst::default();
    let mut cursor = subject.tree.cursor(&reader as &dyn Visibility);
    assert!(cursor.seek(&key(0)).unwrap());
    assert_eq!(cursor.value().unwrap(), b"a value of some bytes");
    cursor.set_visibility(&SeesAll);
    assert!(cursor.seek(&key(0)).unwrap());
    assert_eq!(cursor.value().unwrap(), b"undone");
    drop(cursor);

    let written = subject.tree.statistics().stored_bytes_written;
    while let Some(job) = subject.tree.next_idle_job(&aborted).unwrap() {
        let report = job.run(&aborted).unwrap();
        assert_eq!((report.entries_read, report.runs_written), (0, 0));
    }
    let statistics = subject.tree.statistics();
    assert_eq!(statistics.stored_bytes_written, written);
    assert_eq!((statistics.entries, statistics.range_tombstones), (2000, 0));
    assert_eq!(subject.tree.write_id_range(), None);
    assert!(subject.tree.is_fully_merged());
    subject.tree.verify(&mut |_| true).unwrap();
}

#[test]
fn estimates_are_near_the_truth() {
    let subject = subject();
    for number in 0..5000 {
        put(&subject, number * 7919 % 5000, b"a value of some bytes");
        if number % 500 == 499 {
            flush(&subject);
        }
    }
    assert_eq!(subject.tree.estimate_entries(), 5000);
    for number in 0..500 {
        delete(&subject, number * 10);
    }
    flush(&subject);
    let near = |estimate: u64, truth: u64| estimate.abs_diff(truth) <= truth / 10 + 20;
    assert!(near(subject.tree.estimate_entries(), 4500));
    settle(&subject);
    assert_eq!(subject.tree.estimate_entries(), 4500);
    for (from, to) in [(0, 5000), (0, 2500), (1000, 1500), (4990, 5000), (300, 300)] {
        let estimate = subject
            .tree
            .estimate_range(
                Bound::Included(&key(from)),
                Bound::Excluded(&key(to)),
                SeesAll,
            )
            .unwrap();
        let truth = (to - from) as u64 * 9 / 10;
        assert!(
            near(estimate, truth),
            "{from}..{to}: {estimate}, not {truth}"
        );
    }
    let all = subject
        .tree
        .estimate_range(Bound::Unbounded, Bound::Unbounded, SeesAll);
    assert_eq!(all.unwrap(), 4500);
}

#[test]
fn short_ranges_are_estimated_exactly_wherever_their_entries_are() {
    let subject = subject();
    let rows_between = |from: usize, to: usize| {
        let (from, to) = (key(from), key(to));
        let estimate =
            subject
                .tree
                .estimate_range(Bound::Included(&from), Bound::Excluded(&to), SeesAll);
        estimate.unwrap()
    };
    for number in 0..5000 {
        put(&subject, number * 7919 % 5000, b"a value of some bytes");
    }
    settle(&subject);
    // The tree is fully merged: the estimate reads the pages at the ends of the range.
    for from in (0..4990).step_by(499) {
        assert_eq!(rows_between(from, from + 7), 7);
    }
    // Newer versions and deletes that have not been merged with the older rows.
    for round in 0..3 {
        for number in (0..5000).step_by(5) {
            put(&subject, number, b"another value");
            delete(&subject, number + 1);
        }
        if round == 1 {
            flush(&subject);
        }
    }
    for from in (0..4990).step_by(500) {
        assert_eq!(rows_between(from, from + 10), 8);
        assert_eq!(rows_between(from + 1, from + 2), 0);
    }
}

/// A visibility that sees no write and reports an interrupt.
struct Stopped;

impl Visibility for Stopped {
    fn is_visible(&self, _id: WriteId) -> bool {
        false
    }
    fn is_interrupted(&self) -> bool {
        true
    }
}

#[test]
fn an_interrupt_ends_a_scan_of_invisible_entries() {
    let subject = subject();
    for number in 0..5000 {
        put(&subject, number, b"unseen");
    }
    let mut cursor = subject.tree.cursor(Stopped);
    assert!(matches!(
        cursor.seek_first(),
        Err(StorageError::Interrupted)
    ));
    assert!(!cursor.valid());
    assert!(matches!(cursor.seek_last(), Err(StorageError::Interrupted)));
    // Many versions of one key.
    let subject = self::subject();
    for _ in 0..5000 {
        put(&subject, 1, b"unseen");
    }
    let mut cursor = subject.tree.cursor(Stopped);
    assert!(matches!(
        cursor.seek_first(),
        Err(StorageError::Interrupted)
    ));
}

#[test]
fn options_are_durable() {
    let mut subject = subject();
    let options = TreeOptions {
        value_planes: 3,
        columns: PageColumns::default(),
        ..TreeOptions::tiny()
    };
    subject.tree.set_options(options.clone());
    assert!(subject.tree.needs_checkpoint());
    subject.checkpoint().unwrap();
    assert!(!subject.tree.needs_checkpoint());
    subject.open_again();
    assert_eq!(*subject.tree.options(), options);
}

/// A horizon in which the listed writes are aborted, other writes below an id are committed, and
/// the rest is active.
struct Below(WriteId, Vec<WriteId>, [CommitSequence; 1]);

impl Horizon for Below {
    fn status(&self, id: WriteId) -> WriteStatus {
        if self.1.contains(&id) {
            WriteStatus::Aborted
        } else if id < self.0 {
            WriteStatus::Committed(CommitSequence(1))
        } else {
            WriteStatus::Active(TransactionId(1))
        }
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.2
    }
    fn decided_below(&self) -> WriteId {
        self.0
    }
    fn may_have_aborted(&self, min: WriteId, max: WriteId) -> bool {
        self.1.iter().any(|id| (min..=max).contains(id))
    }
}

#[test]
fn old_write_ids_are_settled_one_child_at_a_time() {
    let subject = subject();
    let below = |id, aborted: &[u64]| {
        let aborted = aborted.iter().copied().map(WriteId).collect();
        Below(WriteId(id), aborted, [CommitSequence(1)])
    };
    // All writes are active when they are flushed. This makes many runs, also above the leaves.
    for id in 1..=40 {
        let guard = subject.tree.write_guard();
        guard.set_lsn(Lsn(id));
        for number in 0..40 {
            let key = key(usize::try_from(number * 40 + id).unwrap());
            guard.insert(WriteId(id), Operation::Put, &key, b"a value of some bytes");
        }
        drop(guard);
        subject.tree.freeze(|| Lsn(id + 1));
        while let Some(job) = subject.tree.next_job().unwrap() {
            job.run(&below(0, &[])).unwrap();
        }
    }
    let oldest = || subject.tree.oldest_unpurged_write_id();
    assert_eq!(oldest(), Some(WriteId(1)));
    let horizon = below(31, &[5, 6]);
    let mut jobs = 0;
    for limit in [WriteId(3), WriteId(31)] {
        while let Some(job) = subject.tree.next_settling_job(&horizon, limit).unwrap() {
            job.run(&horizon).unwrap();
            jobs += 1;
            assert!(jobs < 10_000, "each job brings the end nearer");
        }
        assert!(oldest() >= Some(limit), "{:?}", oldest());
    }
    assert!(jobs > 2);
    let all = below(41, &[5, 6]);
    subject.tree.settle(&all).unwrap();
    assert_eq!(count(&subject), 38 * 40);
}

/// Children share the runs that a split has divided between them.
#[test]
fn old_write_ids_are_settled_in_shared_runs() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut subject = subject();
        let mut jobs = Vec::new();
        for id in 1..=100 {
            let guard = subject.tree.write_guard();
            for _ in 0..30 {
                let key = key(random.below(3000));
                guard.insert(WriteId(id), Operation::Put, &key, b"a value of some bytes");
            }
            drop(guard);
            subject.tree.freeze(|| Lsn(id));
            // Children get runs while they are flushed, and are split with these.
            let none_settled = Below(WriteId(0), Vec::new(), [CommitSequence(1)]);
            for _ in 0..8 {
                if jobs.len() < 3 && random.one_in(2) {
                    jobs.extend(subject.tree.next_job().unwrap());
                } else if let Some(number) = random.below(jobs.len() + 1).checked_sub(1) {
                    jobs.remove(number).run(&none_settled).unwrap();
                }
            }
            if random.one_in(10) {
                jobs.clear();
                settle_before(&mut subject, WriteId(id), &mut random);
            }
        }
    }
}

/// Flushes the memtables, and settles older ids in all runs.
fn settle_before(subject: &mut Subject, end: WriteId, random: &mut Random) {
    let settled = Below(end, Vec::new(), [CommitSequence(1)]);
    while let Some(job) = subject.tree.next_memtable_job() {
        job.run(&settled).unwrap();
    }
    let mut jobs = 0;
    while let Some(job) = subject.tree.next_settling_job(&settled, end).unwrap() {
        job.run(&settled).unwrap();
        jobs += 1;
        assert!(jobs < 10_000, "each job brings the end nearer");
        if random.one_in(10) {
            subject.checkpoint().unwrap();
            subject.open_again();
        }
    }
    let oldest = subject.tree.oldest_unpurged_write_id();
    assert!(
        oldest.is_none_or(|oldest| oldest >= end),
        "{oldest:?} is before {end:?}"
    );
}

/// A tree with the entries of writes 1 to 40, all of which were active when they were flushed.
fn with_active_writes() -> Subject {
    let subject = subject();
    for id in 1..=40 {
        let guard = subject.tree.write_guard();
        guard.set_lsn(Lsn(id));
        for number in 0..40 {
            let key = key(usize::try_from(number * 40 + id).unwrap());
            guard.insert(WriteId(id), Operation::Put, &key, b"a value of some bytes");
        }
        drop(guard);
        subject.tree.freeze(|| Lsn(id + 1));
        let all_active = Below(WriteId(0), Vec::new(), [CommitSequence(1)]);
        while let Some(job) = subject.tree.next_job().unwrap() {
            job.run(&all_active).unwrap();
        }
    }
    subject
}

/// Runs settling jobs until there are none. Returns their number.
fn purge(subject: &Subject, horizon: &Below) -> usize {
    let mut jobs = 0;
    let all = WriteId(u64::MAX);
    while let Some(job) = subject.tree.next_settling_job(horizon, all).unwrap() {
        job.run(horizon).unwrap();
        jobs += 1;
        assert!(jobs < 10_000, "each job brings the end nearer");
    }
    jobs
}

/// The oldest snapshot sees none of the writes, so none is settled.
#[test]
fn aborted_entries_are_purged_once_although_a_snapshot_is_older() {
    let mut subject = with_active_writes();
    let aborted: Vec<WriteId> = [5, 6, 20].map(WriteId).to_vec();
    let horizon = |below| Below(WriteId(below), aborted.clone(), [CommitSequence(0)]);
    assert!(purge(&subject, &horizon(31)) > 0);
    let oldest = subject.tree.oldest_unpurged_write_id();
    assert_eq!(oldest, Some(WriteId(31)), "these were active");
    assert_eq!(
        subject.tree.write_id_range(),
        Some((WriteId(1), WriteId(40)))
    );
    let mut found = 0;
    for number in 0..1700 {
        let visited = subject.tree.visit(&key(number), &mut |id, _, _| {
            assert!(!aborted.contains(&id), "{id}");
            found += 1;
            Visit::Continue
        });
        visited.unwrap();
    }
    assert_eq!(found, 37 * 40);
    assert_eq!(purge(&subject, &horizon(31)), 0, "nothing is merged twice");
    subject.checkpoint().unwrap();
    subject.open_again();
    assert_eq!(subject.tree.oldest_unpurged_write_id(), Some(WriteId(31)));
    assert_eq!(purge(&subject, &horizon(31)), 0, "not even after a restart");
    // No write of the rest is aborted, so no run is merged.
    let written = subject.tree.statistics().stored_bytes_written;
    assert!(purge(&subject, &horizon(41)) > 0);
    assert_eq!(subject.tree.statistics().stored_bytes_written, written);
    assert_eq!(subject.tree.oldest_unpurged_write_id(), None);
    subject.checkpoint().unwrap();
    subject.open_again();
    assert_eq!(subject.tree.oldest_unpurged_write_id(), None);
    subject.tree.verify(&mut |_| true).unwrap();
}

/// Moved runs keep what is known about their writes.
#[test]
fn purged_runs_remain_purged_when_they_are_moved() {
    let mut subject = with_active_writes();
    let horizon = Below(WriteId(41), vec![WriteId(5)], [CommitSequence(0)]);
    purge(&subject, &horizon);
    assert_eq!(subject.tree.oldest_unpurged_write_id(), None);
    subject.checkpoint().unwrap();
    subject.checkpoint().unwrap();
    let limit = subject.tree.file_bytes() / 2;
    let mut moved = 0;
    while let Some(job) = subject.tree.next_relocation(limit).unwrap() {
        let report = job.run(&horizon).unwrap();
        moved += report.runs_moved;
        if report.runs_moved == 0 {
            break;
        }
    }
    assert!(moved > 0);
    assert_eq!(subject.tree.oldest_unpurged_write_id(), None);
}

#[test]
fn readers_retain_the_ids_of_their_version() {
    let subject = with_active_writes();
    let horizon = Below(WriteId(41), vec![WriteId(5)], [CommitSequence(0)]);
    let may_be_found = |id| {
        let ids = subject.tree.live_versions().write_ids();
        ids.iter()
            .any(|(min, max)| (*min..=*max).contains(&WriteId(id)))
    };
    let mut cursor = subject.tree.cursor(&SeesAll);
    assert!(cursor.seek(&key(0)).unwrap());
    purge(&subject, &horizon);
    assert!(may_be_found(5), "the cursor has entries of the write");
    drop(cursor);
    assert!(!may_be_found(5));
}
