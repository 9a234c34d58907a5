//! The state of the file after single failures of the disk.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FILE, PAGE, PATH, checkpoint, create, open, read, write};
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
    file.prepare_checkpoint(payload.to_vec())?.commit()
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
    for (syncs_before, failure) in [
        (0, SyncFailure::Dropped),
        (0, SyncFailure::Kept),
        (1, SyncFailure::Dropped),
        (1, SyncFailure::Kept),
    ] {
        let (disk, shared) = faulty();
        let file = create(&shared);
        let old = write(&file, b"old");
        checkpoint(&file, b"1");
        let new = write(&file, b"new");
        file.publish(Vec::new(), &[old]);
        disk.fail_sync(syncs_before, failure);
        let failed = try_checkpoint(&file, b"2").unwrap_err();
        assert!(matches!(failed, StorageError::Io { .. }));
        for _ in 0..2 {
            let refused = try_checkpoint(&file, b"3").unwrap_err();
            assert!(matches!(refused, StorageError::Poisoned { .. }));
        }
        assert_eq!(read(&file, new), b"new");
        assert!(file.statistics().pending_free_bytes >= 128);
        write(&file, &[1; 100_000]);
        for seed in 0..50 {
            let after: Arc<dyn Disk> = Arc::new(disk.crash(seed));
            let (file, payload) = open(&after);
            if payload == b"1" {
                assert_eq!(read(&file, old), b"old");
            } else {
                assert_eq!(payload, b"2");
                assert_eq!(syncs_before, 1);
                assert_eq!(read(&file, new), b"new");
            }
        }
    }
}

#[test]
fn a_prepared_checkpoint_is_refused_after_a_failed_sync() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    disk.fail_sync(0, SyncFailure::Kept);
    let prepared = file.prepare_checkpoint(b"1".to_vec()).unwrap();
    prepared.commit().unwrap_err();
    let refused = file.prepare_checkpoint(b"2".to_vec());
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
    // The space map, then the superblock.
    disk.fail_write(1, WriteFailure::Whole);
    let failed = try_checkpoint(&file, b"2").unwrap_err();
    assert!(matches!(failed, StorageError::Io { .. }));
    // Writes many blocks, which must not use that space.
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
    // Changes of a commit: map, sync, superblock, sync, copy.
    disk.cut_power(3);
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
    // The third write is the copy of the superblock. Its failure is not
    // reported.
    disk.fail_write(2, WriteFailure::Partial);
    checkpoint(&file, b"2");
    disk.cut_power(2);
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

/// A process ends after it has written a superblock without a sync.
#[test]
fn opening_makes_the_superblock_durable_that_it_found() {
    let (disk, shared) = faulty();
    let file = create(&shared);
    let old = write(&file, &[1; 1000]);
    checkpoint(&file, b"1");
    file.publish(Vec::new(), &[old]);
    // The superblock is written, the sync after it does not happen.
    disk.fail_sync(1, SyncFailure::Kept);
    try_checkpoint(&file, b"2").unwrap_err();
    drop(file);
    let (file, payload) = open(&shared);
    assert_eq!(payload, b"2");
    let reused = write(&file, &[2; 1000]);
    assert_eq!(reused.offset, old.offset);
    for seed in 0..50 {
        assert_eq!(payload_after_crash(&disk, seed), b"2");
    }
    disk.fail_sync(0, SyncFailure::Kept);
    BlockFile::open(&shared, Path::new(PATH), None).unwrap_err();
}
