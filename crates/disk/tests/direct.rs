//! Files that bypass the cache of the operating system, on the file system.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_disk::{DirectDisk, Disk, DiskFile, LimitedDisk, RealDisk};
use teak_testing::Random;

const FILE_BYTES: usize = 2 << 20;

/// A directory that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn number(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

/// Compares reads of any alignment with the expected content.
fn check_reads(file: &dyn DiskFile, expected: &[u8], random: &mut Random) {
    for _ in 0..200 {
        let start = number(random.below(expected.len() as u64));
        let most = match random.one_in(10) {
            true => expected.len(),
            false => 20_000,
        };
        let length = number(random.below((expected.len() - start).min(most) as u64 + 1));
        let mut found = vec![1; length];
        file.read_exact_at(&mut found, start as u64).unwrap();
        assert!(found == expected[start..start + length], "{start} {length}");
    }
}

/// Writes and reads of any alignment have the same effect as those of an array.
#[test]
fn ranges_of_any_alignment_are_written_and_read() {
    let scratch = Scratch::new("alignment");
    let limited = DirectDisk::new(&scratch.0, "").unwrap();
    let disks: [Arc<dyn Disk>; 2] = [
        Arc::new(DirectDisk::new(&scratch.0, "").unwrap()),
        Arc::new(LimitedDisk::new(Arc::new(limited), 1)),
    ];
    for (disk, name) in disks.into_iter().zip(["a", "b"]) {
        let mut random = Random::new(7);
        let path = scratch.0.join(name);
        let file = disk.create(&path).unwrap();
        let mut expected = vec![0u8; FILE_BYTES];
        let mut end = 0;
        for _ in 0..300 {
            let start = number(random.below(FILE_BYTES as u64));
            let most = [128, 5000, 300_000, FILE_BYTES][number(random.below(4))];
            let length = number(random.below((FILE_BYTES - start).min(most) as u64 + 1));
            let bytes: Vec<u8> = (0..length)
                .map(|_| random.next_u64().to_le_bytes()[0])
                .collect();
            file.write_all_at(&bytes, start as u64).unwrap();
            expected[start..start + length].copy_from_slice(&bytes);
            if length > 0 {
                end = end.max(start + length);
            }
        }
        file.sync().unwrap();
        let bytes = number(file.len().unwrap());
        assert_eq!(bytes, end.next_multiple_of(4096));
        file.set_len(end as u64 - 77).unwrap();
        expected.truncate(end - 77);
        check_reads(&*file, &expected, &mut random);
        let beyond = file.read_exact_at(&mut [0; 2], end as u64 - 78);
        assert!(beyond.unwrap_err().is_corrupt());
        assert!(std::fs::read(&path).unwrap() == expected);
        check_reads(&*RealDisk.open(&path).unwrap(), &expected, &mut random);
        check_reads(&*disk.open(&path).unwrap(), &expected, &mut random);
    }
}

/// Threads write adjacent parts of the same sectors, through two handles.
#[test]
fn concurrent_writes_of_one_sector_lose_nothing() {
    const THREADS: usize = 4;
    const PART: usize = 128;
    let scratch = Scratch::new("sectors");
    let disk = DirectDisk::new(&scratch.0, "").unwrap();
    let path = scratch.0.join("f");
    let files = [disk.create(&path).unwrap(), disk.open(&path).unwrap()];
    let parts = 64 * THREADS;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &files[thread % 2];
            scope.spawn(move || {
                for round in 0..4u8 {
                    for part in (thread..parts).step_by(THREADS) {
                        let byte = round * 60 + u8::try_from(part % 60).unwrap();
                        let offset = (part * PART) as u64;
                        file.write_all_at(&[byte; PART], offset).unwrap();
                    }
                }
            });
        }
    });
    let found = std::fs::read(&path).unwrap();
    assert_eq!(found.len(), parts * PART);
    for (part, bytes) in found.chunks(PART).enumerate() {
        let byte = 180 + u8::try_from(part % 60).unwrap();
        assert!(bytes.iter().all(|found| *found == byte), "{part}");
    }
}

#[test]
fn only_files_with_the_extension_are_direct() {
    let scratch = Scratch::new("extension");
    let disk = DirectDisk::new(&scratch.0, "teak").unwrap();
    for (name, bytes) in [("a.teak", 4096), ("log", 5)] {
        let file = disk.create(&scratch.0.join(name)).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        assert_eq!(file.len().unwrap(), bytes, "{name}");
    }
    assert_eq!(disk.list(&scratch.0).unwrap().len(), 2);
}

#[test]
fn a_directory_without_direct_io_is_refused() {
    assert!(DirectDisk::new(Path::new("/proc/none"), "").is_err());
}
