//! Tables whose files are closed: what the catalogue answers, and how the files
//! are closed and opened while the table has handles.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    AlterationPlan, Engine, EngineError, IndexNumber, Isolation, PlannedIndex, ReadMode,
    TableHandle,
};
use teak_testing::FaultDisk;

/// An engine in which a table is closed by two maintenance passes without a use of the
/// table in between.
fn closing_soon(disk: Arc<dyn Disk>) -> Engine {
    let mut options = options();
    options.table_idle_period = Duration::ZERO;
    Engine::open(disk, options).unwrap()
}

fn fill(engine: &Engine, table: &TableHandle, first: u64, count: u64) {
    commit(engine, |t| {
        for n in first..first + count {
            insert(t, table, &format!("{n:06}"), &format!("value {n}")).unwrap();
        }
    });
}

fn run_passes(engine: &Engine) {
    for _ in 0..2 {
        engine.run_maintenance().unwrap();
    }
}

fn open_tables(engine: &Engine) -> u64 {
    engine.statistics().open_tables
}

/// An engine with one table of 30 rows, whose files are closed.
fn with_closed_table() -> (Engine, TableHandle) {
    let engine = closing_soon(Arc::new(MemoryDisk::new()));
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 0, 30);
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
    (engine, table)
}

fn index_files(disk: &Arc<dyn Disk>) -> Vec<PathBuf> {
    let directory = Path::new("/data/db");
    let names = disk.list(directory).unwrap().into_iter();
    names.map(|name| directory.join(name)).collect()
}

#[test]
fn the_catalogue_answers_for_closed_tables_without_opening_files() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(Arc::clone(&disk), options()).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 0, 500);
    table.set_written_at(1_700_000_000);
    engine.checkpoint().unwrap();
    let before = [0, 1].map(|index| table.index_statistics(IndexNumber(index)).unwrap());
    drop(table);
    engine.close().unwrap();

    let engine = Engine::open(Arc::clone(&disk), options()).unwrap();
    let files = index_files(&disk);
    assert_eq!(files.len(), 2);
    for file in &files {
        disk.rename(file, &file.with_extension("aside")).unwrap();
    }
    let table = engine.open_table_lazily(TABLE).unwrap();
    assert_eq!(table.index_count(), 2);
    assert_eq!(table.metadata(), b"metadata");
    assert_eq!(table.written_at(), 1_700_000_000);
    for (index, before) in (0..).zip(before) {
        let now = table.index_statistics(IndexNumber(index)).unwrap();
        assert_eq!((now.entries, now.codec), (500, before.codec));
        assert_eq!(now.memtable_bytes, 0);
        assert!(now.raw_bytes > 500 && now.disk_bytes > 8192, "{now:?}");
        let free = table.free_bytes(IndexNumber(index)).unwrap();
        assert!(free < now.disk_bytes, "{free}");
    }
    assert!(table.index_statistics(IndexNumber(2)).is_err());
    assert_eq!(open_tables(&engine), 0);
    // The first use of an index reports that the files are missing.
    let error = table.open_files().unwrap_err();
    assert!(
        matches!(error, EngineError::TableUnavailable { .. }),
        "{error}"
    );
    let mut reader = begin(&engine);
    assert!(try_scan(&mut reader, &table, 0, ReadMode::Snapshot).is_err());
    drop(reader);
    let mut findings = Vec::new();
    let verified = table.verify(&mut || true, &mut |text| findings.push(text.to_owned()));
    assert!(verified.is_err());
    drop(table);
    engine.drop_table(TABLE).unwrap();
    assert!(!engine.table_exists(TABLE).unwrap());
}

#[test]
fn sizes_of_an_open_table_include_what_is_only_in_memory() {
    let engine = closing_soon(Arc::new(MemoryDisk::new()));
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table_lazily(TABLE).unwrap();
    let new = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!((new.entries, new.disk_bytes), (0, 8192));
    assert_eq!(open_tables(&engine), 0);
    fill(&engine, &table, 0, 10);
    engine.checkpoint().unwrap();
    fill(&engine, &table, 10, 10);
    let open = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!(open.entries, 20);
    assert!(open.memtable_bytes > 0);
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
    let closed = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!((closed.entries, closed.memtable_bytes), (20, 0));
    assert_eq!(open_tables(&engine), 0);
}

#[test]
fn sizes_of_closed_tables_are_the_lengths_of_their_files() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut threaded = options();
    threaded.background_threads = 2;
    let engine = Engine::open(Arc::clone(&disk), threaded).unwrap();
    let names = ["./db/a", "./db/b", "./db/c"];
    for name in names {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        for first in (0..3000).step_by(300) {
            fill(&engine, &table, first, 300);
        }
    }
    engine.close().unwrap();
    let engine = Engine::open(Arc::clone(&disk), options()).unwrap();
    for name in names {
        let table = engine.open_table_lazily(name).unwrap();
        for (number, path) in (0..).zip(engine.index_paths(name).unwrap()) {
            let sizes = table.index_statistics(IndexNumber(number)).unwrap();
            let length = disk.open(&path).unwrap().len().unwrap();
            assert_eq!(sizes.disk_bytes, length, "{}", path.display());
        }
    }
    assert_eq!(open_tables(&engine), 0);
}

#[test]
fn sizes_in_the_catalogue_survive_a_crash() {
    let disk = FaultDisk::new(1);
    let engine = closing_soon(Arc::new(disk.clone()));
    let other = "./db/u";
    for name in [TABLE, other] {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        fill(&engine, &table, 0, 100);
        table.set_written_at(5);
    }
    engine.checkpoint().unwrap();
    // The log alone contains these rows.
    let table = engine.open_table(other).unwrap();
    fill(&engine, &table, 100, 11);
    drop(table);
    engine.abandon();
    let engine = closing_soon(Arc::new(disk.crash(3)));
    for (name, rows) in [(TABLE, 100), (other, 111)] {
        let table = engine.open_table_lazily(name).unwrap();
        let found = table.index_statistics(IndexNumber::ROWS).unwrap();
        assert_eq!(found.entries, rows, "{name}");
        assert_eq!(table.written_at(), 5);
    }
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
    let table = engine.open_table_lazily(other).unwrap();
    let found = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!(found.entries, 111);
}

#[test]
fn unused_tables_are_closed_and_their_handles_open_them_again() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = closing_soon(disk);
    let names: Vec<String> = (0..20).map(|n| format!("./db/t{n}")).collect();
    let mut handles = Vec::new();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        fill(&engine, &table, 0, 30);
        handles.push(table);
    }
    assert_eq!(open_tables(&engine), 20);
    engine.run_maintenance().unwrap();
    assert_eq!(rows(&engine, &handles[7]).len(), 30);
    engine.run_maintenance().unwrap();
    assert_eq!(open_tables(&engine), 1, "the table that was used");
    engine.run_maintenance().unwrap();
    assert_eq!(open_tables(&engine), 0);
    for table in &handles {
        fill(&engine, table, 30, 5);
        assert_eq!(rows(&engine, table).len(), 35);
    }
    assert_eq!(open_tables(&engine), 20);
    assert_eq!(engine.statistics().tables, 20);
}

/// Their next use would open them again, so the checkpoints would save little memory.
#[test]
fn many_trees_do_not_make_a_busy_engine_flush_tables_that_were_used_recently() {
    const TABLES: usize = 100;
    let mut options = options();
    options.cache_bytes = 4 << 20;
    options.background_threads = 1;
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(disk, options).unwrap();
    let mut handles = Vec::new();
    for n in 0..TABLES {
        let name = format!("./db/t{n}");
        engine.create_table(&definition(&name)).unwrap();
        handles.push(engine.open_table(&name).unwrap());
    }
    run_passes(&engine);
    for table in &handles {
        fill(&engine, table, 0, 1);
    }
    let before = engine.statistics().checkpointed_indexes;
    // With this number of trees a sweep begins each second.
    for n in 0..25 {
        std::thread::sleep(Duration::from_millis(100));
        fill(&engine, &handles[0], 1 + n, 1);
        engine.run_maintenance().unwrap();
    }
    assert_eq!(open_tables(&engine), TABLES as u64);
    assert_eq!(engine.statistics().checkpointed_indexes, before);
}

#[test]
fn cursors_locks_and_alterations_keep_files_open() {
    let (engine, table) = with_closed_table();

    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    assert!(cursor.first(&mut reader).unwrap().is_some());
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 1);
    let mut count = 1;
    while cursor.next(&mut reader).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 30);
    drop((cursor, reader));
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);

    // The transaction still holds a gap lock after its cursor was dropped, so the table remains
    // open.
    let mut locker = engine.begin(Isolation::Serializable);
    try_scan(&mut locker, &table, 0, ReadMode::Exclusive).unwrap();
    run_passes(&engine);
    let mut writer = begin(&engine);
    assert!(is_timeout(insert(&mut writer, &table, "000001x", "1")));
    drop((writer, locker));

    let alteration = engine
        .begin_alteration(&table, &[], Box::new(|| false))
        .unwrap();
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 1);
    drop(alteration);
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
}

#[test]
fn closed_tables_are_altered_renamed_truncated_and_dropped_under_their_handles() {
    let (engine, table) = with_closed_table();

    engine.rename_table(TABLE, "./db/renamed").unwrap();
    assert_eq!(&*table.name(), "db/renamed");
    assert_eq!(rows(&engine, &table).len(), 30);
    run_passes(&engine);

    let alteration = engine
        .begin_alteration(&table, &[], Box::new(|| false))
        .unwrap();
    let kept = definition(TABLE).indexes.into_iter().zip(0..);
    let plan = AlterationPlan {
        indexes: kept
            .map(|(index, number)| PlannedIndex::Kept(IndexNumber(number), index))
            .collect(),
        metadata: b"altered".to_vec(),
    };
    teak_engine::Alteration::commit(vec![(alteration, plan)]).unwrap();
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
    let again = engine.open_table_lazily("./db/renamed").unwrap();
    assert_eq!(again.metadata(), b"altered");
    assert_eq!(rows(&engine, &again).len(), 30);
    run_passes(&engine);

    engine.truncate_table("./db/renamed").unwrap();
    assert_eq!(open_tables(&engine), 0);
    let empty = table.index_statistics(IndexNumber::ROWS).unwrap();
    assert_eq!((empty.entries, empty.disk_bytes), (0, 8192));
    assert!(rows(&engine, &table).is_empty());
    fill(&engine, &table, 0, 3);
    assert_eq!(rows(&engine, &again).len(), 3);
    run_passes(&engine);

    engine.drop_table("./db/renamed").unwrap();
    let error = table.open_files().unwrap_err();
    assert!(matches!(error, EngineError::NoSuchTable { .. }), "{error}");
    assert!(table.index_statistics(IndexNumber::ROWS).is_err());
}

/// Threads write and read through handles while the files are closed as often as
/// possible.
#[test]
fn no_row_is_lost_while_files_are_closed_and_opened() {
    const TABLES: usize = 3;
    const ROWS_EACH: u64 = 300;
    let disk = FaultDisk::new(1);
    let mut options = options();
    options.table_idle_period = Duration::ZERO;
    options.background_threads = 1;
    options.lock_timeout = Duration::from_secs(60);
    let engine = Engine::open(Arc::new(disk.clone()), options).unwrap();
    let name = |n: usize| format!("./db/t{n}");
    for n in 0..TABLES {
        engine.create_table(&definition(&name(n))).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| {
            let mut closed = 0;
            while !done.load(Ordering::Acquire) {
                engine.checkpoint().unwrap();
                run_passes(&engine);
                closed += u64::from(open_tables(&engine) < TABLES as u64);
            }
            closed
        });
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let (engine, name) = (&engine, &name);
                scope.spawn(move || {
                    let handles: Vec<TableHandle> = (0..TABLES)
                        .map(|n| engine.open_table_lazily(&name(n)).unwrap())
                        .collect();
                    for row in 0..ROWS_EACH {
                        let table = &handles[usize::try_from(row).unwrap() % TABLES];
                        let key = format!("{writer}-{row:05}");
                        commit(engine, |t| insert(t, table, &key, "v").unwrap());
                        let mut reader = begin(engine);
                        let mut cursor = reader
                            .cursor(table, IndexNumber::ROWS, ReadMode::Snapshot)
                            .unwrap();
                        let found = cursor.get(&mut reader, key.as_bytes()).unwrap();
                        assert!(found.is_some(), "{key}");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        closer.join().unwrap();
    });
    let check = |engine: &Engine| {
        let count = |n| rows(engine, &engine.open_table(&name(n)).unwrap()).len() as u64;
        assert_eq!((0..TABLES).map(count).sum::<u64>(), 2 * ROWS_EACH);
    };
    check(&engine);
    engine.abandon();
    check(&open(&Arc::new(disk.crash(9))));
}

#[test]
fn counts_of_files_include_closed_ones() {
    let (engine, table) = with_closed_table();
    fill(&engine, &table, 30, 30);
    engine.checkpoint().unwrap();
    let counts = || {
        let now = engine.statistics();
        [now.blocks_written, now.bytes_written, now.data_syncs]
    };
    let open = counts();
    assert!(open.iter().all(|count| *count > 0), "{open:?}");
    run_passes(&engine);
    assert_eq!(open_tables(&engine), 0);
    assert_eq!(counts(), open);
    fill(&engine, &table, 60, 30);
    engine.checkpoint().unwrap();
    let again = counts();
    assert!((0..open.len()).all(|n| again[n] > open[n]), "{again:?}");
}
