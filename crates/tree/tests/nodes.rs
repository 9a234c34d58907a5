//! Nodes that are read when they are needed, and evicted.

// Tests and benches fail by panics, and their numbers are small.
use crate::common::committed::{Snapshots, newest};
use crate::common::settled::{SETTLED, SeesAll, count, settle};
use crate::common::{Random, Subject};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::{CommitSequence, Lsn, Operation, WriteId};
use teak_disk::{Disk, DiskFile, MemoryDisk};
use teak_testing::{FaultDisk, GateDisk};
use teak_tree::{NodeStatistics, SalvageCursor, TreeOptions, Visibility};

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn put(subject: &Subject, id: u64, number: u64, value: &[u8]) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(id), Operation::Put, &key(number), value);
}

/// A tree of many small leaves, all of whose nodes are in the file.
fn wide_tree(disk: Arc<dyn Disk>, rows: u64) -> Subject {
    let mut subject = Subject::create(disk, TreeOptions::tiny());
    for number in 0..rows {
        put(&subject, 1, number * 7919 % rows, b"a value of some bytes");
        if number % 5000 == 4999 {
            settle(&subject);
        }
    }
    settle(&subject);
    subject.checkpoint().unwrap();
    subject
}

fn nodes(subject: &Subject) -> NodeStatistics {
    subject.cache.nodes().statistics()
}

#[test]
fn opening_a_tree_reads_its_root_only() {
    let mut subject = wide_tree(Arc::new(MemoryDisk::new()), 100_000);
    let before = subject.tree.statistics();
    subject.open_again();
    assert_eq!(subject.tree.file_statistics().blocks_read, 1);
    let after = subject.tree.statistics();
    assert!(after.leaves > 2000 && after.height > 3, "{after:?}");
    let shape = |s: &teak_tree::TreeStatistics| (s.leaves, s.nodes, s.runs, s.entries, s.rows);
    assert_eq!(shape(&after), shape(&before));
    assert_eq!(nodes(&subject).loaded, 1);
    // Each lookup reads the nodes of its path, an index block and a page.
    assert!(subject.tree.get(&key(7), &SeesAll).unwrap().is_some());
    let path = after.height - 1;
    assert_eq!(nodes(&subject).reads, path);
    assert_eq!(subject.tree.file_statistics().blocks_read, 1 + path + 2);
    subject.tree.get(&key(8), &SeesAll).unwrap();
    assert_eq!(nodes(&subject).reads, path);
    // An estimate of half of the rows reads the path to the middle.
    let range = (Bound::Unbounded, Bound::Excluded(key(50_000)));
    let upper = match &range.1 {
        Bound::Excluded(upper) => Bound::Excluded(upper.as_slice()),
        _ => Bound::Unbounded,
    };
    let rows = subject.tree.estimate_range(range.0, upper, SeesAll);
    assert_eq!(rows.unwrap(), 50_000);
    assert!(nodes(&subject).reads <= 2 * path);
    assert_eq!(subject.tree.estimate_entries(), 100_000);
}

#[test]
fn nodes_stay_within_their_share_while_everything_is_read_and_written() {
    let mut subject = wide_tree(Arc::new(MemoryDisk::new()), 40_000);
    let all = nodes(&subject);
    let bytes_max = 200_000;
    assert!(all.bytes > 3 * bytes_max, "{all:?}");
    subject.limit_nodes(bytes_max);
    assert!(nodes(&subject).bytes <= bytes_max);
    // At most the root and the nodes of a path are in use.
    let in_use = 50_000;
    let mut cursor = subject.tree.cursor(SeesAll);
    let mut rows = 0;
    let mut more = cursor.seek_first().unwrap();
    while more {
        rows += 1;
        let bytes = nodes(&subject).bytes;
        assert!(bytes <= bytes_max + in_use, "{bytes} bytes of nodes");
        more = cursor.next().unwrap();
    }
    assert_eq!(rows, 40_000);
    drop(cursor);
    let scanned = nodes(&subject);
    assert!(
        scanned.evictions > 100 && scanned.reads > 100,
        "{scanned:?}"
    );
    let report = subject.tree.verify(&mut |_| true).unwrap();
    assert_eq!(report.nodes, subject.tree.statistics().nodes);
    assert!(nodes(&subject).bytes <= bytes_max + in_use);
    // Nodes that are written again are evictable after each checkpoint.
    for round in 0..10 {
        for number in 0..200 {
            put(&subject, 1, number * 200 + round, b"new");
        }
        settle(&subject);
        subject.checkpoint().unwrap();
        let bytes = nodes(&subject).bytes;
        assert!(bytes <= bytes_max + in_use, "{bytes} bytes of nodes");
    }
    assert_eq!(count(&subject), 40_000);
    let report = subject.tree.verify(&mut |_| true).unwrap();
    let file = subject.tree.file_statistics();
    assert_eq!(report.block_bytes, file.live_bytes, "no space is lost");
}

#[test]
fn a_failed_read_of_a_node_is_repeated() {
    let disk = FaultDisk::new(1);
    let mut subject = wide_tree(Arc::new(disk.clone()), 5000);
    subject.open_again();
    disk.fail_read(0);
    assert!(subject.tree.get(&key(7), &SeesAll).is_err());
    assert!(subject.tree.get(&key(7), &SeesAll).unwrap().is_some());
    let mut cursor = subject.tree.cursor(SeesAll);
    disk.fail_read(0);
    assert!(cursor.seek(&key(4000)).is_err());
    assert!(cursor.seek(&key(4000)).unwrap());
    assert_eq!(cursor.key(), key(4000));
    drop(cursor);
    // Planning, merges and installations need nodes, too.
    subject.limit_nodes(0);
    for after in 0..60 {
        put(&subject, 1, after * 80, b"new");
        subject.tree.freeze(|| Lsn(0));
        disk.fail_read(after % 30);
        let _ = subject.tree.settle(&SETTLED);
        disk.clear_failures();
        settle(&subject);
        subject.checkpoint().unwrap();
    }
    assert_eq!(count(&subject), 5000);
    let report = subject.tree.verify(&mut |_| true).unwrap();
    let live = subject.tree.file_statistics().live_bytes;
    assert_eq!(report.block_bytes, live);
}

/// The offsets of all node blocks in the file, also of those that are free.
fn node_blocks(file: &dyn DiskFile) -> Vec<u64> {
    let mut header = [0; 25];
    let mut found = Vec::new();
    for offset in (8192..=file.len().unwrap() - 128).step_by(128) {
        file.read_exact_at(&mut header, offset).unwrap();
        if header[24] == 3 && header[8..16] == offset.to_le_bytes() {
            found.push(offset);
        }
    }
    found
}

#[test]
fn a_damaged_node_is_an_error_of_its_keys_only() {
    let disk = FaultDisk::new(1);
    let mut subject = wide_tree(Arc::new(disk.clone()), 5000);
    let file = disk.open(&subject.path).unwrap();
    let mut partial = 0;
    for offset in node_blocks(&*file) {
        // Changes the kind of the block.
        disk.flip_bit(&subject.path, offset + 24, 7).unwrap();
        let cache = Arc::clone(&subject.cache);
        let opened = teak_tree::Tree::open(&subject.disk, &subject.path, None, &cache);
        if let Ok(tree) = opened {
            subject.tree = tree;
            let reads = (0..5000).map(|number| subject.tree.get(&key(number), &SeesAll));
            let failed = reads
                .filter(|read| match read {
                    Ok(found) => {
                        assert!(found.is_some());
                        false
                    }
                    Err(error) => {
                        assert!(error.is_corrupt());
                        true
                    }
                })
                .count();
            assert!(failed < 5000);
            if failed > 0 {
                partial += 1;
                assert!(subject.tree.verify(&mut |_| true).is_err());
            }
            if failed > 0 && partial % 10 == 1 {
                write_next_to_damage(&mut subject);
            }
        }
        disk.flip_bit(&subject.path, offset + 24, 7).unwrap();
    }
    assert!(partial > 20, "{partial} nodes were damaged");
}

/// Checks that flushes of memtables and merges of other children work.
fn write_next_to_damage(subject: &mut Subject) {
    for number in 0..5000 {
        put(subject, 1, number, b"new");
    }
    subject.tree.freeze(|| Lsn(0));
    let mut failures = 0;
    let mut merged = 0;
    while failures < 3 {
        let job = subject.tree.next_job().and_then(|job| match job {
            Some(job) => Ok(Some(job)),
            None => subject.tree.next_idle_job(&SETTLED),
        });
        match job.and_then(|job| job.map(|job| job.run(&SETTLED)).transpose()) {
            Ok(None) => break,
            Ok(Some(_)) => merged += 1,
            Err(_) => failures += 1,
        }
    }
    assert!(failures > 0 && merged > 10, "{failures}, {merged}");
    assert_eq!(subject.tree.frozen_memtables(), 0);
    let reads = (0..5000).map(|number| subject.tree.get(&key(number), &SeesAll));
    let read = reads.filter(|read| matches!(read, Ok(Some(value)) if value == b"new"));
    assert!(read.count() > 2000);
}

/// A reader that sees the writes up to an id.
#[derive(Clone, Copy)]
struct SeesUpTo(u64);

impl Visibility for SeesUpTo {
    fn is_visible(&self, id: WriteId) -> bool {
        id.0 <= self.0
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Readers of old versions read nodes that were evicted, from blocks that later checkpoints have
/// freed.
#[test]
fn old_versions_are_read_after_their_nodes_were_evicted_and_replaced() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut subject = Subject::create(Arc::new(MemoryDisk::new()), TreeOptions::tiny());
        subject.limit_nodes(0);
        let mut rows = Rows::new();
        let mut readers: Vec<(SalvageCursor<SeesUpTo>, Rows)> = Vec::new();
        for id in 1..150 {
            for _ in 0..40 {
                let number = random.below(1500) as u64;
                let value = format!("value {number} of write {id}").into_bytes();
                put(&subject, id, number, &value);
                rows.insert(key(number), value);
            }
            subject.tree.freeze(|| Lsn(id));
            for _ in 0..random.below(8) {
                let job = match subject.tree.next_job().unwrap() {
                    Some(job) => Some(job),
                    None => subject.tree.next_idle_job(&SETTLED).unwrap(),
                };
                if let Some(job) = job {
                    job.run(&SETTLED).unwrap();
                }
                if random.one_in(4) {
                    subject.checkpoint().unwrap();
                }
                if random.one_in(6) {
                    let limit = random.below(subject.tree.file_bytes() as usize);
                    subject.tree.relocate_nodes(limit as u64).unwrap();
                }
                if random.one_in(10) {
                    readers.push((subject.tree.salvage(SeesUpTo(id)), rows.clone()));
                }
            }
            if readers.len() > 8 || random.one_in(20) {
                while let Some((mut reader, expected)) = readers.pop() {
                    let mut found = Rows::new();
                    while let Some(entry) = reader.next().unwrap() {
                        found.insert(entry.key.to_vec(), entry.value.to_vec());
                    }
                    assert!(reader.lost().is_empty(), "{:?}", reader.lost());
                    assert_eq!(found, expected, "seed {seed}, write {id}");
                }
            }
        }
        let evictions = nodes(&subject).evictions;
        assert!(evictions > 500, "{evictions} evictions");
        settle(&subject);
        subject.checkpoint().unwrap();
        let report = subject.tree.verify(&mut |_| true).unwrap();
        let file = subject.tree.file_statistics();
        assert_eq!(report.block_bytes, file.live_bytes, "no space is lost");
        subject.open_again();
        assert_eq!(count(&subject), rows.len() as u64);
    }
}

/// A job replaces nodes while a checkpoint writes them, before it is captured. Readers of the old
/// version can still read them after the checkpoint has freed their blocks.
#[test]
fn nodes_that_were_replaced_during_a_checkpoint_remain_readable() {
    const CHECKPOINT: &str = "checkpoint";
    let disk = GateDisk::new(Arc::new(MemoryDisk::new()));
    let mut subject = wide_tree(Arc::new(disk.clone()), 5000);
    subject.limit_nodes(0);
    let write_all = |id| {
        for number in 0..5000 {
            put(&subject, id, number, format!("value {id}").as_bytes());
        }
        settle(&subject);
    };
    write_all(2);
    // A file with holes, which are used again.
    subject.tree.checkpoint(&|_| Ok(())).unwrap();
    write_all(3);
    let mut reader = subject.tree.salvage(SeesUpTo(3));
    disk.hold(CHECKPOINT);
    let tree = Arc::clone(&subject.tree);
    let writer = std::thread::Builder::new().name(CHECKPOINT.into());
    let writer = writer.spawn(move || tree.checkpoint(&|_| Ok(())).unwrap());
    let writer = writer.unwrap();
    disk.wait_for_arrival(CHECKPOINT);
    write_all(4);
    disk.open_gate(CHECKPOINT);
    writer.join().unwrap();
    for id in 5..8 {
        write_all(id);
        subject.tree.checkpoint(&|_| Ok(())).unwrap();
    }
    let mut rows = 0;
    while let Some(entry) = reader.next().unwrap() {
        assert_eq!(entry.value, b"value 3");
        rows += 1;
    }
    assert!(reader.lost().is_empty(), "{:?}", reader.lost());
    assert_eq!(rows, 5000);
}

/// Nodes that cannot be evicted use more than the share.
#[test]
fn nodes_are_retained_although_others_exceed_the_share() {
    let mut subject = wide_tree(Arc::new(MemoryDisk::new()), 40_000);
    subject.limit_nodes(0);
    subject.limit_nodes(200_000);
    for number in 20_000..40_000 {
        put(&subject, 1, number, b"new");
    }
    settle(&subject);
    let statistics = nodes(&subject);
    assert!(statistics.bytes > statistics.bytes_max, "{statistics:?}");
    subject.tree.get(&key(7), &SeesAll).unwrap();
    let before = nodes(&subject).reads;
    for number in 0..200 {
        subject.tree.get(&key(number % 10), &SeesAll).unwrap();
    }
    assert_eq!(nodes(&subject).reads, before);
}

/// Planning finds in the links that a snapshot still needs the garbage of all leaves. When it has
/// ended, only the nodes on the path to the chosen leaf are read.
#[test]
fn planning_reads_no_node_for_garbage_that_a_snapshot_needs() {
    const ROWS: u64 = 10_000;
    let mut subject = wide_tree(Arc::new(MemoryDisk::new()), ROWS);
    let old = Snapshots(vec![CommitSequence(1), CommitSequence(1 << 40)]);
    for number in (0..ROWS).step_by(2) {
        let guard = subject.tree.write_guard();
        guard.insert(WriteId(2), Operation::Delete, &key(number), b"");
    }
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(&old).unwrap();
    subject.checkpoint().unwrap();
    for is_opened_again in [false, true] {
        if is_opened_again {
            subject.open_again();
        }
        subject.limit_nodes(0);
        assert_eq!(nodes(&subject).loaded, 1);
        let before = nodes(&subject).reads;
        assert!(subject.tree.next_job().unwrap().is_none());
        subject.tree.note_settled(WriteId(2));
        assert!(subject.tree.next_job().unwrap().is_none());
        assert_eq!(nodes(&subject).reads, before);
        subject.tree.note_settled(WriteId(3));
        assert!(subject.tree.next_job().unwrap().is_some());
        let height = subject.tree.statistics().height;
        let reads = nodes(&subject).reads - before;
        assert!(
            height > 2 && reads < height,
            "{reads} reads, height {height}"
        );
    }
    while let Some(job) = subject.tree.next_job().unwrap() {
        job.run(&newest()).unwrap();
    }
    assert_eq!(subject.tree.statistics().entries, ROWS / 2);
    subject.tree.verify(&mut |_| true).unwrap();
}
