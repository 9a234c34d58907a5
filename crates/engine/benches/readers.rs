//! Nanoseconds per transaction that reads one row by its key, for one thread and
//! for several concurrent ones: `cargo bench -p teak-engine --bench readers
//! [-- rows]`. The time must not grow with the number of threads, up to the
//! number of processors.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Instant;
use teak_engine::{Codec, Engine, IndexNumber, Isolation, ReadMode, RowEntry, TableHandle};
use teak_testing::Random;

const READS: u64 = 400_000;
const ROUNDS: u32 = 5;

fn read(engine: &Engine, table: &TableHandle, rows: u32, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..READS {
        let n = u32::try_from(random.below(u64::from(rows))).unwrap();
        let mut reader = engine.begin(Isolation::RepeatableRead);
        let mut cursor = reader
            .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
            .unwrap();
        let found = cursor.get(&mut reader, &n.to_be_bytes()).unwrap();
        assert!(found.is_some());
        drop(cursor);
        reader.commit().unwrap();
    }
}

fn main() {
    let rows = support::rows_wanted(100_000);
    let (engine, table) = support::in_memory("./bench/readers", Codec::Lz4);
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for n in 0..rows {
        let row = RowEntry {
            index: IndexNumber::ROWS,
            unique: true,
            key: &n.to_be_bytes(),
            value: &[7; 100],
        };
        transaction.insert(&table, &[row]).unwrap();
    }
    transaction.commit().unwrap();
    engine.settle().unwrap();
    for threads in [1, 2, 4] {
        let mut best = u128::MAX;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (engine, table) = (&engine, &table);
                    scope.spawn(move || read(engine, table, rows, thread));
                }
            });
            best = best.min(started.elapsed().as_nanos());
        }
        println!(
            "{threads} threads: {:5} ns for a transaction of each",
            best / u128::from(READS)
        );
    }
}
