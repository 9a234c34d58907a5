//! The size of files: after deletes, in idle time, and after closing.

use crate::common::*;
use std::path::PathBuf;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineOptions, IndexNumber, ReadMode, TableHandle};

const ROWS: usize = 12_000;

/// Memtables and pages large enough for files of a few MiB.
fn larger_options() -> EngineOptions {
    let mut options = options();
    options.cache_bytes = 4 << 20;
    options.tree.page_bytes = 2048;
    options.tree.leaf_bytes = 64 * 1024;
    options.tree.child_buffer_bytes = 128 * 1024;
    options.tree.run_bytes_max = 128 * 1024;
    options
}

fn open_larger(disk: &Arc<MemoryDisk>) -> Engine {
    Engine::open(Arc::clone(disk) as Arc<dyn Disk>, larger_options()).unwrap()
}

fn key(number: usize) -> String {
    format!(
        "{:020}",
        (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    )
}

fn value(number: usize) -> String {
    key(number * 31 + 7).repeat(6)
}

fn load(engine: &Engine, table: &TableHandle) {
    for numbers in (0..ROWS).collect::<Vec<_>>().chunks(500) {
        commit(engine, |writer| {
            for number in numbers {
                insert(writer, table, &key(*number), &value(*number)).unwrap();
            }
        });
        engine.run_background_until_idle().unwrap();
    }
}

fn loaded() -> (Arc<MemoryDisk>, Engine, TableHandle) {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open_larger(&disk);
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    load(&engine, &table);
    (disk, engine, table)
}

fn reclaim(engine: &Engine) {
    engine.settle().unwrap();
    engine.reclaim_space().unwrap();
}

/// Deletes nine rows of ten.
fn delete_most(engine: &Engine, table: &TableHandle) {
    commit(engine, |writer| {
        for number in (0..ROWS).filter(|number| number % 10 != 0) {
            delete(writer, table, &key(number), &value(number)).unwrap();
        }
    });
}

/// Bytes of all index files.
fn file_bytes(disk: &MemoryDisk) -> u64 {
    let mut files = disk.list(&PathBuf::from("/data/db")).unwrap();
    files.retain(|path| path.extension().is_some_and(|name| name == "teak"));
    let lengths = files
        .iter()
        .map(|path| disk.open(path).unwrap().len().unwrap());
    lengths.sum()
}

fn unused_bytes(table: &TableHandle) -> u64 {
    let unused = |index| table.free_bytes(IndexNumber(index)).unwrap();
    unused(0) + unused(1)
}

/// Asserts that the unused bytes are at most a twentieth of the live bytes, and 80 KiB for each of
/// the two files.
fn is_compact(disk: &MemoryDisk, table: &TableHandle) {
    let (bytes, unused) = (file_bytes(disk), unused_bytes(table));
    let live = bytes - unused;
    assert!(unused <= live / 20 + 2 * 80 * 1024, "{unused} of {bytes}");
}

#[test]
fn idle_time_after_deletes_shrinks_the_files() {
    let (disk, engine, table) = loaded();
    reclaim(&engine);
    is_compact(&disk, &table);
    let full = file_bytes(&disk);
    delete_most(&engine, &table);
    reclaim(&engine);
    is_compact(&disk, &table);
    let small = file_bytes(&disk);
    assert!(small < full / 5, "{small} of {full}");
    assert_eq!(rows(&engine, &table).len(), ROWS / 10);
    drop(table);
    engine.abandon();
    let engine = open_larger(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), ROWS / 10);
}

#[test]
fn closing_leaves_compact_files() {
    let (disk, engine, table) = loaded();
    drop(table);
    engine.close().unwrap();
    let closed = file_bytes(&disk);
    let engine = open_larger(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(file_bytes(&disk), closed);
    is_compact(&disk, &table);
    assert_eq!(rows(&engine, &table).len(), ROWS);
}

#[test]
fn an_idle_cursor_does_not_keep_later_blocks() {
    let (disk, engine, table) = loaded();
    reclaim(&engine);
    let full = file_bytes(&disk);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber(0), ReadMode::Snapshot)
        .unwrap();
    cursor.first(&mut reader).unwrap().unwrap();
    for round in 0..3 {
        for numbers in (0..ROWS).collect::<Vec<_>>().chunks(1000) {
            commit(&engine, |writer| {
                for number in numbers {
                    let (old, new) = (number + round, number + round + 1);
                    let key = key(*number);
                    update(writer, &table, &key, &value(old), &value(new)).unwrap();
                }
            });
            engine.run_background_until_idle().unwrap();
        }
        engine.checkpoint().unwrap();
    }
    let statistics = engine.statistics();
    assert!(statistics.pinned_bytes <= full, "{statistics:?}");
    cursor.next(&mut reader).unwrap().unwrap();
    drop(cursor);
    reader.rollback();
    reclaim(&engine);
    is_compact(&disk, &table);
}
