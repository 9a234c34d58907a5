//! Bulk loads of a base below earlier writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use teak_base::{CommitSequence, FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{
    Horizon, JobKind, NextKey, PageCache, PausedLoad, Tree, TreeOptions, Visibility, WriteStatus,
};

/// Writes with odd ids are committed, those with even ids are aborted.
struct OddCommitted([CommitSequence; 1]);

impl Horizon for OddCommitted {
    fn status(&self, id: WriteId) -> WriteStatus {
        if id.0 % 2 == 1 {
            WriteStatus::Committed(CommitSequence(1))
        } else {
            WriteStatus::Aborted
        }
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

impl Visibility for OddCommitted {
    fn is_visible(&self, id: WriteId) -> bool {
        id.is_settled() || id.0 % 2 == 1
    }
}

const NOW: OddCommitted = OddCommitted([CommitSequence(1)]);
const COMMITTED: WriteId = WriteId(1);
const ABORTED: WriteId = WriteId(2);

fn key(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

struct Subject {
    disk: Arc<dyn Disk>,
    cache: Arc<PageCache>,
    tree: Arc<Tree>,
    lsn: u64,
}

impl Subject {
    fn new() -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let cache = Arc::new(PageCache::new(1 << 20));
        let (path, id) = (Path::new("/t"), FileId(1));
        let tree = Tree::create(&disk, path, id, TreeOptions::tiny(), &cache).unwrap();
        tree.await_base();
        Self {
            disk,
            cache,
            tree,
            lsn: 0,
        }
    }

    fn write(&mut self, id: WriteId, operation: Operation, number: usize, value: &[u8]) {
        self.lsn += 1;
        let guard = self.tree.write_guard();
        guard.set_lsn(Lsn(self.lsn));
        guard.insert(id, operation, &key(number), value);
    }

    fn freeze(&self) {
        let end = Lsn(self.lsn + 1);
        self.tree.freeze(|| end);
    }

    /// Freezes the memtable, and runs jobs until there are none, due or not.
    fn settle(&mut self) {
        self.freeze();
        self.tree.settle(&NOW).unwrap();
    }

    /// Freezes the memtable, and runs the jobs that are due.
    fn flush(&self) {
        self.freeze();
        while let Some(job) = self.tree.next_job().unwrap() {
            job.run(&NOW).unwrap();
        }
    }

    fn load(&self, numbers: impl Iterator<Item = usize>) {
        let mut load = self.tree.bulk_load(PausedLoad::default());
        for number in numbers {
            load.push(&key(number), b"base").unwrap();
        }
        self.tree.install_base(load.pause().unwrap());
    }

    fn check(&self, expected: &BTreeMap<usize, &[u8]>) {
        let mut cursor = self.tree.cursor(Arc::new(NOW));
        let mut found = Vec::new();
        let mut there = cursor.seek_first().unwrap();
        while there {
            found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
            there = cursor.next().unwrap();
        }
        let expected: Vec<_> = expected
            .iter()
            .map(|(number, value)| (key(*number), value.to_vec()))
            .collect();
        assert_eq!(found, expected);
        self.tree.verify(&mut |_| true).unwrap();
    }
}

/// Writes committed and aborted puts and deletes, with flushes in between, loads the base, writes
/// once more, and opens the file again.
fn story(before: usize, base: usize) {
    let mut subject = Subject::new();
    let mut expected = BTreeMap::new();
    for number in 0..base {
        expected.insert(number * 2, b"base".as_slice());
    }
    for round in 0..before {
        for n in 0..40 {
            let number = (round * 7919 + n * 31) % (base * 2 + 50);
            match n % 4 {
                0 => {
                    subject.write(COMMITTED, Operation::Delete, number, b"");
                    expected.remove(&number);
                }
                1 => subject.write(ABORTED, Operation::Delete, number, b""),
                2 => subject.write(ABORTED, Operation::Put, number, b"never"),
                _ => {
                    subject.write(COMMITTED, Operation::Put, number, b"written");
                    expected.insert(number, b"written");
                }
            }
        }
        if round % 2 == 0 {
            subject.settle();
        }
    }
    subject.load((0..base).map(|number| number * 2));
    subject.check(&expected);
    subject.write(COMMITTED, Operation::Put, 1, b"late");
    expected.insert(1, b"late");
    subject.settle();
    subject.check(&expected);
    subject.tree.checkpoint(&|_| Ok(())).unwrap();
    let (path, id) = (Path::new("/t"), Some(FileId(1)));
    subject.tree = Tree::open(&subject.disk, path, id, &subject.cache).unwrap();
    subject.check(&expected);
}

#[test]
fn writes_before_the_base_hide_it() {
    for (before, base) in [(0, 1), (0, 5000), (1, 10), (9, 300), (20, 3000), (5, 0)] {
        story(before, base);
    }
}

/// Writes with many flushes while the tree waits for its base. `number_of` determines the order of
/// the keys.
fn flush_often(rounds: usize, number_of: impl Fn(usize) -> usize) {
    let mut subject = Subject::new();
    let mut expected: BTreeMap<usize, &[u8]> = (0..500).map(|n| (n * 8, &b"base"[..])).collect();
    let options = TreeOptions::tiny();
    for round in 0..rounds {
        for n in 0..30 {
            let number = number_of(round * 30 + n);
            if number.is_multiple_of(16) {
                subject.write(COMMITTED, Operation::Delete, number, b"");
                expected.remove(&number);
            } else {
                subject.write(COMMITTED, Operation::Put, number, b"written");
                expected.insert(number, b"written");
            }
        }
        subject.flush();
        let backlog = subject.tree.backlog();
        assert!(backlog.child_runs <= u64::from(options.child_runs_max));
        assert_eq!(backlog.due_bytes, 0);
        // The other runs are parts of merged runs, which are large.
        let statistics = subject.tree.statistics();
        let parts = statistics.raw_bytes / (options.run_bytes_max / 2);
        assert!(
            statistics.runs <= parts + u64::from(options.child_runs_max),
            "{} runs of {} bytes after {round} flushes",
            statistics.runs,
            statistics.raw_bytes
        );
    }
    subject.load((0..500).map(|n| n * 8));
    subject.check(&expected);
    subject.settle();
    subject.check(&expected);
}

#[test]
fn runs_are_bounded_while_the_base_is_awaited() {
    flush_often(150, |n| n * 7919 % 4099);
    flush_often(150, |n| n);
    flush_often(150, |n| 5000 - n);
}

/// Otherwise each leaf would get all runs that were written before, and a job would be due on every leaf.
#[test]
fn a_base_of_several_leaves_is_below_the_runs_of_inner_children() {
    let mut subject = Subject::new();
    let mut expected: BTreeMap<usize, &[u8]> = (0..3000).map(|n| (n * 2, &b"base"[..])).collect();
    for round in 0..TreeOptions::tiny().child_runs_max as usize - 1 {
        for n in 0..50 {
            let number = (round * 50 + n) * 31 % 6000;
            subject.write(COMMITTED, Operation::Put, number, b"written");
            expected.insert(number, b"written");
        }
        subject.flush();
    }
    let before = subject.tree.backlog();
    assert!(before.child_runs > 1 && before.run_load < 1.0, "{before:?}");
    subject.load((0..3000).map(|n| n * 2));
    assert!(subject.tree.statistics().leaves > 20);
    let after = subject.tree.backlog();
    assert_eq!(
        (after.child_runs, after.due_bytes),
        (before.child_runs, before.due_bytes)
    );
    subject.check(&expected);
    subject.settle();
    subject.check(&expected);
}

#[test]
fn a_merge_is_discarded_when_the_base_arrives_first() {
    let mut subject = Subject::new();
    let mut expected: BTreeMap<usize, &[u8]> = (0..3000).map(|n| (n * 2, &b"base"[..])).collect();
    let mut merge = None;
    for round in 0.. {
        for n in 0..50 {
            let number = (round * 50 + n) * 31 % 6000;
            subject.write(COMMITTED, Operation::Put, number, b"written");
            expected.insert(number, b"written");
        }
        subject.freeze();
        while merge.is_none()
            && let Some(job) = subject.tree.next_job().unwrap()
        {
            if job.kind() == JobKind::Consolidate {
                merge = Some(job);
            } else {
                job.run(&NOW).unwrap();
            }
        }
        if merge.is_some() {
            break;
        }
    }
    subject.load((0..3000).map(|n| n * 2));
    subject.check(&expected);
    merge.unwrap().run(&NOW).unwrap();
    subject.check(&expected);
    subject.settle();
    subject.check(&expected);
    assert_eq!(subject.tree.pending_work_bytes(), 0);
}

#[test]
fn a_base_is_spread_over_leaves_of_even_size() {
    let subject = Subject::new();
    subject.load(0..20_000);
    let statistics = subject.tree.statistics();
    assert!(statistics.height > 2);
    assert_eq!(statistics.rows, 20_000);
    assert_eq!(subject.tree.pending_work_bytes(), 0);
}

#[test]
fn a_cancelled_load_leaves_nothing() {
    let subject = Subject::new();
    {
        let mut load = subject.tree.bulk_load(PausedLoad::default());
        for number in 0..5000 {
            load.push(&key(number), b"lost").unwrap();
        }
        let paused = load.pause().unwrap();
        let mut load = subject.tree.bulk_load(paused);
        load.push(&key(5000), b"lost").unwrap();
    }
    subject.load(std::iter::once(7));
    subject.check(&BTreeMap::from([(7, b"base".as_slice())]));
}

#[test]
fn a_load_continues_after_pauses() {
    let subject = Subject::new();
    let mut paused = PausedLoad::default();
    for begin in (0..6000).step_by(500) {
        let mut load = subject.tree.bulk_load(paused);
        for number in begin..begin + 500 {
            load.push(&key(number), b"base").unwrap();
        }
        paused = load.pause().unwrap();
    }
    subject.tree.install_base(paused);
    subject.check(&(0..6000).map(|n| (n, b"base".as_slice())).collect());
    assert_eq!(subject.tree.statistics().rows, 6000);
}

#[test]
fn the_entries_of_a_paused_load_can_be_read_again() {
    let subject = Subject::new();
    // Some values are separate.
    let value = |number: usize| vec![number as u8; number % 300];
    let mut paused = PausedLoad::default();
    for start in [0, 300] {
        let mut load = subject.tree.bulk_load(paused);
        for number in start..start + 300 {
            load.push(&key(number), &value(number)).unwrap();
        }
        paused = load.pause().unwrap();
    }
    assert_eq!(paused.runs().map(|(first, _)| first).next(), Some(&*key(0)));
    assert_eq!(paused.divisions_max(), usize::MAX);
    for sought in [None, Some(0), Some(17), Some(299), Some(300), Some(599)] {
        let mut entries = paused.read();
        assert!(entries.entry().is_none());
        if let Some(sought) = sought {
            entries.seek(&key(sought)).unwrap();
            assert!(entries.entry().is_none());
        }
        for number in sought.unwrap_or(0)..600 {
            assert!(entries.advance().unwrap());
            let expected = (key(number), value(number));
            assert_eq!(entries.entry(), Some((&*expected.0, &*expected.1)));
        }
        assert!(!entries.advance().unwrap() && entries.entry().is_none());
    }
    // Forwards, with entries between.
    let mut entries = paused.read();
    for sought in [5, 6, 100, 298, 301] {
        entries.seek(&key(sought)).unwrap();
        assert!(entries.advance().unwrap());
        assert_eq!(entries.entry().unwrap().0, &*key(sought));
    }
    entries.seek(&[0xff; 40]).unwrap();
    assert!(!entries.advance().unwrap());
    drop(entries);
    drop(paused);
    subject.load(100..110);
    subject.check(
        &(100..110)
            .map(|number| (number, b"base".as_slice()))
            .collect(),
    );
}

/// Any entry counts, also one that is deleted or aborted, in memtables and in runs of several leaves.
#[test]
fn the_next_key_is_found_whatever_its_versions_are() {
    for flushed in 0..3 {
        let mut subject = Subject::new();
        subject.load((0..3000).filter(|number| number % 10 == 0));
        for number in (1..3000).step_by(100) {
            let (id, operation) = match number % 300 {
                1 => (COMMITTED, Operation::Put),
                101 => (ABORTED, Operation::Put),
                _ => (COMMITTED, Operation::Delete),
            };
            subject.write(id, operation, number, b"new");
        }
        match flushed {
            0 => {}
            1 => subject.freeze(),
            _ => subject.flush(),
        }
        // A delete or an aborted entry of a key without other entries may have been dropped.
        let has_key = |number: usize| number.is_multiple_of(10) || number % 100 == 1;
        let mut keys = subject.tree.key_cursor();
        let mut leaves = 0;
        for from in (0..3000).chain((0..3000).rev().step_by(7)) {
            let expected = (from..3000).find(|number| has_key(*number));
            let mut position = key(from);
            let found = loop {
                match keys.search(&position).unwrap() {
                    NextKey::At(found) => break Some(found),
                    NextKey::None => break None,
                    NextKey::NotBefore(next) => {
                        leaves += 1;
                        assert!(*next > *position);
                        position = next.to_vec();
                    }
                }
            };
            let dropped = |found: &Vec<u8>| flushed == 2 && found > &key(from);
            let expected_key = expected.map(key);
            if found != expected_key {
                assert!(found.as_ref().is_some_and(dropped), "{found:?} from {from}");
                let may_be_dropped = matches!(expected.unwrap() % 300, 101 | 201);
                assert!(may_be_dropped, "{found:?} from {from}");
            }
        }
        assert!(leaves > 10, "{leaves}");
        // It reads the version in which it was created.
        subject.write(COMMITTED, Operation::Put, 2999, b"new");
        subject.settle();
        assert!(matches!(
            keys.search(&key(2995)),
            Ok(NextKey::At(_) | NextKey::None)
        ));
        let mut now = subject.tree.key_cursor();
        assert_eq!(now.search(&key(2995)).unwrap(), NextKey::At(key(2999)));
    }
}
