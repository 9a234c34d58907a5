//! Recovery: after a crash, the tables have exactly the committed rows, and no unused file remains.

use crate::common::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::{Engine, EngineError, EngineResult, StorageError};
use teak_testing::{FaultDisk, Random};

fn key(n: u64) -> String {
    format!("{n:05}")
}

/// The table's rows after a crash of this disk.
fn after_crash(disk: &FaultDisk, seed: u64) -> Rows {
    let crashed = Arc::new(disk.crash(seed));
    let engine = open(&crashed);
    let table = engine.open_table(TABLE).unwrap();
    rows(&engine, &table)
}

#[test]
fn committed_rows_survive_a_crash_and_uncommitted_ones_do_not() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut lost = begin(&engine);
    insert(&mut lost, &table, "b", "1").unwrap();
    let mut undone = begin(&engine);
    insert(&mut undone, &table, "c", "1").unwrap();
    undone.rollback();
    commit(&engine, |t| {
        insert(t, &table, "d", "1").unwrap();
        let mark = t.savepoint().unwrap();
        insert(t, &table, "e", "1").unwrap();
        update(t, &table, "a", "1", "9").unwrap();
        t.rollback_to_savepoint(mark).unwrap();
    });
    engine.flush_log().unwrap();
    for seed in 0..20 {
        let expected = pairs(&[("a", "1"), ("d", "1")]);
        assert_eq!(after_crash(&disk, seed), expected, "seed {seed}");
    }
}

#[test]
fn uncommitted_rows_that_reached_the_files_stay_invisible() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut lost = begin(&engine);
    insert(&mut lost, &table, "b", "1").unwrap();
    let mark = lost.savepoint().unwrap();
    update(&mut lost, &table, "a", "1", "2").unwrap();
    lost.rollback_to_savepoint(mark).unwrap();
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    engine.checkpoint().unwrap();
    let mut crashed = Arc::new(disk.crash(3));
    for generation in 0..4 {
        let engine = open(&crashed);
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]), "{generation}");
        // New writes must not get the status of the writes that the crash has lost.
        commit(&engine, |t| {
            insert(t, &table, "b", "mine").unwrap();
            delete(t, &table, "b", "mine").unwrap();
        });
        engine.checkpoint().unwrap();
        crashed = Arc::new(crashed.crash(generation));
    }
}

#[test]
fn aborted_ids_are_registered_until_no_file_contains_them() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    for n in 0..20 {
        commit(&engine, |t| insert(t, &table, &key(n), "1").unwrap());
        let mut gone = begin(&engine);
        update(&mut gone, &table, &key(n), "1", "2").unwrap();
        insert(&mut gone, &table, &format!("x{n}"), "2").unwrap();
        gone.rollback();
    }
    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    engine.checkpoint().unwrap();
    let expected = rows(&engine, &table);
    assert_eq!(expected.len(), 20);
    assert_eq!(after_crash(&disk, 0), expected);
    for round in 0..6 {
        engine.run_background_until_idle().unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(after_crash(&disk, round), expected);
        assert_eq!(rows(&engine, &table), expected);
    }
    reader.rollback();
    for round in 0..6 {
        commit(&engine, |t| {
            insert(t, &table, &format!("y{round}"), "1").unwrap()
        });
        engine.settle().unwrap();
        engine.checkpoint().unwrap();
    }
    assert_eq!(engine.statistics().aborted_ids, 0);
    assert_eq!(after_crash(&disk, 9), rows(&engine, &table));
}

#[test]
fn a_closed_engine_opens_without_reading_the_log() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for n in 0..500 {
            insert(t, &table, &key(n), "1").unwrap();
        }
    });
    let expected = rows(&engine, &table);
    drop(table);
    engine.close().unwrap();
    let engine = open(&disk);
    assert_eq!(engine.statistics().recovered_records, 0);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), expected);
}

#[test]
fn the_log_is_trimmed_as_tables_are_checkpointed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    for round in 0..20 {
        commit(&engine, |t| {
            for n in 0..1000 {
                let value = format!("{round} {}", n * 7919 % 1009);
                insert(t, &table, &key(round * 1000 + n), &value).unwrap();
            }
        });
        engine.checkpoint().unwrap();
    }
    let kept = engine.statistics().log_bytes_kept;
    assert!(kept < 4 << 16, "{kept} bytes of log are kept");
    assert_eq!(after_crash(&disk, 1).len(), 20_000);
}

#[test]
fn replay_flushes_when_memory_is_short() {
    let disk = Arc::new(FaultDisk::new(1));
    let mut large = options();
    large.cache_bytes = 64 << 20;
    let any: Arc<dyn Disk> = disk.clone();
    let engine = Engine::open(any, large).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let value = "v".repeat(200);
    for round in 0..10 {
        commit(&engine, |t| {
            for n in 0..400 {
                insert(t, &table, &key(n * 10 + round), &value).unwrap();
            }
        });
    }
    // Opens the engine with a budget in which memtables have 0.2 MiB.
    let crashed = Arc::new(disk.crash(5));
    let engine = open(&crashed);
    let statistics = engine.statistics();
    assert!(statistics.memtable_bytes <= statistics.memtable_bytes_limit);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 4000);
}

#[test]
fn counters_and_row_ids_survive_a_crash() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    table.advance_counter(0, 41).unwrap();
    let mut first = table.reserve_row_ids(5).unwrap();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    table.set_counter(1, 9).unwrap();
    table.set_counter(1, 3).unwrap();
    engine.flush_log().unwrap();
    let mut crashed = Arc::new(disk.crash(1));
    for generation in 0..4 {
        let engine = open(&crashed);
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(table.counter(0).unwrap(), 41 + generation);
        assert_eq!(table.counter(1).unwrap(), 3);
        let next = table.reserve_row_ids(5).unwrap();
        assert!(next >= first + 5);
        first = next;
        table.advance_counter(0, 42 + generation).unwrap();
        engine.flush_log().unwrap();
        if generation == 2 {
            engine.checkpoint().unwrap();
        }
        crashed = Arc::new(crashed.crash(generation));
    }
}

/// The directories that the engine creates, and those that a server has created without syncing
/// their names.
#[test]
fn tables_in_new_directories_survive_a_crash() {
    for made_by_server in [false, true] {
        let disk = Arc::new(FaultDisk::new(1));
        let engine = open(&disk);
        let name = "./outer/inner/t";
        if made_by_server {
            disk.create_directories("/data/db".as_ref()).unwrap();
            disk.create_directories("/data/moved".as_ref()).unwrap();
        } else {
            engine.create_table(&definition(name)).unwrap();
        }
        engine.create_table(&definition(TABLE)).unwrap();
        engine.create_table(&definition("./db/u")).unwrap();
        engine.rename_table("./db/u", "./moved/u").unwrap();
        drop(engine);
        for seed in 0..20 {
            let engine = open(&Arc::new(disk.crash(seed)));
            for name in [TABLE, "./moved/u", name] {
                let is_missing = made_by_server && name.contains("outer");
                assert_eq!(
                    engine.open_table(name).is_err(),
                    is_missing,
                    "{name} {seed}"
                );
            }
        }
    }
}

#[test]
fn tables_are_recovered_with_names_metadata_and_rows() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    engine.create_table(&definition("./other/u")).unwrap();
    engine.rename_table(TABLE, "./new/name").unwrap();
    commit(&engine, |t| insert(t, &table, "b", "1").unwrap());
    engine.truncate_table("./other/u").unwrap();
    engine.create_table(&definition("./other/gone")).unwrap();
    engine.drop_table("./other/gone").unwrap();
    for seed in 0..10 {
        let crashed = Arc::new(disk.crash(seed));
        let engine = open(&crashed);
        let mut names = engine.table_names();
        names.sort();
        assert_eq!(names, ["new/name", "other/u"]);
        let table = engine.open_table("./new/name").unwrap();
        assert_eq!(table.metadata(), b"metadata");
        assert_eq!(rows(&engine, &table), pairs(&[("a", "1"), ("b", "1")]));
    }
}

#[test]
fn open_handles_follow_a_truncation() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    table.advance_counter(0, 7).unwrap();
    engine.truncate_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[]));
    assert_eq!(table.counter(0).unwrap(), 0);
    commit(&engine, |t| insert(t, &table, "b", "2").unwrap());
    assert_eq!(rows(&engine, &table), pairs(&[("b", "2")]));
    assert_eq!(after_crash(&disk, 2), pairs(&[("b", "2")]));
}

/// All index files of a disk.
fn index_files(disk: &FaultDisk) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for directory in disk.list(Path::new("/data")).unwrap() {
        for path in disk.list(&directory).unwrap_or_default() {
            if path.extension().is_some_and(|e| e == "teak") {
                files.insert(path);
            }
        }
    }
    files
}

/// A sequence of table changes. `step` counts the completed ones.
fn change_tables(engine: &Engine, step: &mut usize) -> EngineResult<()> {
    let put = |name: &str, key: &str| -> EngineResult<()> {
        let table = engine.open_table(name)?;
        let mut transaction = begin(engine);
        insert(&mut transaction, &table, key, "1")?;
        transaction.commit()
    };
    let steps: [&dyn Fn() -> EngineResult<()>; 9] = [
        &|| engine.create_table(&definition("./db/a")),
        &|| put("./db/a", "1"),
        &|| engine.create_table(&definition("./db/b")),
        &|| engine.rename_table("./db/a", "./two/c"),
        &|| put("./two/c", "2"),
        &|| engine.checkpoint(),
        &|| engine.truncate_table("./two/c"),
        &|| put("./two/c", "3"),
        &|| engine.drop_table("./db/b"),
    ];
    for change in steps {
        change()?;
        *step += 1;
    }
    Ok(())
}

/// The tables that must exist after this many steps, with their keys.
fn expected(step: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    match step {
        0 => vec![],
        1 => vec![("db/a", vec![])],
        2 => vec![("db/a", vec!["1"])],
        3 => vec![("db/a", vec!["1"]), ("db/b", vec![])],
        4 => vec![("db/b", vec![]), ("two/c", vec!["1"])],
        5 | 6 => vec![("db/b", vec![]), ("two/c", vec!["1", "2"])],
        7 => vec![("db/b", vec![]), ("two/c", vec![])],
        8 => vec![("db/b", vec![]), ("two/c", vec!["3"])],
        _ => vec![("two/c", vec!["3"])],
    }
}

fn found(engine: &Engine) -> Vec<(String, Vec<String>)> {
    let mut names = engine.table_names();
    names.sort();
    let keys = |name: &String| {
        let table = engine.open_table(name).unwrap();
        rows(engine, &table).into_iter().map(|row| row.0).collect()
    };
    names
        .iter()
        .map(|name| (name.clone(), keys(name)))
        .collect()
}

#[test]
fn a_crash_at_any_point_of_a_table_change_leaves_it_done_or_undone() {
    let total = {
        let disk = Arc::new(FaultDisk::new(1));
        let engine = open(&disk);
        change_tables(&engine, &mut 0).unwrap();
        disk.changes()
    };
    let mut points = 0;
    for cut in 0..total + 2 {
        let disk = Arc::new(FaultDisk::new(cut));
        disk.cut_power(cut);
        let mut step = 0;
        if let Ok(engine) = try_open(&disk) {
            let _ = change_tables(&engine, &mut step);
        }
        for seed in 0..3 {
            let crashed = Arc::new(disk.crash(seed));
            let engine = open(&crashed);
            let state = found(&engine);
            let same = |step: usize| {
                let names = expected(step);
                state.len() == names.len()
                    && state
                        .iter()
                        .zip(&names)
                        .all(|(f, e)| f.0 == e.0 && f.1 == e.1)
            };
            assert!(
                same(step) || same(step + 1),
                "cut {cut} seed {seed}: step {step}, found {state:?}"
            );
            assert_eq!(index_files(&crashed).len(), state.len() * 2, "cut {cut}");
            points += 1;
        }
    }
    assert!(points > 100);
}

/// Random transactions with a crash at a random point. The state afterwards must be the last
/// acknowledged one, with or without the commit that was in progress.
#[test]
fn a_crash_during_writes_and_checkpoints_keeps_every_commit() {
    for seed in 0..60u64 {
        let mut random = Random::new(seed);
        let disk = Arc::new(FaultDisk::new(seed));
        let (engine, table) = with_table(&disk);
        disk.cut_power(random.below(600));
        let mut model: std::collections::BTreeMap<String, String> = Default::default();
        let mut in_flight = None;
        'work: for _ in 0..200 {
            let mut next = model.clone();
            let mut transaction = begin(&engine);
            for _ in 0..random.below(12) {
                let name = key(random.below(60));
                let value = random.below(1000).to_string();
                let done = match next.get(&name).cloned() {
                    None => insert(&mut transaction, &table, &name, &value)
                        .map(|()| next.insert(name, value)),
                    Some(old) if random.below(3) == 0 => {
                        delete(&mut transaction, &table, &name, &old).map(|()| next.remove(&name))
                    }
                    Some(old) => update(&mut transaction, &table, &name, &old, &value)
                        .map(|()| next.insert(name, value)),
                };
                if done.is_err() {
                    break 'work;
                }
            }
            if random.below(5) == 0 {
                transaction.rollback();
            } else {
                in_flight = Some(next.clone());
                if transaction.commit().is_err() {
                    break 'work;
                }
                model = next;
                in_flight = None;
            }
            let background = match random.below(12) {
                0 => engine.checkpoint(),
                1 => engine.step().map(|_| ()),
                2 => engine.run_maintenance(),
                _ => Ok(()),
            };
            if background.is_err() {
                break;
            }
        }
        let found: std::collections::BTreeMap<_, _> =
            after_crash(&disk, seed).into_iter().collect();
        assert!(
            found == model || Some(&found) == in_flight.as_ref(),
            "seed {seed}"
        );
    }
}

#[test]
fn a_log_without_a_catalogue_is_refused() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    drop(table);
    engine.abandon();
    disk.remove(Path::new("/data/teak.catalogue")).unwrap();
    let error = try_open(&disk).map(|_| ()).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    assert!(error.to_string().contains("catalogue is missing"));
}

#[test]
fn stray_index_files_are_removed_and_other_files_are_kept() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    drop(table);
    engine.abandon();
    for name in [
        "/data/db/t.x-0000abcd.teak",
        "/data/db/notes.teak",
        "/data/db/t.frm",
    ] {
        disk.create(Path::new(name)).unwrap();
    }
    open(&disk);
    let exists = |name| disk.exists(Path::new(name)).unwrap();
    assert!(!exists("/data/db/t.x-0000abcd.teak"));
    assert!(exists("/data/db/notes.teak") && exists("/data/db/t.frm"));
    assert_eq!(index_files(&disk).len(), 3);
}

#[test]
fn a_directory_can_be_opened_only_once_at_a_time() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let again = try_open(&disk).map(|_| ()).unwrap_err();
    assert!(
        matches!(again, EngineError::Storage(StorageError::InUse { .. })),
        "{again}"
    );
    // The directory remains locked, because the handle `table` still uses the engine's state.
    engine.abandon();
    assert!(try_open(&disk).is_err());
    drop(table);
    open(&disk).close().unwrap();
    open(&disk);
}

#[test]
fn a_missing_file_of_a_table_dropped_later_is_not_reported() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "k", "1").unwrap());
    drop(table);
    engine.truncate_table(TABLE).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| insert(t, &table, "k", "2").unwrap());
    drop(table);
    engine.drop_table(TABLE).unwrap();
    engine.abandon();
    let mut options = options();
    let logged = capture_messages(&mut options);
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    assert!(engine.table_names().is_empty());
    let logged = logged.lock().unwrap();
    assert!(
        !logged.iter().any(|text| text.contains("not recovered")),
        "{logged:?}"
    );
}
