//! One budget covers all memory: the page cache shrinks when other parts use more.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_disk::{Disk, MemoryDisk, RealDisk};
use teak_engine::{
    AddedIndex, Engine, EngineOptions, EngineStatistics, EntryOrder, Heap, IndexNumber, ReadMode,
    TableHandle,
};

const MIB: u64 = 1 << 20;

fn engine_with(options: EngineOptions) -> (Engine, TableHandle) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

fn with_cache(bytes: u64) -> EngineOptions {
    let mut options = options();
    options.cache_bytes = bytes;
    options
}

fn fill(engine: &Engine, table: &TableHandle, rows: u32) {
    commit(engine, |transaction| {
        for n in 0..rows {
            let key = format!("{n:08}");
            insert(transaction, table, &key, &"v".repeat(50)).unwrap();
        }
    });
}

/// Statistics after a maintenance pass, which divides the budget between page cache and
/// memtables again.
fn divided(engine: &Engine) -> EngineStatistics {
    engine.run_due_maintenance().unwrap();
    let statistics = engine.statistics();
    let memory = statistics.page_cache_bytes_limit + statistics.memtable_bytes;
    assert!(memory <= statistics.cache_bytes_limit);
    statistics
}

#[test]
fn locks_reduce_the_page_cache_until_they_are_released() {
    let (engine, table) = engine_with(with_cache(8 * MIB));
    engine.set_lock_bytes_max(16 * MIB);
    fill(&engine, &table, 8000);
    let before = divided(&engine);
    let mut transaction = begin(&engine);
    let mut cursor = transaction
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    for n in 0..8000 {
        let key = format!("{n:08}");
        let row = cursor.get(&mut transaction, key.as_bytes()).unwrap();
        assert!(row.is_some());
    }
    drop(cursor);
    let during = divided(&engine);
    assert!(during.lock_bytes > MIB / 4, "{}", during.lock_bytes);
    let reduced = before.page_cache_bytes_limit - during.page_cache_bytes_limit;
    assert!(reduced > 0, "{during:?}");
    assert!(during.memory_bytes >= during.lock_bytes + during.cache_bytes_used);
    transaction.rollback();
    let after = divided(&engine);
    assert_eq!(after.lock_bytes, 0);
    assert!(after.page_cache_bytes_limit > during.page_cache_bytes_limit);
}

#[test]
fn nodes_are_counted_while_their_table_is_open() {
    let (engine, table) = engine_with(with_cache(4 * MIB));
    let empty = divided(&engine).node_bytes;
    fill(&engine, &table, 20_000);
    engine.settle().unwrap();
    let nodes = divided(&engine).node_bytes;
    // The tree has many nodes, because its leaves are tiny.
    assert!(nodes > empty + 10_000, "{empty}, {nodes}");
    drop(table);
    engine.drop_table(TABLE).unwrap();
    assert_eq!(divided(&engine).node_bytes, 0);
}

/// A cursor keeps its page after the cache has evicted it.
#[test]
fn pages_of_cursors_are_counted() {
    let (engine, table) = engine_with(with_cache(4 * MIB));
    fill(&engine, &table, 20_000);
    engine.settle().unwrap();
    assert_eq!(engine.statistics().uncached_block_bytes, 0);
    let mut transaction = begin(&engine);
    let cursors: Vec<_> = (0..40)
        .map(|n| {
            let mut cursor = transaction
                .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
                .unwrap();
            let key = format!("{:08}", n * 500);
            cursor.set_bounds(Some(key.as_bytes()), None);
            assert!(cursor.first(&mut transaction).unwrap().is_some());
            cursor
        })
        .collect();
    engine.set_cache_bytes(MIB).unwrap();
    let mut other = begin(&engine);
    let mut scan = other
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    let mut row = scan.first(&mut other).unwrap().is_some();
    while row {
        row = scan.next(&mut other).unwrap().is_some();
    }
    drop(scan);
    let kept = engine.statistics().uncached_block_bytes;
    assert!(kept > 0);
    drop(cursors);
    let left = engine.statistics().uncached_block_bytes;
    assert!(left < kept, "{left}, {kept}");
}

#[test]
fn a_sort_takes_its_memory_from_the_page_cache() {
    let (engine, table) = engine_with(with_cache(64 * MIB));
    let before = divided(&engine);
    let added = [AddedIndex {
        definition: definition("./db/x").indexes.swap_remove(1),
        unique: false,
        entry_order: EntryOrder::Any,
    }];
    let added = added.map(|mut index| {
        index.definition.label = "sorted".into();
        index
    });
    let alteration = engine
        .begin_alteration(&table, &added, Box::new(|| false))
        .unwrap();
    let during = divided(&engine);
    assert_eq!(during.sort_bytes, 8 * MIB);
    assert!(during.page_cache_bytes_limit + 2 * MIB <= before.page_cache_bytes_limit);
    drop(alteration);
    let after = divided(&engine);
    assert_eq!(after.sort_bytes, 0);
    // The first share was set before the roots of the trees were counted, the second one
    // afterwards.
    let difference = before.page_cache_bytes_limit - after.page_cache_bytes_limit;
    assert!(difference <= after.node_bytes, "{difference} bytes");
}

#[test]
fn loads_share_the_memory_of_a_statement_s_sorts() {
    let mut options = with_cache(64 * MIB);
    options.sort_bytes_max = 8 * MIB;
    let (engine, table) = engine_with(options);
    let mut transaction = begin(&engine);
    let mut load = |tables| transaction.begin_load(&table, &[true, false], tables);
    let first = load(4).unwrap();
    assert_eq!(divided(&engine).sort_bytes, 2 * MIB);
    engine.set_sort_bytes_max(64 * MIB);
    assert!(engine.has_sort_memory());
    let second = load(1).unwrap();
    assert_eq!(divided(&engine).sort_bytes, 16 * MIB);
    assert!(!engine.has_sort_memory());
    drop((first, second));
    assert!(engine.has_sort_memory());
    assert_eq!(divided(&engine).sort_bytes, 0);
}

#[test]
fn memory_of_the_caller_is_part_of_the_budget() {
    let (engine, _table) = engine_with(with_cache(64 * MIB));
    let before = divided(&engine);
    assert!(engine.take_caller_bytes(4 * MIB));
    assert!(!engine.take_caller_bytes(1));
    let during = divided(&engine);
    assert!(during.memory_bytes >= before.memory_bytes + 4 * MIB);
    assert!(during.page_cache_bytes_limit < before.page_cache_bytes_limit);
    engine.return_caller_bytes(4 * MIB);
    assert!(engine.take_caller_bytes(MIB));
}

#[test]
fn the_directory_of_spill_files_must_exist() {
    let mut options = with_cache(2 * MIB);
    options.spill_directory = Some("/no/such/directory".into());
    let refused = Engine::open(Arc::new(RealDisk), options).err();
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("/no/such/directory"), "{refused}");
}

/// A heap for which the test sets the number of allocated bytes, and which counts the calls of
/// `release_unused`.
#[derive(Default)]
struct Measured(AtomicU64, AtomicU64);

impl Heap for Measured {
    fn allocated_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn release_unused(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn memory_without_a_counter_is_part_of_the_budget() {
    let heap = Arc::new(Measured::default());
    let mut options = with_cache(64 * MIB);
    options.heap = Some(Arc::clone(&heap) as Arc<dyn Heap>);
    let (engine, _table) = engine_with(options);
    let before = divided(&engine);
    heap.0.store(40 * MIB, Ordering::Relaxed);
    while engine.statistics().memory_bytes < 40 * MIB {
        std::thread::yield_now();
    }
    let during = divided(&engine);
    assert!(during.page_cache_bytes_limit + 20 * MIB < before.page_cache_bytes_limit);
    assert!(during.page_cache_bytes_limit >= 4 * MIB);
    assert!(heap.1.load(Ordering::Relaxed) >= 2);
}
