//! Checks of keys read no block while the keys are latched.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Engine, EngineError, EngineTransaction, IndexNumber, ReadMode, TableHandle, WaitError,
};
use teak_testing::{FaultDisk, GateDisk, Random};

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

/// Reads the blocks of the filter.
fn lock_unread_row(transaction: &mut EngineTransaction, table: &TableHandle) {
    assert!(transaction.lock_row(table, b"k0500").unwrap());
    assert!(!transaction.lock_row(table, b"k0500+").unwrap());
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

/// Stores rows with this value.
fn store(disk: &Arc<impl Disk + 'static>, value: &str) {
    let (engine, table) = with_table(disk);
    engine.create_table(&definition(HOT)).unwrap();
    commit(&engine, |t| {
        for number in 0..1000 {
            insert(t, &table, &format!("k{number:04}"), value).unwrap();
        }
    });
    engine.settle().unwrap();
    drop(table);
    engine.close().unwrap();
}

fn hot_key(number: usize) -> String {
    format!("{number:05}")
}

#[test]
fn a_check_that_reads_a_block_holds_no_latch() {
    let works: [Work; 6] = [
        insert_duplicate,
        insert_new,
        update_row,
        lock_row,
        lock_unread_row,
        lock_absent_key,
    ];
    for work in works {
        let disk = Arc::new(MemoryDisk::new());
        store(&disk, "0");
        let gate = GateDisk::new(disk);
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

/// The key of the row that the reader checks, while other transactions write it. Its value is a
/// digit that is repeated.
const READ_KEY: &str = "k0500";

/// What the reader finds: the value of the row, if there is one; `None` if it had to wait for
/// another transaction.
type Found = Option<Option<Vec<u8>>>;

fn read_and_lock(transaction: &mut EngineTransaction, table: &TableHandle) -> Found {
    let mut cursor = transaction
        .cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    match cursor.get(transaction, READ_KEY.as_bytes()) {
        Ok(row) => Some(row.map(|row| row.value.to_vec())),
        Err(EngineError::Wait(WaitError::Timeout)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn insert_row(transaction: &mut EngineTransaction, table: &TableHandle) -> Found {
    match insert(transaction, table, READ_KEY, "new") {
        Ok(()) => Some(None),
        Err(EngineError::DuplicateKey) => Some(Some(transaction.duplicate().value.clone())),
        Err(EngineError::Wait(WaitError::Timeout)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Other transactions.
struct Others<'a> {
    engine: &'a Engine,
    table: &'a TableHandle,
    value_bytes: usize,
}

impl Others<'_> {
    fn value(&self, digit: &str) -> String {
        digit.repeat(self.value_bytes)
    }

    fn begin_update(&self, old: &str, new: &str) -> EngineTransaction {
        let mut transaction = begin(self.engine);
        let (old, new) = (self.value(old), self.value(new));
        update(&mut transaction, self.table, READ_KEY, &old, &new).unwrap();
        transaction
    }

    fn update(&self, old: &str, new: &str) {
        self.begin_update(old, new).commit().unwrap();
    }

    fn delete(&self, old: &str) {
        let old = self.value(old);
        commit(self.engine, |t| {
            delete(t, self.table, READ_KEY, &old).unwrap();
        });
    }

    fn insert(&self, key: &str, new: &str) {
        let new = self.value(new);
        commit(self.engine, |t| insert(t, self.table, key, &new).unwrap());
    }

    fn flush(&self) {
        self.engine.checkpoint().unwrap();
    }
}

/// What other transactions do between the reader's first look and its read. May return a
/// transaction that is still active.
type OtherWrites = fn(&Others<'_>) -> Option<EngineTransaction>;

/// With the digit that the reader must find then.
const WRITES_DURING_READS: [(Option<Option<&str>>, OtherWrites); 12] = [
    (Some(Some("0")), |_| None),
    (Some(Some("1")), |others| {
        others.update("0", "1");
        None
    }),
    // The version is in the first memtable, which is flushed.
    (Some(Some("1")), |others| {
        others.update("0", "1");
        others.flush();
        None
    }),
    // It is in a later memtable, which is flushed, too.
    (Some(Some("1")), |others| {
        others.insert("other", "0");
        others.flush();
        others.update("0", "1");
        others.flush();
        None
    }),
    (Some(Some("2")), |others| {
        others.update("0", "1");
        others.flush();
        others.update("1", "2");
        None
    }),
    // Merges drop the version that the reader has found.
    (Some(Some("2")), |others| {
        others.update("0", "1");
        others.flush();
        others.update("1", "2");
        others.engine.settle().unwrap();
        others.flush();
        None
    }),
    (Some(None), |others| {
        others.delete("0");
        None
    }),
    (Some(None), |others| {
        others.delete("0");
        others.engine.settle().unwrap();
        others.insert("other", "0");
        others.flush();
        None
    }),
    (Some(Some("3")), |others| {
        others.delete("0");
        others.flush();
        others.insert(READ_KEY, "3");
        None
    }),
    // A version that was rolled back is in a memtable that has been flushed.
    (Some(Some("0")), |others| {
        let mut transaction = others.begin_update("0", "1");
        others.flush();
        transaction.rollback();
        None
    }),
    (None, |others| {
        let transaction = others.begin_update("0", "1");
        others.flush();
        Some(transaction)
    }),
    (None, |others| {
        let mut transaction = others.begin_update("0", "1");
        transaction.prepare(b"x").unwrap();
        Some(transaction)
    }),
];

/// Runs the reader's work, and `other_writes` during its first read. This is the read of a node, so
/// the other transactions do not wait for it.
fn found_after(
    disk: FaultDisk,
    value_bytes: usize,
    work: fn(&mut EngineTransaction, &TableHandle) -> Found,
    other_writes: OtherWrites,
) -> Found {
    let gate = GateDisk::new(Arc::new(disk));
    let engine: Engine = open(&Arc::new(gate.clone()));
    let table = engine.open_table(TABLE).unwrap();
    gate.hold_reads(READER);
    let found = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name(READER.into());
        let reader = reader.spawn_scoped(scope, || {
            let mut transaction = begin(&engine);
            let found = work(&mut transaction, &table);
            transaction.rollback();
            found
        });
        gate.wait_for_arrival(READER);
        let (done, all_written) = channel();
        let gate = &gate;
        let watch = scope.spawn(move || {
            let written = all_written.recv_timeout(Duration::from_secs(120));
            gate.open_gate(READER);
            written
        });
        let active = other_writes(&Others {
            engine: &engine,
            table: &table,
            value_bytes,
        });
        // It is an error if the watch has ended.
        let _ = done.send(());
        let written = watch.join().unwrap();
        written.expect("writes of the key do not wait for a read");
        let found = reader.unwrap().join().unwrap();
        if let Some(mut active) = active {
            active.rollback();
        }
        found
    });
    rows(&engine, &table);
    found
}

#[test]
fn versions_that_are_written_during_a_read_are_found() {
    let works = [read_and_lock, insert_row];
    // Values in pages, and separate values.
    for value_bytes in [100, 300] {
        let disk = Arc::new(FaultDisk::new(1));
        store(&disk, &"0".repeat(value_bytes));
        for (case, (expected, other_writes)) in WRITES_DURING_READS.into_iter().enumerate() {
            let expected =
                expected.map(|row| row.map(|digit| digit.repeat(value_bytes).into_bytes()));
            for work in works {
                // All files are durable, so this is a copy.
                let found = found_after(disk.crash(0), value_bytes, work, other_writes);
                assert_eq!(
                    found, expected,
                    "case {case}, values of {value_bytes} bytes"
                );
            }
        }
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
