//! Nanoseconds per operation of a queue: `cargo bench -p teak-engine --bench queue [-- rows]`. The
//! table has `rows` rows (default 100,000). Each round finds the first row, deletes it and inserts
//! one at the end. Prints the time to find the first row, for each tenth of the rounds. This time
//! must not grow with the number of rows deleted before.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};
use teak_engine::{
    Codec, EngineTransaction, IndexNumber, Isolation, ReadMode, RowEntry, TableHandle,
};

const TABLE: &str = "./bench/queue";

fn row(key: &[u8; 8]) -> [RowEntry<'_>; 1] {
    [RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key,
        value: &[7; 100],
    }]
}

fn first(transaction: &mut EngineTransaction, table: &TableHandle) -> [u8; 8] {
    let mut cursor = transaction
        .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    let row = cursor.first(transaction).unwrap().unwrap();
    row.key.try_into().unwrap()
}

fn main() {
    let rows = u64::from(support::rows_wanted(100_000));
    let (engine, table) = support::in_memory(TABLE, Codec::Lz4);
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for n in 0..rows {
        transaction.insert(&table, &row(&n.to_be_bytes())).unwrap();
    }
    transaction.commit().unwrap();
    engine.settle().unwrap();
    println!("{rows} rows");
    let tenth = (rows / 10).max(1);
    for part in 0..10 {
        let mut finding = Duration::ZERO;
        let mut slowest = Duration::ZERO;
        let started = Instant::now();
        for n in part * tenth..(part + 1) * tenth {
            let mut transaction = engine.begin(Isolation::ReadCommitted);
            let asked = Instant::now();
            let key = first(&mut transaction, &table);
            let took = asked.elapsed();
            finding += took;
            slowest = slowest.max(took);
            assert_eq!(key, n.to_be_bytes());
            transaction.delete(&table, &row(&key)).unwrap();
            let end = (rows + n).to_be_bytes();
            transaction.insert(&table, &row(&end)).unwrap();
            transaction.commit().unwrap();
        }
        println!(
            "{:3} %: first {:9} ns, slowest {:9} ns, a round {:9} ns",
            (part + 1) * 10,
            finding.as_nanos() / u128::from(tenth),
            slowest.as_nanos(),
            started.elapsed().as_nanos() / u128::from(tenth),
        );
    }
}
