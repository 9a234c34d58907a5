//! Prints the milliseconds in which one, two and four threads flush a memtable of 48 MiB into a tree of
//! a million rows: `cargo bench -p teak-tree --bench flush`.

// Benches may panic.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "common/committed.rs"]
#[allow(dead_code, reason = "other benches read")]
mod committed;

use committed::{AllCommitted, scatter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use teak_base::{FileId, Lsn, Operation, WriteId};
use teak_disk::{Disk, MemoryDisk};
use teak_tree::{JobKind, JobThreads, PageCache, Tree, TreeOptions};

const ROWS: u64 = 1_000_000;
const MEMTABLE_BYTES: u64 = 48 << 20;
const ROUNDS: usize = 5;

struct Threads(usize);

impl JobThreads for Threads {
    fn run(&self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    number if number < parts => part(number),
                    _ => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.0 {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// Inserts rows with scattered keys until the memtable is full, and freezes it. Returns the next number.
fn fill(tree: &Arc<Tree>, mut number: u64, bytes: u64) -> u64 {
    let mut value = [b'x'; 100];
    while tree.statistics().memtable_bytes < bytes {
        for _ in 0..1000 {
            let key = u128::from(scatter(number)) << 64 | u128::from(number);
            value
                .as_chunks_mut()
                .0
                .iter_mut()
                .take(6)
                .zip(0..)
                .for_each(|(chunk, part): (&mut [u8; 8], u64)| {
                    *chunk = scatter(number ^ part << 32).to_be_bytes();
                });
            let guard = tree.write_guard();
            guard.insert(WriteId(1), Operation::Put, &key.to_be_bytes(), &value);
            number += 1;
        }
    }
    tree.freeze(|| Lsn(0));
    number
}

fn main() {
    let horizon = AllCommitted::new();
    for threads in [1, 2, 4] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let cache = Arc::new(PageCache::new(256 << 20));
        let path = Path::new("/flush");
        let tree = Tree::create(&disk, path, FileId(1), TreeOptions::default(), &cache).unwrap();
        let mut number = 0;
        while number < ROWS {
            number = fill(&tree, number, MEMTABLE_BYTES);
            tree.settle(&horizon).unwrap();
        }
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            number = fill(&tree, number, MEMTABLE_BYTES);
            let job = tree.next_memtable_job().unwrap();
            assert_eq!(job.kind(), JobKind::Memtable);
            let start = Instant::now();
            job.run_on(&Threads(threads), &horizon).unwrap();
            times.push(start.elapsed().as_millis());
            tree.settle(&horizon).unwrap();
        }
        times.sort_unstable();
        println!(
            "{threads} threads: {} ms (median of {times:?})",
            times[ROUNDS / 2]
        );
    }
}
