//! Full disks: writes fail, and no acknowledged write is lost. Reads and DROP TABLE work. Writes
//! succeed as soon as there is space, without a restart.

use crate::common::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_disk::Disk;
use teak_engine::{Engine, EngineError, EngineResult, StorageError, TableHandle};
use teak_testing::{FaultDisk, Random, SyncFailure, WriteFailure};

/// A value that does not compress.
fn value(seed: u64) -> String {
    let mut random = Random::new(seed);
    (0..20)
        .map(|_| format!("{:016x}", random.next_u64()))
        .collect()
}

fn is_full<T>(outcome: &EngineResult<T>) -> bool {
    matches!(
        outcome,
        Err(EngineError::Storage(StorageError::NoSpace { .. }))
    )
}

fn fill_disk(disk: &FaultDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

/// Commits rows one by one until the disk is full; returns their number. Retries refused rows,
/// because each written batch of the log releases reserved space that it did not use.
fn write_until_full(engine: &Engine, table: &TableHandle, prefix: &str) -> usize {
    let (mut taken, mut refused) = (0, 0);
    for n in 0..100_000 {
        let mut transaction = begin(engine);
        let written = insert(
            &mut transaction,
            table,
            &format!("{prefix}{n:06}"),
            &value(n),
        )
        .and_then(|()| transaction.commit());
        match written {
            Ok(()) => (taken, refused) = (taken + 1, 0),
            outcome if is_full(&outcome) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if refused == 5 {
            return taken;
        }
    }
    panic!("the disk did not become full");
}

fn write_one(engine: &Engine, table: &TableHandle, key: &str) -> EngineResult<()> {
    let mut transaction = begin(engine);
    insert(&mut transaction, table, key, &value(key.len() as u64))?;
    transaction.commit()
}

#[test]
fn writes_are_refused_until_there_is_space() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    write_one(&engine, &table, "before").unwrap();
    for round in 0..3 {
        disk.set_capacity(Some(disk.used_bytes() + 50_000));
        let taken = write_until_full(&engine, &table, &format!("r{round}-"));
        let before = rows(&engine, &table).len();
        assert!(before > taken);
        assert!(is_full(&write_one(&engine, &table, "refused")));
        let _ = engine.checkpoint();
        let _ = engine.run_maintenance();
        assert_eq!(rows(&engine, &table).len(), before);
        disk.set_capacity(None);
        write_one(&engine, &table, &format!("after {round}")).unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(rows(&engine, &table).len(), before + 1);
    }
    let expected = rows(&engine, &table);
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(5)));
    assert_eq!(rows(&engine, &engine.open_table(TABLE).unwrap()), expected);
}

#[test]
fn a_refused_row_leaves_its_transaction_usable() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let mut transaction = begin(&engine);
    insert(&mut transaction, &table, "first", "1").unwrap();
    fill_disk(&disk);
    write_until_full(&engine, &table, "x");
    let mark = transaction.savepoint().unwrap();
    // The transaction has been admitted to the table before, so it can write until the log has
    // no space left.
    let mut rows_left = 0..1000;
    assert!(rows_left.any(|n| {
        let key = format!("second{n:04}");
        is_full(&insert(&mut transaction, &table, &key, &value(n)))
    }));
    transaction.rollback_to_savepoint(mark).unwrap();
    // The log has reserved space for the commit record.
    transaction.commit().unwrap();
    let found = rows(&engine, &table);
    assert!(found.iter().any(|(key, _)| key.contains("first")));
    assert!(!found.iter().any(|(key, _)| key.contains("second")));
}

#[test]
fn a_commit_without_space_never_takes_effect() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    write_one(&engine, &table, "kept").unwrap();
    let mut transaction = begin(&engine);
    insert(&mut transaction, &table, "lost", "1").unwrap();
    disk.fail_write(0, WriteFailure::NoSpace);
    assert!(is_full(&transaction.commit()));
    transaction.rollback();
    write_one(&engine, &table, "later").unwrap();
    let expected = rows(&engine, &table);
    assert_eq!(expected.len(), 2);
    drop(table);
    engine.abandon();
    for seed in 0..8 {
        let engine = open(&Arc::new(disk.crash(seed)));
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table), expected);
    }
}

#[test]
fn tables_are_dropped_on_a_full_disk_and_their_space_is_used() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition("./db/u")).unwrap();
    let other = engine.open_table("./db/u").unwrap();
    for n in 0..2000 {
        write_one(&engine, &other, &format!("{n:05}")).unwrap();
    }
    engine.checkpoint().unwrap();
    drop(other);
    fill_disk(&disk);
    write_until_full(&engine, &table, "x");
    let created = engine.create_table(&definition("./db/v"));
    assert!(is_full(&created), "{created:?}");
    assert!(is_full(&engine.truncate_table("./db/u")));
    assert!(!engine.table_exists("./db/v").unwrap());
    let left = disk.list("/data/db".as_ref()).unwrap();
    let indexes = 2 * definition(TABLE).indexes.len();
    assert_eq!(left.len(), indexes, "{left:?}");
    let used = disk.used_bytes();
    engine.drop_table("./db/u").unwrap();
    assert!(disk.used_bytes() < used);
    write_one(&engine, &table, "after").unwrap();
    engine.create_table(&definition("./db/v")).unwrap();
}

#[test]
fn an_engine_opens_on_a_full_disk_to_be_emptied() {
    let disk = Arc::new(FaultDisk::new(1));
    let open = |disk: &Arc<FaultDisk>| {
        let mut options = options();
        // Recovery cannot flush on a full disk, so the rows that it replays must fit in memory.
        options.cache_bytes = 4 << 20;
        Engine::open(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap()
    };
    let engine = open(&disk);
    engine.create_table(&definition(TABLE)).unwrap();
    engine.create_table(&definition("./db/u")).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let other = engine.open_table("./db/u").unwrap();
    for n in 0..3000 {
        write_one(&engine, &other, &format!("{n:05}")).unwrap();
    }
    engine.checkpoint().unwrap();
    drop(other);
    fill_disk(&disk);
    write_until_full(&engine, &table, "x");
    let expected = rows(&engine, &table);
    drop(table);
    engine.abandon();
    for seed in 0..4 {
        let disk = Arc::new(disk.crash(seed));
        // The crash may undo the removal of files, so that more space is used than before. Limits
        // the capacity to the space used now.
        fill_disk(&disk);
        let engine = open(&disk);
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table), expected);
        engine.drop_table("./db/u").unwrap();
        write_one(&engine, &table, "after").unwrap();
        engine.checkpoint().unwrap();
    }
}

/// With flusher threads: when memtables cannot be flushed, writers that fill the memory get an
/// error within a bounded time.
#[test]
fn writers_do_not_wait_forever_for_flushes_without_space() {
    let disk = Arc::new(FaultDisk::new(1));
    let mut options = options();
    options.background_threads = 2;
    options.cache_bytes = 4 << 20;
    options.commit_sync = false;
    // The log remains in one segment, in which space is reserved. So the memory budget is used up
    // before the log is full.
    options.log_segment_bytes = 64 << 20;
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    disk.set_capacity(Some(disk.used_bytes() + (64 << 10)));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || write_until_full(engine, table, &format!("w{writer}-")));
        }
    });
    let before = rows(&engine, &table).len();
    disk.set_capacity(None);
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = write_one(&engine, &table, "after") {
        assert!(is_full::<()>(&Err(error)));
        assert!(Instant::now() < deadline, "freed space was not noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(rows(&engine, &table).len(), before + 1);
    drop(table);
    engine.close().unwrap();
}

/// Checks that the value of a counter survives a crash when the log has been written, for which the
/// disk has space again.
fn check_counter_after_crash(disk: &FaultDisk, engine: Engine, table: TableHandle, expected: u64) {
    disk.set_capacity(None);
    engine.flush_log().unwrap();
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(1)));
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(table.counter(0).unwrap(), expected);
}

#[test]
fn counters_refused_by_a_full_disk_are_logged_later() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    table.advance_counter(0, 7).unwrap();
    fill_disk(&disk);
    write_until_full(&engine, &table, "x");
    // Continues until the log has used the space that it keeps for commits.
    while write_one(&engine, &table, "y").is_ok() || engine.flush_log().is_ok() {
        table
            .advance_counter(0, table.counter(0).unwrap() + 1)
            .unwrap();
        if table.counter(0).unwrap() > 1000 {
            break;
        }
    }
    let value = table.counter(0).unwrap() + 1;
    table.advance_counter(0, value).unwrap();
    let _ = engine.flush_log();
    check_counter_after_crash(&disk, engine, table, value);
}

#[test]
fn a_counter_whose_record_is_refused_keeps_its_value() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    table.set_counter(0, 700).unwrap();
    engine.checkpoint().unwrap();
    fill_disk(&disk);
    let mut refused = 0;
    for round in 0u64..2000 {
        let _ = write_one(&engine, &table, &format!("y{round}"));
        let _ = engine.flush_log();
        let before = table.counter(0).unwrap();
        let wanted = if round % 2 == 0 { 5 } else { 900 } + round;
        match table.set_counter(0, wanted) {
            Ok(()) => assert_eq!(table.counter(0).unwrap(), wanted),
            Err(error) => {
                assert!(is_full::<()>(&Err(error)));
                assert_eq!(table.counter(0).unwrap(), before, "{wanted}");
                refused += 1;
            }
        }
        if refused == 2 {
            break;
        }
    }
    assert_eq!(refused, 2);
    let kept = table.counter(0).unwrap();
    check_counter_after_crash(&disk, engine, table, kept);
}

#[test]
fn after_a_sync_without_space_nothing_is_acknowledged() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    disk.fail_sync(0, SyncFailure::NoSpace);
    assert!(write_one(&engine, &table, "doubtful").is_err());
    let later = write_one(&engine, &table, "later");
    assert!(matches!(
        later,
        Err(EngineError::Storage(StorageError::Poisoned { .. }))
    ));
}
