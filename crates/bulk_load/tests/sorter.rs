//! Sorts against the sort of a vector, with any memory and any number of threads.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Budget, DIRECTORY, Entries, Size, directory, options, scattered, sort};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_bulk_load::{
    BulkLoadError, NoWorkers, SortProgress, Sorter, SorterOptions, Worker, Workers,
};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::TestKeys;

/// Sorts entries and checks the result and that nothing is left.
fn check(entries: &Entries, size: Size) -> SortProgress {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (directory, budget) = (directory(&disk), Budget::default());
    let options = options(&directory, &budget, size);
    let (mut found, progress) = sort(options, entries, &|| false).unwrap();
    assert!(found.is_sorted_by_key(|(key, _)| key.clone()));
    let mut expected = entries.clone();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(progress.added, entries.len() as u64);
    assert_eq!(progress.merged, entries.len() as u64);
    assert_eq!(budget.reserved(), 0);
    let left = disk.list(Path::new(DIRECTORY)).unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    progress
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        // Many equal keys, keys that are prefixes of others, and long common prefixes.
        proptest::collection::vec(0u8..2, 0..4),
        proptest::collection::vec(0u8..3, 0..3).prop_map(|end| [vec![7; 30], end].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn entries_are_sorted_with_any_memory(
        entries in proptest::collection::vec((keys(), any::<Vec<u8>>()), 0..400),
        ascending: bool,
        bytes in prop_oneof![0usize..2000, 0usize..100_000],
        threads in 0usize..4,
    ) {
        let mut entries = entries;
        if ascending {
            entries.sort();
        }
        check(&entries, Size { bytes, threads });
    }
}

#[test]
fn more_spills_than_are_merged_at_a_time_are_merged_in_steps() {
    let entries = scattered(20_000, u64::MAX);
    for threads in [0, 1, 3] {
        let progress = check(
            &entries,
            Size {
                bytes: 8000,
                threads,
            },
        );
        assert!(progress.spilled > entries.len() as u64, "{progress:?}");
    }
}

#[test]
fn entries_that_fit_into_memory_are_not_spilled() {
    let entries = scattered(20_000, 1000);
    for threads in [0, 1, 3] {
        let progress = check(
            &entries,
            Size {
                bytes: 4 << 20,
                threads,
            },
        );
        assert_eq!(progress.spilled, 0);
    }
    for count in [0, 1] {
        let progress = check(
            &scattered(count, 7),
            Size {
                bytes: 1 << 20,
                threads: 1,
            },
        );
        assert_eq!((progress.added, progress.spilled), (count, 0));
    }
}

#[test]
fn large_sorts_with_spills_are_complete() {
    let entries = scattered(300_000, u64::MAX);
    for threads in [0, 2] {
        let progress = check(
            &entries,
            Size {
                bytes: 2 << 20,
                threads,
            },
        );
        assert!(progress.spilled > 0, "{progress:?}");
    }
}

#[test]
fn entries_larger_than_the_memory_are_sorted() {
    let entries: Entries = (0..40u8)
        .map(|n| (vec![40 - n; 10], vec![n; 50_000]))
        .collect();
    for threads in [0, 2] {
        check(
            &entries,
            Size {
                bytes: 64 << 10,
                threads,
            },
        );
    }
}

/// A thread that ends before it has run its task.
struct Lost;

impl Workers for Lost {
    fn claim(&self) -> Option<Worker> {
        Some(Box::new(drop))
    }
}

#[test]
fn the_end_of_a_worker_is_an_error() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (directory, budget) = (directory(&disk), Budget::default());
    let options = SorterOptions {
        directory,
        memory: budget.take(8000),
        workers: Arc::new(Lost),
    };
    let lost = sort(options, &scattered(1000, 1000), &|| false);
    assert!(matches!(lost, Err(BulkLoadError::Internal(_))));
    assert_eq!(budget.reserved(), 0);
    assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
}

#[test]
fn a_sort_that_is_dropped_leaves_nothing() {
    for threads in [0, 2] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let (directory, budget) = (directory(&disk), Budget::default());
        let size = Size {
            bytes: 16_000,
            threads,
        };
        for steps in [0, 100, 5000, 20_000] {
            let mut sorter = Sorter::new(options(&directory, &budget, size));
            for (key, value) in &scattered(steps, u64::MAX) {
                sorter.add(key, value, &|| false).unwrap();
            }
            assert_eq!(budget.reserved(), 1);
            let mut sorted = sorter.finish(&|| false).unwrap();
            for _ in 0..steps / 2 {
                sorted.advance(&|| false).unwrap();
            }
            assert_eq!(budget.reserved(), 1);
            drop(sorted);
            let mut sorter = Sorter::new(options(&directory, &budget, size));
            for (key, value) in &scattered(steps, u64::MAX) {
                sorter.add(key, value, &|| false).unwrap();
            }
            drop(sorter);
            assert_eq!(budget.reserved(), 0);
            assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
        }
    }
}

#[test]
fn a_sort_needs_no_threads() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let options = SorterOptions {
        directory: directory(&disk),
        memory: Budget::default().take(8000),
        workers: Arc::new(NoWorkers),
    };
    let entries = scattered(5000, u64::MAX);
    assert_eq!(sort(options, &entries, &|| false).unwrap().0.len(), 5000);
}

/// A disk in memory whose spill files are examined when they are removed.
#[test]
fn spill_files_of_an_encrypted_table_are_encrypted() {
    let planted = b"a planted value that is in every entry";
    let entries: Entries = (0..2000u64)
        .map(|n| {
            (
                n.wrapping_mul(77_777).to_le_bytes().to_vec(),
                planted.to_vec(),
            )
        })
        .collect();
    let size = Size {
        bytes: 8000,
        threads: 1,
    };
    for is_encrypted in [false, true] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let (mut directory, budget) = (directory(&disk), Budget::default());
        let keys = Arc::<TestKeys>::default();
        if is_encrypted {
            directory.encryption = keys.encryption(1);
        }
        let mut sorter = Sorter::new(options(&directory, &budget, size));
        for (key, value) in &entries {
            sorter.add(key, value, &|| false).unwrap();
        }
        let mut sorted = sorter.finish(&|| false).unwrap();
        let files = disk.list(Path::new(DIRECTORY)).unwrap();
        assert!(!files.is_empty());
        for path in files {
            let file = disk.open(&path).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let is_found = bytes.windows(20).any(|window| planted.starts_with(window));
            assert_eq!(is_found, !is_encrypted);
        }
        let mut found = 0;
        while let Some((_, value)) = sorted.entry() {
            assert_eq!(value, planted);
            found += 1;
            sorted.advance(&|| false).unwrap();
        }
        assert_eq!(found, entries.len());
    }
}
