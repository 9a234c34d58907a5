//! Tables that contain a few unflushed rows and are not used any more are flushed
//! and closed while other tables are written.

use crate::common::*;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineOptions, TableHandle};
use teak_testing::{FaultDisk, GateDisk};

const TABLES: usize = 24;

/// Options with which tables are closed after 50 ms, and no checkpoint is due in the
/// background.
fn busy_options() -> EngineOptions {
    let mut options = options();
    options.background_threads = 1;
    options.cache_bytes = 8 << 20;
    options.checkpoint_period = Duration::from_secs(3600);
    options.table_idle_period = Duration::from_millis(50);
    options.commit_sync = false;
    options
}

fn name(number: usize) -> String {
    format!("./db/t{number}")
}

fn create(engine: &Engine, name: &str) -> TableHandle {
    engine.create_table(&definition(name)).unwrap();
    engine.open_table(name).unwrap()
}

/// Calls `work` while another thread writes to a table without a pause.
fn while_busy<R>(engine: &Engine, table: &TableHandle, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                commit(engine, |t| {
                    insert(t, table, &format!("{count:07}"), "1").unwrap();
                });
                count += 1;
                thread::sleep(Duration::from_micros(200));
            }
        });
        let result = std::panic::catch_unwind(AssertUnwindSafe(work));
        done.store(true, Ordering::Release);
        writer.join().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn idle_tables_are_closed_while_another_is_written() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, busy_options()).unwrap();
    let busy = create(&engine, "./db/busy");
    let tables: Vec<TableHandle> = (0..TABLES).map(|n| create(&engine, &name(n))).collect();
    while_busy(&engine, &busy, || {
        for (number, table) in tables.iter().enumerate() {
            commit(&engine, |t| {
                insert(t, table, "row", &number.to_string()).unwrap();
            });
        }
        wait_until("idle tables remain open", || {
            engine.statistics().open_tables == 1
        });
        // The next use opens the files again.
        for table in &tables {
            assert_eq!(rows(&engine, table).len(), 1);
        }
    });
    drop((tables, busy));
    engine.abandon();
    let engine = open(&Arc::new(disk.crash(3)));
    for number in 0..TABLES {
        let table = engine.open_table(&name(number)).unwrap();
        let value = number.to_string();
        assert_eq!(rows(&engine, &table), pairs(&[("row", &value)]));
    }
}

#[test]
fn a_table_that_is_used_remains_open() {
    let engine = Engine::open(Arc::new(MemoryDisk::new()), busy_options()).unwrap();
    let busy = create(&engine, "./db/busy");
    let used = create(&engine, "./db/used");
    let idle = create(&engine, "./db/idle");
    let mut open = begin(&engine);
    insert(&mut open, &used, "row", "1").unwrap();
    while_busy(&engine, &busy, || {
        commit(&engine, |t| insert(t, &idle, "row", "1").unwrap());
        wait_until("the idle table remains open", || {
            // This read is a use of the table, so it remains open.
            assert_eq!(rows(&engine, &used).len(), 0);
            engine.statistics().open_tables == 2
        });
    });
    open.commit().unwrap();
    assert_eq!(rows(&engine, &used).len(), 1);
    assert_eq!(rows(&engine, &idle).len(), 1);
}

/// The memory of open tables is bounded, although all of them have handles.
#[test]
fn opening_a_table_waits_until_others_are_closed() {
    const MANY: usize = 500;
    /// Twice the minimum of 256 trees, because openings wait only for a short time.
    const OPEN_MAX: u64 = 2 * 256 / 2;
    let mut options = busy_options();
    options.cache_bytes = 2 << 20;
    options.table_idle_period = Duration::from_secs(3600);
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    let tables: Vec<TableHandle> = (0..MANY).map(|n| create(&engine, &name(n))).collect();
    let mut most = 0;
    for table in &tables {
        commit(&engine, |t| insert(t, table, "row", "1").unwrap());
        most = most.max(engine.statistics().open_tables);
    }
    assert!(most <= OPEN_MAX, "{most} tables were open");
    for table in &tables {
        assert_eq!(rows(&engine, table).len(), 1);
    }
}

/// Tables without handles above the limit are flushed some at a time.
#[test]
fn tables_above_the_limit_are_flushed_at_a_pace() {
    const KEPT: usize = 200;
    const MANY: usize = 260;
    /// More than the number of opened tables that starts the closing of others. `MANY` and
    /// these together exceed the limit by less than `KEPT`, so the rate is the lowest.
    const OPENED: usize = 70;
    /// The files that may be written after a pause, and one of the last table.
    const BURST_FILES: u64 = 33;
    let gates = GateDisk::new(Arc::new(MemoryDisk::new()));
    let mut options = busy_options();
    // So much that these are not many open trees.
    options.cache_bytes = 256 << 20;
    options.open_tables_kept = KEPT;
    options.table_idle_period = Duration::from_secs(3600);
    let engine = Engine::open(Arc::new(gates.clone()), options).unwrap();
    let busy = create(&engine, "./db/busy");
    while_busy(&engine, &busy, || {
        let tables: Vec<TableHandle> = (0..MANY).map(|n| create(&engine, &name(n))).collect();
        for table in &tables {
            commit(&engine, |t| insert(t, table, "row", "1").unwrap());
        }
        let before = engine.statistics().flushes;
        gates.hold_syncs("db/t");
        drop(tables);
        // Opening many tables makes the engine close some.
        for n in 0..OPENED {
            drop(create(&engine, &format!("./db/u{n}")));
        }
        gates.wait_for_arrival("db/t");
        let flushes = engine.statistics().flushes - before;
        gates.open_gate("db/t");
        assert!((1..=BURST_FILES).contains(&flushes), "{flushes}");
        let mut opened = OPENED;
        wait_until("tables above the limit remain open", || {
            // A table of which another thread holds a reference for a moment is not closed; it is
            // tried again when many more were opened.
            drop(create(&engine, &format!("./db/u{opened}")));
            opened += 1;
            engine.statistics().open_tables <= (KEPT + OPENED) as u64
        });
    });
}
