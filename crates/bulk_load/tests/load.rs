//! Trees built from entries in any order, against a sorted map.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Budget, DIRECTORY, Entries, Size, Threads, directory, options, scattered};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use teak_base::{FileId, StorageError, WriteId};
use teak_bulk_load::{
    BulkLoadError, Interrupted, LoadError, LoadObserver, OrderedLoad, SortedLoad, Worker, Workers,
};
use teak_disk::Disk;
use teak_testing::{FaultDisk, WriteFailure};
use teak_tree::{PageCache, Tree, TreeOptions, Visibility};

/// A reader of settled entries only.
struct Settled;

impl Visibility for Settled {
    fn is_visible(&self, id: WriteId) -> bool {
        id.is_settled()
    }
}

fn tree(disk: &Arc<dyn Disk>) -> Arc<Tree> {
    let cache = Arc::new(PageCache::new(1 << 20));
    let (path, id) = (Path::new("/tree"), FileId(1));
    let tree = Tree::create(disk, path, id, TreeOptions::tiny(), &cache).unwrap();
    tree.await_base();
    tree
}

fn entries_of(tree: &Arc<Tree>) -> Entries {
    let mut cursor = tree.cursor(Arc::new(Settled));
    let mut found = Vec::new();
    let mut is_valid = cursor.seek_first().unwrap();
    while is_valid {
        found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        is_valid = cursor.next().unwrap();
    }
    tree.verify(&mut |_| true).unwrap();
    found
}

/// Collects duplicates, up to a number.
#[derive(Default)]
struct Observer {
    written: u64,
    /// Those that workers have written.
    by_workers: u64,
    duplicates: Entries,
    duplicates_max: usize,
}

impl LoadObserver for Observer {
    type Error = &'static str;

    fn check(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn written(&mut self, entries: u64) {
        self.written += entries;
        self.by_workers += if entries > 1 { entries } else { 0 };
    }

    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error> {
        if self.duplicates.len() == self.duplicates_max {
            return Err("duplicate");
        }
        self.duplicates.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
}

/// Builds a tree. Returns the number of entries that were spilled.
fn build(
    disk: &FaultDisk,
    tree: &Arc<Tree>,
    entries: &Entries,
    size: Size,
    interrupted: &Interrupted,
    observer: &mut Observer,
) -> Result<u64, LoadError<&'static str>> {
    let directory = directory(&(Arc::new(disk.clone()) as _));
    let mut load = SortedLoad::new(options(&directory, &Budget::default(), size));
    for (key, value) in entries {
        load.add(tree, key, value, interrupted)?;
    }
    assert_eq!(load.entries(), entries.len() as u64);
    let spilled = load.progress().spilled;
    tree.install_base(load.finish(tree, interrupted, observer)?);
    Ok(spilled)
}

/// Builds a tree and compares its entries. Returns the number of entries that were spilled.
fn check(entries: &Entries, size: Size) -> u64 {
    let disk = FaultDisk::new(1);
    let tree = tree(&(Arc::new(disk.clone()) as _));
    let mut observer = Observer {
        duplicates_max: usize::MAX,
        ..Observer::default()
    };
    let spilled = build(&disk, &tree, entries, size, &|| false, &mut observer).unwrap();
    let found = entries_of(&tree);
    assert_eq!(observer.written, found.len() as u64);
    let keys: BTreeMap<&[u8], ()> = entries
        .iter()
        .map(|(key, _)| (key.as_slice(), ()))
        .collect();
    let is_key = |((key, _), expected): (&(Vec<u8>, Vec<u8>), &&[u8])| key == expected;
    assert!(found.len() == keys.len() && found.iter().zip(keys.keys()).all(is_key));
    // The entries of the tree and the duplicates are all entries.
    let mut all = [found, observer.duplicates].concat();
    let mut expected = entries.clone();
    all.sort();
    expected.sort();
    assert_eq!(all, expected);
    assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
    spilled
}

fn ordered(count: u64) -> Entries {
    let entry = |n: u64| (n.to_be_bytes().to_vec(), vec![7; 12]);
    (0..count).map(entry).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn trees_have_the_entries_that_were_added(
        ordered_count in 0u64..3000,
        rest in proptest::collection::vec((0u64..4000, 0usize..400), 0..200),
        bytes in 0usize..100_000,
        threads in 0usize..5,
    ) {
        let mut entries = ordered(ordered_count);
        entries.extend(rest.iter().map(|(n, length)| (n.to_be_bytes().to_vec(), vec![1; *length])));
        check(&entries, Size { bytes, threads });
    }
}

#[test]
fn entries_in_key_order_are_not_spilled() {
    for threads in [0, 2] {
        let size = Size {
            bytes: 64 << 10,
            threads,
        };
        assert_eq!(check(&ordered(20_000), size), 0);
        let mut late = ordered(20_000);
        late.push(((5000u64).to_be_bytes().to_vec(), vec![1; 300]));
        late.push(((5000u64).to_be_bytes().to_vec(), vec![2; 300]));
        assert_eq!(check(&late, size), 0, "the leaves are merged with the rest");
        late.extend(scattered(20_000, u64::MAX));
        assert!(check(&late, size) > 0);
        let mut twice = ordered(10_000);
        twice.extend(ordered(10_000));
        check(&twice, size);
    }
}

/// Enough memory for all, or for a part; so many threads.
const DIVIDED: [Size; 3] = [
    Size {
        bytes: 8 << 20,
        threads: 4,
    },
    Size {
        bytes: 768 << 10,
        threads: 1,
    },
    Size {
        bytes: 1 << 20,
        threads: 4,
    },
];

#[test]
fn ranges_are_written_by_several_threads() {
    for size in DIVIDED {
        let scattered = scattered(20_000, u64::MAX);
        check(&scattered, size);
        // Many duplicates in all ranges.
        let twice = [scattered.clone(), scattered.clone()].concat();
        check(&twice, size);
        // Most entries have the same key.
        let mut equal = vec![(vec![1; 100], vec![7; 10]); 5000];
        equal.extend(scattered.into_iter().take(2000));
        check(&equal, size);
        // Keys with the same first bytes.
        let long = |n: u64| ([vec![5; 80], n.to_be_bytes().to_vec()].concat(), vec![1]);
        check(
            &(0..20_000).map(|n| long(n * 7919 % 20_000)).collect(),
            size,
        );
        // Ordered ones, others between them, and large ones.
        let mut mixed = ordered(20_000);
        let others = (0..20_000u64).map(|n| (n * 7919 % 20_000).to_be_bytes());
        mixed.extend(others.map(|key| ([&key[..], &[0]].concat(), vec![2; 10])));
        mixed.extend((0..50u64).map(|n| ((n << 50).to_be_bytes().to_vec(), vec![3; 200_000])));
        check(&mixed, size);
    }
}

#[test]
fn workers_write_ranges() {
    for size in DIVIDED {
        let entries = scattered(60_000, u64::MAX);
        // The caller may write all ranges before a worker has begun.
        let is_by_worker = (0..200).any(|_| {
            let disk = FaultDisk::new(1);
            let tree = tree(&(Arc::new(disk.clone()) as _));
            let mut observer = Observer::default();
            build(&disk, &tree, &entries, size, &|| false, &mut observer).unwrap();
            assert_eq!(observer.written, 60_000);
            observer.by_workers > 0
        });
        assert!(is_by_worker, "{size:?}");
    }
}

/// Loses the tasks of some threads.
struct Lossy {
    threads: Arc<Threads>,
    left: AtomicUsize,
}

impl Workers for Lossy {
    fn claim(&self) -> Option<Worker> {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            0 => {
                self.left.store(usize::MAX, Ordering::SeqCst);
                Some(Box::new(drop))
            }
            _ => self.threads.claim(),
        }
    }
}

#[test]
fn a_lost_task_is_an_error() {
    let mut lost = 0;
    for left in 0.. {
        let disk = FaultDisk::new(1);
        let tree = tree(&(Arc::new(disk.clone()) as _));
        let directory = directory(&(Arc::new(disk.clone()) as _));
        let workers = Arc::new(Lossy {
            threads: Threads::new(3),
            left: AtomicUsize::new(left),
        });
        let mut options = options(&directory, &Budget::default(), DIVIDED[2]);
        options.workers = Arc::clone(&workers) as _;
        let mut load = SortedLoad::new(options);
        let entries = scattered(30_000, u64::MAX);
        let add = |(key, value): &(Vec<u8>, Vec<u8>)| load.add(&tree, key, value, &|| false);
        let added = entries.iter().try_for_each(add);
        let finish = || load.finish(&tree, &|| false, &mut Observer::default());
        let built = added.map_err(LoadError::Failed).and_then(|()| finish());
        if workers.left.load(Ordering::SeqCst) < usize::MAX / 2 {
            assert_eq!(built.unwrap().entries(), 30_000);
            break;
        }
        assert!(matches!(
            built,
            Err(LoadError::Failed(BulkLoadError::Internal(_)))
        ));
        lost += 1;
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn ranges_above_other_entries_are_few() {
    let disk = FaultDisk::new(1);
    let tree = tree(&(Arc::new(disk.clone()) as _));
    let mut observer = Observer::default();
    let base = scattered(1000, u64::MAX);
    build(&disk, &tree, &base, DIVIDED[0], &|| false, &mut observer).unwrap();
    let directory = directory(&(Arc::new(disk.clone()) as _));
    let load = tree.begin_load(WriteId(7));
    let children = load.divisions_max() / 2;
    let mut load = SortedLoad::of(options(&directory, &Budget::default(), DIVIDED[0]), load);
    for (key, value) in scattered(200_000, u64::MAX - 1) {
        load.add(&tree, &key, &value, &|| false).unwrap();
    }
    let loaded = load.finish(&tree, &|| false, &mut observer).unwrap();
    let runs = loaded.runs().count();
    assert!(
        runs <= 4 * children + 4,
        "{runs} runs for {children} children"
    );
}

#[test]
fn large_values_are_read_again_from_leaves() {
    let large = |n: u64| (n.to_be_bytes().to_vec(), vec![3; 300]);
    let mut entries: Entries = (0..2000).map(large).collect();
    entries.push((vec![0], vec![5]));
    assert_eq!(
        check(
            &entries,
            Size {
                bytes: 64 << 10,
                threads: 1
            }
        ),
        0
    );
}

#[test]
fn a_duplicate_is_reported_with_its_value() {
    for count in [10, 20_000] {
        let mut entries = ordered(count);
        entries.push((3u64.to_be_bytes().to_vec(), vec![9]));
        let disk = FaultDisk::new(1);
        let tree = tree(&(Arc::new(disk.clone()) as _));
        let size = Size {
            bytes: 64 << 10,
            threads: 1,
        };
        let mut observer = Observer::default();
        let error = build(&disk, &tree, &entries, size, &|| false, &mut observer).unwrap_err();
        assert!(matches!(error, LoadError::Caller("duplicate")));
    }
}

/// All entries in order at first, with large leaves on the disk, then some that are not.
fn partly_ordered() -> Entries {
    let mut entries = ordered(3000);
    // The first key is zero, a duplicate.
    entries.extend(scattered(500, u64::MAX).split_off(1));
    entries
}

#[test]
fn failures_of_the_disk_end_the_build() {
    let size = Size {
        bytes: 32 << 10,
        threads: 0,
    };
    let plans: [fn(&FaultDisk, u64); 2] = [
        |disk, after| disk.fail_write(after, WriteFailure::NoSpace),
        |disk, after| disk.fail_read(after),
    ];
    for plan in plans {
        let mut failed = 0;
        for after in (0..).step_by(7) {
            let disk = FaultDisk::new(after);
            let tree = tree(&(Arc::new(disk.clone()) as _));
            plan(&disk, after);
            let mut observer = Observer::default();
            let built = build(
                &disk,
                &tree,
                &partly_ordered(),
                size,
                &|| false,
                &mut observer,
            );
            disk.clear_failures();
            assert!(
                disk.list(Path::new(DIRECTORY))
                    .unwrap_or_default()
                    .is_empty()
            );
            match built {
                Ok(_) => break,
                Err(LoadError::Failed(BulkLoadError::Spill(_) | BulkLoadError::Index(_))) => {
                    failed += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(failed > 2, "{failed}");
    }
}

#[test]
fn an_interrupt_at_any_step_ends_the_build() {
    for threads in [0, 2] {
        let size = Size {
            bytes: 32 << 10,
            threads,
        };
        for after in 0.. {
            let disk = FaultDisk::new(1);
            let tree = tree(&(Arc::new(disk.clone()) as _));
            let calls = AtomicU64::new(0);
            let interrupted = move || calls.fetch_add(1, Ordering::Relaxed) >= after;
            let mut observer = Observer::default();
            let built = build(
                &disk,
                &tree,
                &partly_ordered(),
                size,
                &interrupted,
                &mut observer,
            );
            assert!(disk.list(Path::new(DIRECTORY)).unwrap().is_empty());
            match built {
                Ok(_) => {
                    assert!(after > 3);
                    break;
                }
                Err(LoadError::Failed(BulkLoadError::Interrupted)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn an_ordered_load_refuses_other_entries() {
    let disk = FaultDisk::new(1);
    let tree = tree(&(Arc::new(disk) as _));
    let mut load = OrderedLoad::default();
    for (key, value) in &ordered(1000) {
        load.add(&tree, key, value).unwrap();
        let refused = load.add(&tree, key, value);
        assert!(matches!(refused, Err(BulkLoadError::NotInOrder)));
    }
    assert_eq!(load.entries(), 1000);
    load.finish(&tree).unwrap();
    assert_eq!(entries_of(&tree), ordered(1000));
}

#[test]
fn errors_name_the_file() {
    let disk = FaultDisk::new(1);
    let tree = tree(&(Arc::new(disk.clone()) as _));
    disk.fail_write(0, WriteFailure::NoSpace);
    let size = Size {
        bytes: 16 << 10,
        threads: 0,
    };
    let mut observer = Observer::default();
    let entries = scattered(5000, u64::MAX);
    let failed = build(&disk, &tree, &entries, size, &|| false, &mut observer);
    let Err(LoadError::Failed(BulkLoadError::Spill(StorageError::NoSpace { path }))) = failed
    else {
        panic!("{failed:?}");
    };
    assert!(path.starts_with(DIRECTORY));
}
