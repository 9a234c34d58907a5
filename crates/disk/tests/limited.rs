//! A limited disk behaves like the disk below it, with fewer open files.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use teak_disk::{Disk, DiskFile, LimitedDisk, MemoryDisk, TemporaryDisk};
use teak_testing::{FaultDisk, GateDisk, Random, SyncFailure};

const LIMIT: usize = 4;
const FILES: usize = 30;

fn disk() -> LimitedDisk {
    let memory = MemoryDisk::new();
    memory.create_directories(Path::new("/data")).unwrap();
    LimitedDisk::new(Arc::new(memory), LIMIT)
}

/// A limited disk over a disk with planned faults.
fn failing_disk() -> (Arc<FaultDisk>, LimitedDisk) {
    let faults = Arc::new(FaultDisk::new(1));
    faults.create_directories(Path::new("/data")).unwrap();
    let disk = LimitedDisk::new(Arc::clone(&faults) as Arc<dyn Disk>, LIMIT);
    (faults, disk)
}

/// A limited disk with one file, which contains the byte 7. Its sync waits at the gate, so a thread
/// that opens another file waits, too.
fn disk_that_waits_to_close_a_file() -> (GateDisk, LimitedDisk, Arc<dyn DiskFile>) {
    let memory = MemoryDisk::new();
    memory.create_directories(Path::new("/data")).unwrap();
    let gate = GateDisk::new(Arc::new(memory));
    let disk = LimitedDisk::new(Arc::new(gate.clone()), 1);
    let file = disk.create(&path(0)).unwrap();
    file.write_all_at(&[7], 0).unwrap();
    gate.hold_syncs("f0");
    (gate, disk, file)
}

fn path(number: usize) -> PathBuf {
    Path::new("/data").join(format!("f{number}"))
}

fn byte_of(file: &dyn DiskFile) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    byte[0]
}

#[test]
fn many_files_are_used_with_few_open() {
    let disk = disk();
    let files: Vec<_> = (0..FILES).map(|n| disk.create(&path(n)).unwrap()).collect();
    let mut random = Random::new(1);
    let mut expected = [0u8; FILES];
    for (file, byte) in files.iter().zip(&expected) {
        file.write_all_at(&[*byte], 0).unwrap();
    }
    for round in 0..2000u32 {
        let at = usize::try_from(random.below(FILES as u64)).unwrap();
        if round % 3 == 0 {
            expected[at] = expected[at].wrapping_add(1);
            files[at].write_all_at(&[expected[at]], 0).unwrap();
        }
        assert_eq!(byte_of(&*files[at]), expected[at], "file {at}");
        assert!(disk.open_files() <= LIMIT, "{} open", disk.open_files());
    }
    drop(files);
    assert_eq!(disk.open_files(), 0);
}

#[test]
fn closed_files_are_found_under_new_names_and_after_removal() {
    let disk = disk();
    let renamed = disk.create(&path(0)).unwrap();
    let removed = disk.create(&path(1)).unwrap();
    let replaced = disk.create(&path(2)).unwrap();
    for (value, file) in [&renamed, &removed, &replaced].into_iter().enumerate() {
        file.write_all_at(&[u8::try_from(value).unwrap()], 0)
            .unwrap();
    }
    let others: Vec<_> = (10..30).map(|n| disk.create(&path(n)).unwrap()).collect();
    disk.remove(&path(1)).unwrap();
    disk.rename(&path(0), &path(2)).unwrap();
    for other in &others {
        other.write_all_at(&[9], 0).unwrap();
    }
    assert_eq!(byte_of(&*renamed), 0);
    assert_eq!(renamed.path(), path(2));
    assert_eq!(byte_of(&*removed), 1);
    assert_eq!(byte_of(&*replaced), 2);
    assert_eq!(byte_of(&*disk.open(&path(2)).unwrap()), 0);
}

/// More files than may be open, so that others are closed.
fn other_files(disk: &LimitedDisk, first: usize) -> Vec<Arc<dyn DiskFile>> {
    let others: Vec<_> = (first..first + 3 * LIMIT)
        .map(|n| disk.create(&path(n)).unwrap())
        .collect();
    others.iter().for_each(|other| other.sync().unwrap());
    others
}

#[test]
fn files_whose_removal_or_replacement_failed_are_closed_and_opened_as_before() {
    let (faults, disk) = failing_disk();
    let files: Vec<_> = (0..LIMIT).map(|n| disk.create(&path(n)).unwrap()).collect();
    for (n, file) in files.iter().enumerate() {
        file.write_all_at(&[u8::try_from(n).unwrap()], 0).unwrap();
        file.sync().unwrap();
    }
    for n in 0..LIMIT {
        faults.fail_name_change(0);
        match n % 2 {
            0 => disk.remove(&path(n)).unwrap_err(),
            _ => disk.rename(&path(n - 1), &path(n)).unwrap_err(),
        };
    }
    let _others = other_files(&disk, 100);
    assert!(disk.open_files() <= LIMIT, "{} open", disk.open_files());
    // The names still belong to these files.
    for n in 0..LIMIT {
        disk.rename(&path(n), &path(10 + n)).unwrap();
    }
    let _others = other_files(&disk, 200);
    for (n, file) in files.iter().enumerate() {
        assert_eq!(usize::from(byte_of(&**file)), n);
    }
}

#[test]
fn a_failed_sync_fails_every_handle_of_a_file_whose_removal_failed() {
    let (faults, disk) = failing_disk();
    let one = disk.create(&path(0)).unwrap();
    let other = disk.open(&path(0)).unwrap();
    faults.fail_name_change(0);
    disk.remove(&path(0)).unwrap_err();
    one.write_all_at(&[1], 0).unwrap();
    faults.fail_sync(0, SyncFailure::Dropped);
    assert!(one.sync().is_err());
    assert!(other.sync().is_err());
}

#[test]
fn an_open_file_remains_open_when_its_name_is_missing() {
    let (faults, disk) = failing_disk();
    let file = disk.create(&path(0)).unwrap();
    file.write_all_at(&[7], 0).unwrap();
    faults.remove(&path(0)).unwrap();
    disk.remove(&path(0)).unwrap_err();
    let _others = other_files(&disk, 100);
    assert_eq!(byte_of(&*file), 7);
}

#[test]
fn a_failed_sync_fails_the_next_sync_of_every_handle() {
    let (faults, disk) = failing_disk();
    let one = disk.create(&path(0)).unwrap();
    let handles = [disk.open(&path(0)).unwrap(), disk.open(&path(0)).unwrap()];
    let other = disk.create(&path(1)).unwrap();
    for file in [&one, &handles[0], &other] {
        file.sync().unwrap();
    }
    one.write_all_at(&[1], 0).unwrap();
    faults.fail_sync(0, SyncFailure::Dropped);
    assert!(handles[0].sync().is_err());
    // The byte is lost: no handle may report it as durable.
    assert!(handles[1].sync().is_err());
    assert!(one.sync().is_err());
    other.sync().unwrap();
}

#[test]
fn a_sync_that_fails_when_a_file_is_closed_fails_all_its_handles() {
    let (faults, disk) = failing_disk();
    let writes = disk.create(&path(0)).unwrap();
    let syncs = disk.open(&path(0)).unwrap();
    syncs.sync().unwrap();
    writes.write_all_at(&[1], 0).unwrap();
    faults.fail_sync(0, SyncFailure::Dropped);
    // Opening other files closes this one.
    let others: Vec<_> = (1..10).map(|n| disk.create(&path(n)).unwrap()).collect();
    faults.clear_failures();
    assert!(writes.sync().is_err());
    assert!(syncs.sync().is_err());
    others.iter().for_each(|other| other.sync().unwrap());
}

#[test]
fn a_temporary_file_is_closed_and_opened_without_a_sync() {
    let (faults, disk) = failing_disk();
    let disk = Arc::new(disk);
    let temporary = TemporaryDisk::new(Arc::clone(&disk) as Arc<dyn Disk>);
    let before = faults.syncs();
    let created: Vec<_> = (0..=LIMIT)
        .map(|n| temporary.create(&path(n)).unwrap())
        .collect();
    let opened: Vec<_> = (0..=LIMIT)
        .map(|n| temporary.open(&path(n)).unwrap())
        .collect();
    for (n, (created, opened)) in created.iter().zip(&opened).enumerate() {
        created.write_all_at(&[0], 0).unwrap();
        opened.write_all_at(&[u8::try_from(n).unwrap()], 0).unwrap();
        created.sync().unwrap();
        opened.sync().unwrap();
    }
    assert!(disk.open_files() <= LIMIT);
    for (n, (created, opened)) in created.iter().zip(&opened).enumerate() {
        assert_eq!(usize::from(byte_of(&**created)), n);
        assert_eq!(usize::from(byte_of(&**opened)), n);
    }
    assert_eq!(faults.syncs(), before);
}

#[test]
fn a_file_is_read_and_renamed_while_it_is_synced_to_be_closed() {
    let (gate, disk, file) = disk_that_waits_to_close_a_file();
    std::thread::scope(|scope| {
        // Opening another file closes this one.
        let opening = scope.spawn(|| disk.create(&path(1)).unwrap());
        gate.wait_for_arrival("f0");
        let (result, found) = mpsc::channel();
        let (disk, file) = (&disk, &file);
        scope.spawn(move || {
            let byte = byte_of(&**file);
            disk.rename(&path(0), &path(2)).unwrap();
            result.send(byte).unwrap();
        });
        let byte = found.recv_timeout(Duration::from_secs(60));
        gate.open_gate("f0");
        assert_eq!(byte.unwrap(), 7);
        let other = opening.join().unwrap();
        other.write_all_at(&[9], 0).unwrap();
    });
    assert_eq!(byte_of(&*file), 7);
    assert_eq!(byte_of(&*disk.open(&path(2)).unwrap()), 7);
}

#[test]
fn a_file_that_was_used_while_it_was_synced_to_be_closed_remains_open() {
    let (gate, disk, file) = disk_that_waits_to_close_a_file();
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| disk.create(&path(1)).unwrap());
        gate.wait_for_arrival("f0");
        assert_eq!(byte_of(&*file), 7);
        gate.open_gate("f0");
        let _other = opening.join().unwrap();
        assert_eq!(disk.open_files(), 2);
    });
}

#[test]
fn files_without_unsynced_writes_are_closed_first() {
    let (faults, disk) = failing_disk();
    let files: Vec<_> = (0..LIMIT).map(|n| disk.create(&path(n)).unwrap()).collect();
    files[3].sync().unwrap();
    let before = faults.syncs();
    let other = disk.create(&path(9)).unwrap();
    assert_eq!(faults.syncs(), before);
    other.sync().unwrap();
}

/// Several threads use more files than may be open, while some of these are renamed.
#[test]
fn threads_find_their_bytes_while_files_are_closed_and_renamed() {
    let disk = disk();
    let files: Vec<_> = (0..FILES).map(|n| disk.create(&path(n)).unwrap()).collect();
    for (n, file) in files.iter().enumerate() {
        file.write_all_at(&[u8::try_from(n).unwrap()], 0).unwrap();
    }
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let files = &files;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for round in 0..500 {
                    let at = usize::try_from(random.below(FILES as u64)).unwrap();
                    assert_eq!(usize::from(byte_of(&*files[at])), at);
                    if round % 7 == 0 {
                        let byte = u8::try_from(at).unwrap();
                        files[at].write_all_at(&[byte], 0).unwrap();
                    }
                }
            });
        }
        let disk = &disk;
        scope.spawn(move || {
            for round in 0..200 {
                let (from, to) = (path(round % 5), path(100 + round % 5));
                disk.rename(&from, &to).unwrap();
                disk.rename(&to, &from).unwrap();
            }
        });
    });
}
