//! Encrypted tables and logs: no file contains plain bytes, and a missing or wrong key is an error of the tables that need it.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineError, EngineResult, KeyId, StorageError, TableDefinition};
use teak_testing::TestKeys;

const PLANTED: &str = "planted-secret";

fn encrypted_definition(name: &str, key: u32) -> TableDefinition {
    let mut definition = definition(name);
    for index in &mut definition.indexes {
        index.encryption_key = KeyId::new(key);
    }
    definition
}

fn open_with(disk: &Arc<MemoryDisk>, keys: &Arc<TestKeys>, log: u32) -> EngineResult<Engine> {
    let mut options = options();
    options.encryption = keys.encryption(log);
    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(disk);
    Engine::open(disk, options)
}

fn write_rows(engine: &Engine, name: &str, from: u64, count: u64) {
    let table = engine.open_table(name).unwrap();
    let mut transaction = begin(engine);
    for number in from..from + count {
        let value = format!("{PLANTED}-{number}");
        insert(&mut transaction, &table, &format!("k{number:06}"), &value).unwrap();
    }
    transaction.commit().unwrap();
}

/// The files below a directory that contain the planted text.
fn files_with_text(disk: &Arc<MemoryDisk>) -> Vec<String> {
    let mut found = Vec::new();
    for directory in ["/data", "/data/db"] {
        for path in disk.list(Path::new(directory)).unwrap() {
            let Ok(file) = disk.open(&path) else {
                continue;
            };
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let wanted = &PLANTED.as_bytes()[..8];
            if bytes.windows(wanted.len()).any(|window| window == wanted) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn is_key_error(error: &EngineError) -> bool {
    matches!(error, EngineError::Storage(StorageError::Key { .. }))
        || matches!(error, EngineError::TableUnavailable { cause, .. } if matches!(cause, StorageError::Key { .. }))
}

#[test]
fn nothing_is_readable_in_any_file() {
    for (log, table) in [(0, 0), (0, 2), (1, 0), (1, 2)] {
        let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
        let engine = open_with(&disk, &keys, log).unwrap();
        engine
            .create_table(&encrypted_definition(TABLE, table))
            .unwrap();
        write_rows(&engine, TABLE, 0, 2000);
        engine.checkpoint().unwrap();
        write_rows(&engine, TABLE, 2000, 300);
        let found = files_with_text(&disk);
        let is_found = |part: &str| found.iter().any(|path| path.contains(part));
        assert_eq!(is_found("teak.log"), log == 0, "{found:?}");
        assert_eq!(is_found("/db/"), table == 0, "{found:?}");
        engine.abandon();
        let engine = open_with(&disk, &keys, log).unwrap();
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table).len(), 2300);
        engine.close().unwrap();
    }
}

#[test]
fn without_its_keys_only_the_table_fails_and_nothing_is_lost() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 0).unwrap();
    engine
        .create_table(&encrypted_definition(TABLE, 2))
        .unwrap();
    engine.create_table(&definition("./db/plain")).unwrap();
    for name in [TABLE, "./db/plain"] {
        write_rows(&engine, name, 0, 500);
    }
    engine.checkpoint().unwrap();
    // These are only in the log.
    for name in [TABLE, "./db/plain"] {
        write_rows(&engine, name, 500, 100);
    }
    engine.abandon();
    let lost = Arc::<TestKeys>::default();
    lost.set_lost(true);
    for wrong in [lost, TestKeys::other()] {
        let engine = open_with(&disk, &wrong, 0).unwrap();
        let error = engine.open_table(TABLE).and_then(|table| {
            let mut transaction = begin(&engine);
            insert(&mut transaction, &table, "new", "new")
        });
        let error = error.unwrap_err();
        assert!(is_key_error(&error), "{error:?}");
        assert!(error.to_string().contains("key 2, version 1"), "{error}");
        let plain = engine.open_table("./db/plain").unwrap();
        assert_eq!(rows(&engine, &plain).len(), 600);
        engine.close().unwrap();
    }
    let engine = open_with(&disk, &keys, 0).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 600);
}

#[test]
fn an_encrypted_log_cannot_be_opened_without_its_key() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 1).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    write_rows(&engine, TABLE, 0, 10);
    engine.abandon();
    let refused = open_with(&disk, &TestKeys::other(), 1).map(|_| ());
    let error = refused.unwrap_err();
    assert!(is_key_error(&error), "{error:?}");
    let engine = open_with(&disk, &keys, 1).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 10);
}

#[test]
fn a_table_is_not_created_without_its_key() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 0).unwrap();
    keys.set_lost(true);
    let error = engine.create_table(&encrypted_definition(TABLE, 2));
    let error = error.unwrap_err();
    assert!(is_key_error(&error), "{error:?}");
    assert!(disk.list(Path::new("/data/db")).unwrap().is_empty());
    keys.set_lost(false);
    engine
        .create_table(&encrypted_definition(TABLE, 2))
        .unwrap();
}

#[test]
fn a_table_continues_when_a_lost_key_is_back() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 0).unwrap();
    engine
        .create_table(&encrypted_definition(TABLE, 2))
        .unwrap();
    write_rows(&engine, TABLE, 0, 500);
    engine.checkpoint().unwrap();
    engine.abandon();
    let engine = open_with(&disk, &keys, 0).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 500);
    keys.set_lost(true);
    // What is in memory remains readable, and the keys in memory are used.
    assert_eq!(rows(&engine, &table).len(), 500);
    write_rows(&engine, TABLE, 500, 10);
    keys.set_lost(false);
    engine.checkpoint().unwrap();
    drop(table);
    engine.close().unwrap();
    let engine = open_with(&disk, &keys, 0).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 510);
}
