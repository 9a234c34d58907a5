//! Reading several rows of a page together.

use crate::common::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use teak_engine::{
    Cursor, Engine, EngineError, EngineTransaction, IndexNumber, ReadMode, TableHandle,
};

/// A table with the keys `000` to `199`, settled and in pages.
fn settled() -> (Engine, TableHandle) {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for n in 0..200 {
            insert(t, &table, &format!("{n:03}"), "value").unwrap();
        }
    });
    engine.settle().unwrap();
    (engine, table)
}

fn open(transaction: &mut EngineTransaction, table: &TableHandle, mode: ReadMode) -> Cursor {
    let cursor = transaction.cursor(table, IndexNumber::ROWS, mode);
    cursor.unwrap()
}

/// The keys of the next rows.
fn next(
    cursor: &mut Cursor,
    transaction: &mut EngineTransaction,
    passed: usize,
    max: usize,
) -> Vec<String> {
    let rows = cursor.next_rows(transaction, passed, max).unwrap();
    let keys = rows.iter().flat_map(teak_engine::Rows::iter);
    keys.map(|row| String::from_utf8(row.key.to_vec()).unwrap())
        .collect()
}

#[test]
fn rows_are_within_the_bounds_and_the_cursor_is_on_the_first() {
    let (engine, table) = settled();
    let t = &mut begin(&engine);
    let mut cursor = open(t, &table, ReadMode::Snapshot);
    cursor.set_bounds(Some(b"010"), Some(b"015"));
    assert_eq!(cursor.first(t).unwrap().unwrap().key, b"010");
    let mut found = Vec::new();
    let mut passed = 0;
    let mut calls = 0;
    loop {
        let keys = next(&mut cursor, t, passed, 100);
        if keys.is_empty() {
            break;
        }
        passed = keys.len() - 1;
        calls += 1;
        found.extend(keys);
    }
    assert_eq!(found, ["011", "012", "013", "014"]);
    assert!(calls < 4, "no call returned several rows");

    cursor.set_bounds(None, None);
    cursor.first(t).unwrap().unwrap();
    let keys = next(&mut cursor, t, 0, 2);
    assert_eq!(keys, ["001", "002"]);
    // Without `passed`, the next call continues after the first row.
    assert_eq!(next(&mut cursor, t, 0, 1), ["002"]);
    assert_eq!(cursor.next(t).unwrap().unwrap().key, b"003");
    assert_eq!(cursor.previous(t).unwrap().unwrap().key, b"002");
}

#[test]
fn rows_that_were_not_returned_cannot_be_passed() {
    let (engine, table) = settled();
    let t = &mut begin(&engine);
    let mut cursor = open(t, &table, ReadMode::Snapshot);
    let refused = cursor.next_rows(t, 1, 10);
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    cursor.first(t).unwrap().unwrap();
    let refused = cursor.next_rows(t, 10_000, 10);
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    cursor.set_bounds(None, Some(b"100"));
    let refused = cursor.next_rows(t, 1, 10);
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    assert_eq!(next(&mut cursor, t, 0, 1), ["001"]);
}

#[test]
fn own_writes_are_found_by_the_next_call() {
    let (engine, table) = settled();
    let t = &mut begin(&engine);
    let mut cursor = open(t, &table, ReadMode::Snapshot);
    cursor.first(t).unwrap().unwrap();
    assert_eq!(next(&mut cursor, t, 0, 3), ["001", "002", "003"]);
    insert(t, &table, "0035", "value").unwrap();
    delete(t, &table, "004", "value").unwrap();
    assert_eq!(next(&mut cursor, t, 2, 1), ["0035"]);
    assert_eq!(next(&mut cursor, t, 0, 1), ["005"]);
}

#[test]
fn locking_cursors_return_and_lock_one_row() {
    let (engine, table) = settled();
    let t = &mut begin(&engine);
    let mut cursor = open(t, &table, ReadMode::Exclusive);
    cursor.first(t).unwrap().unwrap();
    assert_eq!(next(&mut cursor, t, 0, 10), ["001"]);
    let other = &mut engine.begin(teak_engine::Isolation::ReadCommitted);
    delete(other, &table, "002", "value").unwrap();
    assert!(is_timeout(delete(other, &table, "001", "value")));
}

#[test]
fn rows_end_before_a_row_that_is_elsewhere() {
    let (engine, table) = settled();
    commit(&engine, |t| insert(t, &table, "0505", "value").unwrap());
    let t = &mut begin(&engine);
    let mut cursor = open(t, &table, ReadMode::Snapshot);
    cursor
        .seek(t, b"047", teak_engine::Seek::AtOrAfter)
        .unwrap()
        .unwrap();
    assert_eq!(next(&mut cursor, t, 0, 10), ["048", "049", "050"]);
    assert_eq!(next(&mut cursor, t, 2, 10), ["0505"]);
    assert_eq!(next(&mut cursor, t, 0, 2), ["051", "052"]);
    assert_eq!(cursor.next(t).unwrap().unwrap().key, b"052");
}

#[test]
fn a_scan_finds_all_rows_while_others_write() {
    const SCANS: usize = if cfg!(debug_assertions) { 300 } else { 3000 };
    let (engine, table) = settled();
    let t = &mut begin(&engine);
    // A cursor of a transaction with writes looks for new entries at each step.
    insert(t, &table, "5", "value").unwrap();
    // The first read takes the snapshot, before others write.
    open(t, &table, ReadMode::Snapshot)
        .first(t)
        .unwrap()
        .unwrap();
    let (is_over, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let first = 100 * commits.load(Ordering::Relaxed);
                commit(&engine, |t| {
                    for number in first..first + 100 {
                        insert(t, &table, &format!("9{number:09}"), "value").unwrap();
                    }
                });
                commits.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut scans = 0;
        // On a busy processor, the writer may begin late.
        while scans < SCANS || commits.load(Ordering::Relaxed) == 0 {
            scans += 1;
            let mut cursor = open(t, &table, ReadMode::Snapshot);
            cursor.first(t).unwrap().unwrap();
            let (mut found, mut passed) = (1, 0);
            loop {
                let keys = next(&mut cursor, t, passed, 5);
                if keys.is_empty() {
                    break;
                }
                passed = keys.len() - 1;
                found += keys.len();
            }
            if found != 201 {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, 201);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
