//! Entries per second, and processor time, of sorts of five million entries:
//! `cargo bench -p teak-bulk-load --bench sort -- DIRECTORY [ENTRIES]`. Keys of 8 random bytes with values of 8
//! bytes, and keys of 22 bytes, of which the first 14 are equal, with values of 8 bytes; in memory and with
//! spill files; on one thread and with workers; and entries that are in order.

// Benches may panic.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::indexing_slicing
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use teak_bulk_load::{MemoryReservation, Sorter, SorterOptions, SpillDirectory, Worker, Workers};
use teak_disk::{Disk, RealDisk};

const MIB: usize = 1 << 20;

#[derive(Debug)]
struct Memory(usize);

impl MemoryReservation for Memory {
    fn bytes(&self) -> usize {
        self.0
    }
}

struct Threads(Arc<AtomicUsize>);

impl Workers for Threads {
    fn claim(&self) -> Option<Worker> {
        let idle = Arc::clone(&self.0);
        let less = |idle: usize| idle.checked_sub(1);
        idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .ok()?;
        Some(Box::new(move |task| {
            std::thread::spawn(move || {
                let deliver = task();
                idle.fetch_add(1, Ordering::Relaxed);
                deliver();
            });
        }))
    }
}

fn scatter(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Processor time of this process, in clock ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    let part = |n: usize| fields.split_whitespace().nth(n).unwrap().parse::<u64>();
    part(11).unwrap() + part(12).unwrap()
}

fn key_of(key_bytes: usize, n: u64) -> Vec<u8> {
    let mut key = vec![b'k'; key_bytes];
    key[key_bytes - 8..].copy_from_slice(&n.to_be_bytes());
    key
}

struct Case {
    key_bytes: usize,
    memory: usize,
    workers: usize,
    in_order: bool,
}

fn run(directory: &SpillDirectory, entries: u64, case: &Case) {
    let never = &|| false;
    let options = SorterOptions {
        directory: directory.clone(),
        memory: Box::new(Memory(case.memory)),
        workers: Arc::new(Threads(Arc::new(AtomicUsize::new(case.workers)))),
    };
    let mut sorter = Sorter::new(options);
    let mut key = key_of(case.key_bytes, 0);
    let (start, ticks_before) = (Instant::now(), ticks());
    for n in 0..entries {
        let mixed = if case.in_order { n } else { scatter(n) };
        let end = key.len() - 8;
        key[end..].copy_from_slice(&mixed.to_be_bytes());
        sorter.add(&key, &n.to_be_bytes(), never).unwrap();
    }
    let added = start.elapsed();
    let mut sorted = sorter.finish(never).unwrap();
    let (mut found, mut sum) = (0u64, 0u64);
    while let Some((key, value)) = sorted.entry() {
        sum = sum.wrapping_add(u64::from(key[0]) + u64::from(value[0]));
        found += 1;
        sorted.advance(never).unwrap();
    }
    std::hint::black_box(sum);
    let (time, used) = (start.elapsed(), ticks() - ticks_before);
    assert_eq!(found, entries);
    let spilled = sorted.progress().spilled;
    println!(
        "key {} B, {} MiB, {} workers, {}: {:.2} M entries/s ({:.0} ms to add, {:.0} ms in all), processor {} ms, {spilled} spilled",
        case.key_bytes,
        case.memory / MIB,
        case.workers,
        if case.in_order { "in order" } else { "random" },
        entries as f64 / time.as_secs_f64() / 1e6,
        added.as_secs_f64() * 1e3,
        time.as_secs_f64() * 1e3,
        used * 10,
    );
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with('-'));
    let path = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let entries = arguments
        .next()
        .map_or(5_000_000, |text| text.parse().unwrap());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_directories(&path).unwrap();
    let directory = SpillDirectory {
        disk,
        path,
        file_prefix: "bench.sort.",
        without_names: false,
        encryption: teak_base::Encryption::default(),
        next: Arc::default(),
    };
    for key_bytes in [8, 22] {
        for memory in [512 * MIB, 32 * MIB] {
            for workers in [0, 1, 2] {
                let case = Case {
                    key_bytes,
                    memory,
                    workers,
                    in_order: false,
                };
                run(&directory, entries, &case);
            }
        }
    }
    let case = Case {
        key_bytes: 8,
        memory: 512 * MIB,
        workers: 0,
        in_order: true,
    };
    run(&directory, entries, &case);
}
