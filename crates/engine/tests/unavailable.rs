//! Tables whose files recovery cannot read: their log records are retained, and
//! applied when the files can be read again.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{Engine, EngineError, SalvagedEntry, StorageError, TableHandle};
use teak_testing::{FaultDisk, Random};

const OTHER: &str = "./db/u";
const DATABASE: &str = "/data/db";
const HIDDEN: &str = "/hidden";

fn path_of(disk: &FaultDisk, part: &str) -> PathBuf {
    let all = disk.list(DATABASE.as_ref()).unwrap();
    let mut found = all
        .into_iter()
        .filter(|path| path.to_str().unwrap().contains(part));
    found.next().unwrap()
}

fn move_file(disk: &FaultDisk, from: &Path, to: &Path) {
    disk.create_directories(to.parent().unwrap()).unwrap();
    disk.rename(from, to).unwrap();
    disk.sync_directory(from.parent().unwrap()).unwrap();
    disk.sync_directory(to.parent().unwrap()).unwrap();
}

/// Hides a file of the table. Returns its path.
fn hide(disk: &FaultDisk, part: &str) -> PathBuf {
    let path = path_of(disk, part);
    move_file(disk, &path, &hidden(&path));
    path
}

fn hidden(path: &Path) -> PathBuf {
    Path::new(HIDDEN).join(path.file_name().unwrap())
}

fn show(disk: &FaultDisk, path: &Path) {
    move_file(disk, &hidden(path), path);
}

fn retained_files(disk: &FaultDisk) -> usize {
    let all = disk.list("/data".as_ref()).unwrap();
    let is_retained = |path: &&PathBuf| path.to_str().unwrap().contains("teak.retained");
    all.iter().filter(is_retained).count()
}

fn fill(engine: &Engine, table: &TableHandle, rows: u64, value: &str) {
    commit(engine, |t| {
        for n in 0..rows {
            insert(t, table, &format!("{n:05}"), value).unwrap();
        }
    });
}

fn refused(engine: &Engine) -> String {
    let error = engine.open_table(TABLE).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, EngineError::TableUnavailable { .. }),
        "{error}"
    );
    error.to_string()
}

fn count(engine: &Engine, name: &str) -> usize {
    rows(engine, &engine.open_table(name).unwrap()).len()
}

/// A disk after a crash. The files of the table contain 20 rows; only the log contains 10
/// more rows, a delete and an update. Another table has 5 rows. Rows of transactions that
/// were rolled back, or active at the crash, must not be found.
fn crashed() -> Arc<FaultDisk> {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition(OTHER)).unwrap();
    fill(&engine, &engine.open_table(OTHER).unwrap(), 5, "other");
    fill(&engine, &table, 20, "value");
    let mut undone = begin(&engine);
    insert(&mut undone, &table, "undone", "1").unwrap();
    engine.checkpoint().unwrap();
    undone.rollback();
    commit(&engine, |t| {
        for n in 20..30 {
            insert(t, &table, &format!("{n:05}"), "value").unwrap();
        }
        delete(t, &table, "00007", "value").unwrap();
        update(t, &table, "00008", "value", "changed").unwrap();
    });
    let mut lost = begin(&engine);
    insert(&mut lost, &table, "lost", "1").unwrap();
    engine.flush_log().unwrap();
    let crashed = disk.crash(3);
    std::mem::forget(lost);
    drop(table);
    engine.abandon();
    Arc::new(crashed)
}

fn check_rows(engine: &Engine) {
    let found = rows(engine, &engine.open_table(TABLE).unwrap());
    assert_eq!(found.len(), 29);
    assert!(
        found
            .iter()
            .all(|(key, _)| key.starts_with('0') && key != "00007")
    );
    assert_eq!(found[7], ("00008".into(), "changed".into()));
}

/// Writes to the other table, until recovery needs no log record from before this call.
fn work_elsewhere(engine: &Engine) {
    let table = engine.open_table(OTHER).unwrap();
    for round in 0..4 {
        let mut undone = begin(engine);
        insert(&mut undone, &table, "undone", "1").unwrap();
        undone.rollback();
        commit(engine, |t| {
            let key = format!("x{}{round}", engine.log_end().0);
            insert(t, &table, &key, &"v".repeat(30_000)).unwrap();
        });
        engine.checkpoint().unwrap();
        engine.run_maintenance().unwrap();
    }
}

#[test]
fn a_table_is_whole_at_the_next_start_after_its_file_is_back() {
    for part in ["t.PRIMARY", "t.by_value"] {
        let disk = crashed();
        let path = hide(&disk, part);
        let engine = open(&disk);
        assert!(refused(&engine).contains("does not exist"));
        assert_eq!(count(&engine, OTHER), 5);
        work_elsewhere(&engine);
        engine.close().unwrap();
        assert_eq!(retained_files(&disk), 1);
        show(&disk, &path);
        let engine = open(&disk);
        assert_eq!(retained_files(&disk), 0);
        check_rows(&engine);
        assert_eq!(count(&engine, OTHER), 9);
    }
}

#[test]
fn a_table_is_whole_without_a_restart_when_its_file_is_back() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    refused(&engine);
    work_elsewhere(&engine);
    refused(&engine);
    assert_eq!(engine.statistics().unavailable_tables, 1);
    assert!(engine.statistics().retained_bytes > 0);
    show(&disk, &path);
    check_rows(&engine);
    assert_eq!(retained_files(&disk), 0);
    assert_eq!(engine.statistics().unavailable_tables, 0);
    assert_eq!(engine.statistics().retained_bytes, 0);
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| insert(t, &table, "00099", "1").unwrap());
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(5)));
    assert_eq!(count(&engine, TABLE), 30);
}

#[test]
fn the_log_is_trimmed_while_a_table_is_unavailable() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    let before = engine.statistics().log_bytes_used;
    for _ in 0..10 {
        work_elsewhere(&engine);
    }
    assert!(engine.statistics().log_bytes_used < before + 200_000);
    show(&disk, &path);
    check_rows(&engine);
}

#[test]
fn several_crashes_in_a_row_lose_nothing() {
    let mut disk = crashed();
    let path = hide(&disk, "t.by_value");
    for round in 0..4 {
        let engine = open(&disk);
        refused(&engine);
        if round % 2 == 0 {
            work_elsewhere(&engine);
        }
        engine.abandon();
        disk = Arc::new(disk.crash(round));
    }
    show(&disk, &path);
    let engine = open(&disk);
    check_rows(&engine);
    // The table becomes unavailable once more.
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| insert(t, &table, "00500", "1").unwrap());
    drop(table);
    engine.abandon();
    let disk = Arc::new(disk.crash(9));
    hide(&disk, "t.by_value");
    open(&disk).abandon();
    let disk = Arc::new(disk.crash(10));
    let engine = open(&disk);
    work_elsewhere(&engine);
    show(&disk, &path);
    assert_eq!(count(&engine, TABLE), 30);
}

#[test]
fn damage_that_is_repaired_costs_no_rows() {
    let disk = crashed();
    let path = path_of(&disk, "t.PRIMARY");
    let length = disk.open(&path).unwrap().len().unwrap();
    // Damages both superblocks, then all other blocks, which include the root node.
    for range in [0..8192, 8192..length] {
        let disk = Arc::new(disk.crash(1));
        let flip = || {
            for offset in range.clone().step_by(64) {
                disk.flip_bit(&path, offset, 3).unwrap();
            }
        };
        flip();
        let engine = open(&disk);
        refused(&engine);
        work_elsewhere(&engine);
        flip();
        check_rows(&engine);
    }
}

#[test]
fn an_unreadable_file_does_not_stop_the_engine() {
    let disk = crashed();
    let mut failed = 0;
    for after in 0..60 {
        let disk = Arc::new(disk.crash(1));
        disk.fail_read(after);
        let Ok(engine) = try_open(&disk) else {
            // The catalogue or the log could not be read.
            failed += 1;
            continue;
        };
        disk.clear_failures();
        check_rows(&engine);
        assert_eq!(count(&engine, OTHER), 5);
    }
    assert!(failed < 60);
}

#[test]
fn prepared_transactions_end_while_a_table_is_unavailable() {
    for (commits, restarts) in [(true, false), (true, true), (false, false), (false, true)] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_table(&disk);
        engine.create_table(&definition(OTHER)).unwrap();
        fill(&engine, &table, 3, "value");
        let mut prepared = begin(&engine);
        insert(&mut prepared, &table, "flushed", "1").unwrap();
        // One row of the prepared transaction is in the file, one in the log.
        engine.checkpoint().unwrap();
        insert(&mut prepared, &table, "logged", "1").unwrap();
        prepared.prepare(b"x").unwrap();
        prepared.detach();
        drop((prepared, table));
        engine.abandon();
        let mut disk = Arc::new(disk.crash(1));
        let path = hide(&disk, "t.PRIMARY");
        let mut engine = open(&disk);
        if commits {
            engine.commit_prepared(b"x", Duration::ZERO).unwrap();
        } else {
            engine.rollback_prepared(b"x", Duration::ZERO).unwrap();
        }
        // Aborted ids are forgotten, except those that the table may contain.
        work_elsewhere(&engine);
        if restarts {
            engine.abandon();
            disk = Arc::new(disk.crash(2));
            engine = open(&disk);
            work_elsewhere(&engine);
        }
        show(&disk, &path);
        let expected = if commits { 5 } else { 3 };
        assert_eq!(count(&engine, TABLE), expected, "{commits} {restarts}");
        work_elsewhere(&engine);
        engine.abandon();
        let engine = open(&Arc::new(disk.crash(3)));
        assert_eq!(count(&engine, TABLE), expected, "{commits} {restarts}");
    }
}

#[test]
fn a_transaction_that_is_still_prepared_locks_its_rows() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let mut prepared = begin(&engine);
    insert(&mut prepared, &table, "row", "1").unwrap();
    prepared.prepare(b"x").unwrap();
    prepared.detach();
    drop((prepared, table));
    engine.abandon();
    let disk = Arc::new(disk.crash(1));
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    refused(&engine);
    show(&disk, &path);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 0);
    assert!(is_timeout(insert(&mut begin(&engine), &table, "row", "2")));
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("row", "1")]));
}

#[test]
fn aborted_ids_of_other_tables_are_forgotten() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    let before = engine.statistics().aborted_ids;
    let table = engine.open_table(OTHER).unwrap();
    for n in 0..100 {
        let mut undone = begin(&engine);
        insert(&mut undone, &table, &format!("undone{n}"), "1").unwrap();
        undone.rollback();
    }
    engine.settle().unwrap();
    for _ in 0..3 {
        engine.checkpoint().unwrap();
        engine.run_maintenance().unwrap();
    }
    let after = engine.statistics().aborted_ids;
    assert!(after <= before, "{after} of {before}");
    show(&disk, &path);
    check_rows(&engine);
}

#[test]
fn an_unavailable_table_can_be_dropped_and_truncated() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    let error = engine.rename_table(TABLE, "./db/v").unwrap_err();
    assert!(matches!(error, EngineError::TableUnavailable { .. }));
    engine.truncate_table(TABLE).unwrap();
    assert_eq!(retained_files(&disk), 0);
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 4, "value");
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(1)));
    assert_eq!(count(&engine, TABLE), 4);
    engine.abandon();

    let disk = crashed();
    hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    engine.drop_table(TABLE).unwrap();
    assert_eq!(retained_files(&disk), 0);
    engine.create_table(&definition(TABLE)).unwrap();
    engine.abandon();
    let disk = Arc::new(disk.crash(1));
    // The file of the dropped table exists again.
    show(&disk, &path);
    let engine = open(&disk);
    assert_eq!(count(&engine, TABLE), 0);
    assert!(!disk.exists(&path).unwrap());
    assert_eq!(engine.statistics().orphan_files, 0);
}

#[test]
fn messages_name_the_file_and_what_to_do() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let start = |disk: &Arc<FaultDisk>| {
        let mut options = options();
        let logged = capture_messages(&mut options);
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        let engine = Engine::open(disk, options).unwrap();
        let logged = logged.lock().unwrap().clone();
        (engine, logged)
    };
    let (engine, logged) = start(&disk);
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_named = |text: &&String| {
        text.contains("db/t is unavailable") && text.contains(name) && text.contains("whole again")
    };
    assert_eq!(logged.iter().filter(is_named).count(), 1, "{logged:?}");
    engine.abandon();
    let disk = Arc::new(disk.crash(1));
    show(&disk, &path);
    let (_engine, logged) = start(&disk);
    let whole = |text: &String| text.contains("db/t is whole again");
    assert!(logged.iter().any(whole), "{logged:?}");
}

#[test]
fn a_full_disk_delays_the_table_and_loses_nothing() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    show(&disk, &path);
    disk.set_capacity(Some(disk.used_bytes()));
    refused(&engine);
    disk.set_capacity(None);
    check_rows(&engine);
}

#[test]
fn missing_records_keep_the_table_unavailable() {
    let disk = crashed();
    let path = hide(&disk, "t.PRIMARY");
    open(&disk).abandon();
    let disk = Arc::new(disk.crash(1));
    show(&disk, &path);
    let all = disk.list("/data".as_ref()).unwrap();
    let mut all = all.into_iter();
    let retained = all.find(|path| path.to_str().unwrap().contains("retained"));
    let retained = retained.unwrap();
    move_file(&disk, &retained, &hidden(&retained));
    let engine = open(&disk);
    assert!(refused(&engine).contains("retained"));
    show(&disk, &retained);
    check_rows(&engine);
}

/// The file of another index is missing, but the file of the rows can be read: a salvage
/// applies the retained records to its rows.
#[test]
fn a_repair_includes_the_retained_records() {
    let disk = crashed();
    hide(&disk, "t.by_value");
    let engine = open(&disk);
    refused(&engine);
    let damaged = engine.open_damaged_table(TABLE).unwrap();
    let mut found = Vec::new();
    let mut on_row = |row: &SalvagedEntry<'_>| {
        found.push(String::from_utf8(row.key.to_vec()).unwrap());
        Ok(())
    };
    damaged
        .salvage(Box::new(|| false), &mut on_row, &mut |text| {
            panic!("{text}")
        })
        .unwrap();
    assert_eq!(found.len(), 29);
    assert!(
        found
            .iter()
            .all(|key| key.starts_with('0') && key != "00007")
    );
}

#[test]
fn power_loss_at_any_point_loses_nothing() {
    let crashed = crashed();
    let path = path_of(&crashed, "t.PRIMARY");
    for after in 0.. {
        let disk = Arc::new(crashed.crash(after));
        hide(&disk, "t.PRIMARY");
        disk.cut_power(after);
        let retained = try_open(&disk).is_ok();
        let disk = Arc::new(disk.crash(after));
        show(&disk, &path);
        let restored = retained && {
            // The power is lost while the retained records are applied.
            disk.cut_power(after);
            let opened = try_open(&disk);
            opened.is_ok_and(|engine| engine.open_table(TABLE).is_ok())
        };
        let disk = Arc::new(disk.crash(after));
        let engine = open(&disk);
        check_rows(&engine);
        assert_eq!(count(&engine, OTHER), 5);
        if retained && restored {
            assert!(after > 10);
            break;
        }
    }
}

#[test]
fn retained_records_may_exceed_the_memory() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let value = "v".repeat(900);
    for round in 0..40 {
        commit(&engine, |t| {
            for n in 0..50 {
                insert(t, &table, &format!("{n:03}-{round:03}"), &value).unwrap();
            }
        });
    }
    drop(table);
    engine.abandon();
    let disk = Arc::new(disk.crash(1));
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    show(&disk, &path);
    let table = engine.open_table_lazily(TABLE).unwrap();
    let damaged = engine.open_damaged_table_unless(TABLE, &|| true);
    for outcome in [table.open_files_unless(&|| true), damaged.map(|_| ())] {
        assert!(matches!(
            outcome,
            Err(EngineError::Storage(StorageError::Interrupted))
        ));
    }
    assert_eq!(engine.statistics().unavailable_tables, 1);
    assert_eq!(count(&engine, TABLE), 2000);
    let statistics = engine.statistics();
    assert!(statistics.memtable_bytes <= statistics.memtable_bytes_limit);
}

/// The table's newest log records all belong to a transaction that recovery rolls back. They are
/// not retained. Once the table can be used again, their aborted ids are forgotten, so the records
/// must not be replayed any more.
#[test]
fn rolled_back_writes_do_not_return_when_the_table_is_whole() {
    for (part, restarts) in [
        ("t.PRIMARY", false),
        ("t.PRIMARY", true),
        ("by_value", false),
    ] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_table(&disk);
        engine.create_table(&definition(OTHER)).unwrap();
        let other = engine.open_table(OTHER).unwrap();
        fill(&engine, &table, 20, "value");
        fill(&engine, &other, 5, "other");
        engine.checkpoint().unwrap();
        let mut lost = begin(&engine);
        insert(&mut lost, &table, "lost1", "1").unwrap();
        commit(&engine, |t| insert(t, &other, "00005", "other").unwrap());
        // This record is after the position from which the other table needs the log.
        insert(&mut lost, &table, "lost2", "1").unwrap();
        engine.flush_log().unwrap();
        let mut disk = Arc::new(disk.crash(1));
        std::mem::forget(lost);
        drop((table, other, engine));

        let path = hide(&disk, part);
        let mut engine = open(&disk);
        refused(&engine);
        if restarts {
            drop(engine);
            disk = Arc::new(disk.crash(2));
            show(&disk, &path);
            engine = open(&disk);
        } else {
            show(&disk, &path);
        }
        assert_eq!(count(&engine, TABLE), 20);
        for _ in 0..3 {
            engine.run_maintenance().unwrap();
        }
        assert_eq!(engine.statistics().aborted_ids, 0);
        drop(engine);
        let engine = open(&Arc::new(disk.crash(3)));
        assert_eq!(count(&engine, OTHER), 6);
        assert_eq!(count(&engine, TABLE), 20, "{part} {restarts}");
    }
}

#[test]
fn a_failed_attempt_gives_the_space_back() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let mut random = Random::new(1);
    // Random values, which do not compress well.
    let mut value = || {
        (0..50)
            .map(|_| format!("{:016x}", random.next_u64()))
            .collect::<String>()
    };
    commit(&engine, |t| {
        for n in 0..2000 {
            insert(t, &table, &format!("{n:05}"), &value()).unwrap();
        }
    });
    drop((table, engine));
    disk.sync_directory("/data/db".as_ref()).unwrap();
    let disk = Arc::new(disk.crash(1));
    let path = hide(&disk, "t.PRIMARY");
    let engine = open(&disk);
    show(&disk, &path);
    let length = || disk.open(&path).unwrap().len().unwrap();
    let before = (disk.used_bytes(), length());
    disk.set_capacity(Some(before.0 + 200_000));
    refused(&engine);
    assert!(disk.used_bytes() <= before.0 + 20_000, "{before:?}");
    disk.set_capacity(None);
    assert_eq!(count(&engine, TABLE), 2000);
}
