//! Checks of keys read no block while the keys are latched.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineError, EngineTransaction, IndexNumber, ReadMode, TableHandle};
use teak_testing::{GateDisk, Random};

const HOT: &str = "./db/hot";
/// The name of the thread whose reads wait.
const READER: &str = "reader";
/// Many more than there are latches, so that some row has the same latch as any other one.
const HOT_ROWS: usize = 8192;

/// What the reader does with a key of the table that is not in memory.
type Work = fn(&mut EngineTransaction, &TableHandle);

fn insert_duplicate(transaction: &mut EngineTransaction, table: &TableHandle) {
    let refused = insert(transaction, table, "k0500", "1");
    assert!(
        matches!(refused, Err(EngineError::DuplicateKey)),
        "{refused:?}"
    );
    assert_eq!(transaction.duplicate().value, b"0");
}

fn insert_new(transaction: &mut EngineTransaction, table: &TableHandle) {
    insert(transaction, table, "k0500+", "1").unwrap();
}

fn update_row(transaction: &mut EngineTransaction, table: &TableHandle) {
    update(transaction, table, "k0500", "0", "1").unwrap();
}

fn lock_row(transaction: &mut EngineTransaction, table: &TableHandle) {
    let mut cursor = transaction
        .cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    let row = cursor.get(transaction, b"k0500").unwrap();
    assert_eq!(row.map(|row| row.value), Some(b"0".as_slice()));
}

fn lock_absent_key(transaction: &mut EngineTransaction, table: &TableHandle) {
    assert!(
        transaction
            .lock_absent(table, IndexNumber::ROWS, b"k0500+")
            .unwrap()
    );
    assert!(
        !transaction
            .lock_absent(table, IndexNumber::ROWS, b"k0500")
            .unwrap()
    );
}

/// A file with rows, and a gate for reads of the reader.
fn stored() -> (Arc<MemoryDisk>, GateDisk) {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition(HOT)).unwrap();
    commit(&engine, |t| {
        for number in 0..1000 {
            insert(t, &table, &format!("k{number:04}"), "0").unwrap();
        }
    });
    drop(table);
    engine.close().unwrap();
    let gate = GateDisk::new(Arc::clone(&disk) as Arc<dyn Disk>);
    (disk, gate)
}

fn hot_key(number: usize) -> String {
    format!("{number:05}")
}

#[test]
fn a_check_that_reads_a_block_holds_no_latch() {
    let works: [Work; 5] = [
        insert_duplicate,
        insert_new,
        update_row,
        lock_row,
        lock_absent_key,
    ];
    for work in works {
        let (_disk, gate) = stored();
        let engine: Engine = open(&Arc::new(gate.clone()));
        let (table, hot) = (
            engine.open_table(TABLE).unwrap(),
            engine.open_table(HOT).unwrap(),
        );
        commit(&engine, |t| {
            for number in 0..HOT_ROWS {
                insert(t, &hot, &hot_key(number), "0").unwrap();
            }
        });
        gate.hold_reads(READER);
        std::thread::scope(|scope| {
            let reader = std::thread::Builder::new().name(READER.into());
            let reader = reader.spawn_scoped(scope, || {
                let mut transaction = begin(&engine);
                work(&mut transaction, &table);
                transaction.commit().unwrap();
            });
            gate.wait_for_arrival(READER);
            let (done, all_written) = channel();
            let (engine, hot) = (&engine, &hot);
            scope.spawn(move || {
                commit(engine, |t| {
                    for number in 0..HOT_ROWS {
                        update(t, hot, &hot_key(number), "0", "1").unwrap();
                    }
                });
                done.send(()).unwrap();
            });
            // If the reader had a latch, a write of this latch would not end.
            let written = all_written.recv_timeout(Duration::from_secs(120));
            gate.open_gate(READER);
            written.expect("writes of other rows do not wait for a read");
            reader.unwrap().join().unwrap();
        });
        rows(&engine, &table);
    }
}

/// Transactions that conflict insert and delete the same few keys. Nodes do not remain in memory,
/// so most checks of these keys read blocks. No two rows ever have the same key.
#[test]
fn keys_remain_unique_while_their_checks_read_blocks() {
    const KEYS: u64 = 12;
    const ROWS: u64 = 1200;
    let mut options = options();
    options.node_bytes_max = Some(0);
    options.background_threads = 2;
    options.lock_timeout = Duration::from_secs(60);
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let key = |number: u64| format!("k{:04}", number * ROWS / KEYS);
    commit(&engine, |t| {
        for number in (0..ROWS).filter(|number| number % (ROWS / KEYS) != 0) {
            insert(t, &table, &format!("k{number:04}"), "v").unwrap();
        }
    });
    engine.checkpoint().unwrap();
    // The number of live rows of each key, as the threads have counted them.
    let live: Vec<AtomicI64> = (0..KEYS).map(|_| AtomicI64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (engine, table, live) = (&engine, &table, &live);
            scope.spawn(move || {
                let mut random = Random::new(thread + 1);
                for round in 0..1500 {
                    let number = random.below(KEYS);
                    let mut transaction = begin(engine);
                    let outcome = match random.one_in(2) {
                        true => insert(&mut transaction, table, &key(number), "v").map(|()| 1),
                        false => delete(&mut transaction, table, &key(number), "v").map(|()| -1),
                    };
                    match outcome {
                        Ok(change) => {
                            // Counted while the row is locked, so that the number is exact.
                            let count = &live[usize::try_from(number).unwrap()];
                            let before = count.fetch_add(change, Ordering::SeqCst);
                            assert!((0..=1).contains(&(before + change)), "{before} {change}");
                            transaction.commit().unwrap();
                        }
                        Err(EngineError::DuplicateKey | EngineError::NotFound) => {
                            transaction.rollback();
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if round % 50 == 0 {
                        engine.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    let live: i64 = live.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    let expected = i64::try_from(ROWS - KEYS).unwrap() + live;
    let found = i64::try_from(rows(&engine, &table).len()).unwrap();
    assert_eq!(found, expected);
}
