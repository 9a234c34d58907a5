//! An engine that is dropped without being closed makes its log durable.

use crate::common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{Engine, EngineOptions, TableHandle};
use teak_testing::{FaultDisk, SyncFailure};

/// Options with which commits do not wait for the disk, and are synced after an hour.
fn late_options() -> EngineOptions {
    let mut options = options();
    options.background_threads = 1;
    options.commit_sync = false;
    options.log_sync_period = Duration::from_secs(3600);
    options
}

fn with_rows(disk: &Arc<FaultDisk>, options: EngineOptions) -> (Engine, TableHandle) {
    let engine = Engine::open(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    for n in 0..20 {
        commit(&engine, |t| {
            insert(t, &table, &format!("{n:02}"), "1").unwrap()
        });
    }
    (engine, table)
}

fn rows_after_crash(disk: &FaultDisk, seed: u64) -> usize {
    let engine = open(&Arc::new(disk.crash(seed)));
    let table = engine.open_table(TABLE).unwrap();
    rows(&engine, &table).len()
}

#[test]
fn a_dropped_engine_loses_no_commit() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk, late_options());
    drop(table);
    drop(engine);
    for seed in 0..8 {
        assert_eq!(rows_after_crash(&disk, seed), 20, "seed {seed}");
    }
}

#[test]
fn a_transaction_that_outlives_the_engine_commits_durably() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk, late_options());
    let mut late = begin(&engine);
    insert(&mut late, &table, "late", "1").unwrap();
    drop(engine);
    late.commit().unwrap();
    for seed in 0..8 {
        assert_eq!(rows_after_crash(&disk, seed), 21, "seed {seed}");
    }
}

#[test]
fn a_failed_sync_of_a_dropped_engine_is_reported() {
    let disk = Arc::new(FaultDisk::new(1));
    let mut options = late_options();
    let logged = capture_messages(&mut options);
    let (engine, table) = with_rows(&disk, options);
    drop(table);
    disk.fail_sync(0, SyncFailure::Dropped);
    drop(engine);
    let logged = logged.lock().unwrap();
    let is_reported = |text: &String| text.contains("the log was not synced");
    assert!(logged.iter().any(is_reported), "{logged:?}");
}
