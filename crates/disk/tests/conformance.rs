//! The behaviour that all disks have in common.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use teak_base::StorageError;
use teak_disk::{Disk, LimitedDisk, MemoryDisk, RealDisk, TemporaryDisk};
use teak_testing::FaultDisk;

/// A directory that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("teak-disk-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the check on each disk, in an empty directory.
fn on_every_disk(check: impl Fn(&dyn Disk, &Path)) {
    let scratch = Scratch::new();
    check(&RealDisk, &scratch.0);
    let limited = Scratch::new();
    check(&LimitedDisk::new(Arc::new(RealDisk), 1), &limited.0);
    let directory = Path::new("/data");
    let memory: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let disks: [Arc<dyn Disk>; 3] = [
        Arc::new(MemoryDisk::new()),
        Arc::new(FaultDisk::new(1)),
        Arc::new(LimitedDisk::new(memory, 1)),
    ];
    for disk in disks {
        disk.create_directories(directory).unwrap();
        check(&*disk, directory);
    }
}

#[test]
fn bytes_read_are_the_bytes_written() {
    on_every_disk(|disk, directory| {
        let path = directory.join("f");
        let file = disk.create(&path).unwrap();
        assert_eq!(file.path(), path);
        file.write_all_at(b"world", 6).unwrap();
        file.write_all_at(b"hello,", 0).unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 11);
        let mut bytes = [0; 11];
        let again = disk.open(&path).unwrap();
        again.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"hello,world");
    });
}

#[test]
fn a_gap_reads_as_zeros() {
    on_every_disk(|disk, directory| {
        let file = disk.create(&directory.join("f")).unwrap();
        file.write_all_at(b"x", 5).unwrap();
        file.set_len(8).unwrap();
        let mut bytes = [1; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0\0\0\0x\0\0");
    });
}

#[test]
fn reading_past_the_end_is_corruption() {
    on_every_disk(|disk, directory| {
        let file = disk.create(&directory.join("f")).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        for offset in [1, 3, 1 << 40, u64::MAX >> 1] {
            let error = file.read_exact_at(&mut [0; 3], offset).unwrap_err();
            assert!(error.is_corrupt(), "{error}");
        }
    });
}

#[test]
fn truncated_bytes_do_not_come_back() {
    on_every_disk(|disk, directory| {
        let file = disk.create(&directory.join("f")).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        let mut bytes = [1; 4];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"ab\0\0");
    });
}

#[test]
fn names_are_taken_found_and_replaced() {
    on_every_disk(|disk, directory| {
        let (one, two) = (directory.join("1"), directory.join("2"));
        disk.create(&one).unwrap().write_all_at(b"1", 0).unwrap();
        disk.create(&two).unwrap().write_all_at(b"2", 0).unwrap();
        let taken = disk.create(&one).unwrap_err();
        assert!(matches!(taken, StorageError::AlreadyExists { path } if path == one));
        let mut names = disk.list(directory).unwrap();
        names.sort();
        assert_eq!(names, [one.clone(), two.clone()]);
        disk.rename(&one, &two).unwrap();
        assert!(!disk.exists(&one).unwrap());
        assert!(disk.exists(&two).unwrap());
        let mut byte = [0];
        disk.open(&two)
            .unwrap()
            .read_exact_at(&mut byte, 0)
            .unwrap();
        assert_eq!(&byte, b"1");
        disk.sync_directory(directory).unwrap();
    });
}

#[test]
fn missing_names_are_reported() {
    on_every_disk(|disk, directory| {
        let path = directory.join("none");
        let errors = [
            disk.open(&path).unwrap_err(),
            disk.remove(&path).unwrap_err(),
            disk.rename(&path, &directory.join("2")).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, StorageError::NotFound { .. }), "{error}");
        }
    });
}

#[test]
fn an_open_file_survives_the_removal_of_its_name() {
    on_every_disk(|disk, directory| {
        let path = directory.join("f");
        let file = disk.create(&path).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        disk.remove(&path).unwrap();
        assert!(!disk.exists(&path).unwrap());
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abc");
    });
}

#[test]
fn directories_are_listed_and_exist() {
    on_every_disk(|disk, directory| {
        let inner = directory.join("a").join("b");
        disk.create_directories(&inner).unwrap();
        disk.create_directories(&inner).unwrap();
        assert!(disk.exists(&inner).unwrap());
        assert_eq!(disk.list(directory).unwrap(), [directory.join("a")]);
        assert!(disk.list(&inner).unwrap().is_empty());
    });
}

#[test]
fn threads_write_to_different_ranges() {
    on_every_disk(|disk, directory| {
        let file = disk.create(&directory.join("f")).unwrap();
        std::thread::scope(|scope| {
            for part in 0..4u8 {
                let file = &file;
                scope.spawn(move || {
                    for block in 0..50u64 {
                        let offset = (block * 4 + u64::from(part)) * 100;
                        file.write_all_at(&[part; 100], offset).unwrap();
                    }
                });
            }
        });
        let mut bytes = vec![9; 20_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        for (block, chunk) in bytes.chunks(100).enumerate() {
            assert!(chunk.iter().all(|&byte| usize::from(byte) == block % 4));
        }
    });
}

#[test]
fn reserved_space_changes_neither_length_nor_bytes() {
    on_every_disk(|disk, directory| {
        let file = disk.create(&directory.join("f")).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        file.reserve(1 << 20).unwrap();
        file.reserve(0).unwrap();
        assert_eq!(file.len().unwrap(), 3);
        file.set_len(3).unwrap();
        file.write_all_at(b"def", 3).unwrap();
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abcdef");
    });
}

#[test]
fn a_locked_file_is_refused_until_it_is_unlocked() {
    on_every_disk(|disk, directory| {
        let path = directory.join("lock");
        let lock = disk.lock(&path).unwrap();
        let again = disk.lock(&path).unwrap_err();
        assert!(matches!(again, StorageError::InUse { .. }));
        let _other = disk.lock(&directory.join("other")).unwrap();
        drop(lock);
        let _lock = disk.lock(&path).unwrap();
    });
}

#[test]
fn a_temporary_disk_never_syncs() {
    let faults = Arc::new(FaultDisk::new(1));
    let directory = Path::new("/data");
    faults.create_directories(directory).unwrap();
    let disk = TemporaryDisk::new(Arc::clone(&faults) as Arc<dyn Disk>);
    let path = directory.join("f");
    let file = disk.create(&path).unwrap();
    file.write_all_at(b"lost", 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(directory).unwrap();
    let mut bytes = [0; 4];
    disk.open(&path)
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    assert_eq!(&bytes, b"lost");
    assert_eq!(faults.syncs(), 0);
    assert_eq!(faults.unsynced_bytes(), 4);
}
