//! Damaged files, full disks, failed syncs and lack of memory.

use crate::common::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineError, IndexNumber, ReadMode, StorageError, TableHandle};
use teak_testing::{FaultDisk, SyncFailure};

fn files(disk: &FaultDisk, name: &str) -> Vec<PathBuf> {
    let all = disk.list("/data/db".as_ref()).unwrap();
    all.into_iter()
        .filter(|path| path.to_str().unwrap().contains(name))
        .collect()
}

fn fill(engine: &Engine, table: &TableHandle, rows: u64) {
    commit(engine, |t| {
        for n in 0..rows {
            insert(t, table, &format!("{n:05}"), "value").unwrap();
        }
    });
}

#[test]
fn a_damaged_block_fails_the_statement_and_marks_only_its_table() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition("./db/u")).unwrap();
    fill(&engine, &table, 2000);
    fill(&engine, &engine.open_table("./db/u").unwrap(), 100);
    drop(table);
    engine.close().unwrap();
    let path = files(&disk, "t.PRIMARY").pop().unwrap();
    let length = disk.open(&path).unwrap().len().unwrap();
    for offset in (8192..length).step_by(512) {
        disk.flip_bit(&path, offset, 3).unwrap();
    }
    let engine = open(&disk);
    let healthy = engine.open_table("./db/u").unwrap();
    match engine.open_table(TABLE) {
        // The table cannot be opened, because its nodes are damaged, too.
        Err(error) => assert!(error.is_corrupt(), "{error}"),
        Ok(table) => {
            let mut reader = begin(&engine);
            let error = try_scan(&mut reader, &table, 0, ReadMode::Snapshot).unwrap_err();
            assert!(error.is_corrupt(), "{error}");
            assert!(error.to_string().contains("PRIMARY"), "{error}");
            assert!(table.is_damaged());
            let mut sentences = Vec::new();
            let verified = table.verify(&mut || true, &mut |text| sentences.push(text.to_owned()));
            assert!(verified.unwrap_err().is_corrupt());
            assert_eq!(sentences.len(), 1);
        }
    }
    assert_eq!(rows(&engine, &healthy).len(), 100);
    healthy
        .verify(&mut || true, &mut |text| panic!("{text}"))
        .unwrap();
    assert!(!healthy.is_damaged());
    fill_more(&engine, &healthy);
}

fn fill_more(engine: &Engine, table: &TableHandle) {
    commit(engine, |t| insert(t, table, "more", "1").unwrap());
}

#[test]
fn a_missing_file_fails_its_table_but_not_the_engine() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 10);
    drop(table);
    engine.abandon();
    let path = files(&disk, "by_value").pop().unwrap();
    disk.remove(&path).unwrap();
    let engine = open(&disk);
    let error = engine.open_table(TABLE).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, EngineError::TableUnavailable { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("does not exist"), "{error}");
    engine.create_table(&definition("./db/u")).unwrap();
    fill_more(&engine, &engine.open_table("./db/u").unwrap());
    engine.drop_table(TABLE).unwrap();
    engine.close().unwrap();
}

#[test]
fn after_a_failed_sync_commits_fail_and_reads_work() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 10);
    let mut doubtful = begin(&engine);
    insert(&mut doubtful, &table, "doubtful", "1").unwrap();
    disk.fail_sync(0, SyncFailure::Dropped);
    assert!(doubtful.commit().is_err());
    doubtful.rollback();
    let mut later = begin(&engine);
    let outcome = insert(&mut later, &table, "later", "1").and_then(|()| later.commit());
    assert!(
        matches!(
            outcome,
            Err(EngineError::Storage(StorageError::Poisoned { .. }))
        ),
        "{outcome:?}"
    );
    later.rollback();
    assert_eq!(rows(&engine, &table).len(), 10);
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(2)));
    let table = engine.open_table(TABLE).unwrap();
    assert!(rows(&engine, &table).len() >= 10);
    fill_more(&engine, &table);
}

#[test]
fn a_flush_without_space_is_retried() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 2000);
    disk.set_capacity(Some(disk.used_bytes() + 20_000));
    assert!(engine.checkpoint().is_err());
    assert_eq!(rows(&engine, &table).len(), 2000);
    disk.set_capacity(None);
    engine.checkpoint().unwrap();
    assert_eq!(rows(&engine, &table).len(), 2000);
}

#[test]
fn memtables_never_exceed_their_quota() {
    let mut options = options();
    options.background_threads = 2;
    options.cache_bytes = 4 << 20;
    options.commit_sync = false;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let limit = engine.statistics().memtable_bytes_limit;
    // Each writer may exceed the limit by the bytes between two calls of `admit`.
    let slack = 3 * (64 << 10);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let (engine, table) = (&engine, &table);
                scope.spawn(move || {
                    for n in 0..2000u64 {
                        let mut transaction = begin(engine);
                        let key = format!("{:05}-{writer}", n * 7919 % 10_007);
                        insert(&mut transaction, table, &key, &"v".repeat(400)).unwrap();
                        transaction.commit().unwrap();
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let used = engine.statistics().memtable_bytes;
            assert!(used <= limit + slack, "{used} of {limit}");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(rows(&engine, &table).len(), 6000);
    let statistics = engine.statistics();
    assert!(statistics.flushes > 0);
    assert!(statistics.page_cache_bytes <= statistics.page_cache_bytes_limit);
    drop(table);
    engine.close().unwrap();
}

#[test]
fn the_budget_can_be_changed_while_open() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    engine.set_cache_bytes(64 << 20).unwrap();
    fill(&engine, &table, 3000);
    let before = engine.statistics();
    assert_eq!(before.cache_bytes_limit, 64 << 20);
    engine.set_cache_bytes(1 << 20).unwrap();
    engine.run_background_until_idle().unwrap();
    fill_more(&engine, &table);
    engine.run_background_until_idle().unwrap();
    let after = engine.statistics();
    assert!(after.memtable_bytes <= after.memtable_bytes_limit);
    assert!(engine.set_cache_bytes(10).is_err());
    assert_eq!(rows(&engine, &table).len(), 3001);
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    let (engine, table) = with_table(&Arc::new(MemoryDisk::new()));
    let mut writer = begin(&engine);
    let huge = "k".repeat(70_000);
    let outcome = insert(&mut writer, &table, &huge, "1");
    assert!(
        matches!(
            outcome,
            Err(EngineError::Storage(StorageError::TooLarge { .. }))
        ),
        "{outcome:?}"
    );
    assert!(table.counter(99).is_err());
    assert!(table.index_statistics(IndexNumber(9)).is_err());
    assert!(
        writer
            .cursor(&table, IndexNumber(2), ReadMode::Snapshot)
            .is_err()
    );
    let mut none = definition("./db/u");
    none.indexes.clear();
    assert!(engine.create_table(&none).is_err());
    assert!(engine.create_table(&definition("../x")).is_err());
    assert!(engine.create_table(&definition(TABLE)).is_err());
    assert!(engine.drop_table("./db/none").is_err());
}

#[test]
fn the_status_report_has_every_section() {
    let (engine, table) = with_table(&Arc::new(MemoryDisk::new()));
    fill(&engine, &table, 100);
    engine.checkpoint().unwrap();
    let text = engine.status_text();
    for part in [
        "MEMORY",
        "FLUSHING",
        "LOG",
        "TRANSACTIONS",
        "INDEXES",
        "db/t PRIMARY",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn messages_report_what_recovery_did() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 3);
    let mut options = options();
    let logged = capture_messages(&mut options);
    let crashed: Arc<dyn Disk> = Arc::new(disk.crash(1));
    Engine::open(crashed, options).unwrap();
    let logged = logged.lock().unwrap();
    assert!(
        logged.iter().any(|text| text.contains("recovered")),
        "{logged:?}"
    );
}

#[test]
fn tables_without_handles_are_closed_when_there_are_many() {
    let disk = Arc::new(FaultDisk::new(1));
    let mut few = options();
    few.open_tables_kept = 2;
    let any: Arc<dyn Disk> = disk.clone();
    let engine = Engine::open(any, few).unwrap();
    let name = |n: u64| format!("./db/t{n}");
    for n in 0..8 {
        engine.create_table(&definition(&name(n))).unwrap();
        let table = engine.open_table(&name(n)).unwrap();
        fill(&engine, &table, 20 + n);
        let mut gone = begin(&engine);
        insert(&mut gone, &table, "gone", "1").unwrap();
        gone.rollback();
    }
    let kept = engine.open_table(&name(3)).unwrap();
    engine.checkpoint().unwrap();
    engine.run_maintenance().unwrap();
    assert_eq!(engine.statistics().open_tables, 2);
    assert_eq!(rows(&engine, &kept).len(), 23);
    for round in 0..3 {
        for n in 0..8 {
            let table = engine.open_table(&name(n)).unwrap();
            assert_eq!(rows(&engine, &table).len() as u64, 20 + n + round);
            commit(&engine, |t| {
                insert(t, &table, &format!("x{round}"), "1").unwrap()
            });
        }
        engine.checkpoint().unwrap();
        engine.run_maintenance().unwrap();
    }
    drop(kept);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(4)));
    for n in 0..8 {
        let table = engine.open_table(&name(n)).unwrap();
        assert_eq!(rows(&engine, &table).len() as u64, 23 + n);
    }
}

#[test]
fn files_are_closed_while_ever_more_tables_are_opened() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut few = options();
    few.open_tables_kept = 8;
    let engine = Engine::open(disk, few).unwrap();
    let name = |n: u64| format!("./db/t{n}");
    let mut max_open = 0;
    for n in 0..1200 {
        engine.create_table(&definition(&name(n))).unwrap();
        let table = engine.open_table(&name(n)).unwrap();
        // A table with unflushed rows cannot be closed before it is flushed.
        fill(&engine, &table, 2);
        max_open = max_open.max(engine.statistics().open_tables);
    }
    assert!(
        max_open < 600,
        "{max_open} tables were open at the same time"
    );
    for n in (0..1200).step_by(37) {
        let table = engine.open_table(&name(n)).unwrap();
        assert_eq!(rows(&engine, &table).len(), 2);
    }
}
