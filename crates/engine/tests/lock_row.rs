//! Rows are locked without being read.

use crate::common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::{Engine, TableHandle};

const ROWS: usize = 1000;

fn key(number: usize) -> String {
    format!("k{number:04}")
}

/// Rows that all readers see; their index blocks are in memory, most of their pages are not.
fn stored_rows() -> (Engine, TableHandle, Arc<MemoryDisk>) {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for number in 0..ROWS {
            insert(t, &table, &key(number), "0").unwrap();
        }
    });
    engine.settle().unwrap();
    reopened(engine, table, &disk)
}

/// Opens the engine again, and reads the index blocks.
fn reopened(
    engine: Engine,
    table: TableHandle,
    disk: &Arc<MemoryDisk>,
) -> (Engine, TableHandle, Arc<MemoryDisk>) {
    drop(table);
    engine.close().unwrap();
    let engine = open(disk);
    let table = engine.open_table(TABLE).unwrap();
    let mut t = begin(&engine);
    // Filters exclude nearly all of these, so that only index blocks are read.
    let absent = (0..ROWS).map(|number| format!("{}+", key(number)));
    let found = absent.filter(|key| t.lock_row(&table, key.as_bytes()).unwrap());
    assert!(found.count() < ROWS / 20);
    t.rollback();
    (engine, table, Arc::clone(disk))
}

fn blocks_read(engine: &Engine) -> u64 {
    engine.statistics().blocks_read
}

#[test]
fn existing_rows_are_locked_and_changed_without_reading_them() {
    let (engine, table, _) = stored_rows();
    let before = blocks_read(&engine);
    let mut t = begin(&engine);
    for number in 0..ROWS {
        assert!(t.lock_row(&table, key(number).as_bytes()).unwrap());
    }
    assert_eq!(blocks_read(&engine), before);
    for number in 0..ROWS {
        match number % 3 {
            0 => update(&mut t, &table, &key(number), "0", "1").unwrap(),
            1 => delete(&mut t, &table, &key(number), "0").unwrap(),
            _ => {}
        }
    }
    t.commit().unwrap();
    let expected = (0..ROWS).filter(|number| number % 3 != 1);
    let value = |number: usize| if number.is_multiple_of(3) { "1" } else { "0" };
    let expected: Rows = expected.map(|n| (key(n), value(n).into())).collect();
    assert_eq!(rows(&engine, &table), expected);
}

#[test]
fn rows_of_other_transactions_are_waited_for() {
    let (engine, table, _) = stored_rows();
    let (written, locked, new) = (key(10), key(20), "new".to_owned());
    let mut other = begin(&engine);
    update(&mut other, &table, &written, "0", "1").unwrap();
    assert!(other.lock_row(&table, locked.as_bytes()).unwrap());
    insert(&mut other, &table, &new, "1").unwrap();
    let mut t = begin(&engine);
    for flushed in [false, true] {
        if flushed {
            // The uncommitted versions are in runs, of which no page is in memory.
            engine.settle().unwrap();
        }
        for key in [&written, &locked, &new] {
            assert!(is_timeout(t.lock_row(&table, key.as_bytes())), "{key}");
        }
    }
    other.commit().unwrap();
    for key in [&written, &locked, &new] {
        assert!(t.lock_row(&table, key.as_bytes()).unwrap(), "{key}");
    }
    let mut late = begin(&engine);
    assert!(is_timeout(late.lock_row(&table, locked.as_bytes())));
    t.rollback();
    assert!(late.lock_row(&table, locked.as_bytes()).unwrap());
}

#[test]
fn deleted_rows_are_not_found() {
    let (engine, table, _) = stored_rows();
    commit(&engine, |t| {
        delete(t, &table, &key(5), "0").unwrap();
        for number in 100..200 {
            delete(t, &table, &key(number), "0").unwrap();
        }
    });
    for settles in [false, true] {
        if settles {
            engine.settle().unwrap();
        }
        let mut t = begin(&engine);
        for number in [5, 100, 150, 199] {
            assert!(!t.lock_row(&table, key(number).as_bytes()).unwrap());
        }
        assert!(t.lock_row(&table, key(200).as_bytes()).unwrap());
        t.rollback();
    }
    let mut t = begin(&engine);
    delete(&mut t, &table, &key(6), "0").unwrap();
    assert!(!t.lock_row(&table, key(6).as_bytes()).unwrap());
    insert(&mut t, &table, &key(6), "2").unwrap();
    assert!(t.lock_row(&table, key(6).as_bytes()).unwrap());
    t.commit().unwrap();
}

/// The deletes are in runs above the rows, because their transaction was open when they were flushed.
#[test]
fn rows_whose_deletes_are_in_runs_are_not_found() {
    let (engine, table, disk) = stored_rows();
    let mut deleting = begin(&engine);
    for number in (0..ROWS).step_by(10) {
        delete(&mut deleting, &table, &key(number), "0").unwrap();
    }
    engine.settle().unwrap();
    deleting.commit().unwrap();
    drop(deleting);
    let (engine, table, _) = reopened(engine, table, &disk);
    let mut t = begin(&engine);
    for number in 0..ROWS {
        let found = t.lock_row(&table, key(number).as_bytes()).unwrap();
        assert_eq!(found, number % 10 != 0, "{number}");
    }
}

/// Newer runs have none of the rows. Their filters may be wrong.
#[test]
fn uncommitted_versions_below_newer_runs_are_waited_for() {
    let (engine, table, disk) = stored_rows();
    let mut other = begin(&engine);
    for number in 0..ROWS {
        update(&mut other, &table, &key(number), "0", "1").unwrap();
    }
    engine.settle().unwrap();
    for round in 0..5 {
        commit(&engine, |t| {
            for number in 0..ROWS {
                let new = format!("{}-{round}", key(number));
                insert(t, &table, &new, "2").unwrap();
            }
        });
        engine.settle().unwrap();
    }
    // The prepared transaction remains; pages are no longer in memory.
    other.prepare(b"x").unwrap();
    drop(other);
    let (engine, table, _) = reopened(engine, table, &disk);
    let mut t = begin(&engine);
    for number in 0..ROWS {
        let locked = t.lock_row(&table, key(number).as_bytes());
        assert!(is_timeout(locked), "{number}");
    }
    t.rollback();
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
}
