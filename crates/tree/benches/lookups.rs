//! Prints the cost of look-ups in trees with many runs, on the real disk: processor time, blocks
//! and bytes read for each look-up, with page caches of several sizes: `cargo bench -p teak-tree
//! --bench lookups [-- rows]`. One tree has random 16-byte keys and 100-byte values; the keys of
//! the other are those of a secondary index: 8 bytes that 20 entries share, then 16 bytes.

// Benches may panic, and their numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

#[path = "common/committed.rs"]
mod committed;

use committed::{AllCommitted, SeesAll, scatter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, RealDisk};
use teak_tree::{FilterKeys, JobKind, KeySuffix, PageCache, Tree, TreeOptions};

const MEMTABLE_BYTES: u64 = 8 << 20;
const PREFIX_BYTES: usize = 8;
const ROWS_OF_PREFIX: u64 = 20;
const LOOKUPS: u64 = 20_000;

fn row_key(number: u64) -> Vec<u8> {
    let (high, low) = (scatter(number), scatter(number ^ 1 << 40));
    [high.to_be_bytes(), low.to_be_bytes()].concat()
}

fn prefix(number: u64) -> [u8; PREFIX_BYTES] {
    scatter(number ^ 1 << 41).to_be_bytes()
}

/// The entries of a prefix are written at different times.
fn secondary_key(number: u64, rows: u64) -> Vec<u8> {
    let prefixes = rows / ROWS_OF_PREFIX;
    [&prefix(number % prefixes)[..], &row_key(number)].concat()
}

/// Seconds that this thread has run. Without that, those that have passed.
fn seconds_run(since: Instant) -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat");
    let on_processor = statistics.ok().and_then(|text| {
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    });
    on_processor.unwrap_or(since.elapsed()).as_secs_f64()
}

fn load(tree: &Arc<Tree>, rows: u64, key: impl Fn(u64) -> Vec<u8>, value_bytes: usize) {
    let horizon = AllCommitted::new();
    let mut value = vec![b'v'; value_bytes];
    // The last entries remain in runs above the bottom.
    let upper_from = rows - rows / 10;
    let run_jobs = |number: u64| {
        while let Some(job) = tree.next_job().unwrap() {
            if number > upper_from && job.kind() != JobKind::Memtable {
                break;
            }
            job.run(&horizon).unwrap();
        }
    };
    for number in 0..rows {
        for (part, chunk) in value.chunks_mut(8).step_by(2).enumerate() {
            let bits = scatter(number + ((part as u64) << 32)).to_be_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
        let full = {
            let guard = tree.write_guard();
            guard.insert(
                WriteId(1 + number / 1000),
                Operation::Put,
                &key(number),
                &value,
            );
            (number % 256 == 0 && guard.memtable_bytes() > MEMTABLE_BYTES)
                || (number >= upper_from && number % (rows / 40) == 0)
        };
        if full {
            tree.freeze(|| Lsn(number));
            run_jobs(number);
        }
    }
    tree.freeze(|| Lsn(rows));
    run_jobs(rows);
    tree.checkpoint(&|_| Ok(())).unwrap();
}

fn measure(name: &str, tree: &Tree, mut look_up: impl FnMut(u64)) {
    let start = Instant::now();
    // The first half fills the cache.
    for number in 0..LOOKUPS / 2 {
        look_up(number);
    }
    let before = tree.file_statistics();
    let run_before = seconds_run(start);
    for number in LOOKUPS / 2..LOOKUPS {
        look_up(number);
    }
    let seconds = seconds_run(start) - run_before;
    let after = tree.file_statistics();
    let per = |total: f64| total / (LOOKUPS - LOOKUPS / 2) as f64;
    println!(
        "  {name:<26} {:>8.1} us {:>7.2} blocks {:>7.1} KiB read",
        per(seconds * 1e6),
        per((after.blocks_read - before.blocks_read) as f64),
        per((after.bytes_read - before.bytes_read) as f64) / 1024.0,
    );
}

fn describe(name: &str, tree: &Tree) {
    let statistics = tree.statistics();
    println!(
        "{name}: {:.1} MB raw, {:.1} MB stored, {} leaves, {} runs",
        statistics.raw_bytes as f64 / 1e6,
        tree.file_statistics().live_bytes as f64 / 1e6,
        statistics.leaves,
        statistics.runs,
    );
}

fn rows_tree(tree: &Arc<Tree>, rows: u64) {
    let mut value = Vec::new();
    measure("present key", tree, |number| {
        let key = row_key(scatter(number) % rows);
        assert!(tree.get_into(&key, &SeesAll, None, &mut value).unwrap());
    });
    measure("absent key", tree, |number| {
        let key = row_key(scatter(number) % rows + rows);
        assert!(!tree.get_into(&key, &SeesAll, None, &mut value).unwrap());
    });
}

fn secondary_tree(tree: &Arc<Tree>, rows: u64) {
    let prefixes = rows / ROWS_OF_PREFIX;
    let mut cursor = tree.cursor(SeesAll);
    let mut count = |number: u64| {
        let prefix = prefix(number);
        cursor.set_prefix(Some(&prefix));
        let mut found = 0;
        let mut more = cursor.seek(&prefix).unwrap();
        while more {
            found += 1;
            more = cursor.next().unwrap();
        }
        found
    };
    measure("20 rows of a present prefix", tree, |number| {
        assert_eq!(count(scatter(number) % prefixes), ROWS_OF_PREFIX);
    });
    measure("absent prefix", tree, |number| {
        assert_eq!(count(scatter(number) % prefixes + prefixes), 0);
    });
}

fn main() {
    let asked = std::env::args().filter_map(|word| word.parse().ok()).next();
    let rows: u64 = asked.unwrap_or(2_000_000) / ROWS_OF_PREFIX * ROWS_OF_PREFIX;
    let directory = std::env::temp_dir().join(format!("teak-bench-lookups-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_directories(&directory).unwrap();
    let paths = ["rows", "secondary"].map(|name| directory.join(name));
    let suffix = KeySuffix::Fixed(16);
    let filter_keys = [FilterKeys::Whole, FilterKeys::WithoutSuffix(suffix)];
    let options = filter_keys.map(|filter_keys| TreeOptions {
        filter_keys,
        ..TreeOptions::default()
    });
    let open = |number: usize, capacity: u64| -> Arc<Tree> {
        let cache = Arc::new(PageCache::new(capacity));
        Tree::open(&disk, &paths[number], Some(FileId(number as u64)), &cache).unwrap()
    };
    let create = |number: usize| {
        let cache = Arc::new(PageCache::new(64 << 20));
        let (id, path): (_, &Path) = (FileId(number as u64), &paths[number]);
        Tree::create(&disk, path, id, options[number].clone(), &cache).unwrap()
    };
    load(&create(0), rows, row_key, 100);
    load(&create(1), rows, |number| secondary_key(number, rows), 0);
    for capacity_mib in [1, 2, 4, 16, 64, 1024] {
        println!("-- page cache of {capacity_mib} MiB");
        let tree = open(0, capacity_mib << 20);
        describe("rows", &tree);
        rows_tree(&tree, rows);
        drop(tree);
        let tree = open(1, capacity_mib << 20);
        describe("secondary", &tree);
        secondary_tree(&tree, rows);
    }
    let _ = std::fs::remove_dir_all(&directory);
}
