//! Separate values: scans of keys skip them, writers and locking reads read them, and recovery and
//! checkpoints retain them.

use crate::common::{TABLE, begin, commit, insert, open, update, with_table};
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{EngineTransaction, IndexNumber, ReadMode, TableHandle};

fn value(key: &str) -> String {
    format!("{key} has a large value ").repeat(100)
}

/// The keys that a scan finds, and those values that it has read.
fn scan(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    mode: ReadMode,
    skip: bool,
) -> Vec<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut cursor = transaction.cursor(table, IndexNumber(0), mode).unwrap();
    cursor.skip_large_values(skip);
    let mut rows = Vec::new();
    let mut row = cursor.first(transaction).unwrap();
    while let Some(found) = row {
        let value = (!found.is_value_skipped).then(|| text(found.value));
        rows.push((text(found.key), value));
        row = cursor.next(transaction).unwrap();
    }
    rows
}

#[test]
fn a_scan_of_keys_skips_large_values() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |transaction| {
        for key in ["a", "b", "c"] {
            insert(transaction, &table, key, &value(key)).unwrap();
        }
        insert(transaction, &table, "d", "small").unwrap();
    });
    drop(table);
    engine.close().unwrap();
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    let large = |key: &str| (key.to_owned(), Some(value(key)));
    let skipped = |key: &str| (key.to_owned(), None);
    let small = ("d".to_owned(), Some("small".to_owned()));
    let mut transaction = begin(&engine);
    let keys = scan(&mut transaction, &table, ReadMode::Snapshot, true);
    assert_eq!(
        keys,
        [skipped("a"), skipped("b"), skipped("c"), small.clone()]
    );
    let all = [large("a"), large("b"), large("c"), small];
    let rows = scan(&mut transaction, &table, ReadMode::Snapshot, false);
    assert_eq!(rows, all);
    // A locking scan does not skip values.
    let rows = scan(&mut transaction, &table, ReadMode::Exclusive, true);
    assert_eq!(rows, all);
    // A value that is in memory is not skipped.
    update(&mut transaction, &table, "b", &value("b"), &value("x")).unwrap();
    let rows = scan(&mut transaction, &table, ReadMode::Snapshot, true);
    assert_eq!(rows.get(1), Some(&("b".to_owned(), Some(value("x")))));
    // A lookup does not skip.
    let mode = ReadMode::Snapshot;
    let mut cursor = transaction.cursor(&table, IndexNumber(0), mode).unwrap();
    cursor.skip_large_values(true);
    let row = cursor.get(&mut transaction, b"a").unwrap().unwrap();
    assert_eq!(row.value, value("a").as_bytes());
    transaction.rollback();
}

#[test]
fn duplicates_of_large_rows_are_found() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut transaction = begin(&engine);
    insert(&mut transaction, &table, "a", &value("a")).unwrap();
    transaction.commit().unwrap();
    engine.checkpoint().unwrap();
    let mut transaction = begin(&engine);
    assert!(insert(&mut transaction, &table, "a", "again").is_err());
    update(&mut transaction, &table, "a", &value("a"), &value("b")).unwrap();
    transaction.commit().unwrap();
    engine.checkpoint().unwrap();
    let mut transaction = begin(&engine);
    let rows = scan(&mut transaction, &table, ReadMode::Shared, false);
    assert_eq!(rows, [("a".to_owned(), Some(value("b")))]);
    transaction.commit().unwrap();
}
