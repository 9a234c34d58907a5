//! Prints the nanoseconds of operations of a tree on the real disk: `cargo bench -p teak-tree
//! --bench tree [-- rows]`. Inserts two million rows (or the given number) with scattered 16-byte
//! keys and 100-byte values. Half of each value is compressible. Then inserts the same number in
//! key order into another tree.

// Benches may panic, and their numbers are small.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

#[path = "common/committed.rs"]
mod committed;

use committed::{AllCommitted, SeesAll, scatter};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, RealDisk};
use teak_tree::{FlushReport, JobKind, PageCache, Tree, TreeOptions};

const MEMTABLE_BYTES: u64 = 32 << 20;
const CACHE_BYTES: u64 = 1 << 30;

fn random_key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scatter(number).to_be_bytes());
    key[8..].copy_from_slice(&scatter(number ^ 1 << 40).to_be_bytes());
    key
}

fn ascending_key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64, value: &mut [u8; 100]) {
    for (index, chunk) in value[..50].chunks_mut(8).enumerate() {
        let bytes = scatter(number + ((index as u64) << 32)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    value[50..].fill(b'x');
}

/// Measures the time since its creation. On Linux this is the thread's processor time, which other
/// processes disturb less.
struct Stopwatch {
    start: Instant,
    start_on_processor: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            start_on_processor: on_processor(),
            start: Instant::now(),
        }
    }

    fn seconds(&self) -> f64 {
        match (self.start_on_processor, on_processor()) {
            (Some(start), Some(end)) => Duration::from_nanos(end - start).as_secs_f64(),
            _ => self.start.elapsed().as_secs_f64(),
        }
    }
}

/// Nanoseconds that this thread has run.
fn on_processor() -> Option<u64> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok()
}

struct Times {
    insert: f64,
    memtable_flush: f64,
    memtable_bytes: u64,
    other_jobs: f64,
    other_bytes: u64,
    other_entries: u64,
}

fn run_jobs(tree: &Arc<Tree>, times: &mut Times, idle: bool) {
    let horizon = AllCommitted::new();
    loop {
        let job = tree.next_job().unwrap();
        let job = match job {
            None if idle => tree.next_idle_job(&horizon).unwrap(),
            job => job,
        };
        let Some(job) = job else { return };
        let kind = job.kind();
        let start = Stopwatch::start();
        let report: FlushReport = job.run(&horizon).unwrap();
        let seconds = start.seconds();
        if kind == JobKind::Memtable {
            times.memtable_flush += seconds;
            times.memtable_bytes += report.raw_bytes_written;
        } else {
            times.other_jobs += seconds;
            times.other_bytes += report.raw_bytes_written;
            times.other_entries += report.entries_read;
        }
    }
}

fn load(name: &str, tree: &Arc<Tree>, rows: u64, key: fn(u64) -> [u8; 16]) {
    let mut times = Times {
        insert: 0.0,
        memtable_flush: 0.0,
        memtable_bytes: 0,
        other_jobs: 0.0,
        other_bytes: 0,
        other_entries: 0,
    };
    let start = Stopwatch::start();
    let mut inserting = Stopwatch::start();
    let mut bytes = [0; 100];
    for number in 0..rows {
        value(number, &mut bytes);
        let full = {
            let guard = tree.write_guard();
            let id = WriteId(1 + number / 1000);
            guard.insert(id, Operation::Put, &key(number), &bytes);
            number % 256 == 0 && guard.memtable_bytes() > MEMTABLE_BYTES
        };
        if full {
            times.insert += inserting.seconds();
            tree.freeze(|| Lsn(number));
            run_jobs(tree, &mut times, false);
            inserting = Stopwatch::start();
        }
    }
    times.insert += inserting.seconds();
    let loaded = start.seconds();
    tree.freeze(|| Lsn(rows));
    run_jobs(tree, &mut times, true);
    let settled = start.seconds();
    tree.checkpoint(&|_| Ok(())).unwrap();
    let checkpointed = start.seconds();
    let per_row = |seconds: f64| seconds * 1e9 / rows as f64;
    let rate = |bytes: u64, seconds: f64| bytes as f64 / 1e6 / seconds.max(1e-9);
    let statistics = tree.statistics();
    let file = tree.file_statistics();
    println!("{name}: {rows} rows");
    println!(
        "  insert                {:8.0} ns per row",
        per_row(times.insert)
    );
    println!(
        "  memtable flush        {:8.0} ns per row, {:.0} MB/s raw",
        per_row(times.memtable_flush),
        rate(times.memtable_bytes, times.memtable_flush)
    );
    println!(
        "  other jobs            {:8.0} ns per row, {:.0} MB/s raw, {:.0} ns per entry read",
        per_row(times.other_jobs),
        rate(times.other_bytes, times.other_jobs),
        times.other_jobs * 1e9 / times.other_entries.max(1) as f64
    );
    println!(
        "  one thread            {:8.0} rows/s loaded, {:.0} settled, {:.0} checkpointed",
        rows as f64 / loaded,
        rows as f64 / settled,
        rows as f64 / checkpointed
    );
    println!(
        "  written               {:8.2} times raw rows; file {:.1} MB for {:.1} MB raw; {} leaves, height {}",
        statistics.raw_bytes_written as f64 / statistics.raw_bytes_flushed.max(1) as f64,
        file.file_bytes as f64 / 1e6,
        statistics.raw_bytes as f64 / 1e6,
        statistics.leaves,
        statistics.height
    );
}

fn gets(tree: &Arc<Tree>, rows: u64, present: bool) {
    let count = 400_000.min(rows);
    for round in 0..2 {
        let start = Stopwatch::start();
        let mut buffer = Vec::new();
        let mut found = 0;
        for number in 0..count {
            let number = scatter(number) % rows;
            let number = if present { number } else { number + rows };
            found += u64::from(
                tree.get_into(&random_key(number), &SeesAll, None, &mut buffer)
                    .unwrap(),
            );
        }
        assert_eq!(found, if present { count } else { 0 });
        if round == 1 {
            let what = if present { "present" } else { "absent " };
            let nanoseconds = start.seconds() * 1e9 / count as f64;
            println!("  get {what}           {nanoseconds:8.0} ns");
        }
    }
}

fn seeks(tree: &Arc<Tree>, rows: u64) {
    let count = 200_000.min(rows);
    let mut cursor = tree.cursor(SeesAll);
    let start = Stopwatch::start();
    for number in 0..count {
        let number = scatter(number) % rows;
        assert!(cursor.seek(&random_key(number)).unwrap());
    }
    let nanoseconds = start.seconds() * 1e9 / count as f64;
    println!("  seek                  {nanoseconds:8.0} ns");
}

fn scans(tree: &Arc<Tree>, rows: u64, what: &str) {
    for (direction, backward) in [("forward ", false), ("backward", true)] {
        for round in 0..2 {
            let start = Stopwatch::start();
            let mut cursor = tree.cursor(SeesAll);
            let mut sum = 0;
            let mut count = 0;
            let mut more = if backward {
                cursor.seek_last().unwrap()
            } else {
                cursor.seek_first().unwrap()
            };
            while more {
                count += 1;
                let Ok((key, value)) = cursor.entry() else {
                    unreachable!("the memory disk does not fail");
                };
                sum += key.len() + value.len();
                more = if backward {
                    cursor.previous().unwrap()
                } else {
                    cursor.next().unwrap()
                };
            }
            black_box(sum);
            assert_eq!(count, rows);
            if round == 1 {
                let nanoseconds = start.seconds() * 1e9 / rows as f64;
                println!("  scan {direction} {what} {nanoseconds:8.1} ns per row");
            }
        }
    }
}

fn main() {
    let asked = std::env::args().filter_map(|word| word.parse().ok()).next();
    let rows: u64 = asked.unwrap_or(2_000_000);
    let directory = std::env::temp_dir().join(format!("teak-bench-tree-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_directories(&directory).unwrap();
    let cache = Arc::new(PageCache::new(CACHE_BYTES));
    let create = |path: &Path, id| {
        Tree::create(&disk, path, FileId(id), TreeOptions::default(), &cache).unwrap()
    };

    let path = directory.join("random.teak");
    let tree = create(&path, 1);
    load("scattered keys", &tree, rows, random_key);
    gets(&tree, rows, true);
    gets(&tree, rows, false);
    seeks(&tree, rows);
    scans(&tree, rows, "settled ");
    // Ten percent more rows, which stay above the bottom runs, so that a scan has several sources.
    let extra = rows / 10;
    let mut bytes = [0; 100];
    for number in rows..rows + extra {
        value(number, &mut bytes);
        let guard = tree.write_guard();
        guard.insert(WriteId(1), Operation::Put, &random_key(number), &bytes);
    }
    scans(&tree, rows + extra, "+memtable");
    tree.freeze(|| Lsn(rows + extra));
    if let Some(job) = tree.next_job().unwrap() {
        job.run(&AllCommitted::new()).unwrap();
    }
    scans(&tree, rows + extra, "+runs    ");
    drop(tree);

    let path = directory.join("ascending.teak");
    let tree = create(&path, 2);
    load("ascending keys", &tree, rows, ascending_key);
    scans(&tree, rows, "settled ");
    drop(tree);
    let _ = std::fs::remove_dir_all(&directory);
}
