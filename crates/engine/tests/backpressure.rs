//! Delays and stops of writers while background work is behind.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    AddedIndex, Engine, EngineError, EngineOptions, EngineResult, EngineStatistics,
    EngineTransaction, EntryOrder, IndexDefinition, IndexNumber, Isolation, ReadMode, RowEntry,
    TableHandle, WaitError,
};
use teak_testing::{FaultDisk, GateDisk};
use teak_tree::TreeOptions;

const OTHER: &str = "./db/other";

/// The part of the path that only the file of the first index of [`TABLE`] has.
const FILE: &str = "db/t.PRIMARY";

/// Flusher threads, small memtables, and a tree of one leaf.
fn threaded() -> EngineOptions {
    let mut options = options();
    options.background_threads = 3;
    options.cache_bytes = 4 << 20;
    options.commit_sync = false;
    options.log_segment_bytes = 64 << 20;
    options.tree = TreeOptions {
        leaf_bytes: 64 << 20,
        child_buffer_bytes: 64 << 20,
        run_bytes_max: 64 << 20,
        ..TreeOptions::tiny()
    };
    options
}

/// Puts a row into the first index only, without a check for an existing one.
fn put_row(transaction: &mut EngineTransaction, table: &TableHandle, n: u64) -> EngineResult<()> {
    put_entry(transaction, table, IndexNumber::ROWS, n)
}

fn put_entry(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    index: IndexNumber,
    n: u64,
) -> EngineResult<()> {
    let key = format!("{:08}", n * 7919 % 10_007);
    let entry = RowEntry {
        index,
        unique: false,
        key: key.as_bytes(),
        value: &[b'v'; 300],
    };
    transaction.insert(table, &[entry])
}

fn put(engine: &Engine, table: &TableHandle, first: u64, rows: u64) -> EngineResult<()> {
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for n in first..first + rows {
        put_row(&mut transaction, table, n)?;
    }
    transaction.commit()
}

fn wait_until(engine: &Engine, is_true: impl Fn(&EngineStatistics) -> bool) {
    while !is_true(&engine.statistics()) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn stopped(statistics: &EngineStatistics) -> u64 {
    statistics.delays_runs.stopped_now
}

fn with_two_tables(disk: Arc<dyn Disk>) -> (Engine, TableHandle, TableHandle) {
    let engine = Engine::open(disk, threaded()).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    engine.create_table(&definition(OTHER)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let other = engine.open_table(OTHER).unwrap();
    (engine, table, other)
}

/// Two tables, and rows in the first. Reads of the file of its rows wait until the gate
/// is opened.
fn gated() -> (GateDisk, Engine, TableHandle, TableHandle) {
    let gate = GateDisk::new(Arc::new(MemoryDisk::new()));
    let (engine, table, other) = with_two_tables(Arc::new(gate.clone()));
    put(&engine, &table, 0, 3000).unwrap();
    gate.hold_reads(FILE);
    (gate, engine, table, other)
}

/// The merges of one table are blocked. Its writers stop at the limit of runs. Writers of
/// another table are not delayed. All continue when merges can end.
#[test]
fn writers_stop_at_the_limit_of_runs_of_their_table() {
    let (gate, engine, table, other) = gated();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let (engine, table, done) = (&engine, &table, &done);
                scope.spawn(move || {
                    let mut rows = writer * 1_000_000;
                    while !done.load(Ordering::Relaxed) {
                        put(engine, table, rows, 50).unwrap();
                        rows += 50;
                    }
                })
            })
            .collect();
        wait_until(&engine, |statistics| stopped(statistics) == 3);
        let before = engine.statistics();
        for n in 0..40 {
            put(&engine, &other, n * 50, 50).unwrap();
        }
        let after = engine.statistics();
        assert_eq!(after.delays_runs.stops, before.delays_runs.stops);
        assert_eq!(stopped(&after), 3);
        // Writers stop at twice the number of runs at which a merge is due, and memtables wait.
        let limit = 2 * u64::from(threaded().tree.leaf_runs_max);
        assert!(
            after.child_runs_max <= limit,
            "{} runs",
            after.child_runs_max
        );
        done.store(true, Ordering::Relaxed);
        assert!(writers.iter().all(|writer| !writer.is_finished()));
        gate.open_gate(FILE);
    });
    wait_until(&engine, |statistics| statistics.child_runs_max < 3);
    let statistics = engine.statistics();
    assert_eq!(stopped(&statistics), 0);
    assert!(statistics.delays_runs.times.count() >= 3);
    assert!(statistics.delays_runs.times.longest_microseconds > 0);
    assert!(statistics.writer_stalls >= statistics.delays_runs.times.count());
    assert!(statistics.writer_stops >= 3);
    assert_eq!(statistics.writers_stopped, 0);
    let text = engine.status_text();
    assert!(text.contains("delays by runs"), "{text}");
    drop((table, other));
    engine.close().unwrap();
}

/// While ADD KEY builds an index, the runs that its writers add are bounded too.
#[test]
fn writers_stop_at_the_limit_of_runs_of_an_index_that_is_built() {
    const ADDED: &str = "db/t.added";
    let gate = GateDisk::new(Arc::new(MemoryDisk::new()));
    let (engine, table, _other) = with_two_tables(Arc::new(gate.clone()));
    let added = AddedIndex {
        definition: IndexDefinition {
            label: "added".into(),
            ..definition(TABLE).indexes[1].clone()
        },
        unique: false,
        entry_order: EntryOrder::Any,
    };
    let alteration = engine
        .begin_alteration(&table, &[added], Box::new(|| false))
        .unwrap();
    let limit = 2 * u64::from(threaded().tree.child_runs_max) + 8;
    gate.hold_reads(ADDED);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rows = 0;
            while !done.load(Ordering::Relaxed) {
                let mut transaction = engine.begin(Isolation::ReadCommitted);
                for n in rows..rows + 50 {
                    put_entry(&mut transaction, &table, IndexNumber(2), n).unwrap();
                }
                transaction.commit().unwrap();
                rows += 50;
            }
        });
        wait_until(&engine, |statistics| stopped(statistics) == 1);
        assert!(engine.statistics().child_runs_max <= limit);
        gate.open_gate(ADDED);
        // The writer continues when merges can end.
        let rows = engine.statistics().rows_inserted;
        wait_until(&engine, |statistics| statistics.rows_inserted > rows + 5000);
        done.store(true, Ordering::Relaxed);
    });
    assert!(engine.statistics().child_runs_max <= limit);
    drop(alteration);
}

#[test]
fn a_stopped_writer_can_be_interrupted() {
    let (gate, engine, table, _other) = gated();
    let handle = std::sync::Mutex::new(None);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0.. {
                let mut transaction = engine.begin(Isolation::ReadCommitted);
                *handle.lock().unwrap() = Some(Arc::clone(transaction.handle()));
                for row in n * 50..n * 50 + 50 {
                    if let Err(error) = put_row(&mut transaction, &table, row) {
                        return error;
                    }
                }
                transaction.commit().unwrap();
            }
            unreachable!()
        });
        wait_until(&engine, |statistics| stopped(statistics) == 1);
        handle.lock().unwrap().as_ref().unwrap().interrupt();
        let error = writer.join().unwrap();
        assert!(
            matches!(error, EngineError::Wait(WaitError::Interrupted)),
            "{error:?}"
        );
        gate.open_gate(FILE);
    });
}

/// The leaf of one table is damaged, so merging it fails. Its writers get the
/// error at the limit of runs. Writers of other tables are not delayed.
#[test]
fn writers_of_a_damaged_table_fail_and_others_are_not_delayed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table, other) = with_two_tables(disk.clone());
    put(&engine, &table, 0, 3000).unwrap();
    engine.checkpoint().unwrap();
    let files = disk.list(std::path::Path::new("/data/db")).unwrap();
    let file = files
        .iter()
        .find(|path| path.to_string_lossy().contains("/t.PRIMARY"))
        .unwrap();
    let length = disk.open(file).unwrap().len().unwrap();
    for offset in (8192..length).step_by(512) {
        disk.flip_bit(file, offset, 3).unwrap();
    }
    let mut failed = None;
    for n in 0..10_000 {
        if let Err(error) = put(&engine, &table, n * 50, 50) {
            failed = Some(error);
            break;
        }
    }
    let error = failed.unwrap_or_else(|| panic!("{}", engine.status_text()));
    assert!(error.is_corrupt(), "{error}");
    let before = engine.statistics();
    for n in 0..100 {
        put(&engine, &other, n * 50, 50).unwrap();
    }
    let after = engine.statistics();
    assert_eq!(after.delays_runs, before.delays_runs);
    assert!(after.child_runs_max <= 2 * u64::from(threaded().tree.leaf_runs_max) + 8);
    // Checkpoints do not need the merge.
    engine.checkpoint().unwrap();
    drop((table, other));
}

/// Cursors prevent flushed memtables from being freed. The page cache shrinks, and at
/// last writers fail, so that the memory remains within the budget.
#[test]
fn memory_that_readers_keep_is_bounded() {
    let engine = Engine::open(Arc::new(MemoryDisk::new()), threaded()).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    put(&engine, &table, 0, 500).unwrap();
    let mut readers = Vec::new();
    let mut rows = 500;
    let error = loop {
        let mut reader = engine.begin(Isolation::ReadUncommitted);
        let mut cursor = reader
            .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
            .unwrap();
        cursor.first(&mut reader).unwrap().unwrap();
        readers.push((reader, cursor));
        if let Err(error) = put(&engine, &table, rows, 200) {
            break error;
        }
        rows += 200;
        let used = engine.statistics();
        let total = used.memtable_bytes + used.page_cache_bytes;
        assert!(total <= (4 << 20) + (256 << 10), "{total}");
        assert!(readers.len() < 5000, "{used:?}");
    };
    assert!(
        matches!(error, EngineError::Wait(WaitError::Timeout)),
        "{error:?}"
    );
    let statistics = engine.statistics();
    assert!(statistics.memtable_retired_bytes > statistics.memtable_bytes_limit);
    assert!(statistics.delays_memory.stops > 0);
    drop(readers);
    put(&engine, &table, rows, 200).unwrap();
    let statistics = engine.statistics();
    assert!(statistics.memtable_retired_bytes < statistics.memtable_bytes_limit);
    drop(table);
    engine.close().unwrap();
}

/// One of many written tables gets more rows: its memtable is frozen and flushed, and
/// the small memtables of the other tables are not.
#[test]
fn the_largest_memtables_are_frozen_among_many() {
    let mut options = options();
    options.cache_bytes = 64 << 20;
    options.open_tables_kept = 5000;
    options.memtable_bytes_min = 1 << 20;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    let tables: Vec<TableHandle> = (0..300)
        .map(|n| {
            let name = format!("./db/t{n}");
            engine.create_table(&definition(&name)).unwrap();
            let table = engine.open_table(&name).unwrap();
            put(&engine, &table, 0, 2).unwrap();
            table
        })
        .collect();
    let flushes = AtomicU64::new(engine.statistics().flushes);
    for n in 0..1500 {
        put(&engine, &tables[7], n * 50, 50).unwrap();
    }
    let statistics = engine.statistics();
    assert!(statistics.flushes > flushes.load(Ordering::Relaxed));
    assert!(statistics.memtable_bytes <= statistics.memtable_bytes_limit);
    let idle = tables[8].index_statistics(IndexNumber::ROWS).unwrap();
    assert!(idle.memtable_bytes > 0);
    drop(tables);
    engine.close().unwrap();
}
