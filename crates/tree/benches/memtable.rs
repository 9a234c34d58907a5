//! Nanoseconds per memtable operation, printed: `cargo bench -p teak-tree
//! --bench memtable`. Entries of 30 and 200 bytes (key 8 bytes) fill 16 MiB of
//! memtable; keys ascend, ascend in interleaved sequences, or are scattered.
//! Where the system tells it (Linux), time is the thread's own on a processor,
//! so that other work on the machine disturbs less; it still shares caches.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_base::{Operation, WriteId};
use teak_tree::{Memtable, VersionCursor, Visit};

const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
const ROUNDS: usize = 5;

/// Measures from its creation.
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
    statistics.split_ascii_whitespace().next()?.parse().ok()
}

/// A bijection of 64-bit numbers (the finaliser of splitmix64), so that
/// scattered keys are distinct.
fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

type Order = fn(u64) -> u64;

fn ascending(number: u64) -> u64 {
    number
}

/// Four sequences, as of four sessions that append to their own ranges.
fn interleaved(number: u64) -> u64 {
    ((number % 4) << 48) + number / 4
}

fn fill(memtable: &Memtable, key_of: Order, long_keys: bool, value: &[u8]) -> u64 {
    let mut number = 0;
    let mut key = [7u8; 20];
    while memtable.bytes() < MEMTABLE_BYTES {
        let bytes = key_of(number).to_be_bytes();
        let key = if long_keys {
            // The first eight bytes are the same in all keys.
            key[8..16].copy_from_slice(&bytes);
            &key[..16]
        } else {
            &bytes[..]
        };
        memtable.insert(WriteId(1 + number / 100), Operation::Put, key, value);
        number += 1;
    }
    number
}

/// The least time per operation of several rounds.
fn best(mut round: impl FnMut() -> (u64, f64)) -> (u64, f64) {
    let mut result = (0, f64::MAX);
    for _ in 0..ROUNDS {
        let (count, seconds) = round();
        #[allow(clippy::cast_precision_loss)]
        let nanoseconds = seconds * 1e9 / count as f64;
        if nanoseconds < result.1 {
            result = (count, nanoseconds);
        }
    }
    result
}

fn report(name: &str, (count, nanoseconds): (u64, f64)) {
    println!("{name:<44} {count:>8} entries {nanoseconds:>8.1} ns");
}

fn main() {
    let orders: [(&str, Order); 3] = [
        ("ascending", ascending),
        ("interleaved", interleaved),
        ("scattered", scatter),
    ];
    for entry_bytes in [30usize, 200] {
        for (order, key_of) in orders {
            for long_keys in [false, true] {
                let value = vec![b'v'; entry_bytes - if long_keys { 16 } else { 8 }];
                let name = format!(
                    "insert {order}, {entry_bytes} bytes, key {}",
                    if long_keys { "8+8" } else { "8" }
                );
                report(
                    &name,
                    best(|| {
                        let memtable = Memtable::new();
                        let watch = Stopwatch::start();
                        let count = fill(&memtable, key_of, long_keys, &value);
                        (count, watch.seconds())
                    }),
                );
            }
        }
    }
    let value = [b'v'; 22];
    report(
        "insert scattered, 30 bytes, two threads",
        best(|| {
            let memtable = Memtable::new();
            let watch = Stopwatch::start();
            let count = std::thread::scope(|scope| {
                let second = scope.spawn(|| fill(&memtable, |n| scatter(!n), false, &value));
                fill(&memtable, scatter, false, &value) + second.join().unwrap_or(0)
            });
            (count, watch.seconds())
        }),
    );
    report(
        "insert ascending, 30 bytes, two threads",
        best(|| {
            let memtable = Memtable::new();
            let watch = Stopwatch::start();
            let count = std::thread::scope(|scope| {
                let second = scope.spawn(|| fill(&memtable, |n| n * 2, false, &value));
                fill(&memtable, |n| n * 2 + 1, false, &value) + second.join().unwrap_or(0)
            });
            (count, watch.seconds())
        }),
    );

    let memtable = Arc::new(Memtable::new());
    let count = fill(&memtable, scatter, false, &value);
    report(
        "visit a present key",
        best(|| {
            let watch = Stopwatch::start();
            for number in 0..count {
                let key = scatter(scatter(number) % count).to_be_bytes();
                black_box(memtable.visit(&key, &mut |_, _, value| {
                    black_box(value);
                    Visit::Stop
                }));
            }
            (count, watch.seconds())
        }),
    );
    report(
        "visit an absent key",
        best(|| {
            let watch = Stopwatch::start();
            for number in 0..count {
                let key = scatter(count + number).to_be_bytes();
                black_box(memtable.visit(&key, &mut |_, _, _| Visit::Stop));
            }
            (count, watch.seconds())
        }),
    );
    report(
        "cursor, forward",
        best(|| {
            let mut cursor = memtable.cursor();
            let watch = Stopwatch::start();
            let mut count = 0;
            let mut moved = cursor.seek_first();
            while moved.is_ok() && cursor.valid() {
                black_box((cursor.key(), cursor.value()));
                count += 1;
                moved = cursor.next_version();
            }
            (count, watch.seconds())
        }),
    );
    report(
        "cursor, backward",
        best(|| {
            let mut cursor = memtable.cursor();
            let watch = Stopwatch::start();
            let mut count = 0;
            let mut moved = cursor.seek_last();
            while moved.is_ok() && cursor.valid() {
                black_box((cursor.key(), cursor.value()));
                count += 1;
                moved = cursor.previous_key();
            }
            (count, watch.seconds())
        }),
    );
}
