//! A checkpoint of many indexes, each with a few new rows, while one thread
//! writes: total time, syncs, and the writer's longest statement.
//! `cargo bench -p teak-engine --bench checkpoints [-- indexes [directory]]`.
//! The directory should be on the disk to be measured.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_disk::RealDisk;
use teak_engine::{Codec, Engine, EngineOptions, IndexNumber, Isolation, RowEntry, TableHandle};
use teak_testing::Random;

const INDEXES_PER_TABLE: u32 = 3;
const ROUNDS: u32 = 3;

fn options(directory: PathBuf) -> EngineOptions {
    let mut options = EngineOptions::new(directory);
    options.commit_sync = false;
    options.cache_bytes = 256 << 20;
    options.background_threads = 2;
    options.checkpoint_period = Duration::from_secs(86_400);
    options.open_files = 10_000;
    options.open_tables_kept = usize::MAX;
    options
}

fn create(engine: &Engine, number: u32) -> TableHandle {
    let name = format!("./bench/t{number}");
    let mut definition = support::definition(&name, Codec::Lz4, INDEXES_PER_TABLE);
    definition.metadata = vec![1; 100];
    engine.create_table(&definition).unwrap();
    engine.open_table(&name).unwrap()
}

/// Inserts one row, in a transaction of its own.
fn insert(engine: &Engine, table: &TableHandle, key: u64) {
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    let key = key.to_be_bytes();
    let entries: Vec<RowEntry<'_>> = (0..INDEXES_PER_TABLE)
        .map(|index| RowEntry {
            index: IndexNumber(index),
            unique: index == 0,
            key: &key,
            value: &[7; 80],
        })
        .collect();
    transaction.insert(table, &entries).unwrap();
    transaction.commit().unwrap();
}

/// Inserts rows into any tables until `stop`. Returns the sorted latencies.
fn write(engine: &Engine, tables: &[TableHandle], first: u64, stop: &AtomicBool) -> Vec<Duration> {
    let mut random = Random::new(first);
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let table = usize::try_from(random.below(tables.len() as u64)).unwrap();
        let started = Instant::now();
        let key = first + latencies.len() as u64;
        insert(engine, &tables[table], key);
        latencies.push(started.elapsed());
        std::thread::sleep(Duration::from_micros(500));
    }
    latencies.sort_unstable();
    latencies
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let indexes: u32 = arguments
        .next()
        .map_or(15_000, |text| text.parse().unwrap());
    let directory = arguments
        .next()
        .unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let directory = PathBuf::from(directory).join("checkpoints");
    let _ = std::fs::remove_dir_all(&directory);
    let engine = Engine::open(Arc::new(RealDisk), options(directory.clone())).unwrap();
    let started = Instant::now();
    let tables: Vec<TableHandle> = (0..indexes.div_ceil(INDEXES_PER_TABLE))
        .map(|number| create(&engine, number))
        .collect();
    println!(
        "{} tables with {INDEXES_PER_TABLE} indexes each, created in {:.1} s",
        tables.len(),
        started.elapsed().as_secs_f64()
    );
    for round in 0..ROUNDS {
        for table in &tables {
            insert(&engine, table, u64::from(round));
        }
        let before = engine.statistics();
        let stop = AtomicBool::new(false);
        let first = u64::from(round + 1) << 32;
        let (time, latencies) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&engine, &tables, first, &stop));
            let started = Instant::now();
            engine.checkpoint().unwrap();
            let time = started.elapsed();
            stop.store(true, Ordering::Relaxed);
            (time, writer.join().unwrap())
        });
        let after = engine.statistics();
        let at = |percent: usize| {
            let position = (latencies.len() - 1) * percent / 100;
            latencies[position].as_secs_f64() * 1000.0
        };
        println!(
            "checkpoint: {:.2} s, {} data syncs, {} log syncs; writer: {} rows, \
             median {:.3} ms, 99 % {:.2} ms, longest {:.1} ms",
            time.as_secs_f64(),
            after.data_syncs - before.data_syncs,
            after.log_syncs - before.log_syncs,
            latencies.len(),
            at(50),
            at(99),
            at(100)
        );
    }
    drop(tables);
    drop(engine);
    let _ = std::fs::remove_dir_all(&directory);
}
