//! Aborted write ids are forgotten while the server is busy, and although tables are closed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use common::*;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineOptions, TableHandle};

fn busy_options() -> EngineOptions {
    let mut options = options();
    options.open_tables_kept = 0;
    options
}

fn open_busy(disk: &Arc<MemoryDisk>) -> Engine {
    Engine::open(Arc::clone(disk) as Arc<dyn Disk>, busy_options()).unwrap()
}

/// Flushes rows whose transaction is active, one of each that commits and that rolls back. So the
/// files contain their ids.
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

/// Maintenance passes of a server that never stops writing.
fn stay_busy(engine: &Engine, table: &TableHandle, passes: usize) {
    for n in 0..passes {
        commit(engine, |t| {
            insert(t, table, &format!("busy{n:05}"), "1").unwrap();
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
    drop(engine);
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
    drop(engine);
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
