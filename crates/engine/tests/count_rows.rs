//! The number of rows of a table, without a scan.

use crate::common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_engine::{Engine, EngineTransaction, IndexNumber, Isolation, ReadMode, TableHandle};
use teak_testing::FaultDisk;

fn count(transaction: &mut EngineTransaction, table: &TableHandle) -> Option<u64> {
    transaction.count_rows(table).unwrap()
}

/// The number that a new transaction sees.
fn counted(engine: &Engine, table: &TableHandle) -> Option<u64> {
    count(&mut begin(engine), table)
}

fn fill(engine: &Engine, table: &TableHandle, first: u64, rows: u64) {
    commit(engine, |t| {
        for n in first..first + rows {
            insert(t, table, &format!("{n:06}"), "value").unwrap();
        }
    });
}

/// Reads all entries of an index forward.
fn scan(transaction: &mut EngineTransaction, table: &TableHandle, index: u32) -> u64 {
    let cursor = transaction.cursor(table, IndexNumber(index), ReadMode::Snapshot);
    let mut cursor = cursor.unwrap();
    let mut found = u64::from(cursor.first(transaction).unwrap().is_some());
    if found > 0 {
        while cursor.next(transaction).unwrap().is_some() {
            found += 1;
        }
    }
    found
}

#[test]
fn each_transaction_counts_the_rows_that_it_sees() {
    let (engine, table) = fresh();
    assert_eq!(counted(&engine, &table), Some(0));
    fill(&engine, &table, 0, 100);
    let mut old = begin(&engine);
    assert_eq!(count(&mut old, &table), Some(100));
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "new", "value").unwrap();
    delete(&mut writer, &table, "000007", "value").unwrap();
    delete(&mut writer, &table, "000008", "value").unwrap();
    update(&mut writer, &table, "000009", "value", "other").unwrap();
    assert_eq!(count(&mut writer, &table), Some(99));
    assert_eq!(counted(&engine, &table), Some(100));
    let savepoint = writer.savepoint().unwrap();
    delete(&mut writer, &table, "000010", "value").unwrap();
    assert_eq!(count(&mut writer, &table), Some(98));
    writer.rollback_to_savepoint(savepoint).unwrap();
    assert_eq!(count(&mut writer, &table), Some(99));
    writer.commit().unwrap();
    assert_eq!(count(&mut old, &table), Some(100));
    assert_eq!(counted(&engine, &table), Some(99));
    let mut rolled_back = begin(&engine);
    insert(&mut rolled_back, &table, "never", "value").unwrap();
    rolled_back.rollback();
    assert_eq!(counted(&engine, &table), Some(99));
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 99);
        // The snapshot may see rows that others have deleted since.
        assert_eq!(count(t, &table), None);
    });
    assert_eq!(counted(&engine, &table), Some(0));
    assert_eq!(count(&mut old, &table), Some(100));
}

#[test]
fn commits_are_added_up_between_live_snapshots() {
    let (engine, table) = fresh();
    let mut live: Vec<(EngineTransaction, u64)> = Vec::new();
    for n in 0..2000u64 {
        fill(&engine, &table, n, 1);
        if n % 300 == 0 {
            let mut transaction = begin(&engine);
            transaction.take_snapshot().unwrap();
            live.push((transaction, n + 1));
        }
        if n % 97 == 0 {
            for (transaction, rows) in &mut live {
                assert_eq!(count(transaction, &table), Some(*rows));
            }
        }
    }
    assert_eq!(counted(&engine, &table), Some(2000));
}

#[test]
fn a_clean_end_keeps_the_count_and_a_crash_makes_it_unknown_until_a_scan() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 0, 50);
    drop(table);
    engine.close().unwrap();
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(counted(&engine, &table), Some(50));
    fill(&engine, &table, 50, 5);
    assert_eq!(counted(&engine, &table), Some(55));
    let (disk, engine, table) = after_crash(engine, &disk, 2);
    assert_eq!(counted(&engine, &table), None);
    // A part of the rows, a scan backward, and one with own rows do not tell the number.
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber(0), ReadMode::Snapshot)
        .unwrap();
    cursor.set_bounds(Some(b"000001"), None);
    let mut is_on_row = cursor.first(&mut reader).unwrap().is_some();
    while is_on_row {
        is_on_row = cursor.next(&mut reader).unwrap().is_some();
    }
    cursor.set_bounds(None, None);
    let mut is_on_row = cursor.last(&mut reader).unwrap().is_some();
    while is_on_row {
        is_on_row = cursor.previous(&mut reader).unwrap().is_some();
    }
    drop(cursor);
    assert_eq!(count(&mut reader, &table), None);
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "own", "value").unwrap();
    assert_eq!(scan(&mut writer, &table, 0), 56);
    assert_eq!(count(&mut writer, &table), None);
    drop((reader, writer));
    // While others write.
    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    fill(&engine, &table, 100, 3);
    assert_eq!(scan(&mut reader, &table, 1), 55);
    assert_eq!(count(&mut reader, &table), Some(55));
    assert_eq!(counted(&engine, &table), Some(58));
    // A crash directly after a clean end: the log has no record yet.
    drop((reader, table));
    engine.close().unwrap();
    let engine = open(&disk);
    let (_disk, engine, table) = after_crash(engine, &disk, 3);
    let known = counted(&engine, &table);
    assert!(known.is_none_or(|rows| rows == 58), "{known:?}");
}

#[test]
fn a_prepared_transaction_is_counted_when_it_is_committed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 0, 10);
    for (xid, commits) in [(b"a", true), (b"b", false)] {
        let mut transaction = begin(&engine);
        insert(&mut transaction, &table, &format!("{xid:?}"), "value").unwrap();
        transaction.prepare(xid).unwrap();
        drop(transaction);
        let before = counted(&engine, &table).unwrap();
        match commits {
            true => engine.commit_prepared(xid, Duration::ZERO).unwrap(),
            false => engine.rollback_prepared(xid, Duration::ZERO).unwrap(),
        }
        assert_eq!(counted(&engine, &table), Some(before + u64::from(commits)));
    }
    // One that recovery finds may have changed any table.
    let mut transaction = begin(&engine);
    insert(&mut transaction, &table, "later", "value").unwrap();
    transaction.prepare(b"c").unwrap();
    let (_disk, engine, table) = after_crash(engine, &disk, 2);
    drop(transaction);
    let mut old = begin(&engine);
    assert_eq!(scan(&mut old, &table, 0), 11);
    assert_eq!(counted(&engine, &table), Some(11));
    engine.commit_prepared(b"c", Duration::ZERO).unwrap();
    assert_eq!(counted(&engine, &table), None);
    assert_eq!(scan(&mut old, &table, 0), 11);
    assert_eq!(counted(&engine, &table), None);
    assert_eq!(scan(&mut begin(&engine), &table, 0), 12);
    assert_eq!(counted(&engine, &table), Some(12));
}

#[test]
fn truncate_begins_a_new_count_and_uncommitted_reads_have_none() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 30);
    let mut dirty = engine.begin(Isolation::ReadUncommitted);
    assert_eq!(count(&mut dirty, &table), None);
    drop(dirty);
    engine.truncate_table(TABLE).unwrap();
    assert_eq!(counted(&engine, &table), Some(0));
    fill(&engine, &table, 0, 3);
    assert_eq!(counted(&engine, &table), Some(3));
}

#[test]
fn a_transaction_past_its_snapshot_has_no_count() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 10);
    let mut transaction = begin(&engine);
    assert_eq!(count(&mut transaction, &table), Some(10));
    fill(&engine, &table, 10, 1);
    let mut cursor = transaction
        .cursor(&table, IndexNumber(0), ReadMode::Exclusive)
        .unwrap();
    assert!(cursor.get(&mut transaction, b"000010").unwrap().is_some());
    drop(cursor);
    delete(&mut transaction, &table, "000010", "value").unwrap();
    assert_eq!(count(&mut transaction, &table), None);
    transaction.commit().unwrap();
    assert_eq!(counted(&engine, &table), Some(10));
}

#[test]
fn a_transaction_of_many_statements_is_counted() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        let first = t.savepoint().unwrap();
        for n in 0..3000u64 {
            let savepoint = t.savepoint().unwrap();
            insert(t, &table, &format!("{n:06}"), "value").unwrap();
            if n % 3 == 0 {
                t.rollback_to_savepoint(savepoint).unwrap();
            }
        }
        assert_eq!(count(t, &table), Some(2000));
        t.rollback_to_savepoint(first).unwrap();
        insert(t, &table, "only", "value").unwrap();
        assert_eq!(count(t, &table), Some(1));
    });
    assert_eq!(counted(&engine, &table), Some(1));
}
