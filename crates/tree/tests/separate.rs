//! Values that are stored apart from their entries: merges do not rewrite them, their space is
//! freed with their entries, and readers see the value of their version.

use crate::common::committed::{At, Snapshots, flush, newest};
use crate::common::{Random, Subject, reclaim};
use std::sync::Arc;
use teak_base::limits::VALUE_BYTES_MAX;
use teak_base::{CommitSequence, FileId, Lsn, Operation, TransactionId, WriteId, WriteStatus};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::FaultDisk;
use teak_tree::{Horizon, PageCache, SpaceGoal, Tree, TreeOptions};

const ALL: At = At(u64::MAX);

/// Values from 2 KiB on are separate.
fn options() -> TreeOptions {
    TreeOptions {
        page_bytes: 2048,
        leaf_bytes: 16 * 1024,
        child_buffer_bytes: 32 * 1024,
        run_bytes_max: 32 * 1024,
        separate_value_bytes: 2048,
        ..TreeOptions::tiny()
    }
}

fn subject(options: TreeOptions) -> Subject {
    Subject::create(Arc::new(MemoryDisk::new()), options)
}

fn key(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [mixed.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Bytes that do not compress.
fn value(number: u64, version: u64, len: usize) -> Vec<u8> {
    let mut random = Random(number << 32 | version);
    let words = (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
    words.take(len).collect()
}

fn put(subject: &Subject, write: u64, number: u64, value: &[u8]) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(write), Operation::Put, &key(number), value);
}

fn delete(subject: &Subject, write: u64, number: u64) {
    let guard = subject.tree.write_guard();
    guard.insert(WriteId(write), Operation::Delete, &key(number), &[]);
}

fn settle(subject: &Subject, horizon: &Snapshots) {
    subject.tree.freeze(|| Lsn(0));
    subject.tree.settle(horizon).unwrap();
}

/// Makes a checkpoint, checks every block, and checks that no other space of the file is live.
fn verify(subject: &mut Subject) {
    subject.checkpoint().unwrap();
    let report = subject.tree.verify(&mut |_| true).unwrap();
    let file = subject.tree.file_statistics();
    assert_eq!(report.block_bytes, file.live_bytes, "no space is lost");
}

fn get(subject: &Subject, number: u64) -> Option<Vec<u8>> {
    subject.tree.get(&key(number), &ALL).unwrap()
}

#[test]
fn merges_do_not_rewrite_large_values() {
    let mut subject = subject(options());
    const ROWS: u64 = 3000;
    const BYTES: usize = 4000;
    for number in 0..ROWS {
        put(&subject, 1, number, &value(number, 1, BYTES));
        if number % 50 == 49 {
            flush(&subject, &newest());
        }
    }
    settle(&subject, &newest());
    let statistics = subject.tree.statistics();
    assert!(
        statistics.leaf_merges > 20 && statistics.height >= 2,
        "{statistics:?}"
    );
    assert!(
        statistics.entries_merged > 4 * ROWS,
        "rows are merged several times: {statistics:?}"
    );
    assert_eq!(statistics.separate_values, ROWS);
    let written = subject.tree.file_statistics().bytes_written;
    let rows = ROWS * BYTES as u64;
    assert!(
        written < rows + rows / 4,
        "{written} bytes were written for {rows} bytes of rows"
    );
    verify(&mut subject);
    for number in 0..ROWS {
        assert_eq!(get(&subject, number), Some(value(number, 1, BYTES)));
    }
}

#[test]
fn values_of_every_size_around_the_limit_are_read() {
    let limit = 16 * 1024;
    let mut subject = subject(TreeOptions::default());
    let sizes = [
        0,
        1,
        limit - 1,
        limit,
        limit + 1,
        3 * limit,
        1 << 20,
        5 << 20,
    ];
    let rows: Vec<usize> = (0..10).flat_map(|_| sizes).collect();
    for (number, size) in (0..).zip(&rows) {
        put(&subject, 1, number, &value(number, 1, *size));
    }
    let check = |subject: &Subject| {
        for (number, size) in (0..).zip(&rows) {
            assert_eq!(
                get(subject, number),
                Some(value(number, 1, *size)),
                "{size}"
            );
        }
        let mut cursor = subject.tree.cursor(ALL);
        let mut more = cursor.seek_first().unwrap();
        let mut found = 0;
        while more {
            let (row, bytes) = cursor.entry().unwrap();
            let number = u64::from_be_bytes(row[8..].try_into().unwrap());
            assert!(bytes == value(number, 1, rows[number as usize]));
            found += 1;
            more = cursor.next().unwrap();
        }
        assert_eq!(found, rows.len());
    };
    check(&subject);
    flush(&subject, &newest());
    check(&subject);
    settle(&subject, &newest());
    check(&subject);
    assert_eq!(subject.tree.statistics().separate_values, 50);
    verify(&mut subject);
    subject.open_again();
    check(&subject);
}

#[test]
fn the_longest_value_is_stored_and_read() {
    let mut subject = subject(TreeOptions::default());
    let longest = value(1, 1, VALUE_BYTES_MAX);
    put(&subject, 1, 1, &longest);
    put(&subject, 1, 2, b"small");
    settle(&subject, &newest());
    assert!(get(&subject, 1).as_ref() == Some(&longest));
    assert_eq!(get(&subject, 2).as_deref(), Some(b"small".as_slice()));
    verify(&mut subject);
}

#[test]
fn deleted_and_overwritten_values_are_freed() {
    let mut subject = subject(options());
    const ROWS: u64 = 400;
    let put_all = |subject: &Subject, version: u64| {
        for number in 0..ROWS {
            put(subject, version, number, &value(number, version, 5000));
        }
    };
    put_all(&subject, 1);
    settle(&subject, &newest());
    verify(&mut subject);
    let live = subject.tree.file_statistics().live_bytes;
    for version in 2..5 {
        put_all(&subject, version);
        settle(&subject, &newest());
        verify(&mut subject);
        let now = subject.tree.file_statistics().live_bytes;
        assert!(now < live + live / 20, "{now} bytes after {live}");
    }
    for number in 0..ROWS {
        match number % 4 {
            0 => put(&subject, 9, number, &value(number, 9, 5000)),
            1 => put(&subject, 9, number, b"small"),
            _ => delete(&subject, 9, number),
        }
    }
    settle(&subject, &newest());
    verify(&mut subject);
    let now = subject.tree.file_statistics().live_bytes;
    assert!(now < live * 3 / 10, "{now} bytes of {live}");
    let all = subject.tree.write_guard();
    all.delete_range(WriteId(10), &[], &[]);
    drop(all);
    settle(&subject, &newest());
    verify(&mut subject);
    assert_eq!(subject.tree.statistics().separate_values, 0);
}

#[test]
fn values_at_the_end_of_the_file_are_moved() {
    let mut subject = subject(options());
    const ROWS: u64 = 2000;
    let is_live = |number: u64| number.is_multiple_of(10) || number > ROWS - 100;
    for number in 0..ROWS {
        put(
            &subject,
            1,
            number,
            &value(number, 1, 3000 + number as usize),
        );
        if number % 100 == 99 {
            flush(&subject, &newest());
        }
    }
    settle(&subject, &newest());
    verify(&mut subject);
    for number in (0..ROWS).filter(|number| !is_live(*number)) {
        delete(&subject, 2, number);
    }
    settle(&subject, &newest());
    // A reader retains the old places until it ends.
    let mut cursor = subject.tree.cursor(ALL);
    let mut more = cursor.seek_first().unwrap();
    reclaim(&mut subject, SpaceGoal::Idle, &newest());
    verify(&mut subject);
    let mut seen = 0;
    while more {
        let (row, bytes) = cursor.entry().unwrap();
        let number = u64::from_be_bytes(row[8..].try_into().unwrap());
        assert!(bytes == value(number, 1, 3000 + number as usize));
        seen += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(seen, (0..ROWS).filter(|number| is_live(*number)).count());
    drop(cursor);
    let moved = reclaim(&mut subject, SpaceGoal::Idle, &newest());
    let file = subject.tree.file_statistics();
    assert!(
        file.file_bytes <= file.live_bytes * 105 / 100 + 80 * 1024,
        "{moved} bytes moved: {file:?}"
    );
    assert!(file.bytes_moved > 0 && file.bytes_moved < file.live_bytes * 3 / 2);
    verify(&mut subject);
    subject.open_again();
    for number in 0..ROWS {
        let expected = is_live(number).then(|| value(number, 1, 3000 + number as usize));
        assert_eq!(get(&subject, number), expected);
    }
}

#[test]
fn few_deletes_of_large_values_make_a_merge_due() {
    let mut subject = subject(options());
    for number in 0..200 {
        put(&subject, 1, number, &value(number, 1, 5000));
    }
    settle(&subject, &newest());
    verify(&mut subject);
    let live = subject.tree.file_statistics().live_bytes;
    for number in 0..150 {
        delete(&subject, 2, number);
    }
    flush(&subject, &newest());
    verify(&mut subject);
    let now = subject.tree.file_statistics().live_bytes;
    assert!(now < live / 2, "{now} bytes of {live}");
}

#[test]
fn snapshots_read_old_values_while_new_ones_arrive() {
    let mut subject = subject(options());
    const ROWS: u64 = 120;
    let mut horizon = Snapshots(Vec::new());
    for version in 1..8 {
        for number in 0..ROWS {
            put(&subject, version, number, &value(number, version, 3000));
        }
        // Every second version remains visible to a snapshot.
        horizon.0 = (1..=version)
            .filter(|at| at % 2 == 0 || *at == version)
            .map(CommitSequence)
            .collect();
        match version % 3 {
            0 => settle(&subject, &horizon),
            _ => flush(&subject, &horizon),
        }
        for at in &horizon.0 {
            for number in (0..ROWS).step_by(7) {
                let found = subject.tree.get(&key(number), &At(at.0)).unwrap();
                assert_eq!(found, Some(value(number, at.0, 3000)));
            }
        }
        verify(&mut subject);
    }
    settle(&subject, &horizon);
    assert_eq!(subject.tree.statistics().separate_values, 4 * ROWS);
    settle(&subject, &newest());
    verify(&mut subject);
    assert_eq!(subject.tree.statistics().separate_values, ROWS);
}

#[test]
fn a_cursor_reads_the_values_of_its_version_until_it_ends() {
    let mut subject = subject(options());
    for number in 0..50 {
        put(&subject, 1, number, &value(number, 1, 3000));
    }
    settle(&subject, &newest());
    let mut cursor = subject.tree.cursor(At(1));
    assert!(cursor.seek_first().unwrap());
    let number_of = |key: &[u8]| u64::from_be_bytes(key[8..].try_into().unwrap());
    for round in 2..6 {
        for number in 0..50 {
            put(&subject, round, number, &value(number, round, 3000));
        }
        settle(&subject, &newest());
        subject.checkpoint().unwrap();
        let (row, bytes) = cursor.entry().unwrap();
        assert_eq!(bytes, value(number_of(row), 1, 3000));
    }
    drop(cursor);
    verify(&mut subject);
}

#[test]
fn a_scan_of_keys_reads_no_values() {
    let mut subject = subject(options());
    for number in 0..200 {
        put(&subject, 1, number, &value(number, 1, 3000));
    }
    settle(&subject, &newest());
    subject.checkpoint().unwrap();
    subject.open_again();
    let mut cursor = subject.tree.cursor(ALL);
    let mut more = cursor.seek_first().unwrap();
    let mut keys = 0;
    while more {
        keys += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(keys, 200);
    let file = subject.tree.file_statistics();
    assert!(file.bytes_read < 60_000, "{file:?}");
    let mut more = cursor.seek_first().unwrap();
    while more {
        cursor.value().unwrap();
        more = cursor.next().unwrap();
    }
    let file = subject.tree.file_statistics();
    assert!(file.bytes_read > 600_000, "{file:?}");
}

#[test]
fn a_value_that_is_large_for_the_cache_evicts_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let cache = Arc::new(PageCache::new(8 << 20));
    let path = std::path::Path::new("/index.teak");
    let options = TreeOptions::default();
    let tree = Tree::create(&disk, path, teak_base::FileId(1), options, &cache).unwrap();
    let guard = tree.write_guard();
    for number in 0..20_000 {
        let small = value(number, 1, 100);
        guard.insert(WriteId(1), Operation::Put, &key(number), &small);
    }
    let large = value(0, 2, 2 << 20);
    guard.insert(WriteId(1), Operation::Put, b"large", &large);
    let medium = value(1, 2, 20 * 1024);
    guard.insert(WriteId(1), Operation::Put, b"medium", &medium);
    drop(guard);
    tree.freeze(|| Lsn(0));
    tree.settle(&newest()).unwrap();
    for number in 0..20_000 {
        assert!(tree.get(&key(number), &ALL).unwrap().is_some());
    }
    let before = cache.statistics();
    let reads = || tree.file_statistics().blocks_read;
    for _ in 0..20 {
        assert!(tree.get(b"large", &ALL).unwrap() == Some(large.clone()));
    }
    let after = cache.statistics();
    assert_eq!(after.blocks, before.blocks, "{after:?}");
    assert_eq!(after.bytes, before.bytes);
    assert!(tree.get(b"medium", &ALL).unwrap() == Some(medium.clone()));
    let first = reads();
    assert!(tree.get(b"medium", &ALL).unwrap() == Some(medium));
    assert_eq!(reads(), first, "a small value is cached");
}

#[test]
fn a_damaged_value_is_an_error_of_its_row_only() {
    let disk = FaultDisk::new(1);
    let mut subject = Subject::create(Arc::new(disk.clone()), options());
    for number in 0..40 {
        put(&subject, 1, number, &value(number, 1, 3000));
    }
    settle(&subject, &newest());
    subject.checkpoint().unwrap();
    // The value does not compress, so its bytes are stored unchanged.
    let wanted = value(7, 1, 3000);
    let file = subject.disk.open(&subject.path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(64).position(|part| part == &wanted[..64]);
    disk.flip_bit(&subject.path, at.unwrap() as u64 + 1000, 3)
        .unwrap();
    subject.open_again();
    for number in 0..40 {
        let found = subject.tree.get(&key(number), &ALL);
        match number {
            7 => assert!(found.unwrap_err().is_corrupt()),
            _ => assert_eq!(found.unwrap(), Some(value(number, 1, 3000))),
        }
    }
    let checked = subject.tree.verify(&mut |_| true);
    assert!(checked.unwrap_err().is_corrupt());
    // Merges do not read the damaged value. After its row is deleted, the tree is intact.
    put(&subject, 2, 8, b"other");
    settle(&subject, &newest());
    delete(&subject, 3, 7);
    settle(&subject, &newest());
    verify(&mut subject);
}

#[test]
fn a_full_disk_leaks_no_values() {
    let disk = FaultDisk::new(3);
    let mut subject = Subject::create(Arc::new(disk.clone()), options());
    for number in 0..100 {
        put(&subject, 1, number, &value(number, 1, 3000));
    }
    settle(&subject, &newest());
    verify(&mut subject);
    for number in 50..150 {
        put(&subject, 2, number, &value(number, 2, 3000));
    }
    subject.tree.freeze(|| Lsn(0));
    let used = subject.tree.file_bytes();
    for more in [1 << 10, 50 << 10, 100 << 10, 250 << 10] {
        disk.set_capacity(Some(used + more));
        let job = subject.tree.next_job().unwrap().unwrap();
        assert!(job.run(&newest()).is_err(), "{more}");
        assert_eq!(get(&subject, 10), Some(value(10, 1, 3000)));
        assert_eq!(get(&subject, 60), Some(value(60, 2, 3000)));
    }
    disk.set_capacity(None);
    settle(&subject, &newest());
    verify(&mut subject);
    for number in 0..150 {
        let version = 1 + u64::from(number >= 50);
        assert_eq!(get(&subject, number), Some(value(number, version, 3000)));
    }
}

/// Write 1 is committed; all later ones are active, or aborted.
struct FirstOnly(WriteStatus, [CommitSequence; 1]);

impl Horizon for FirstOnly {
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

#[test]
fn a_damaged_page_that_nobody_needs_stops_no_merge() {
    let disk = FaultDisk::new(1);
    let mut subject = Subject::create(Arc::new(disk.clone()), options());
    const ROWS: u64 = 200;
    for number in 0..ROWS {
        put(&subject, 1, number, &value(number, 1, 2100));
    }
    settle(&subject, &newest());
    for number in 0..ROWS {
        put(&subject, 2, number, &value(number, 2, 2100));
    }
    let active = FirstOnly(WriteStatus::Active(TransactionId(1)), [CommitSequence(1)]);
    subject.tree.freeze(|| Lsn(1));
    subject
        .tree
        .next_job()
        .unwrap()
        .unwrap()
        .run(&active)
        .unwrap();
    subject.checkpoint().unwrap();
    let length = subject.disk.open(&subject.path).unwrap().len().unwrap();
    // A bit of a page makes some rows unreadable, not one, and not all.
    let is_of_page = |offset: &u64| {
        disk.flip_bit(&subject.path, *offset, 3).unwrap();
        let cache = Arc::new(PageCache::new(64 * 1024));
        let opened = Tree::open(&subject.disk, &subject.path, Some(FileId(7)), &cache);
        let bad = opened.map_or(0, |tree| {
            let is_bad = |number: &u64| tree.get(&key(*number), &ALL).is_err();
            (0..ROWS).filter(is_bad).count()
        });
        disk.flip_bit(&subject.path, *offset, 3).unwrap();
        (2..ROWS as usize).contains(&bad)
    };
    let at = (8192..length).step_by(256).find(is_of_page).unwrap();
    disk.flip_bit(&subject.path, at, 3).unwrap();
    subject.open_again();

    let aborted = FirstOnly(WriteStatus::Aborted, [CommitSequence(1)]);
    while let Some(job) = subject.tree.next_idle_job(&aborted).unwrap() {
        job.run(&aborted).unwrap();
    }
    for number in 0..ROWS {
        assert_eq!(get(&subject, number), Some(value(number, 1, 2100)));
    }
    subject.checkpoint().unwrap();
    subject.tree.verify(&mut |_| true).unwrap();
}

#[test]
fn values_are_freed_in_several_batches() {
    let mut subject = subject(TreeOptions {
        leaf_bytes: 1 << 20,
        run_bytes_max: 1 << 20,
        ..options()
    });
    for version in 1..4 {
        for number in 0..1500 {
            put(&subject, version, number, &value(number, version, 2100));
        }
        settle(&subject, &newest());
        verify(&mut subject);
        assert_eq!(subject.tree.statistics().separate_values, 1500);
    }
}
