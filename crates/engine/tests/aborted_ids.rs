//! Aborted write ids are forgotten while the engine is busy, also those of closed tables.

use crate::common::*;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Engine, EngineError, EngineOptions, IndexNumber, ReadMode, TableHandle, WaitError,
};

fn busy_options() -> EngineOptions {
    let mut options = options();
    options.open_tables_kept = 0;
    options
}

fn open_busy(disk: &Arc<MemoryDisk>) -> Engine {
    Engine::open(Arc::clone(disk) as Arc<dyn Disk>, busy_options()).unwrap()
}

/// Flushes rows of two active transactions, so that the files contain the write ids of both. Then
/// commits one transaction and rolls the other back.
fn flush_active(engine: &Engine, table: &TableHandle, prefix: &str, rows: u64) {
    let (mut kept, mut undone) = (begin(engine), begin(engine));
    for n in 0..rows {
        insert(&mut kept, table, &format!("{prefix}{n:05}k"), "1").unwrap();
        insert(&mut undone, table, &format!("{prefix}{n:05}u"), "1").unwrap();
    }
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    kept.commit().unwrap();
    undone.rollback();
}

/// Runs maintenance passes, each after a commit.
fn stay_busy(engine: &Engine, table: &TableHandle, passes: usize) {
    for n in 0..passes {
        commit(engine, |t| {
            let key = format!("busy{:020}-{n}", engine.log_end().0);
            insert(t, table, &key, "1").unwrap();
        });
        engine.run_maintenance().unwrap();
    }
}

#[test]
fn aborted_ids_are_forgotten_on_a_busy_server() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition("./db/busy")).unwrap();
    let busy = engine.open_table("./db/busy").unwrap();
    for round in 0..5 {
        flush_active(&engine, &table, &format!("{round}-"), 300);
    }
    assert_eq!(engine.statistics().aborted_ids, 5);
    let expected = rows(&engine, &table);
    assert_eq!(expected.len(), 1500);
    stay_busy(&engine, &busy, 400);
    assert_eq!(engine.statistics().aborted_ids, 0);
    assert_eq!(rows(&engine, &table), expected);
    drop((table, busy));
    engine.abandon();
    let engine = open_busy(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), expected);
}

#[test]
fn aborted_ids_are_forgotten_although_tables_are_closed() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open_busy(&disk);
    let names: Vec<String> = (0..6).map(|n| format!("./db/t{n}")).collect();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        flush_active(&engine, &table, "row", 100);
    }
    engine.checkpoint().unwrap();
    engine.abandon();
    // Only one table is opened.
    let engine = open_busy(&disk);
    engine.create_table(&definition("./db/busy")).unwrap();
    let busy = engine.open_table("./db/busy").unwrap();
    assert_eq!(engine.statistics().aborted_ids, 6);
    stay_busy(&engine, &busy, 400);
    assert_eq!(engine.statistics().aborted_ids, 0);
    for name in &names {
        let table = engine.open_table(name).unwrap();
        assert_eq!(rows(&engine, &table).len(), 100);
    }
}

const SEVERAL: usize = 4;

/// Tables with rows that were committed, and their names.
fn several_tables(engine: &Engine) -> Vec<String> {
    let names: Vec<String> = (0..SEVERAL).map(|n| format!("./db/t{n}")).collect();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
        flush_active(engine, &engine.open_table(name).unwrap(), "old-", 100);
    }
    names
}

/// A snapshot is open all the time, and all later writes are newer.
#[test]
fn aborted_ids_are_forgotten_while_a_snapshot_stays_open() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open(&disk);
    let names = several_tables(&engine);
    let tables: Vec<_> = names
        .iter()
        .map(|n| engine.open_table(n).unwrap())
        .collect();
    engine.create_table(&definition("./db/busy")).unwrap();
    let busy = engine.open_table("./db/busy").unwrap();
    let mut reader = begin(&engine);
    let before: Vec<Rows> = tables.iter().map(|t| see(&mut reader, t)).collect();
    assert!(before.iter().all(|rows| rows.len() == 100));
    for round in 0..3 {
        for number in 0..6 {
            let table = &tables[number % SEVERAL];
            flush_active(&engine, table, &format!("{round}-{number}-"), 200);
        }
        assert!(engine.statistics().aborted_ids >= 6);
        stay_busy(&engine, &busy, 400);
        assert_eq!(engine.statistics().aborted_ids, 0);
        for (table, before) in tables.iter().zip(&before) {
            assert_eq!(see(&mut reader, table), *before);
        }
    }
    let expected: Vec<Rows> = tables.iter().map(|table| rows(&engine, table)).collect();
    assert_eq!(expected.iter().map(Vec::len).sum::<usize>(), 400 + 18 * 200);
    reader.rollback();
    drop((reader, tables, busy));
    engine.abandon();
    let engine = open(&disk);
    for (name, expected) in names.iter().zip(expected) {
        assert_eq!(rows(&engine, &engine.open_table(name).unwrap()), expected);
    }
}

/// As above, with tables that are closed when they are not used.
#[test]
fn aborted_ids_of_closed_tables_are_forgotten_while_a_snapshot_stays_open() {
    let disk = Arc::new(MemoryDisk::new());
    let mut options = busy_options();
    options.table_idle_period = Duration::from_millis(5);
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    engine.create_table(&definition("./db/busy")).unwrap();
    let busy = engine.open_table("./db/busy").unwrap();
    commit(&engine, |t| insert(t, &busy, "first", "1").unwrap());
    let mut reader = begin(&engine);
    assert_eq!(see(&mut reader, &busy).len(), 1);
    let names = several_tables(&engine);
    assert!(engine.statistics().aborted_ids >= SEVERAL as u64);
    stay_busy(&engine, &busy, 400);
    assert_eq!(engine.statistics().aborted_ids, 0);
    assert_eq!(see(&mut reader, &busy).len(), 1);
    assert_eq!(engine.statistics().open_tables, 1);
    reader.rollback();
    drop((reader, busy));
    engine.abandon();
    let engine = open(&disk);
    for name in &names {
        assert_eq!(rows(&engine, &engine.open_table(name).unwrap()).len(), 100);
    }
}

/// A cursor reads an older version of a tree, with entries of statements that were rolled back.
#[test]
fn open_cursors_never_see_rolled_back_rows() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition("./db/busy")).unwrap();
    let busy = engine.open_table("./db/busy").unwrap();
    flush_active(&engine, &table, "row", 300);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    assert!(cursor.first(&mut reader).unwrap().is_some());
    stay_busy(&engine, &busy, 200);
    assert_eq!(
        engine.statistics().aborted_ids,
        1,
        "the cursor needs the id"
    );
    let written = engine.statistics().flush_bytes_written;
    stay_busy(&engine, &busy, 100);
    let again = engine.statistics().flush_bytes_written;
    assert_eq!(again, written, "no run is merged twice");
    // The memtable of the cursor's version gets another id. Later ones are forgotten.
    for (round, needed) in [("second", 2), ("third", 2), ("fourth", 2)] {
        flush_active(&engine, &table, round, 300);
        stay_busy(&engine, &busy, 200);
        assert_eq!(engine.statistics().aborted_ids, needed, "{round}");
    }
    let mut seen = 1;
    while let Some(row) = cursor.next(&mut reader).unwrap() {
        assert!(row.key.ends_with(b"k"), "{:?}", row.key);
        seen += 1;
    }
    assert_eq!(seen, 300);
    drop(cursor);
    stay_busy(&engine, &busy, 200);
    assert_eq!(engine.statistics().aborted_ids, 0);
    assert_eq!(see(&mut reader, &table).len(), 300);
    assert_eq!(rows(&engine, &table).len(), 4 * 300);
}

/// Rolls back `count` statements, so that their ids form as many ranges. `retries`:
/// whether to continue after a timeout.
fn roll_back_often(
    engine: &Engine,
    table: &TableHandle,
    count: usize,
    retries: bool,
) -> Result<(), EngineError> {
    for n in 0..count {
        let write = |kind: &str| {
            let mut transaction = begin(engine);
            insert(&mut transaction, table, &format!("{n:07}{kind}"), "1")?;
            if kind == "kept" {
                return transaction.commit();
            }
            transaction.rollback();
            Ok(())
        };
        for kind in ["kept", "undone"] {
            while let Err(error) = write(kind) {
                if !retries || !is_timeout::<()>(Err(error.clone())) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn few_ranges() -> EngineOptions {
    let mut options = busy_options();
    options.cache_bytes = 64 << 20;
    options.background_threads = 1;
    options.aborted_ranges_max = 512;
    options.commit_sync = false;
    options.lock_timeout = Duration::from_secs(1);
    options
}

#[test]
fn writers_stop_at_the_bound_until_ids_are_forgotten() {
    let engine = Engine::open(Arc::new(MemoryDisk::new()), few_ranges()).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    // While this transaction is active, the aborted ids of later statements are not forgotten.
    let mut old = begin(&engine);
    insert(&mut old, &table, "old", "1").unwrap();
    let found = thread::scope(|scope| {
        let (engine, table) = (&engine, &table);
        let writer = scope.spawn(move || roll_back_often(engine, table, 12_000, true));
        let deadline = Instant::now() + Duration::from_secs(300);
        let stopped = || engine.statistics().delays_aborted.stopped_now > 0;
        while !stopped() && !writer.is_finished() {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(5));
        }
        let found = engine.statistics();
        old.rollback();
        writer.join().unwrap().unwrap();
        found
    });
    assert!(found.delays_aborted.stops > 0, "the bound stops no writer");
    // The newest ids are not counted until a chunk of them is complete.
    let slack = 16_384;
    let (ranges, bound) = (found.aborted_ranges, found.aborted_ranges_limit);
    assert!((bound..bound + slack).contains(&ranges), "{ranges}");
    assert!(engine.status_text().contains("of 512 ranges"));
}

#[test]
fn a_stopped_writer_fails_after_its_timeout() {
    let mut options = few_ranges();
    options.lock_timeout = Duration::from_millis(100);
    let logged = capture_messages(&mut options);
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let mut old = begin(&engine);
    insert(&mut old, &table, "old", "1").unwrap();
    let error = roll_back_often(&engine, &table, 12_000, false).unwrap_err();
    let expected = WaitError::Timeout;
    assert!(
        matches!(error, EngineError::Wait(found) if found == expected),
        "{error}"
    );
    let logged = logged.lock().unwrap();
    let is_warning = |text: &String| text.contains("ranges of write ids of rolled back");
    assert!(logged.iter().any(is_warning), "{logged:?}");
}

/// The tables contain ids of statements that were rolled back, and are not used again.
#[test]
fn ids_of_closed_tables_are_forgotten_in_the_background() {
    const TABLES: usize = 5;
    let disk = Arc::new(MemoryDisk::new());
    let engine = open_busy(&disk);
    for n in 0..TABLES {
        let name = format!("./db/t{n}");
        engine.create_table(&definition(&name)).unwrap();
        flush_active(&engine, &engine.open_table(&name).unwrap(), "row", 20);
    }
    engine.checkpoint().unwrap();
    engine.abandon();
    let mut options = few_ranges();
    options.table_idle_period = Duration::from_millis(50);
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    assert_eq!(engine.statistics().open_tables, 0);
    assert!(engine.statistics().aborted_ids >= TABLES as u64);
    let deadline = Instant::now() + Duration::from_secs(300);
    while engine.statistics().aborted_ids > 0 {
        assert!(
            Instant::now() < deadline,
            "{}",
            engine.statistics().aborted_ids
        );
        thread::sleep(Duration::from_millis(20));
    }
    for n in 0..TABLES {
        let table = engine.open_table(&format!("./db/t{n}")).unwrap();
        assert_eq!(rows(&engine, &table).len(), 20);
    }
}

/// A table that cannot be opened does not prevent later aborted ids from being forgotten.
#[test]
fn a_damaged_closed_table_does_not_hold_back_later_ids() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open_busy(&disk);
    for name in ["./db/bad", "./db/good"] {
        engine.create_table(&definition(name)).unwrap();
        flush_active(&engine, &engine.open_table(name).unwrap(), "row", 50);
    }
    engine.close().unwrap();
    let engine = open_busy(&disk);
    let before = engine.statistics().aborted_ids;
    assert!(before > 0);
    let path = engine.index_paths("./db/bad").unwrap().remove(0);
    let aside = path.with_extension("aside");
    disk.rename(&path, &aside).unwrap();
    let good = engine.open_table("./db/good").unwrap();
    for round in 0..4 {
        stay_busy(&engine, &good, 20);
        flush_active(&engine, &good, &format!("{round}-"), 50);
    }
    stay_busy(&engine, &good, 100);
    let after = engine.statistics().aborted_ids;
    assert!(after <= before, "{after} of {before}");
    // The file of the table is readable again.
    disk.rename(&aside, &path).unwrap();
    stay_busy(&engine, &good, 100);
    assert_eq!(engine.statistics().aborted_ids, 0);
    let bad = engine.open_table("./db/bad").unwrap();
    assert_eq!(rows(&engine, &bad).len(), 50);
}
