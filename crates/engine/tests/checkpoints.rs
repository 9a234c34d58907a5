//! Checkpoints with concurrent writers, slow files and failing files.

use crate::common::*;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::{Engine, TableHandle};
use teak_testing::{GateDisk, Random};

const OTHER: &str = "./db/u";

/// Timeout of waits, so that a test that fails ends.
const FOREVER: Duration = Duration::from_secs(120);

fn gated() -> GateDisk {
    GateDisk::new(Arc::new(MemoryDisk::new()))
}

fn with_threads(disk: &GateDisk, threads: usize) -> Arc<Engine> {
    let mut options = options();
    options.background_threads = threads;
    options.open_tables_kept = 10;
    Arc::new(Engine::open(Arc::new(disk.clone()), options).unwrap())
}

fn table(engine: &Engine, name: &str) -> TableHandle {
    if !engine.table_exists(name).unwrap() {
        engine.create_table(&definition(name)).unwrap();
    }
    engine.open_table(name).unwrap()
}

/// Inserts rows of about a kilobyte.
fn fill(engine: &Engine, table: &TableHandle, first: u64, count: u64) {
    for n in first..first + count {
        let mut random = Random::new(n);
        let value: String = (0..60)
            .map(|_| format!("{:08x}", random.below(1 << 32)))
            .collect();
        commit(engine, |t| {
            insert(t, table, &format!("{n:05}"), &value).unwrap()
        });
    }
}

/// Runs a checkpoint on another thread.
fn checkpoint_elsewhere(engine: &Arc<Engine>) -> Receiver<bool> {
    let (sender, receiver) = channel();
    let engine = Arc::clone(engine);
    std::thread::spawn(move || {
        let _ = sender.send(engine.checkpoint().is_ok());
    });
    receiver
}

fn close(engine: Arc<Engine>) {
    // The other threads have finished their work, but may still hold the engine.
    while Arc::strong_count(&engine) > 1 {
        std::thread::yield_now();
    }
    let engine = Arc::into_inner(engine).expect("no other thread uses the engine");
    engine.close().unwrap();
}

/// While a checkpoint flushes one table, memtables of another table are frozen and cannot
/// be flushed. A checkpoint that waited for them might never end, because writers may be
/// faster than flushing.
#[test]
fn a_checkpoint_does_not_wait_for_memtables_frozen_after_it_began() {
    let disk = gated();
    let engine = with_threads(&disk, 2);
    let (hot, other) = (table(&engine, TABLE), table(&engine, OTHER));
    fill(&engine, &hot, 0, 10);
    disk.hold("db/t.");
    let ended = checkpoint_elsewhere(&engine);
    disk.wait_for_arrival("db/t.");
    disk.hold("db/u.");
    let frozen = || engine.statistics().memtable_frozen_bytes;
    let (before, mut count) = (frozen(), 0);
    while frozen() <= before {
        fill(&engine, &other, count, 1);
        count += 1;
    }
    disk.open_gate("db/t.");
    assert!(ended.recv_timeout(FOREVER).expect("the checkpoint ends"));
    assert!(frozen() > 0);
    disk.open_gate("db/u.");
    drop((hot, other));
    close(engine);
    let engine = with_threads(&disk, 0);
    assert_eq!(rows(&engine, &table(&engine, TABLE)).len(), 10);
    let found = rows(&engine, &table(&engine, OTHER)).len();
    assert_eq!(found as u64, count);
}

#[test]
fn tables_are_opened_while_a_checkpoint_waits_for_the_disk() {
    let disk = gated();
    let engine = with_threads(&disk, 1);
    let names: Vec<String> = (0..700).map(|n| format!("./many/t{n}")).collect();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
    }
    let slow = table(&engine, TABLE);
    fill(&engine, &slow, 0, 10);
    disk.hold("db/t.");
    let ended = checkpoint_elsewhere(&engine);
    disk.wait_for_arrival("db/t.");
    let (sender, opened) = channel();
    let opener = Arc::clone(&engine);
    std::thread::spawn(move || {
        for name in &names {
            drop(opener.open_table(name).unwrap());
        }
        let _ = sender.send(());
    });
    opened.recv_timeout(FOREVER).expect("all tables are opened");
    let open = engine.statistics().open_tables;
    assert!(open < 700, "{open} tables are open");
    disk.open_gate("db/t.");
    assert!(ended.recv_timeout(FOREVER).expect("the checkpoint ends"));
    drop(slow);
    close(engine);
}

/// The write of the catalogue is blocked: it may take long, because a catalogue may be large.
#[test]
fn tables_are_created_and_dropped_while_the_catalogue_is_written() {
    for crashes in [false, true] {
        let disk = gated();
        let engine = with_threads(&disk, 1);
        fill(&engine, &table(&engine, TABLE), 0, 10);
        disk.hold("teak.catalogue");
        let ended = checkpoint_elsewhere(&engine);
        disk.wait_for_arrival("teak.catalogue");
        let (sender, changed) = channel();
        let changer = Arc::clone(&engine);
        std::thread::spawn(move || {
            fill(&changer, &table(&changer, OTHER), 0, 20);
            changer.drop_table(TABLE).unwrap();
            let _ = sender.send(());
        });
        changed.recv_timeout(FOREVER).expect("the tables change");
        disk.open_gate("teak.catalogue");
        assert!(ended.recv_timeout(FOREVER).expect("the checkpoint ends"));
        if crashes {
            while Arc::strong_count(&engine) > 1 {
                std::thread::yield_now();
            }
            drop(engine);
        } else {
            close(engine);
        }
        let engine = with_threads(&disk, 0);
        assert!(!engine.table_exists(TABLE).unwrap());
        assert_eq!(rows(&engine, &table(&engine, OTHER)).len(), 20);
        close(engine);
    }
}

/// The failing table's part of the log is retained, older parts are removed, and
/// the other table is checkpointed.
#[test]
fn a_failing_index_holds_back_only_its_own_part_of_the_log() {
    type Failure = fn(&GateDisk);
    let failures: [Failure; 2] = [|disk| disk.fail("db/u."), |disk| disk.fail_syncs("db/u.")];
    for failure in failures {
        let disk = gated();
        let engine = with_threads(&disk, 0);
        let (healthy, failing) = (table(&engine, TABLE), table(&engine, OTHER));
        fill(&engine, &healthy, 0, 1000);
        let written = engine.log_end().0;
        fill(&engine, &failing, 0, 10);
        fill(&engine, &healthy, 1000, 10);
        failure(&disk);
        let before = engine.statistics();
        assert!(before.log_bytes_kept > written / 4);
        for _ in 0..2 {
            engine.checkpoint().unwrap_err();
        }
        let after = engine.statistics();
        assert!(after.flush_failures + after.checkpoint_failures >= 2);
        assert!(after.checkpointed_indexes - before.checkpointed_indexes >= 2);
        assert!(
            after.log_bytes_kept < before.log_bytes_kept / 2,
            "{after:?}"
        );
        assert_eq!(rows(&engine, &failing).len(), 10);
        drop((healthy, failing));
        drop(engine);
        disk.open_gate("db/u.");
        let engine = with_threads(&disk, 0);
        assert_eq!(rows(&engine, &table(&engine, OTHER)).len(), 10);
        assert_eq!(rows(&engine, &table(&engine, TABLE)).len(), 1010);
        engine.checkpoint().unwrap();
        close(engine);
    }
}

#[test]
fn a_round_syncs_the_log_once_and_each_changed_file_once() {
    let disk = gated();
    let engine = with_threads(&disk, 0);
    let tables: Vec<TableHandle> = (0..40)
        .map(|n| table(&engine, &format!("./db/t{n}")))
        .collect();
    let write_all = |key: &str| {
        for table in &tables {
            commit(&engine, |t| insert(t, table, key, "value").unwrap());
        }
    };
    write_all("1");
    engine.checkpoint().unwrap();
    write_all("2");
    let before = engine.statistics();
    engine.checkpoint().unwrap();
    let after = engine.statistics();
    assert_eq!(after.checkpointed_indexes - before.checkpointed_indexes, 80);
    assert_eq!(after.data_syncs - before.data_syncs, 80);
    // One sync before the indexes, and one before the catalogue.
    assert!(after.log_syncs - before.log_syncs <= 2);
    // A checkpoint does not sync unchanged index files.
    engine.checkpoint().unwrap();
    assert_eq!(engine.statistics().data_syncs, after.data_syncs);
    assert_eq!(engine.statistics().checkpoints, after.checkpoints + 1);
}
