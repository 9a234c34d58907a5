//! Nanoseconds per row through the whole engine, on the real disk: inserts
//! with and without secondary indexes, committed per 1000 rows, point reads
//! and scans. Run with `cargo bench -p teak-engine`; arguments: the number of
//! rows (default 1,000,000) and the cache in MiB (default 256).

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod support;

use std::sync::Arc;
use std::time::Instant;
use teak_disk::RealDisk;
use teak_engine::{
    Codec, Engine, EngineOptions, IndexNumber, Isolation, ReadMode, RowEntry, TableHandle,
};
use teak_testing::Random;

const TABLE: &str = "./bench/t";
const BATCH: u64 = 1000;
const VALUE_BYTES: usize = 96;

struct Case {
    name: &'static str,
    secondaries: u32,
    random_keys: bool,
    unique: bool,
}

/// The key of row `n`: `n` itself, or a permutation of it.
fn primary(case: &Case, n: u64) -> [u8; 8] {
    let key = if case.random_keys {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
    } else {
        n
    };
    key.to_be_bytes()
}

/// Wall-clock time and the processor time of this thread. Other processes hardly affect the
/// processor time.
struct Clock(Instant, u64);

fn thread_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), thread_nanoseconds())
    }

    fn report(&self, case: &str, what: &str, count: u64) {
        let wall = self.0.elapsed();
        let thread = thread_nanoseconds() - self.1;
        println!(
            "{case:<26} {what:<12} {:>8.0} ns/row of this thread {:>8.0} ns/row by the wall {:>10.0} rows/s",
            thread as f64 / count as f64,
            wall.as_nanos() as f64 / count as f64,
            count as f64 / wall.as_secs_f64()
        );
    }
}

fn insert_rows(engine: &Engine, table: &TableHandle, case: &Case, rows: u64) {
    let mut random = Random::new(7);
    let mut value = [0u8; VALUE_BYTES];
    let mut keys = vec![[0u8; 16]; case.secondaries as usize];
    let mut n = 0;
    while n < rows {
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        for _ in 0..BATCH.min(rows - n) {
            let key = primary(case, n);
            for part in value.chunks_mut(16) {
                let bytes = (random.next_u64() & 0xffff_ffff).to_be_bytes();
                part[..8].copy_from_slice(&bytes);
            }
            let mut entries = [RowEntry {
                index: IndexNumber::ROWS,
                unique: case.unique,
                key: &key,
                value: &value,
            }; 9];
            for (place, second) in keys.iter_mut().enumerate() {
                second[..8].copy_from_slice(&random.next_u64().to_be_bytes());
                second[8..].copy_from_slice(&key);
                entries[place + 1] = RowEntry {
                    index: IndexNumber(place as u32 + 1),
                    unique: false,
                    key: &[],
                    value: &[],
                };
            }
            for (entry, key) in entries[1..].iter_mut().zip(&keys) {
                entry.key = key;
            }
            transaction.insert(table, &entries[..=keys.len()]).unwrap();
            n += 1;
        }
        transaction.commit().unwrap();
    }
}

fn run(case: &Case, rows: u64, cache_bytes: u64) {
    let directory = std::env::temp_dir().join(format!("teak-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let mut options = EngineOptions::new(&directory);
    options.cache_bytes = cache_bytes;
    let engine = Engine::open(Arc::new(RealDisk), options).unwrap();
    let definition = support::definition(TABLE, Codec::Zstd, case.secondaries + 1);
    engine.create_table(&definition).unwrap();
    let table = engine.open_table(TABLE).unwrap();

    let clock = Clock::start();
    insert_rows(&engine, &table, case, rows);
    clock.report(case.name, "insert", rows);
    let s = engine.statistics();
    println!(
        "    stalls {} ({} ms), flushes {}, log {} MiB written, data {} MiB written, {} syncs",
        s.writer_stalls,
        s.writer_stall_microseconds / 1000,
        s.flushes,
        s.log_bytes_written >> 20,
        s.bytes_written >> 20,
        s.log_syncs + s.data_syncs
    );
    let clock = Clock::start();
    engine.checkpoint().unwrap();
    clock.report(case.name, "checkpoint", rows);

    let mut reader = engine.begin(Isolation::RepeatableRead);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    let mut random = Random::new(3);
    let reads = rows.min(200_000);
    let clock = Clock::start();
    for _ in 0..reads {
        let key = primary(case, random.below(rows));
        assert!(cursor.get(&mut reader, &key).unwrap().is_some());
    }
    clock.report(case.name, "get", reads);
    let clock = Clock::start();
    let mut found = u64::from(cursor.first(&mut reader).unwrap().is_some());
    while cursor.next(&mut reader).unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, rows);
    clock.report(case.name, "scan", rows);
    drop(cursor);
    drop(reader);
    drop(table);
    engine.close().unwrap();
    let bytes: u64 = std::fs::read_dir(directory.join("bench"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    println!("    files {} MiB", bytes >> 20);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let rows = numbers.next().unwrap_or(1_000_000);
    let cache_bytes = numbers.next().unwrap_or(256) << 20;
    let filter: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-') && word.parse::<u64>().is_err())
        .collect();
    for case in [
        Case {
            name: "ascending",
            secondaries: 0,
            random_keys: false,
            unique: true,
        },
        Case {
            name: "ascending hidden",
            secondaries: 0,
            random_keys: false,
            unique: false,
        },
        Case {
            name: "random",
            secondaries: 0,
            random_keys: true,
            unique: true,
        },
        Case {
            name: "ascending 4 secondaries",
            secondaries: 4,
            random_keys: false,
            unique: true,
        },
        Case {
            name: "random 4 secondaries",
            secondaries: 4,
            random_keys: true,
            unique: true,
        },
    ] {
        if filter.is_empty() || filter.iter().any(|word| case.name.contains(word.as_str())) {
            run(&case, rows, cache_bytes);
        }
    }
}
