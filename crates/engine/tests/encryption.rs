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

/// The oldest versions in the blocks of the indexes.
fn states(engine: &Engine) -> Vec<Option<(u32, u32)>> {
    let mut found = Vec::new();
    engine.list_indexes(&mut |report| {
        assert!(!report.encryption.is_mixed);
        let with = report.encryption.with;
        found.push(with.map(|with| (KeyId::number(Some(with.key)), with.version)));
    });
    found
}

fn all_rows(engine: &Engine) -> Rows {
    let table = engine.open_table(TABLE).unwrap();
    rows(engine, &table)
}

#[test]
fn a_new_version_of_a_key_replaces_the_old_one_in_all_blocks() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 0).unwrap();
    engine
        .create_table(&encrypted_definition(TABLE, 2))
        .unwrap();
    write_rows(&engine, TABLE, 0, 3000);
    // Values that are stored apart.
    let table = engine.open_table(TABLE).unwrap();
    let mut transaction = begin(&engine);
    for number in 0..40 {
        let value = format!("{number:04}").repeat(200 + number);
        insert(&mut transaction, &table, &format!("long{number}"), &value).unwrap();
    }
    transaction.commit().unwrap();
    engine.checkpoint().unwrap();
    let expected = all_rows(&engine);
    drop((table, transaction));
    engine.close().unwrap();
    for version in 2..5 {
        keys.rotate(KeyId::new(2).unwrap());
        let engine = open_with(&disk, &keys, 0).unwrap();
        assert_eq!(states(&engine), [Some((2, version - 1)); 2]);
        engine.change_keys().unwrap();
        assert_eq!(states(&engine), [Some((2, version)); 2]);
        assert_eq!(all_rows(&engine), expected);
        engine.close().unwrap();
        // The old versions are no longer needed.
        keys.forget_before(version);
        let engine = open_with(&disk, &keys, 0).unwrap();
        assert_eq!(states(&engine), [Some((2, version)); 2]);
        assert_eq!(all_rows(&engine), expected);
        let table = engine.open_table(TABLE).unwrap();
        table.verify(&mut || true, &mut |_| ()).unwrap();
        drop(table);
        engine.close().unwrap();
    }
}

/// The oldest version must not be raised while a part of the tree has the old one: here its nodes cannot be read.
#[test]
fn a_change_does_not_end_without_the_parts_that_cannot_be_read() {
    let (disk, keys) = (Arc::new(MemoryDisk::new()), Arc::<TestKeys>::default());
    let engine = open_with(&disk, &keys, 0).unwrap();
    engine
        .create_table(&encrypted_definition(TABLE, 2))
        .unwrap();
    write_rows(&engine, TABLE, 0, 3000);
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    keys.rotate(KeyId::new(2).unwrap());
    // The root and one path get the new version.
    let engine = open_with(&disk, &keys, 0).unwrap();
    write_rows(&engine, TABLE, 9000, 1);
    engine.checkpoint().unwrap();
    engine.close().unwrap();
    keys.forget_before(2);
    let engine = open_with(&disk, &keys, 0).unwrap();
    for _ in 0..2 {
        let error = engine.change_keys().unwrap_err();
        assert!(is_key_error(&error), "{error:?}");
        assert_eq!(states(&engine)[0], Some((2, 1)));
    }
    engine.close().unwrap();
    keys.forget_before(0);
    let engine = open_with(&disk, &keys, 0).unwrap();
    engine.change_keys().unwrap();
    assert_eq!(states(&engine), [Some((2, 2)); 2]);
    assert_eq!(all_rows(&engine).len(), 3001);
    engine.close().unwrap();
}
