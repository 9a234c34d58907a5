//! The faults and power losses of the fault disk.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::Path;
use teak_base::{StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};
use teak_testing::{FaultDisk, SyncFailure, WriteFailure};

const DIRECTORY: &str = "/d";
const FILE: &str = "/d/f";

/// A disk with one durable file.
fn disk_with(bytes: &[u8]) -> (FaultDisk, std::sync::Arc<dyn DiskFile>) {
    let disk = FaultDisk::new(3);
    disk.create_directories(Path::new(DIRECTORY)).unwrap();
    let file = disk.create(Path::new(FILE)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    (disk, file)
}

fn contents(disk: &FaultDisk, path: &str) -> StorageResult<Vec<u8>> {
    let file = disk.open(Path::new(path))?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap()];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn outcomes(disk: &FaultDisk) -> BTreeSet<Vec<u8>> {
    (0..300)
        .map(|seed| contents(&disk.crash(seed), FILE).unwrap())
        .collect()
}

#[test]
fn synced_bytes_survive_every_crash() {
    let (disk, _file) = disk_with(b"durable");
    assert_eq!(outcomes(&disk), BTreeSet::from([b"durable".to_vec()]));
    assert_eq!(disk.unsynced_bytes(), 0);
}

#[test]
fn a_directory_is_durable_when_the_one_above_it_is_synced() {
    let (disk, _file) = disk_with(b"durable");
    let inner = Path::new("/d/a/b");
    let path = inner.join("f");
    disk.create_directories(inner).unwrap();
    disk.create(&path).unwrap().sync().unwrap();
    disk.sync_directory(inner).unwrap();
    let outcomes = || -> BTreeSet<(bool, bool)> {
        let after = (0..300).map(|seed| disk.crash(seed));
        let exists = |disk: &FaultDisk, path: &Path| disk.exists(path).unwrap();
        after
            .map(|disk| (exists(&disk, &path), exists(&disk, Path::new("/d/a"))))
            .collect()
    };
    let all = [(false, false), (false, true), (true, true)];
    assert_eq!(outcomes(), BTreeSet::from(all));
    disk.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(outcomes(), BTreeSet::from([(false, true), (true, true)]));
    disk.sync_directory(Path::new("/d/a")).unwrap();
    assert_eq!(outcomes(), BTreeSet::from([(true, true)]));
}

#[test]
fn unsynced_writes_are_lost_kept_or_reordered() {
    let (disk, file) = disk_with(&[0; 2]);
    file.write_all_at(b"1", 0).unwrap();
    file.write_all_at(b"2", 1).unwrap();
    assert_eq!(disk.unsynced_bytes(), 2);
    let all: BTreeSet<Vec<u8>> = [b"\0\0", b"1\0", b"\x002", b"12"]
        .map(|bytes| bytes.to_vec())
        .into();
    assert_eq!(outcomes(&disk), all);
}

#[test]
fn writes_of_one_sector_keep_their_order() {
    let (disk, file) = disk_with(b"0");
    file.write_all_at(b"1", 0).unwrap();
    file.write_all_at(b"2", 0).unwrap();
    // The outcomes are: both writes are lost, only the first one survives, or the second one
    // survives. The first write never replaces the second.
    let all: BTreeSet<Vec<u8>> = [b"0", b"1", b"2"].map(|bytes| bytes.to_vec()).into();
    assert_eq!(outcomes(&disk), all);
    file.sync().unwrap();
    assert_eq!(outcomes(&disk).len(), 1);
}

#[test]
fn writes_tear_between_sectors_only() {
    let (disk, file) = disk_with(&[0; 2048]);
    file.write_all_at(&[1; 1500], 300).unwrap();
    let mut torn = 0;
    for bytes in outcomes(&disk) {
        let pieces = [
            &bytes[300..512],
            &bytes[512..1024],
            &bytes[1024..1536],
            &bytes[1536..1800],
        ];
        let first = pieces.map(|piece| piece[0]);
        for piece in pieces {
            assert!(piece.iter().all(|&byte| byte == piece[0]));
        }
        torn += usize::from(first != [0; 4] && first != [1; 4]);
        assert!(
            bytes[..300]
                .iter()
                .chain(&bytes[1800..])
                .all(|&byte| byte == 0)
        );
    }
    assert!(torn > 5);
}

#[test]
fn an_unsynced_truncation_may_be_undone() {
    let (disk, file) = disk_with(b"abcd");
    file.set_len(1).unwrap();
    let all: BTreeSet<Vec<u8>> = [b"abcd".to_vec(), b"a".to_vec()].into();
    assert_eq!(outcomes(&disk), all);
}

#[test]
fn names_are_durable_once_their_directory_is_synced() {
    let disk = FaultDisk::new(0);
    let (one, two) = (Path::new("/d/1"), Path::new("/d/2"));
    disk.create(one).unwrap().sync().unwrap();
    let found = |disk: &FaultDisk| -> BTreeSet<(bool, bool)> {
        (0..100)
            .map(|seed| disk.crash(seed))
            .map(|disk| (disk.exists(one).unwrap(), disk.exists(two).unwrap()))
            .collect()
    };
    assert_eq!(found(&disk), [(false, false), (true, false)].into());
    disk.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(found(&disk), [(true, false)].into());
    disk.rename(one, two).unwrap();
    assert_eq!(found(&disk), [(true, false), (false, true)].into());
    disk.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(found(&disk), [(false, true)].into());
    disk.remove(two).unwrap();
    assert_eq!(found(&disk), [(false, true), (false, false)].into());
    disk.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(found(&disk), [(false, false)].into());
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_one() {
    let (disk, _file) = disk_with(b"old");
    let new = disk.create(Path::new("/d/new")).unwrap();
    new.write_all_at(b"new", 0).unwrap();
    new.sync().unwrap();
    disk.rename(Path::new("/d/new"), Path::new(FILE)).unwrap();
    let all: BTreeSet<Vec<u8>> = [b"old".to_vec(), b"new".to_vec()].into();
    assert_eq!(outcomes(&disk), all);
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    assert_eq!(outcomes(&disk), [b"new".to_vec()].into());
}

#[test]
fn a_rename_into_another_directory_leaves_one_name() {
    let disk = FaultDisk::new(0);
    disk.create(Path::new("/a/f")).unwrap();
    disk.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    disk.sync_directory(Path::new("/b")).unwrap();
    for seed in 0..50 {
        let after = disk.crash(seed);
        assert!(!after.exists(Path::new("/a/f")).unwrap());
        assert!(after.exists(Path::new("/b/f")).unwrap());
    }
}

#[test]
fn a_crash_replays_from_its_seed() {
    let (disk, file) = disk_with(&[0; 100]);
    for number in 0..50u8 {
        file.write_all_at(&[number; 700], u64::from(number) * 300)
            .unwrap();
    }
    for seed in 0..20 {
        let one = contents(&disk.crash(seed), FILE).unwrap();
        assert_eq!(one, contents(&disk.crash(seed), FILE).unwrap());
    }
    assert!(outcomes(&disk).len() > 50);
}

#[test]
fn the_planned_write_fails_and_no_other() {
    let (disk, file) = disk_with(&[0; 4]);
    disk.fail_write(1, WriteFailure::Nothing);
    file.write_all_at(b"a", 0).unwrap();
    assert!(matches!(
        file.write_all_at(b"b", 1),
        Err(StorageError::Io { .. })
    ));
    file.write_all_at(b"c", 2).unwrap();
    assert_eq!(contents(&disk, FILE).unwrap(), b"a\0c\0");
    disk.fail_write(0, WriteFailure::Whole);
    file.write_all_at(b"d", 3).unwrap_err();
    assert_eq!(contents(&disk, FILE).unwrap(), b"a\0cd");
    disk.fail_write(0, WriteFailure::NoSpace);
    let failed = file.set_len(100);
    assert!(matches!(failed, Err(StorageError::NoSpace { .. })));
    assert_eq!(file.len().unwrap(), 4);
}

#[test]
fn a_partial_write_leaves_a_front() {
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        let file = disk.create(Path::new(FILE)).unwrap();
        disk.fail_write(0, WriteFailure::Partial);
        file.write_all_at(&[1; 10], 0).unwrap_err();
        let bytes = contents(&disk, FILE).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 1));
        lengths.insert(bytes.len());
    }
    assert!(lengths.len() > 5);
    assert!(lengths.iter().all(|&length| length <= 10));
}

#[test]
fn a_failed_sync_may_drop_what_reads_still_show() {
    let (disk, file) = disk_with(&[0; 40]);
    for offset in 0..40 {
        file.write_all_at(b"1", offset).unwrap();
    }
    disk.fail_sync(0, SyncFailure::Dropped);
    file.sync().unwrap_err();
    assert_eq!(contents(&disk, FILE).unwrap(), [b'1'; 40]);
    // The next sync succeeds, but does not write the dropped bytes.
    file.sync().unwrap();
    let found = outcomes(&disk);
    assert_eq!(found.len(), 1);
    let bytes = found.into_iter().next().unwrap();
    assert!(bytes.contains(&0) && bytes.contains(&b'1'));
}

#[test]
fn a_failed_sync_may_be_repeated_when_nothing_was_dropped() {
    let (disk, file) = disk_with(b"0");
    file.write_all_at(b"1", 0).unwrap();
    disk.fail_sync(0, SyncFailure::Kept);
    file.sync().unwrap_err();
    assert_eq!(outcomes(&disk).len(), 2);
    file.sync().unwrap();
    assert_eq!(outcomes(&disk), [b"1".to_vec()].into());
}

#[test]
fn a_full_disk_writes_the_part_that_fits() {
    let (disk, file) = disk_with(&[0; 10]);
    disk.set_capacity(Some(25));
    let other = disk.create(Path::new("/d/g")).unwrap();
    other.write_all_at(&[1; 10], 0).unwrap();
    let full = other.write_all_at(&[2; 10], 10).unwrap_err();
    assert!(matches!(full, StorageError::NoSpace { .. }));
    assert_eq!(other.len().unwrap(), 15);
    // Existing bytes can be overwritten.
    file.write_all_at(&[3; 10], 0).unwrap();
    let full = file.set_len(11).unwrap_err();
    assert!(matches!(full, StorageError::NoSpace { .. }));
    drop(other);
    disk.remove(Path::new("/d/g")).unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    file.set_len(25).unwrap();
}

#[test]
fn planned_reads_and_name_changes_fail_without_effect() {
    let (disk, file) = disk_with(b"abc");
    disk.fail_read(0);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap_err();
    file.read_exact_at(&mut byte, 0).unwrap();
    disk.fail_name_change(0);
    disk.remove(Path::new(FILE)).unwrap_err();
    assert!(disk.exists(Path::new(FILE)).unwrap());
    disk.fail_name_change(0);
    disk.clear_failures();
    disk.remove(Path::new(FILE)).unwrap();
}

#[test]
fn without_power_nothing_works() {
    let (disk, file) = disk_with(b"abc");
    disk.cut_power(1);
    file.write_all_at(b"d", 0).unwrap();
    file.sync().unwrap_err();
    file.write_all_at(b"e", 0).unwrap_err();
    file.read_exact_at(&mut [0], 0).unwrap_err();
    disk.open(Path::new(FILE)).unwrap_err();
    disk.exists(Path::new(FILE)).unwrap_err();
    let all: BTreeSet<Vec<u8>> = [b"abc".to_vec(), b"dbc".to_vec()].into();
    assert_eq!(outcomes(&disk), all);
}

#[test]
fn a_flipped_bit_stays_flipped() {
    let (disk, file) = disk_with(b"abc");
    file.write_all_at(b"b", 1).unwrap();
    disk.flip_bit(Path::new(FILE), 1, 0).unwrap();
    assert_eq!(contents(&disk, FILE).unwrap(), b"acc");
    file.sync().unwrap();
    assert_eq!(outcomes(&disk), [b"acc".to_vec()].into());
    disk.flip_bit(Path::new(FILE), 3, 0).unwrap_err();
    disk.flip_bit(Path::new("/none"), 0, 0).unwrap_err();
}

#[test]
fn reserved_space_is_available_on_a_full_disk() {
    let disk = FaultDisk::new(1);
    let file = disk.create(Path::new("/f")).unwrap();
    file.write_all_at(b"ab", 0).unwrap();
    file.reserve(100).unwrap();
    assert_eq!(file.len().unwrap(), 2);
    assert_eq!(disk.used_bytes(), 100);
    disk.set_capacity(Some(100));
    assert!(file.reserve(101).unwrap_err().is_no_space());
    let other = disk.create(Path::new("/g")).unwrap();
    assert!(other.write_all_at(b"x", 0).unwrap_err().is_no_space());
    file.write_all_at(&[7; 98], 2).unwrap();
    assert!(file.write_all_at(b"x", 100).unwrap_err().is_no_space());
    // Setting the length frees reserved space, even if the length does not change.
    file.set_len(10).unwrap();
    file.reserve(50).unwrap();
    file.set_len(10).unwrap();
    assert_eq!(disk.used_bytes(), 10);
    // A file without a name and a handle takes no space.
    drop(file);
    disk.remove(Path::new("/f")).unwrap();
    assert_eq!(disk.used_bytes(), 0);
}
