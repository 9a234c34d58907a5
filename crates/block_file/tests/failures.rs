//! Single failures of the disk, and the state of the file after them.

use crate::common::{FILE, PAGE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockFile, read_superblocks};
use teak_disk::Disk;
use teak_testing::{FaultDisk, SyncFailure, WriteFailure};

fn faulty() -> (FaultDisk, Arc<dyn Disk>) {
    let disk = FaultDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    (disk, shared)
}

fn try_checkpoint(file: &BlockFile, payload: &[u8]) -> StorageResult<()> {
    file.prepare_checkpoint()?.commit(payload)
}

fn payload_after_crash(disk: &FaultDisk, seed: u64) -> Vec<u8> {
    let shared: Arc<dyn Disk> = Arc::new(disk.crash(seed));
    open(&shared).1
}

#[test]
fn a_failed_write_returns_the_space_and_leaves_the_file_usable() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    let kept = write(&file, b"kept");
    for failure in [
        WriteFailure::Nothing,
        WriteFailure::Partial,
        WriteFailure::Whole,
        WriteFailure::NoSpace,
    ] {
        let mut writer = file.writer(0);
        writer.write(PAGE, &[1; 50_000]).unwrap();
        disk.fail_write(0, failure);
        writer.finish().unwrap_err();
        let mut writer = file.writer(0);
        disk.fail_write(0, failure);
        writer.write(PAGE, &[1; 500_000]).unwrap_err();
        // The writer does not recover.
        writer.write(PAGE, b"x").unwrap_err();
        writer.finish().unwrap_err();
    }
    let statistics = file.statistics();
    assert_eq!(statistics.live_bytes, 128);
    let next = write(&file, b"next");
    assert_eq!(next.offset, kept.offset + 128);
    checkpoint(&file, b"1");
    assert_eq!(read(&file, kept), b"kept");
    assert_eq!(payload_after_crash(&disk, 1), b"1");
}

#[test]
fn a_full_disk_leaves_the_file_usable() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    let kept = write(&file, &[1; 10_000]);
    checkpoint(&file, b"1");
    disk.set_capacity(Some(100_000));
    let mut writer = file.writer(0);
    writer.write(PAGE, &[2; 90_000]).unwrap();
    let full = writer.finish().unwrap_err();
    assert!(matches!(full, StorageError::NoSpace { .. }), "{full}");
    assert_eq!(disk.used_bytes(), 100_000);
    file.truncate_free_tail();
    assert!(disk.used_bytes() < 30_000);
    let small = write(&file, &[3; 20_000]);
    file.publish(Vec::new(), &[kept]);
    checkpoint(&file, b"2");
    assert_eq!(read(&file, small), vec![3; 20_000]);
}

#[test]
fn creating_on_a_failing_disk_leaves_no_file() {
    let (disk, shared) = faulty();
    disk.fail_write(1, WriteFailure::NoSpace);
    BlockFile::create(&shared, Path::new(PATH), FILE, b"").unwrap_err();
    assert!(!disk.exists(Path::new(PATH)).unwrap());
    disk.fail_sync(0, SyncFailure::Kept);
    BlockFile::create(&shared, Path::new(PATH), FILE, b"").unwrap_err();
    assert!(!disk.exists(Path::new(PATH)).unwrap());
    create(&shared);
}

#[test]
fn a_failed_sync_refuses_later_checkpoints_but_not_reads() {
    // A large checkpoint syncs its blocks before its superblock.
    for (bytes, syncs_before) in [(3, 0), (3_000_000, 0), (3_000_000, 1)] {
        for failure in [SyncFailure::Dropped, SyncFailure::Kept] {
            let (disk, shared) = faulty();
            let file = create(&shared);
            let old = write(&file, b"old");
            checkpoint(&file, b"1");
            let contents = vec![7; bytes];
            let new = write(&file, &contents);
            file.publish(Vec::new(), &[old]);
            disk.fail_sync(syncs_before, failure);
            let failed = try_checkpoint(&file, b"2").unwrap_err();
            assert!(matches!(failed, StorageError::Io { .. }));
            for _ in 0..2 {
                let refused = try_checkpoint(&file, b"3").unwrap_err();
                assert!(matches!(refused, StorageError::Poisoned { .. }));
            }
            assert_eq!(read(&file, new), contents);
            assert!(file.statistics().pending_free_bytes >= 128);
            write(&file, &[1; 100_000]);
            for seed in 0..50 {
                let after: Arc<dyn Disk> = Arc::new(disk.crash(seed));
                let (file, payload) = open(&after);
                if payload == b"1" {
                    assert_eq!(read(&file, old), b"old");
                } else {
                    assert_eq!(payload, b"2");
                    assert!(bytes == 3 || syncs_before == 1);
                    assert_eq!(read(&file, new), contents);
                }
            }
        }
    }
}

#[test]
fn a_prepared_checkpoint_is_refused_after_a_failed_sync() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    disk.fail_sync(0, SyncFailure::Kept);
    let mut prepared = file.prepare_checkpoint().unwrap();
    prepared.commit(b"1").unwrap_err();
    drop(prepared);
    let refused = file.prepare_checkpoint();
    assert!(matches!(refused, Err(StorageError::Poisoned { .. })));
}

/// The write of the superblock fails, although all of it is on disk: a crash may
/// leave either checkpoint, so the space of both must not be reused.
#[test]
fn a_superblock_in_doubt_keeps_the_space_of_both_checkpoints() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    let first = write(&file, &[1; 300]);
    checkpoint(&file, b"1");
    let second = write(&file, &[2; 300]);
    file.publish(Vec::new(), &[first]);
    let mut found = [false; 2];
    // The second write is that of the superblock; the first is the space map.
    disk.fail_write(1, WriteFailure::Whole);
    let failed = try_checkpoint(&file, b"2").unwrap_err();
    assert!(matches!(failed, StorageError::Io { .. }));
    // The freed space of the first block must not be reused.
    let others: Vec<_> = (0..50u8).map(|n| write(&file, &[n; 80])).collect();
    assert!(others.iter().all(|other| other.offset != first.offset));
    for seed in 0..100 {
        let after: Arc<dyn Disk> = Arc::new(disk.crash(seed));
        let (file, payload) = open(&after);
        let two = payload == b"2";
        found[usize::from(two)] = true;
        let (address, byte) = if two { (second, 2) } else { (first, 1) };
        assert_eq!(read(&file, address), vec![byte; 300]);
    }
    assert_eq!(found, [true; 2]);
    checkpoint(&file, b"3");
    assert_eq!(file.statistics().pending_free_bytes, 0);
    assert_eq!(payload_after_crash(&disk, 1), b"3");
}

#[test]
fn a_superblock_written_but_not_synced_may_be_found() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    checkpoint(&file, b"1");
    // Changes of a commit: map, superblock, sync, copy.
    disk.cut_power(2);
    try_checkpoint(&file, b"2").unwrap_err();
    let found: std::collections::BTreeSet<_> = (0..100)
        .map(|seed| payload_after_crash(&disk, seed))
        .collect();
    assert_eq!(found, [b"1".to_vec(), b"2".to_vec()].into());
}

#[test]
fn a_lost_copy_of_the_superblock_does_not_expose_the_durable_one() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    checkpoint(&file, b"1");
    // The third write, after the map and the superblock, is the copy. Its failure is not reported.
    disk.fail_write(2, WriteFailure::Partial);
    checkpoint(&file, b"2");
    disk.cut_power(1);
    try_checkpoint(&file, b"3").unwrap_err();
    for seed in 0..200 {
        let payload = payload_after_crash(&disk, seed);
        assert!(payload == b"2" || payload == b"3");
    }
}

#[test]
fn one_damaged_superblock_does_not_bring_back_an_older_state() {
    for damaged in [0, 4096] {
        let (disk, shared) = faulty();
        let file = create(&shared);
        for payload in [b"1", b"2", b"3"] {
            checkpoint(&file, payload);
        }
        disk.flip_bit(Path::new(PATH), damaged + 100, 3).unwrap();
        let [first, second] = read_superblocks(&shared, Path::new(PATH)).unwrap();
        assert_eq!(first.is_err(), damaged == 0);
        assert_eq!(second.is_err(), damaged != 0);
        drop(file);
        let (file, payload) = open(&shared);
        assert_eq!(payload, b"3");
        // The next checkpoint repairs it.
        checkpoint(&file, b"4");
        let [first, second] = read_superblocks(&shared, Path::new(PATH)).unwrap();
        assert_eq!(first.unwrap(), second.unwrap());
    }
}

/// A process ends after writing a superblock that is not yet durable. The blocks
/// that it lists may be in the operating system's cache only, as clean pages.
#[test]
fn opening_makes_the_superblock_durable_that_it_found() {
    for failure in [SyncFailure::Kept, SyncFailure::Dropped] {
        let (disk, shared) = faulty();
        let file = create(&shared);
        let old = write(&file, &[1; 1000]);
        checkpoint(&file, b"1");
        file.publish(Vec::new(), &[old]);
        let new = write(&file, &[3; 1000]);
        disk.fail_sync(0, failure);
        try_checkpoint(&file, b"2").unwrap_err();
        drop(file);
        let (file, payload) = open(&shared);
        assert_eq!(payload, b"2");
        let reused = write(&file, &[2; 1000]);
        assert_eq!(reused.offset, old.offset);
        for seed in 0..50 {
            let after: Arc<dyn Disk> = Arc::new(disk.crash(seed));
            let (file, payload) = open(&after);
            assert_eq!(payload, b"2");
            assert_eq!(read(&file, new), vec![3; 1000]);
        }
        disk.fail_sync(0, SyncFailure::Kept);
        BlockFile::open(&shared, Path::new(PATH), None).unwrap_err();
    }
}

/// A power loss keeps the superblock and loses some of the blocks that it lists.
#[test]
fn a_superblock_without_its_new_blocks_is_not_used() {
    let mut found = [0; 2];
    for seed in 0..400 {
        let (disk, shared) = faulty();
        let file = create(&shared);
        let old = write(&file, &[1; 5000]);
        checkpoint(&file, b"1");
        file.publish(Vec::new(), &[old]);
        let new = write(&file, &[2; 5000]);
        // The changes of a commit: map, superblock, sync, copy.
        disk.cut_power(2);
        try_checkpoint(&file, b"2").unwrap_err();
        let crashed = disk.crash(seed);
        let shared: Arc<dyn Disk> = Arc::new(crashed.clone());
        let newest = read_superblocks(&shared, Path::new(PATH)).unwrap();
        let newest = newest.into_iter().filter_map(Result::ok);
        let generation = newest.map(|superblock| superblock.generation).max();
        let (file, payload) = open(&shared);
        match payload.as_slice() {
            b"1" => assert_eq!(read(&file, old), vec![1; 5000]),
            _ => assert_eq!(read(&file, new), vec![2; 5000]),
        }
        if generation == Some(3) {
            found[usize::from(payload == b"2")] += 1;
            // A checkpoint that was discarded when the file was opened is never used later.
            write(&file, &[4; 5000]);
            for seed in 0..3 {
                assert_eq!(payload_after_crash(&crashed, seed), payload);
            }
        }
    }
    assert!(found.iter().all(|count| *count > 10), "{found:?}");
}

/// After a process was killed, either copy of the superblock may be the only durable
/// one. The next checkpoint must not overwrite it.
#[test]
fn the_first_checkpoint_after_opening_retains_the_durable_superblock() {
    for checkpoints in 1..=4u8 {
        for cut in 0..6 {
            let (disk, shared) = faulty();
            let file = create(&shared);
            for number in 1..=checkpoints {
                write(&file, &[number; 1000]);
                checkpoint(&file, &[number]);
            }
            drop(file);
            let (file, _) = open(&shared);
            write(&file, &[9; 1000]);
            disk.cut_power(cut);
            let _ = try_checkpoint(&file, b"next");
            for seed in 0..60 {
                let payload = payload_after_crash(&disk, seed);
                assert!(payload == b"next" || payload == [checkpoints]);
            }
        }
    }
}

/// A failed sync may drop the copy of a superblock, which the operating system still shows. If the
/// process is restarted without a power loss, two equal superblocks are found, of which either may
/// be the durable one.
#[test]
fn a_copy_that_a_failed_sync_has_dropped_is_not_relied_on() {
    for checkpoints in 1..=2u8 {
        for (cut, seed) in (0..6).flat_map(|cut| (0..8).map(move |seed| (cut, seed))) {
            let disk = FaultDisk::new(seed);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let file = create(&shared);
            for number in 1..=checkpoints {
                write(&file, &[number; 1000]);
                checkpoint(&file, &[number]);
            }
            // So many blocks are synced before the superblock is written.
            write(&file, &vec![8; 2_000_000]);
            disk.fail_sync(0, SyncFailure::Dropped);
            try_checkpoint(&file, b"failed").unwrap_err();
            drop(file);
            let (file, payload) = open(&shared);
            assert_eq!(payload, [checkpoints]);
            write(&file, &[9; 1000]);
            disk.cut_power(cut);
            let _ = try_checkpoint(&file, b"next");
            for seed in 0..40 {
                let payload = payload_after_crash(&disk, seed);
                assert!(payload == b"next" || payload == [checkpoints]);
            }
        }
    }
}

/// A superblock that cannot be read may be the newest, so `open` does not use the other one;
/// `open_damaged` does.
#[test]
fn an_unreadable_superblock_is_skipped_only_to_read_what_is_left() {
    let faults = FaultDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(faults.clone());
    let file = create(&disk);
    let address = write(&file, b"abc");
    checkpoint(&file, b"state");
    drop(file);
    let path = Path::new(PATH);
    for slot in 0..2 {
        faults.fail_read(slot);
        let refused = BlockFile::open(&disk, path, Some(FILE));
        assert!(matches!(refused, Err(StorageError::Io { .. })), "{slot}");
        faults.fail_read(slot);
        let opened = BlockFile::open_damaged(&disk, path, FILE, 0);
        let (file, payload, unreadable) = opened.unwrap();
        assert_eq!(payload, b"state");
        assert!(matches!(unreadable, Some(StorageError::Io { .. })));
        assert_eq!(read(&file, address), b"abc");
        file.prepare_checkpoint().map(|_| ()).unwrap_err();
    }
    faults.fail_read(0);
    faults.fail_read(1);
    let refused = BlockFile::open_damaged(&disk, path, FILE, 0);
    assert!(matches!(refused, Err(StorageError::Io { .. })));
    let (_, _, unreadable) = BlockFile::open_damaged(&disk, path, FILE, 0).unwrap();
    assert!(unreadable.is_none());
}
