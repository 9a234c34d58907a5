//! Two-phase commit: prepared transactions survive crashes, checkpoints and the end of their
//! handles, until the coordinator ends them.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineError, EngineTransaction, TableHandle, XID_BYTES_MAX};
use teak_testing::{FaultDisk, Random, WriteFailure};

fn prepared_with_row(
    engine: &Engine,
    table: &TableHandle,
    key: &str,
    xid: &str,
) -> EngineTransaction {
    let mut transaction = begin(engine);
    insert(&mut transaction, table, key, "1").unwrap();
    transaction.prepare(xid.as_bytes()).unwrap();
    transaction
}

const LONG: Duration = Duration::from_secs(60);

fn names(engine: &Engine) -> Vec<String> {
    let names = engine.prepared().into_iter();
    names.map(|xid| String::from_utf8(xid).unwrap()).collect()
}

#[test]
fn prepared_rows_are_invisible_and_locked_until_the_end() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut transaction = prepared_with_row(&engine, &table, "a", "x");
    assert!(names(&engine).is_empty(), "a handle owns it");
    assert_eq!(rows(&engine, &table), pairs(&[]));
    let mut other = begin(&engine);
    let refused = insert(&mut other, &table, "a", "2").unwrap_err();
    assert!(matches!(refused, EngineError::Wait(_)), "{refused}");
    other.rollback();
    let refused = insert(&mut transaction, &table, "b", "2").unwrap_err();
    assert!(matches!(refused, EngineError::InvalidArgument(_)));
    assert!(transaction.rollback_to_savepoint(0).is_err());
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
    assert!(matches!(
        engine.commit_prepared(b"x", Duration::ZERO),
        Err(EngineError::NotFound)
    ));
}

#[test]
fn a_name_is_used_once_at_a_time() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut first = prepared_with_row(&engine, &table, "a", "x");
    let mut second = begin(&engine);
    insert(&mut second, &table, "b", "1").unwrap();
    let refused = second.prepare(b"x").unwrap_err();
    assert!(matches!(refused, EngineError::InvalidArgument(_)));
    first.commit().unwrap();
    second.prepare(b"x").unwrap();
    second.try_rollback().unwrap();
    assert!(second.prepare(&[b'x'; XID_BYTES_MAX + 1]).is_err());
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

#[test]
fn a_detached_transaction_is_ended_by_its_name() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    for (key, xid) in [("a", "x"), ("b", "y")] {
        prepared_with_row(&engine, &table, key, xid).detach();
    }
    // Dropping its handle does not end a prepared transaction either.
    drop(prepared_with_row(&engine, &table, "c", "z"));
    assert_eq!(names(&engine), ["x", "y", "z"]);
    let commits = engine.statistics().log_commits;
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
    engine.rollback_prepared(b"y", Duration::ZERO).unwrap();
    engine.commit_prepared(b"z", Duration::ZERO).unwrap();
    assert_eq!(engine.statistics().log_commits, commits + 2);
    assert!(names(&engine).is_empty());
    let expected = pairs(&[("a", "1"), ("c", "1")]);
    assert_eq!(rows(&engine, &table), expected);
}

#[test]
fn ending_a_transaction_by_its_name_waits_until_its_handle_is_detached() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut owned = prepared_with_row(&engine, &table, "a", "x");
    let refused = engine.commit_prepared(b"x", Duration::ZERO).unwrap_err();
    assert!(matches!(refused, EngineError::Wait(_)), "{refused}");
    std::thread::scope(|scope| {
        let coordinator = scope.spawn(|| engine.commit_prepared(b"x", LONG));
        std::thread::sleep(Duration::from_millis(10));
        owned.detach();
        coordinator.join().unwrap().unwrap();
    });
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
    assert!(names(&engine).is_empty());
    // If the handle ends the transaction, the waiting call fails.
    let owned = prepared_with_row(&engine, &table, "b", "y");
    std::thread::scope(|scope| {
        let coordinator = scope.spawn(|| engine.rollback_prepared(b"y", LONG));
        std::thread::sleep(Duration::from_millis(10));
        let mut owned = owned;
        owned.commit().unwrap();
        let refused = coordinator.join().unwrap().unwrap_err();
        assert!(matches!(refused, EngineError::NotFound), "{refused}");
    });
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1"), ("b", "1")]));
}

#[test]
fn preparing_a_transaction_without_writes_has_no_effect() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, _table) = with_table(&disk);
    let mut transaction = begin(&engine);
    transaction.prepare(b"x").unwrap();
    transaction.detach();
    assert!(names(&engine).is_empty());
}

#[test]
fn prepared_transactions_survive_a_clean_shutdown() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    prepared_with_row(&engine, &table, "a", "x").detach();
    drop(table);
    engine.close().unwrap();
    let engine = open(&disk);
    assert_eq!(names(&engine), ["x"]);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[]));
    let mut other = begin(&engine);
    assert!(insert(&mut other, &table, "a", "2").is_err(), "locked");
    other.rollback();
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

#[test]
fn a_prepared_transaction_does_not_retain_the_log() {
    leave_prepared(false);
}

#[test]
fn a_prepared_transaction_whose_end_found_no_space_does_not_retain_the_log() {
    leave_prepared(true);
}

fn leave_prepared(try_to_end: bool) {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let oldest_segment = || {
        let files = Disk::list(&*disk, Path::new("/data")).unwrap();
        let names = files.iter().filter_map(|path| path.file_name()?.to_str());
        names
            .filter(|name| name.starts_with("teak.log."))
            .min()
            .map(str::to_owned)
    };
    let first = oldest_segment();
    prepared_with_row(&engine, &table, "a", "x").detach();
    if try_to_end {
        disk.fail_write(0, WriteFailure::NoSpace);
        assert!(engine.commit_prepared(b"x", Duration::ZERO).is_err());
    }
    for n in 0..3000 {
        commit(&engine, |t| {
            insert(t, &table, &format!("k{n:05}"), "1").unwrap();
        });
    }
    assert_eq!(oldest_segment(), first);
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    assert_ne!(oldest_segment(), first);
    drop(table);
    engine.abandon();
    let engine = open(&disk);
    assert_eq!(names(&engine), ["x"]);
    engine.rollback_prepared(b"x", Duration::ZERO).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 3000);
}

/// Prepares, commits and rolls back transactions at random, with checkpoints in
/// between. After a crash every acknowledged transaction has its acknowledged
/// state.
#[test]
fn crashes_keep_every_acknowledged_prepare() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let disk = Arc::new(FaultDisk::new(seed));
        let (engine, table) = with_table(&disk);
        let mut open_ones: Vec<(String, String, EngineTransaction)> = Vec::new();
        let mut committed: Vec<String> = Vec::new();
        let mut waiting: Vec<(String, String)> = Vec::new();
        for n in 0..random.below(40) {
            let (key, xid) = (format!("k{n:03}"), format!("x{n:03}"));
            match random.below(7) {
                0 | 1 => {
                    let handle = prepared_with_row(&engine, &table, &key, &xid);
                    open_ones.push((key, xid, handle));
                }
                2 => {
                    prepared_with_row(&engine, &table, &key, &xid).detach();
                    waiting.push((key, xid));
                }
                3 if !open_ones.is_empty() => {
                    let (key, _, mut handle) = open_ones.swap_remove(0);
                    handle.commit().unwrap();
                    committed.push(key);
                }
                4 if !open_ones.is_empty() => {
                    let (_, _, mut handle) = open_ones.swap_remove(0);
                    handle.try_rollback().unwrap();
                }
                5 if !waiting.is_empty() => {
                    let (key, xid) = waiting.swap_remove(0);
                    if random.below(2) == 0 {
                        engine
                            .commit_prepared(xid.as_bytes(), Duration::ZERO)
                            .unwrap();
                        committed.push(key);
                    } else {
                        engine
                            .rollback_prepared(xid.as_bytes(), Duration::ZERO)
                            .unwrap();
                    }
                }
                _ => engine.checkpoint().unwrap(),
            }
        }
        waiting.extend(
            open_ones
                .iter()
                .map(|(key, xid, _)| (key.clone(), xid.clone())),
        );
        waiting.sort();
        committed.sort();
        let mut crashed = Arc::new(disk.crash(seed));
        for generation in 0..2 {
            let engine = open(&crashed);
            let expected: Vec<&str> = waiting.iter().map(|(_, xid)| xid.as_str()).collect();
            assert_eq!(names(&engine), expected, "seed {seed}, {generation}");
            let table = engine.open_table(TABLE).unwrap();
            let keys: Vec<String> = rows(&engine, &table).into_iter().map(|row| row.0).collect();
            assert_eq!(keys, committed, "seed {seed}, {generation}");
            crashed = Arc::new(crashed.crash(seed + 1));
        }
        let engine = open(&crashed);
        for (n, (key, xid)) in waiting.iter().enumerate() {
            if n % 2 == 0 {
                engine
                    .commit_prepared(xid.as_bytes(), Duration::ZERO)
                    .unwrap();
                committed.push(key.clone());
            } else {
                engine
                    .rollback_prepared(xid.as_bytes(), Duration::ZERO)
                    .unwrap();
            }
        }
        committed.sort();
        let engine = open(&Arc::new(crashed.crash(seed + 2)));
        assert!(names(&engine).is_empty(), "seed {seed}");
        let table = engine.open_table(TABLE).unwrap();
        let keys: Vec<String> = rows(&engine, &table).into_iter().map(|row| row.0).collect();
        assert_eq!(keys, committed, "seed {seed}");
    }
}

#[test]
fn after_a_crash_the_coordinator_decides_about_ordered_commits() {
    let disk = Arc::new(FaultDisk::new(5));
    let (engine, table) = with_table(&disk);
    let mut transaction = prepared_with_row(&engine, &table, "a", "x");
    transaction.commit_ordered().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
    let mut unprepared = begin(&engine);
    insert(&mut unprepared, &table, "b", "1").unwrap();
    assert!(unprepared.commit_ordered().is_err());
    unprepared.rollback();
    for seed in 0..10 {
        let engine = open(&Arc::new(disk.crash(seed)));
        if !names(&engine).is_empty() {
            engine.commit_prepared(b"x", Duration::ZERO).unwrap();
        }
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]), "seed {seed}");
    }
}
