//! Failures of the disk, damaged spill files, and interrupts, at every step.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Budget, DIRECTORY, Size, directory, options, scattered, sort};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::StorageError;
use teak_bulk_load::{BulkLoadError, Sorter};
use teak_disk::Disk;
use teak_testing::{FaultDisk, WriteFailure};

/// Several passes over spill files.
const ENTRIES: u64 = 3000;
const SIZES: [Size; 2] = [
    Size {
        bytes: 4000,
        threads: 0,
    },
    Size {
        bytes: 4000,
        threads: 2,
    },
];

/// Plans a failure after so many operations.
type Plan = dyn Fn(&FaultDisk, u64);

/// Sorts with a failure after 0, 1, 2, ... operations, until none fails. Returns the errors.
fn errors(plan: &Plan, left_max: usize) -> Vec<StorageError> {
    let entries = scattered(ENTRIES, u64::MAX);
    let mut errors = Vec::new();
    for size in SIZES {
        for after in 0.. {
            let disk = FaultDisk::new(after);
            let (directory, budget) =
                (directory(&(Arc::new(disk.clone()) as _)), Budget::default());
            plan(&disk, after);
            let options = options(&directory, &budget, size);
            let sorted = sort(options, &entries, &|| false);
            disk.clear_failures();
            let left = disk.list(Path::new(DIRECTORY)).unwrap().len();
            assert!(left <= left_max, "{left} files after {after} operations");
            assert_eq!(budget.reserved(), 0);
            match sorted {
                Ok((found, _)) => {
                    assert!(found.len() == entries.len() && found.is_sorted());
                    if left == 0 {
                        assert!(after > 10, "only {after} operations");
                        break;
                    }
                }
                Err(BulkLoadError::Spill(error)) => errors.push(error),
                Err(error) => panic!("{error}"),
            }
        }
    }
    errors
}

#[test]
fn a_full_disk_ends_the_sort() {
    let found = errors(
        &|disk, after| disk.fail_write(after, WriteFailure::NoSpace),
        0,
    );
    assert!(found.len() > 20 && found.iter().all(StorageError::is_no_space));
}

#[test]
fn failed_reads_end_the_sort() {
    let found = errors(&|disk, after| disk.fail_read(after), 0);
    assert!(found.len() > 20);
    for error in found {
        assert!(error.to_string().contains(DIRECTORY), "{error}");
    }
}

/// The owner of the directory removes a file whose removal has failed.
#[test]
fn failed_creations_end_the_sort_and_failed_removals_leave_one_file() {
    let found = errors(&|disk, after| disk.fail_name_change(after), 1);
    assert!(!found.is_empty());
}

#[test]
fn files_without_names_are_not_seen_by_other_users_of_the_directory() {
    let entries = scattered(ENTRIES, u64::MAX);
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(0));
    let (mut directory, budget) = (directory(&disk), Budget::default());
    directory.without_names = true;
    // Another user has two of the names.
    for name in ["sort.0", "sort.2"] {
        disk.create(&Path::new(DIRECTORY).join(name)).unwrap();
    }
    let [size, _] = SIZES;
    let checks = Arc::new(AtomicU64::new(0));
    let check = {
        let (checks, disk) = (Arc::clone(&checks), Arc::clone(&disk));
        move || {
            checks.fetch_add(1, Ordering::Relaxed);
            assert_eq!(disk.list(Path::new(DIRECTORY)).unwrap().len(), 2);
            false
        }
    };
    let next = Arc::clone(&directory.next);
    let mut sorter = Sorter::new(options(&directory, &budget, size));
    for (key, value) in &entries {
        sorter.add(key, value, &check).unwrap();
    }
    assert!(next.load(Ordering::Relaxed) > 5);
    let mut sorted = sorter.finish(&check).unwrap();
    let mut found = 0;
    while sorted.entry().is_some() {
        found += 1;
        sorted.advance(&check).unwrap();
    }
    assert_eq!(found, entries.len());
    drop(sorted);
    check();
    assert!(checks.load(Ordering::Relaxed) > 3);
}

#[test]
fn an_interrupt_at_any_step_ends_the_sort() {
    let entries = scattered(ENTRIES, u64::MAX);
    for size in SIZES {
        for after in 0.. {
            let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(0));
            let (directory, budget) = (directory(&disk), Budget::default());
            let calls = Arc::new(AtomicU64::new(0));
            let interrupted = {
                let calls = Arc::clone(&calls);
                move || calls.fetch_add(1, Ordering::Relaxed) >= after
            };
            let options = options(&directory, &budget, size);
            let sorted = sort(options, &entries, &interrupted);
            assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
            assert_eq!(budget.reserved(), 0);
            match sorted {
                Ok((found, _)) => {
                    assert!(found.len() == entries.len() && found.is_sorted());
                    assert!(after > ENTRIES / 1024, "{after}");
                    break;
                }
                Err(BulkLoadError::Interrupted) => {
                    assert_eq!(calls.load(Ordering::Relaxed), after + 1);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Each step of a sort in one thread checks for an interrupt after 1024 entries at most.
#[test]
fn interrupts_are_checked_often() {
    let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(0));
    let (directory, budget) = (directory(&disk), Budget::default());
    let calls = Arc::new(AtomicU64::new(0));
    let counted = {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
            false
        }
    };
    let size = Size {
        bytes: 1 << 20,
        threads: 0,
    };
    let entries = scattered(200_000, u64::MAX);
    let (_, progress) = sort(options(&directory, &budget, size), &entries, &counted).unwrap();
    let passed = progress.added + progress.spilled + progress.merged;
    assert!(progress.spilled > 0);
    assert!(calls.load(Ordering::Relaxed) >= passed / 1024);
}

#[test]
fn damaged_spill_files_are_errors() {
    for size in SIZES {
        for seed in 0..60u64 {
            let disk = FaultDisk::new(seed);
            let (directory, budget) =
                (directory(&(Arc::new(disk.clone()) as _)), Budget::default());
            let mut sorter = Sorter::new(options(&directory, &budget, size));
            for (key, value) in &scattered(2000, u64::MAX) {
                sorter.add(key, value, &|| false).unwrap();
            }
            let files = disk.list(Path::new(DIRECTORY)).unwrap();
            let path = files.iter().min().unwrap();
            let bytes = disk.open(path).unwrap().len().unwrap();
            if bytes == 0 {
                // A worker has not written it yet.
                continue;
            }
            let offset = seed * 37 % bytes;
            disk.flip_bit(path, offset, (seed % 8) as u8).unwrap();
            let finish = || {
                let mut sorted = sorter.finish(&|| false)?;
                while sorted.entry().is_some() {
                    sorted.advance(&|| false)?;
                }
                Ok(())
            };
            let error = finish().unwrap_err();
            let BulkLoadError::Spill(error) = error else {
                panic!("{error}");
            };
            assert!(error.is_corrupt(), "{error}");
            assert!(error.to_string().contains(&*path.to_string_lossy()));
            assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
        }
    }
}
