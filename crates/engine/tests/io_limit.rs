//! The limit of the I/O of background jobs.

use crate::common::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_disk::MemoryDisk;
use teak_engine::{
    AddedIndex, Engine, EngineOptions, EntryOrder, IndexNumber, Isolation, ReadMode, RowEntry,
    TableHandle,
};
use teak_testing::Random;
use teak_tree::TreeOptions;

const MIB: u64 = 1 << 20;
const VALUE_BYTES: u64 = 1024;

/// Memtables of less than 1 MiB and leaves that are merged at few pending bytes.
fn threaded() -> EngineOptions {
    let mut options = options();
    options.background_threads = 2;
    options.cache_bytes = 4 * MIB;
    options.commit_sync = false;
    options.log_segment_bytes = 64 * MIB;
    options.tree = TreeOptions {
        leaf_bytes: 2 * MIB,
        child_buffer_bytes: MIB,
        run_bytes_max: 2 * MIB,
        ..TreeOptions::tiny()
    };
    options
}

fn with_limit(bytes_per_second: u64) -> (Engine, TableHandle) {
    let mut options = threaded();
    options.io_bytes_per_second = bytes_per_second;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

/// Writes rows with values that cannot be compressed.
fn load(engine: &Engine, table: &TableHandle, bytes: u64) {
    let mut random = Random::new(7);
    for _ in 0..bytes / VALUE_BYTES / 16 {
        let mut transaction = engine.begin(Isolation::ReadCommitted);
        for _ in 0..16 {
            let key = random.next_u64().to_be_bytes();
            let value: Vec<u8> = (0..VALUE_BYTES / 8)
                .flat_map(|_| random.next_u64().to_be_bytes())
                .collect();
            let entry = RowEntry {
                index: IndexNumber::ROWS,
                unique: false,
                key: &key,
                value: &value,
            };
            transaction.insert(table, &[entry]).unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// Without the limit, the compaction of these rows takes less than a second.
#[test]
fn compaction_in_idle_time_obeys_the_limit() {
    let (engine, table) = with_limit(0);
    load(&engine, &table, 12 * MIB);
    engine.checkpoint().unwrap();
    engine.set_io_bytes_per_second(MIB);
    let before = engine.statistics();
    let mut waiting = Instant::now();
    let begun = loop {
        let now = engine.statistics();
        if now.idle_compaction_bytes > before.idle_compaction_bytes {
            break now;
        }
        std::thread::sleep(Duration::from_millis(5));
        if waiting.elapsed() > Duration::from_secs(5) {
            // On a busy machine the compaction may have ended before the limit was set.
            load(&engine, &table, 6 * MIB);
            waiting = Instant::now();
        }
    };
    let since = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let now = engine.statistics();
    let bytes = now.idle_compaction_bytes - begun.idle_compaction_bytes;
    let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap();
    // Each of the two threads may have read and written a part for which it waits then.
    let allowed = MIB * milliseconds / 1000 + MIB;
    assert!(bytes > MIB, "{bytes}");
    assert!(bytes <= allowed, "{bytes} of {allowed}");
    assert!(now.io_throttled_microseconds > before.io_throttled_microseconds + 1_000_000);
    // Closing does not wait for the limit.
    engine.set_io_bytes_per_second(1);
    std::thread::sleep(Duration::from_millis(300));
    let since = Instant::now();
    engine.close().unwrap();
    assert!(since.elapsed() < Duration::from_secs(60));
}

/// Reading and writing 4 MiB each takes the limit of 8 MiB per second a second.
#[test]
fn a_rebuild_can_obey_the_limit() {
    let (engine, table) = with_limit(8 * MIB);
    load(&engine, &table, 4 * MIB);
    engine.checkpoint().unwrap();
    let rows = AddedIndex {
        definition: definition("./db/x").indexes.swap_remove(0),
        unique: true,
        entry_order: EntryOrder::ByKey,
    };
    let alteration = engine.begin_alteration(&table, &[rows], Box::new(|| false));
    let mut alteration = alteration.unwrap();
    let before = engine.statistics();
    {
        let _io = alteration.begin_background_io();
        let mut reader = begin(&engine);
        let mode = ReadMode::Snapshot;
        let mut cursor = reader.cursor(&table, IndexNumber::ROWS, mode).unwrap();
        let mut row = cursor.first(&mut reader).unwrap();
        while let Some(found) = row {
            alteration.add(0, found.key, found.value).unwrap();
            row = cursor.next(&mut reader).unwrap();
        }
        alteration.build(&mut |_, _| ()).unwrap();
    }
    let now = engine.statistics();
    let bytes = now.rebuilding_bytes - before.rebuilding_bytes;
    assert!(bytes > 4 * MIB, "{bytes}");
    assert!(now.io_throttled_microseconds > before.io_throttled_microseconds);
    drop(alteration);
    engine.close().unwrap();
}

/// At the limit the flushes and merges alone would take minutes.
#[test]
fn jobs_that_writers_wait_for_are_not_limited() {
    let (engine, table) = with_limit(MIB / 8);
    let since = Instant::now();
    load(&engine, &table, 16 * MIB);
    let time = since.elapsed();
    let statistics = engine.statistics();
    assert!(time < Duration::from_secs(60), "{time:?}");
    assert!(statistics.writer_stalls > 0);
    assert!(statistics.bytes_written > 12 * MIB);
    let since = Instant::now();
    engine.checkpoint().unwrap();
    assert!(since.elapsed() < Duration::from_secs(10));
}
