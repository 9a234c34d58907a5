//! An insert that finds an existing row can lock it and return its newest version.

use crate::common::*;
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, PageCounts, ReadMode,
    RowEntry, TableHandle,
};

/// Inserts a row; locks the row that has the same key, if there is one.
fn insert_or_lock(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    let second = format!("{value}\0{key}");
    let entry = |index, unique, key, value| RowEntry {
        index: IndexNumber(index),
        unique,
        key,
        value,
    };
    let rows = entry(0, true, key.as_bytes(), value.as_bytes());
    let second = entry(1, false, second.as_bytes(), key.as_bytes());
    transaction.insert_or_lock(table, &[rows, second])
}

/// The value of the row that the insert has locked; `None` if it has not locked it.
fn locked(transaction: &mut EngineTransaction, table: &TableHandle, key: &str) -> Option<String> {
    let outcome = insert_or_lock(transaction, table, key, "new");
    assert!(
        matches!(outcome, Err(EngineError::DuplicateKey)),
        "{outcome:?}"
    );
    let duplicate = transaction.duplicate();
    assert_eq!(duplicate.key, key.as_bytes());
    let value = String::from_utf8(duplicate.value.clone()).unwrap();
    duplicate.is_locked.then_some(value)
}

fn with_rows(disk: &Arc<MemoryDisk>, count: u32) -> (Engine, TableHandle) {
    let (engine, table) = with_table(disk);
    commit(&engine, |t| {
        for number in 0..count {
            insert(t, &table, &format!("k{number:04}"), "old").unwrap();
        }
    });
    (engine, table)
}

#[test]
fn an_existing_row_is_locked_until_the_transaction_ends() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 2);
    let (mut one, mut other) = (begin(&engine), begin(&engine));
    assert_eq!(locked(&mut one, &table, "k0001").as_deref(), Some("old"));
    assert!(is_timeout(update(&mut other, &table, "k0001", "old", "1")));
    update(&mut other, &table, "k0000", "old", "1").unwrap();
    assert!(is_timeout(insert_or_lock(&mut one, &table, "k0000", "new")));
    update(&mut one, &table, "k0001", "old", "2").unwrap();
    one.commit().unwrap();
    other.commit().unwrap();
    assert_eq!(
        rows(&engine, &table),
        pairs(&[("k0000", "1"), ("k0001", "2")])
    );
}

#[test]
fn a_plain_insert_locks_no_row() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 1);
    let mut one = begin(&engine);
    assert!(matches!(
        insert(&mut one, &table, "k0000", "new"),
        Err(EngineError::DuplicateKey)
    ));
    assert!(!one.duplicate().is_locked);
    assert_eq!(one.locks_held(), 0);
    commit(&engine, |t| {
        update(t, &table, "k0000", "old", "1").unwrap();
    });
}

#[test]
fn a_row_that_the_transaction_has_written_needs_no_lock() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 1);
    let mut one = begin(&engine);
    update(&mut one, &table, "k0000", "old", "1").unwrap();
    assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("1"));
    assert_eq!(one.locks_held(), 0);
    insert(&mut one, &table, "k0001", "2").unwrap();
    assert_eq!(locked(&mut one, &table, "k0001").as_deref(), Some("2"));
    one.commit().unwrap();
}

#[test]
fn a_range_lock_of_another_transaction_is_left_to_the_read() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 3);
    let (mut reader, mut writer) = (begin(&engine), begin(&engine));
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Shared)
        .unwrap();
    cursor.set_row_retention(teak_engine::RowRetention::UntilTransactionEnd);
    let mut row = cursor.first(&mut reader).unwrap();
    while row.is_some() {
        row = cursor.next(&mut reader).unwrap();
    }
    assert_eq!(locked(&mut writer, &table, "k0001"), None);
    assert_eq!(writer.locks_held(), 0);
    drop(cursor);
    reader.rollback();
    assert_eq!(locked(&mut writer, &table, "k0001").as_deref(), Some("old"));
}

#[test]
fn a_row_newer_than_the_snapshot_is_a_conflict_under_snapshot_isolation() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 1);
    for isolated in [false, true] {
        let mut one = begin(&engine);
        one.set_snapshot_isolation(isolated);
        one.take_snapshot().unwrap();
        let (old, new) = if isolated { ("1", "2") } else { ("old", "1") };
        commit(&engine, |t| update(t, &table, "k0000", old, new).unwrap());
        if isolated {
            let refused = insert_or_lock(&mut one, &table, "k0000", "new");
            assert!(matches!(refused, Err(EngineError::Conflict)), "{refused:?}");
            assert_eq!(one.locks_held(), 0);
        } else {
            assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("1"));
            assert!(one.is_past_snapshot());
        }
    }
}

#[test]
fn a_savepoint_does_not_release_the_lock() {
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), 1);
    let mut one = begin(&engine);
    assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("old"));
    let savepoint = one.savepoint().unwrap();
    assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("old"));
    update(&mut one, &table, "k0000", "old", "1").unwrap();
    assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("1"));
    one.rollback_to_savepoint(savepoint).unwrap();
    assert_eq!(locked(&mut one, &table, "k0000").as_deref(), Some("old"));
    let mut other = begin(&engine);
    assert!(is_timeout(update(&mut other, &table, "k0000", "old", "2")));
}

/// The insert reads the blocks of the row, and neither the lock nor the update reads them again.
#[test]
fn an_upsert_of_an_existing_row_looks_it_up_once() {
    const ROWS: u32 = 1000;
    let (engine, table) = with_rows(&Arc::new(MemoryDisk::new()), ROWS);
    engine.settle().unwrap();
    let key = |number: u32| format!("k{number:04}");
    let accessed = |work: &mut dyn FnMut()| {
        let before = PageCounts::of_thread().accessed;
        work();
        PageCounts::of_thread().accessed - before
    };
    let mut reader = begin(&engine);
    let lookups = accessed(&mut || {
        let mut cursor = reader
            .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
            .unwrap();
        for number in 0..ROWS {
            assert!(
                cursor
                    .get(&mut reader, key(number).as_bytes())
                    .unwrap()
                    .is_some()
            );
        }
    });
    let mut writer = begin(&engine);
    let upserts = accessed(&mut || {
        for number in 0..ROWS {
            let found = locked(&mut writer, &table, &key(number));
            assert_eq!(found.as_deref(), Some("old"));
            update(&mut writer, &table, &key(number), "old", "new").unwrap();
        }
    });
    writer.commit().unwrap();
    // A few blocks are accessed twice, because they are not in memory at the first time.
    assert!(
        lookups >= u64::from(ROWS) && upserts * 10 <= lookups * 11,
        "{upserts} accesses of upserts, {lookups} of look-ups"
    );
}
