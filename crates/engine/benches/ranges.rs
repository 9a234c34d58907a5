//! Nanoseconds per read of a table after random updates, each in its own transaction: `cargo bench
//! -p teak-engine --bench ranges [-- rows]`. A snapshot reads single rows and ranges of 100 rows:
//! first from a fully merged table, then after updates of a quarter, a half and all of its rows.
//! Only the merges that the updates cause are run.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::time::Instant;
use teak_engine::{
    Codec, Engine, IndexNumber, Isolation, ReadMode, RowChange, RowEntry, Seek, TableHandle,
};
use teak_testing::Random;

const TABLE: &str = "./bench/ranges";
const VALUE_BYTES: usize = 188;
const RANGE_ROWS: u32 = 100;
const READS: u64 = 20_000;

fn value(random: &mut Random) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for digit in &mut value {
        *digit = b"0123456789-"[usize::try_from(random.below(11)).unwrap()];
    }
    value
}

fn row<'a>(key: &'a [u8; 4], value: &'a [u8]) -> RowEntry<'a> {
    RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key,
        value,
    }
}

fn update(engine: &Engine, table: &TableHandle, rows: u32, count: u32, random: &mut Random) {
    for _ in 0..count {
        let n = u32::try_from(random.below(u64::from(rows))).unwrap();
        let (key, value) = (n.to_be_bytes(), value(random));
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        let change = RowChange {
            index: IndexNumber::ROWS,
            unique: false,
            old_key: Some(&key),
            new_key: Some(&key),
            new_value: &value,
        };
        transaction.update(table, &[change]).unwrap();
        transaction.commit().unwrap();
    }
}

fn read(engine: &Engine, table: &TableHandle, rows: u32, what: &str) {
    let before = engine.statistics();
    let mut random = Random::new(5);
    let mut best = [u128::MAX; 2];
    for _ in 0..3 {
        let mut reader = engine.begin(Isolation::RepeatableRead);
        reader.take_snapshot().unwrap();
        let started = Instant::now();
        for _ in 0..READS {
            let n = u32::try_from(random.below(u64::from(rows))).unwrap();
            let mut cursor = reader
                .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
                .unwrap();
            let found = cursor.get(&mut reader, &n.to_be_bytes()).unwrap();
            assert!(found.is_some());
        }
        best[0] = best[0].min(started.elapsed().as_nanos());
        let mut bytes = 0;
        let started = Instant::now();
        for _ in 0..READS {
            let n = u32::try_from(random.below(u64::from(rows - RANGE_ROWS))).unwrap();
            let (low, high) = (n.to_be_bytes(), (n + RANGE_ROWS).to_be_bytes());
            let mut cursor = reader
                .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
                .unwrap();
            cursor.set_bounds(Some(&low), Some(&high));
            let mut row = cursor.seek(&mut reader, &low, Seek::AtOrAfter).unwrap();
            let mut count = 0;
            while let Some(found) = row {
                bytes += found
                    .value
                    .chunks(64)
                    .map(|line| u64::from(line[0]))
                    .sum::<u64>();
                count += 1;
                row = cursor.next(&mut reader).unwrap();
            }
            assert_eq!(count, RANGE_ROWS);
        }
        best[1] = best[1].min(started.elapsed().as_nanos());
        assert!(bytes > 0);
        reader.commit().unwrap();
    }
    let reads = u128::from(READS);
    let after = engine.statistics();
    println!(
        "{what:<24} one row {:6} ns; {RANGE_ROWS} rows {:7} ns, {} ns each; {} MiB in memtables, {} cache misses",
        best[0] / reads,
        best[1] / reads,
        best[1] / reads / u128::from(RANGE_ROWS),
        after.memtable_bytes >> 20,
        after.cache_misses - before.cache_misses,
    );
}

fn main() {
    let rows = support::rows_wanted(500_000);
    let (engine, table) = support::in_memory(TABLE, Codec::Zstd);
    let mut random = Random::new(7);
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for n in 0..rows {
        let (key, value) = (n.to_be_bytes(), value(&mut random));
        transaction.insert(&table, &[row(&key, &value)]).unwrap();
    }
    transaction.commit().unwrap();
    engine.settle().unwrap();
    read(&engine, &table, rows, "settled");
    for (count, what) in [
        (rows / 4, "a quarter updated"),
        (rows / 4, "a half updated"),
        (rows / 2, "as many as all updated"),
    ] {
        update(&engine, &table, rows, count, &mut random);
        read(&engine, &table, rows, what);
    }
}
