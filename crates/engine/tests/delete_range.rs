//! Deleting all rows of a table, or a range of them, as a whole.

use crate::common::*;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Codec, Engine, EngineError, EngineResult, EngineTransaction, FilterKeys, IndexDefinition,
    IndexNumber, Isolation, ReadMode, RowEntry, TableDefinition, TableHandle, WaitError,
};
use teak_testing::FaultDisk;

fn fill(engine: &Engine, table: &TableHandle, first: u64, count: u64) {
    commit(engine, |t| {
        for n in first..first + count {
            insert(t, table, &format!("{n:06}"), &format!("value {n}")).unwrap();
        }
    });
}

#[test]
fn all_rows_are_deleted_in_all_indexes_and_others_can_be_inserted() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 500);
    engine.checkpoint().unwrap();
    fill(&engine, &table, 500, 100);
    let deleted_before = engine.statistics().rows_deleted;
    let mut transaction = begin(&engine);
    assert!(table.can_delete_all(600).unwrap());
    assert!(!table.can_delete_all(601).unwrap());
    assert_eq!(transaction.delete_all(&table).unwrap(), 600);
    assert!(see(&mut transaction, &table).is_empty());
    insert(&mut transaction, &table, "000007", "again").unwrap();
    assert_eq!(see(&mut transaction, &table), pairs(&[("000007", "again")]));
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("000007", "again")]));
    assert_eq!(engine.statistics().rows_deleted, deleted_before + 600);
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("000007", "again")]));
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 1);
        assert_eq!(t.delete_all(&table).unwrap(), 0);
    });
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn a_rollback_restores_the_rows_and_an_older_snapshot_keeps_them() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 300);
    let before = rows(&engine, &table);
    let mut transaction = begin(&engine);
    let savepoint = transaction.savepoint().unwrap();
    assert_eq!(transaction.delete_all(&table).unwrap(), 300);
    transaction.rollback_to_savepoint(savepoint).unwrap();
    assert_eq!(see(&mut transaction, &table), before);
    delete(&mut transaction, &table, "000001", "value 1").unwrap();
    assert_eq!(transaction.delete_all(&table).unwrap(), 299);
    // A deleted row does not exist for the transaction that has locked it.
    assert!(delete(&mut transaction, &table, "000002", "value 2").is_err());
    transaction.rollback();
    assert_eq!(rows(&engine, &table), before);

    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 300);
    });
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    assert_eq!(see(&mut reader, &table), before);
    drop(reader);
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn other_transactions_wait_for_the_deletion_and_it_waits_for_them() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 50);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let mut writer = engine.begin(isolation);
        insert(&mut writer, &table, "000003x", "new").unwrap();
        let mut transaction = engine.begin(isolation);
        assert!(is_timeout(transaction.delete_all(&table)));
        transaction.rollback();
        writer.rollback();
        let mut reader = engine.begin(isolation);
        let mut cursor = reader
            .cursor(&table, teak_engine::IndexNumber::ROWS, ReadMode::Shared)
            .unwrap();
        assert!(cursor.get(&mut reader, b"000020").unwrap().is_some());
        let mut transaction = engine.begin(isolation);
        assert!(is_timeout(transaction.delete_all(&table)));
        transaction.rollback();
        drop((cursor, reader));

        let mut transaction = engine.begin(isolation);
        assert_eq!(transaction.delete_all(&table).unwrap(), 50);
        let mut writer = engine.begin(isolation);
        for key in ["", "000003x", "999999"] {
            assert!(is_timeout(insert(&mut writer, &table, key, "new")), "{key}");
        }
        assert!(is_timeout(delete(&mut writer, &table, "000004", "value 4")));
        let locked = try_scan(&mut writer, &table, 0, ReadMode::Shared);
        assert!(is_timeout(locked));
        transaction.rollback();
    }
}

#[test]
fn a_deletion_is_durable_with_its_commit() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 0, 200);
    engine.checkpoint().unwrap();
    let mut lost = begin(&engine);
    assert_eq!(lost.delete_all(&table).unwrap(), 200);
    let (disk, engine, table) = after_crash(engine, &disk, 2);
    drop(lost);
    assert_eq!(rows(&engine, &table).len(), 200);
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 200);
        insert(t, &table, "000001", "after").unwrap();
    });
    let (_disk, engine, table) = after_crash(engine, &disk, 3);
    assert_eq!(rows(&engine, &table), pairs(&[("000001", "after")]));
}

#[test]
fn a_table_that_is_emptied_again_and_again_gets_few_range_tombstones() {
    let (engine, table) = fresh();
    let mut times = 0;
    while table.can_delete_all(0).unwrap() {
        fill(&engine, &table, 0, 1);
        commit(&engine, |t| assert_eq!(t.delete_all(&table).unwrap(), 1));
        times += 1;
        assert!(times <= 8);
    }
    assert_eq!(times, 8);
    engine.checkpoint().unwrap();
    assert!(table.can_delete_all(0).unwrap());
}

#[test]
fn a_killed_deletion_deletes_nothing() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 100);
    let mut transaction = begin(&engine);
    transaction.handle().interrupt();
    let error = transaction.delete_all(&table).unwrap_err();
    let interrupted = EngineError::Wait(WaitError::Interrupted);
    assert_eq!(error.to_string(), interrupted.to_string());
    transaction.begin_statement().unwrap();
    assert_eq!(see(&mut transaction, &table).len(), 100);
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table).len(), 100);
}

#[test]
fn a_prepared_deletion_survives_a_crash() {
    let work = |transaction: &mut EngineTransaction, table: &TableHandle| {
        assert_eq!(transaction.delete_all(table).unwrap(), 20);
    };
    let filled = |engine: &Engine, table: &TableHandle| fill(engine, table, 0, 20);
    check_prepared_work(filled, work, "000003", (20, 0));
}

/// Without deletes of single rows, only the tombstone makes the leaves due.
#[test]
fn merges_free_the_space_of_the_rows() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = options();
    options.cache_bytes = 8 << 20;
    options.tree.leaf_bytes = 64 << 10;
    options.tree.child_buffer_bytes = 128 << 10;
    options.tree.run_bytes_max = 128 << 10;
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    for batch in 0..40 {
        fill(&engine, &table, batch * 1000, 1000);
        engine.checkpoint().unwrap();
    }
    let before = engine.statistics().live_bytes;
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 40_000);
    });
    engine.checkpoint().unwrap();
    // Only jobs that are due.
    while engine.step().unwrap() {}
    engine.checkpoint().unwrap();
    let after = engine.statistics().live_bytes;
    assert!(after < before / 20, "{before} {after}");
    assert!(rows(&engine, &table).is_empty());
}

/// A table without secondary indexes, with the rows 000000 to 000299.
fn of_rows_only() -> (Engine, TableHandle) {
    let (engine, _) = fresh();
    let definition = TableDefinition {
        name: "./db/rows".into(),
        indexes: vec![IndexDefinition {
            label: "PRIMARY".into(),
            codec: Codec::Lz4,
            page_bytes: 0,
            encryption_key: None,
            filter_keys: FilterKeys::Whole,
            value_fixed_bytes: 0,
            columns: Default::default(),
        }],
        metadata: Vec::new(),
    };
    engine.create_table(&definition).unwrap();
    let table = engine.open_table("./db/rows").unwrap();
    commit(&engine, |t| {
        for n in 0..300 {
            put(t, &table, &format!("{n:06}")).unwrap();
        }
    });
    (engine, table)
}

fn put(transaction: &mut EngineTransaction, table: &TableHandle, key: &str) -> EngineResult<()> {
    let entry = RowEntry {
        index: IndexNumber::ROWS,
        unique: true,
        key: key.as_bytes(),
        value: b"value",
    };
    transaction.insert(table, &[entry])
}

fn keys(engine: &Engine, table: &TableHandle) -> Vec<String> {
    let mut transaction = begin(engine);
    let found = try_scan(&mut transaction, table, 0, ReadMode::Snapshot).unwrap();
    found.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_range_of_rows_is_deleted_in_a_table_with_one_index() {
    let (engine, table) = of_rows_only();
    assert!(table.can_delete_range().unwrap());
    engine.checkpoint().unwrap();
    commit(&engine, |t| {
        assert_eq!(t.delete_range(&table, b"000010", b"000020").unwrap(), 10);
        assert_eq!(t.delete_range(&table, b"000010", b"000021").unwrap(), 1);
        assert_eq!(t.delete_range(&table, b"000030", b"000030").unwrap(), 0);
        assert_eq!(t.delete_range(&table, b"000040", b"000030").unwrap(), 0);
        assert_eq!(t.delete_range(&table, b"", b"000005").unwrap(), 5);
        assert_eq!(t.delete_range(&table, b"000290", b"").unwrap(), 10);
        put(t, &table, "000012").unwrap();
    });
    let mut expected: Vec<String> = (5..290).map(|n| format!("{n:06}")).collect();
    expected.retain(|key| !("000010".."000021").contains(&key.as_str()) || key == "000012");
    assert_eq!(keys(&engine, &table), expected);
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    assert_eq!(keys(&engine, &table), expected);
    let mut transaction = begin(&engine);
    assert_eq!(
        transaction.delete_range(&table, b"000100", b"").unwrap(),
        190
    );
    transaction.rollback();
    assert_eq!(keys(&engine, &table), expected);
}

#[test]
fn only_the_range_is_locked() {
    let (engine, table) = of_rows_only();
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    let deleted = transaction.delete_range(&table, b"000100", b"000200");
    assert_eq!(deleted.unwrap(), 100);
    let mut writer = engine.begin(Isolation::ReadCommitted);
    for key in ["000100", "000150x", "000199x"] {
        assert!(is_timeout(put(&mut writer, &table, key)), "{key}");
    }
    for key in ["000099x", "000200x", "000301", ""] {
        put(&mut writer, &table, key).unwrap();
    }
    assert!(is_timeout(
        writer.delete_range(&table, b"000050", b"000101")
    ));
    writer.rollback();
    transaction.rollback();
}

#[test]
fn a_table_with_several_indexes_has_no_range_deletions() {
    let (engine, table) = fresh();
    fill(&engine, &table, 0, 50);
    assert!(!table.can_delete_range().unwrap());
    let mut transaction = begin(&engine);
    let refused = transaction.delete_range(&table, b"000001", b"000002");
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
}
