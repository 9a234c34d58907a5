//! A read with a snapshot older than the table fails: the table must not appear empty.

use crate::common::*;
use std::sync::Arc;
use teak_disk::MemoryDisk;
use teak_engine::{
    EngineError, EngineResult, EngineTransaction, IndexNumber, ReadMode, TableHandle,
};

fn first_row(transaction: &mut EngineTransaction, table: &TableHandle) -> EngineResult<bool> {
    let mut cursor = transaction.cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)?;
    Ok(cursor.first(transaction)?.is_some())
}

#[test]
fn a_table_created_after_the_snapshot_is_refused_without_a_commit_between() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let mut newer = begin(&engine);
    newer.take_snapshot().unwrap();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    writer.commit().unwrap();

    let refused = first_row(&mut older, &table);
    assert!(matches!(refused, Err(EngineError::TableChanged)));
    assert!(!first_row(&mut newer, &table).unwrap());
    assert!(first_row(&mut begin(&engine), &table).unwrap());
}

#[test]
fn a_table_truncated_after_the_snapshot_is_refused_without_a_commit_between() {
    let (engine, table) = with_table(&Arc::new(MemoryDisk::new()));
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    writer.commit().unwrap();
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    engine.truncate_table(TABLE).unwrap();

    let refused = first_row(&mut older, &table);
    assert!(matches!(refused, Err(EngineError::TableChanged)));
    assert!(!first_row(&mut begin(&engine), &table).unwrap());
}

#[test]
fn a_closed_table_remembers_that_it_is_newer_than_a_snapshot() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    // The first handle opens the files. Each index then gets its creation time from the list of
    // tables.
    let table = engine.open_table(TABLE).unwrap();
    assert!(first_row(&mut older, &table).is_err());
    drop(table);
    let table = engine.open_table(TABLE).unwrap();
    assert!(first_row(&mut older, &table).is_err());
}

#[test]
fn a_table_that_was_filled_in_steps_is_refused_to_snapshots_taken_between() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    engine.create_table(&definition("./db/copy")).unwrap();
    let table = engine.open_table("./db/copy").unwrap();
    let mut between = begin(&engine);
    between.take_snapshot().unwrap();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    writer.commit().unwrap();
    engine.refuse_older_snapshots("./db/copy").unwrap();
    engine.rename_table("./db/copy", TABLE).unwrap();

    let refused = first_row(&mut between, &table);
    assert!(matches!(refused, Err(EngineError::TableChanged)));
    assert!(first_row(&mut begin(&engine), &table).unwrap());
    // The snapshot is also refused after the table was closed and opened again.
    drop(table);
    engine.run_maintenance().unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert!(first_row(&mut between, &table).is_err());
    let missing = engine.refuse_older_snapshots("./db/none");
    assert!(matches!(missing, Err(EngineError::NoSuchTable { .. })));
}
