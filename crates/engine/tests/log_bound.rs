//! The bound of the log: writers wait for a checkpoint, can be interrupted, and
//! commits do not wait.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::{
    Engine, EngineError, EngineOptions, ReadMode, TableHandle, TransactionHandle, WaitError,
};
use teak_testing::GateDisk;

/// A part of the paths of index files only.
const INDEX_FILES: &str = ".teak";

fn small_log() -> EngineOptions {
    let mut options = options();
    options.cache_bytes = 8 << 20;
    options.background_threads = 2;
    options.log_bytes_max = 2 << 20;
    options
}

fn gated() -> GateDisk {
    GateDisk::new(Arc::new(MemoryDisk::new()))
}

fn open_with(disk: &GateDisk, options: EngineOptions) -> (Engine, TableHandle) {
    let engine = Engine::open(Arc::new(disk.clone()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

fn write_rows(engine: &Engine, table: &TableHandle, writer: usize, rows: usize) {
    let value = "v".repeat(400);
    for n in 0..rows {
        commit(engine, |t| {
            insert(t, table, &format!("w{writer} k{n:06}"), &value).unwrap();
        });
    }
}

#[test]
fn several_writers_stay_within_the_bound() {
    let disk = gated();
    let (engine, table) = open_with(&disk, small_log());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (engine, table, done) = (&engine, &table, &done);
        let writers: Vec<_> = (0..4)
            .map(|writer| scope.spawn(move || write_rows(engine, table, writer, 4000)))
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let found = engine.statistics();
                assert!(found.log_bytes_used <= found.log_bytes_limit);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::SeqCst);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(engine.statistics().log_bytes_limit, 2 << 20);
    assert!(engine.statistics().log_bytes_appended > 8 << 20);
}

#[test]
fn stopped_writers_wait_for_a_checkpoint_and_can_be_interrupted() {
    let disk = gated();
    let mut options = small_log();
    let logged = capture_messages(&mut options);
    let (engine, table) = open_with(&disk, options);
    let mut open = begin(&engine);
    insert(&mut open, &table, "open", "1").unwrap();
    disk.hold_syncs(INDEX_FILES);
    thread::scope(|scope| {
        let (engine, table) = (&engine, &table);
        let writer = scope.spawn(move || write_rows(engine, table, 0, 8000));
        let mut interrupted = begin(engine);
        let handle: Arc<TransactionHandle> = Arc::clone(interrupted.handle());
        let victim = scope.spawn(move || {
            let value = "v".repeat(400);
            (0..).find_map(|n| insert(&mut interrupted, table, &format!("v{n:06}"), &value).err())
        });
        while engine.statistics().log_stops == 0 && engine.statistics().log_stop_microseconds == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        handle.interrupt();
        let error = victim.join().unwrap().unwrap();
        let expected = WaitError::Interrupted;
        assert!(matches!(error, EngineError::Wait(found) if found == expected));
        // A running transaction ends while the log is full.
        open.commit().unwrap();
        disk.open_gate(INDEX_FILES);
        writer.join().unwrap();
    });
    let found = engine.statistics();
    assert!(found.log_stops > 0 && found.log_slowdowns > 0);
    let logged = logged.lock().unwrap();
    let has = |text: &str| logged.iter().any(|message| message.contains(text));
    assert!(has("the log has reached its bound"), "{logged:?}");
    assert!(has("writers continue"), "{logged:?}");
}

#[test]
fn a_writer_of_an_engine_without_threads_runs_the_checkpoint() {
    let disk = gated();
    let mut options = small_log();
    options.background_threads = 0;
    let (engine, table) = open_with(&disk, options);
    write_rows(&engine, &table, 0, 20_000);
    let found = engine.statistics();
    assert!(found.log_bytes_used <= found.log_bytes_limit);
    assert!(found.log_stops > 0 && found.checkpoints > 0);
}

/// Fills the log while checkpoints wait, until a writer is stopped.
fn while_stopped(
    disk: &GateDisk,
    engine: &Engine,
    table: &TableHandle,
    check: impl FnOnce() + Send,
) {
    disk.hold_syncs(INDEX_FILES);
    thread::scope(|scope| {
        let writer = scope.spawn(move || write_rows(engine, table, 0, 6000));
        while engine.statistics().delays_log.stopped_now == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        check();
        disk.open_gate(INDEX_FILES);
        writer.join().unwrap();
    });
}

#[test]
fn a_stopped_transaction_holds_no_row_lock() {
    let disk = gated();
    let mut options = small_log();
    options.lock_timeout = Duration::from_secs(60);
    let (engine, table) = open_with(&disk, options);
    commit(&engine, |t| insert(t, &table, "row", "1").unwrap());
    while_stopped(&disk, &engine, &table, || {
        thread::scope(|scope| {
            let (engine, table) = (&engine, &table);
            let locking = scope.spawn(move || {
                let mut writer = begin(engine);
                let found = try_scan(&mut writer, table, 0, ReadMode::Exclusive);
                found.map(|rows| rows.len())
            });
            while engine.statistics().delays_log.stopped_now < 2 {
                if locking.is_finished() {
                    disk.open_gate(INDEX_FILES);
                    panic!("it has locked rows");
                }
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(engine.statistics().row_locks, 0);
            disk.open_gate(INDEX_FILES);
            assert!(locking.join().unwrap().is_ok());
        });
    });
}

#[test]
fn a_full_log_does_not_concern_temporary_tables() {
    let disk = gated();
    let (engine, table) = open_with(&disk, small_log());
    let name = "#temporary-1-2-3";
    engine.create_temporary_table(&definition(name)).unwrap();
    let temporary = engine.open_table(name).unwrap();
    while_stopped(&disk, &engine, &table, || {
        let before = engine.statistics().delays_log.times.count();
        commit(&engine, |t| insert(t, &temporary, "a", "1").unwrap());
        let after = engine.statistics().delays_log;
        assert_eq!((after.times.count(), after.stopped_now), (before, 1));
    });
}
