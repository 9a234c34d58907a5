//! Loads: adding many rows to a table together.

use crate::common::*;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, Isolation, ReadMode,
    RowEntry, TableHandle, WaitError,
};
use teak_testing::FaultDisk;

/// Loads rows in the order of the iterator.
fn load(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    numbers: impl Iterator<Item = u64>,
) -> EngineResult<u64> {
    let mut load = transaction.begin_load(table, &[true, false], 1)?;
    for n in numbers {
        add_to_load(&mut load, &format!("{n:06}"), &format!("value {n}"))?;
    }
    transaction.finish_load(load, &mut |_, _| ())
}

/// The numbers below `count`, in another order.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |n| n * 7919 % count)
}

fn expected(numbers: impl Iterator<Item = u64>) -> Rows {
    let row = |n| (format!("{n:06}"), format!("value {n}"));
    let mut rows: Rows = numbers.map(row).collect();
    rows.sort();
    rows
}

fn is_duplicate<T>(result: EngineResult<T>) -> bool {
    matches!(result, Err(EngineError::DuplicateKey))
}

fn merge_all(engine: &Engine) {
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
}

#[test]
fn rows_are_loaded_into_an_empty_and_a_full_table() {
    let (engine, table) = fresh();
    let log_before = engine.statistics().log_bytes_written;
    let mut transaction = begin(&engine);
    let mut reports = Vec::new();
    let mut first = transaction.begin_load(&table, &[true, false], 1).unwrap();
    for n in shuffled(20_000) {
        add_to_load(&mut first, &format!("{n:06}"), &format!("value {n}")).unwrap();
    }
    assert_eq!(first.rows(), 20_000);
    assert!(see(&mut transaction, &table).is_empty());
    let mut report = |done, total| reports.push((done, total));
    assert_eq!(transaction.finish_load(first, &mut report).unwrap(), 20_000);
    assert!(!reports.is_empty());
    assert!(reports.is_sorted() && reports.iter().all(|(_, total)| *total == 40_000));
    // The transaction sees its own rows, and others do not.
    assert_eq!(see(&mut transaction, &table), expected(0..20_000));
    assert!(rows(&engine, &table).is_empty());
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), expected(0..20_000));
    let statistics = engine.statistics();
    assert_eq!(statistics.rows_inserted, 20_000);
    assert_eq!(
        (statistics.bulk_loads, statistics.bulk_load_rows),
        (1, 20_000)
    );
    let logged = engine.statistics().log_bytes_written - log_before;
    assert!(logged < 100_000, "{logged}");

    // Between, before and after the rows of the table.
    commit(&engine, |t| {
        let numbers = 20_000..25_000;
        assert_eq!(load(t, &table, numbers).unwrap(), 5000);
    });
    commit(&engine, |t| {
        let numbers = shuffled(60_000).filter(|n| *n >= 25_000 && n % 3 == 0);
        load(t, &table, numbers).unwrap();
    });
    commit(&engine, |t| {
        let numbers = shuffled(60_000).filter(|n| *n >= 25_000 && n % 3 == 1);
        load(t, &table, numbers).unwrap();
    });
    let all = || expected((0..60_000).filter(|n| *n < 25_000 || n % 3 < 2));
    assert_eq!(rows(&engine, &table), all());
    merge_all(&engine);
    assert_eq!(rows(&engine, &table), all());
}

#[test]
fn a_load_without_rows_changes_nothing() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        assert_eq!(load(t, &table, 0..0).unwrap(), 0);
    });
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn a_duplicate_key_is_found_in_the_load_and_in_the_table() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        insert(t, &table, "000500", "there").unwrap();
    });
    for flushed in [false, true] {
        if flushed {
            merge_all(&engine);
        }
        let mut transaction = begin(&engine);
        let savepoint = transaction.savepoint().unwrap();
        assert!(is_duplicate(load(&mut transaction, &table, 0..1000)));
        assert_eq!(transaction.duplicate().key, b"000500");
        assert_eq!(transaction.duplicate().value, b"there");
        transaction.rollback_to_savepoint(savepoint).unwrap();
        let twice = (0..300).chain(7..8);
        assert!(is_duplicate(load(&mut transaction, &table, twice)));
        assert_eq!(transaction.duplicate().key, b"000007");
        transaction.rollback_to_savepoint(savepoint).unwrap();
        assert_eq!(see(&mut transaction, &table), pairs(&[("000500", "there")]));
        load(&mut transaction, &table, 0..500).unwrap();
        // Also rows that the transaction itself has loaded.
        let savepoint = transaction.savepoint().unwrap();
        assert!(is_duplicate(load(&mut transaction, &table, 499..600)));
        transaction.rollback_to_savepoint(savepoint).unwrap();
        assert_eq!(see(&mut transaction, &table).len(), 501);
        transaction.rollback();
        assert_eq!(rows(&engine, &table), pairs(&[("000500", "there")]));
    }
}

/// The runs of a load are below memtables, so these must not have deletes of its keys.
#[test]
fn a_duplicate_is_found_between_gaps() {
    // In runs, in memtables, and rolled back; with many and with few keys between.
    for every in [1000, 100, 30, 10, 3] {
        for is_flushed in [false, true] {
            let (engine, table) = fresh();
            let existing = || (0..20_000).filter(|n| n % every == 7 % every);
            commit(&engine, |t| {
                for n in existing() {
                    insert(t, &table, &format!("{n:06}"), "old").unwrap();
                }
            });
            let mut aborted = begin(&engine);
            for n in (0..20_000).filter(|n| n % every == 8 % every) {
                insert(&mut aborted, &table, &format!("{n:06}"), "aborted").unwrap();
            }
            aborted.rollback();
            if is_flushed {
                merge_all(&engine);
            }
            let others = || (0..20_000).filter(|n| n % every != 7 % every);
            for duplicate in [7 % every, 10_000 / every * every + 7 % every] {
                let mut transaction = begin(&engine);
                let numbers = others().chain([duplicate]);
                assert!(is_duplicate(load(&mut transaction, &table, numbers)));
                let found = String::from_utf8(transaction.duplicate().key.clone());
                assert_eq!(found.unwrap(), format!("{duplicate:06}"));
                transaction.rollback();
            }
            commit(&engine, |t| {
                load(t, &table, others()).unwrap();
            });
            let mut all = expected(others());
            all.extend(existing().map(|n| (format!("{n:06}"), "old".into())));
            all.sort();
            assert_eq!(rows(&engine, &table), all);
        }
    }
}

#[test]
fn keys_that_were_deleted_before_can_be_loaded() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for n in 0..400 {
            insert(t, &table, &format!("{n:06}"), &format!("value {n}")).unwrap();
        }
    });
    merge_all(&engine);
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    commit(&engine, |t| {
        for n in 0..400 {
            delete(t, &table, &format!("{n:06}"), &format!("value {n}")).unwrap();
        }
    });
    commit(&engine, |t| {
        load(t, &table, shuffled(500)).unwrap();
    });
    assert_eq!(rows(&engine, &table), expected(0..500));
    assert_eq!(see(&mut older, &table), expected(0..400));
    drop(older);
    // By the same transaction, with a range tombstone, too.
    commit(&engine, |t| {
        assert_eq!(t.delete_all(&table).unwrap(), 500);
        load(t, &table, shuffled(300)).unwrap();
        assert_eq!(see(t, &table), expected(0..300));
    });
    assert_eq!(rows(&engine, &table), expected(0..300));
    merge_all(&engine);
    assert_eq!(rows(&engine, &table), expected(0..300));
}

#[test]
fn a_rollback_removes_the_rows_and_an_older_snapshot_does_not_see_them() {
    let (engine, table) = fresh();
    let mut transaction = begin(&engine);
    insert(&mut transaction, &table, "x", "before").unwrap();
    let savepoint = transaction.savepoint().unwrap();
    load(&mut transaction, &table, shuffled(3000)).unwrap();
    assert_eq!(see(&mut transaction, &table).len(), 3001);
    transaction.rollback_to_savepoint(savepoint).unwrap();
    assert_eq!(see(&mut transaction, &table), pairs(&[("x", "before")]));
    load(&mut transaction, &table, 5..10).unwrap();
    transaction.rollback();
    assert!(rows(&engine, &table).is_empty());
    // Otherwise only the rollback of many rows is cleaned up soon.
    engine.settle().unwrap();
    let left = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!(left.entries, 0);

    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    commit(&engine, |t| {
        load(t, &table, 0..2000).unwrap();
    });
    merge_all(&engine);
    assert!(see(&mut reader, &table).is_empty());
    assert_eq!(rows(&engine, &table).len(), 2000);
}

#[test]
fn a_dropped_load_leaves_no_space_in_use() {
    let (engine, table) = fresh();
    engine.checkpoint().unwrap();
    let before = engine.statistics().live_bytes;
    let mut transaction = begin(&engine);
    let mut dropped = transaction.begin_load(&table, &[true, false], 1).unwrap();
    for n in 0..30_000 {
        add_to_load(&mut dropped, &format!("{n:06}"), "value").unwrap();
    }
    drop(dropped);
    transaction.rollback();
    engine.checkpoint().unwrap();
    assert_eq!(engine.statistics().live_bytes, before);
}

#[test]
fn a_load_waits_for_conflicting_transactions() {
    let (engine, table) = fresh();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "000007", "new").unwrap();
    let mut transaction = begin(&engine);
    assert!(is_timeout(load(&mut transaction, &table, 0..10)));
    transaction.rollback();
    // An existing row that another transaction has locked, and may delete.
    let mut reader = engine.begin(Isolation::ReadCommitted);
    commit(&engine, |t| insert(t, &table, "000400", "there").unwrap());
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    assert!(cursor.get(&mut reader, b"000400").unwrap().is_some());
    let mut transaction = begin(&engine);
    assert!(is_timeout(load(&mut transaction, &table, 400..401)));
    transaction.rollback();
    drop((cursor, reader));
    assert!(is_duplicate(load(&mut begin(&engine), &table, 400..401)));
    commit(&engine, |t| delete(t, &table, "000400", "there").unwrap());
    // Other rows are no conflict.
    commit(&engine, |t| {
        load(t, &table, 10..20).unwrap();
    });
    writer.rollback();

    // A gap that another transaction has read.
    let mut reader = begin(&engine);
    let found = try_scan(&mut reader, &table, 0, ReadMode::Exclusive).unwrap();
    assert_eq!(found.len(), 10);
    let mut transaction = begin(&engine);
    assert!(is_timeout(load(&mut transaction, &table, 30..40)));
    transaction.rollback();
    reader.rollback();

    // A deleted row whose deletion is not committed.
    let mut writer = begin(&engine);
    delete(&mut writer, &table, "000012", "value 12").unwrap();
    let mut transaction = begin(&engine);
    assert!(is_timeout(load(&mut transaction, &table, 12..13)));
    transaction.rollback();
    writer.commit().unwrap();
    commit(&engine, |t| {
        load(t, &table, 12..13).unwrap();
    });
    assert_eq!(rows(&engine, &table), expected(10..20));
}

#[test]
fn others_wait_for_a_finished_load() {
    let (engine, table) = fresh();
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    load(&mut transaction, &table, 100..200).unwrap();
    let mut writer = engine.begin(Isolation::ReadCommitted);
    assert!(is_timeout(insert(&mut writer, &table, "000150", "new")));
    assert!(is_timeout(insert(&mut writer, &table, "000150x", "new")));
    insert(&mut writer, &table, "000200x", "new").unwrap();
    writer.rollback();
    let mut other = engine.begin(Isolation::ReadCommitted);
    assert!(is_timeout(load(&mut other, &table, 500..600)));
    other.rollback();
    transaction.commit().unwrap();
    commit(&engine, |t| {
        load(t, &table, 500..600).unwrap();
    });
    assert_eq!(rows(&engine, &table).len(), 200);
}

#[test]
fn a_load_is_durable_with_its_commit() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let mut lost = begin(&engine);
    load(&mut lost, &table, shuffled(5000)).unwrap();
    let (disk, engine, table) = after_crash(engine, &disk, 2);
    drop(lost);
    assert!(rows(&engine, &table).is_empty());
    commit(&engine, |t| {
        load(t, &table, shuffled(4000)).unwrap();
    });
    commit(&engine, |t| {
        delete(t, &table, "000005", "value 5").unwrap();
        insert(t, &table, "000005", "after").unwrap();
    });
    let (_disk, engine, table) = after_crash(engine, &disk, 3);
    let mut all = expected(0..4000);
    all[5].1 = "after".into();
    assert_eq!(rows(&engine, &table), all);
    merge_all(&engine);
    assert_eq!(rows(&engine, &table), all);
}

#[test]
fn a_prepared_load_survives_a_crash() {
    let work = |transaction: &mut EngineTransaction, table: &TableHandle| {
        load(transaction, table, shuffled(500)).unwrap();
    };
    check_prepared_work(|_, _| {}, work, "000003", (0, 500));
}

/// Recovery has no record of the rows, and does not open the file. So the log must say that the file may
/// have entries of the aborted write.
#[test]
fn the_write_of_a_load_remains_aborted_while_its_file_is_closed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let mut transaction = begin(&engine);
    load(&mut transaction, &table, shuffled(500)).unwrap();
    transaction.rollback();
    engine.abandon();
    drop(table);
    let mut disk = Arc::new(disk.crash(2));
    for crash in 3..6 {
        let engine = open(&disk);
        for _ in 0..3 {
            engine.checkpoint().unwrap();
        }
        engine.abandon();
        disk = Arc::new(disk.crash(crash));
    }
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn an_interrupt_ends_a_load() {
    let (engine, table) = fresh();
    let mut transaction = begin(&engine);
    let mut interrupted = transaction.begin_load(&table, &[true, false], 1).unwrap();
    add_to_load(&mut interrupted, "1", "one").unwrap();
    transaction.handle().interrupt();
    let is_interrupted = |error| matches!(error, EngineError::Wait(WaitError::Interrupted));
    let error = (0..5000).find_map(|n| add_to_load(&mut interrupted, &n.to_string(), "").err());
    assert!(is_interrupted(error.unwrap()));
    let finished = transaction.finish_load(interrupted, &mut |_, _| ());
    assert!(is_interrupted(finished.unwrap_err()));
    transaction.rollback();
    assert!(rows(&engine, &table).is_empty());
}

#[test]
fn unsuitable_tables_and_rows_are_refused() {
    let (engine, table) = fresh();
    assert!(table.can_load().unwrap());
    let mut transaction = begin(&engine);
    for unique in [&[true][..], &[true, false, false]] {
        let refused = transaction.begin_load(&table, unique, 1);
        assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    }
    let mut load = transaction.begin_load(&table, &[true, false], 1).unwrap();
    let entry = |index, key| RowEntry {
        index: IndexNumber(index),
        unique: false,
        key,
        value: b"",
    };
    let refused = load.add(&[entry(2, b"key")]);
    assert!(matches!(refused, Err(EngineError::NoSuchIndex { .. })));
    let long = vec![b'x'; 100_000];
    let refused = load.add(&[entry(0, &long)]);
    assert!(matches!(refused, Err(EngineError::Storage(_))));
    add_to_load(&mut load, "1", "one").unwrap();
    transaction.finish_load(load, &mut |_, _| ()).unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("1", "one")]));
}

/// Tables that are not in use are closed; a table with a load is in use.
#[test]
fn the_files_of_a_table_remain_open_during_a_load() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = options();
    options.open_tables_kept = 0;
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    engine.checkpoint().unwrap();
    let mut transaction = begin(&engine);
    let mut load = transaction.begin_load(&table, &[true, false], 1).unwrap();
    drop(table);
    for n in 0..3000 {
        add_to_load(&mut load, &format!("{n:06}"), &format!("value {n}")).unwrap();
        if n % 1000 == 0 {
            engine.checkpoint().unwrap();
            engine.run_background_until_idle().unwrap();
        }
    }
    transaction.finish_load(load, &mut |_, _| ()).unwrap();
    transaction.commit().unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), expected(0..3000));
}
