//! Reopening a database, schemas of existing tables, and disks that fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use teak::disk::{Disk, MemoryDisk, StorageError};
use teak::{Builder, Database, Error, Table, TableSchema};
use teak_testing::{FaultDisk, GateDisk, SyncFailure};

fn on(disk: &Arc<MemoryDisk>) -> Builder {
    Database::builder("/db").disk(disk.clone())
}

#[test]
fn rows_and_indexes_are_there_after_opening_again() {
    let disk = Arc::new(MemoryDisk::new());
    let schema = || {
        TableSchema::new("shop/orders").index("by_length", |_, value| {
            Some(value.len().to_be_bytes().to_vec())
        })
    };
    for closes in [true, false] {
        let db = on(&disk).open().unwrap();
        let table = db.table(schema()).unwrap();
        table.insert(format!("{closes}"), "value").unwrap();
        let unfinished = db.begin();
        unfinished.insert(&table, "lost", "value").unwrap();
        drop(unfinished);
        drop(table);
        if closes {
            db.close().unwrap();
        }
    }
    let db = on(&disk).open().unwrap();
    assert_eq!(db.table_names(), ["shop/orders"]);
    let table = db.table(schema()).unwrap();
    assert_eq!(table.name(), "shop/orders");
    let snapshot = db.snapshot();
    assert_eq!(snapshot.iter(&table).count(), 2);
    let by_length = snapshot.index(&table, "by_length").unwrap();
    assert_eq!(by_length.equal(5usize.to_be_bytes()).count(), 2);
    assert_eq!(table.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn a_table_is_opened_with_the_indexes_it_has() {
    let db = Database::in_memory().unwrap();
    let none = |_: &[u8], _: &[u8]| None;
    db.table(TableSchema::new("t").index("a", none)).unwrap();
    for other in [
        TableSchema::new("t"),
        TableSchema::new("t").index("b", none),
        TableSchema::new("t").unique_index("a", none),
        TableSchema::new("t").index("a", none).index("b", none),
    ] {
        let refused = db.table(other);
        let Err(Error::SchemaMismatch { table, reason }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(table, "t");
        assert!(reason.contains("index a"), "{reason}");
    }
    let twice = db.table(TableSchema::new("u").index("a", none).index("a", none));
    assert!(matches!(twice, Err(Error::InvalidArgument(_))));
    assert!(!db.has_table("u").unwrap());
}

#[test]
fn tables_are_dropped_renamed_and_truncated() {
    let db = Database::in_memory().unwrap();
    let table = db.table("t").unwrap();
    table.insert("key", "value").unwrap();
    db.truncate_table("t").unwrap();
    assert_eq!(table.get("key").unwrap(), None);
    db.rename_table("t", "u").unwrap();
    assert_eq!(db.table_names(), ["u"]);
    db.drop_table("u").unwrap();
    let missing = db.drop_table("u");
    assert!(matches!(missing, Err(Error::NoSuchTable { name }) if name == "u"));
    assert!(matches!(db.table("../t"), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_database_is_open_once() {
    let disk = Arc::new(MemoryDisk::new());
    let db = on(&disk).open().unwrap();
    assert!(matches!(on(&disk).open(), Err(Error::InUse { .. })));
    drop(db);
    on(&disk).open().unwrap();
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let disk = Arc::new(FaultDisk::new(1));
    let db = Database::builder("/db")
        .disk(disk.clone())
        .cache_bytes(4 << 20)
        .open()
        .unwrap();
    let table = db.table("t").unwrap();
    disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    let value = vec![7; 1000];
    let mut committed = 0u32;
    let error = loop {
        // Every value is different, so that compression saves little space.
        let row: Vec<u8> = value
            .iter()
            .zip(0u32..)
            .map(|(v, n)| mixed(*v, n, committed))
            .collect();
        match table.insert(committed.to_be_bytes(), row) {
            Ok(()) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
    assert!(committed > 0);
    assert_eq!(db.snapshot().iter(&table).count(), committed as usize);
    disk.set_capacity(None);
    table.insert("space", "again").unwrap();
    let rows = db.snapshot().iter(&table).count();
    assert_eq!(rows, committed as usize + 1);
    drop(table);
    db.close().unwrap();
}

fn mixed(value: u8, position: u32, row: u32) -> u8 {
    let mut bits = u64::from(position) << 32 | u64::from(row) << 8 | u64::from(value);
    for _ in 0..3 {
        bits = (bits ^ (bits >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    bits.to_be_bytes()[0]
}

fn filled(disk: Arc<dyn Disk>) -> (Database, Table) {
    let db = Database::builder("/db").disk(disk).open().unwrap();
    let table = db.table("t").unwrap();
    table.insert("key", "value").unwrap();
    (db, table)
}

#[test]
fn a_table_whose_file_cannot_be_synced_is_read_only() {
    let disk = GateDisk::new(Arc::new(MemoryDisk::new()));
    let (db, table) = filled(Arc::new(disk.clone()));
    disk.fail_syncs("db/t.rows");
    assert!(db.checkpoint().is_err());
    let refused = table.insert("later", "value");
    let Err(Error::TableReadOnly { path, cause }) = &refused else {
        panic!("{refused:?}")
    };
    assert!(path.to_str().unwrap().contains("t.rows"), "{path:?}");
    assert!(matches!(cause, StorageError::Poisoned { .. }), "{cause:?}");
    assert!(refused.unwrap_err().source().is_some());
    assert_eq!(table.get("key").unwrap().unwrap(), b"value");
    disk.open_gate("db/t.rows");
    db.truncate_table("t").unwrap();
    table.insert("later", "value").unwrap();
}

#[test]
fn a_table_whose_file_is_missing_is_unavailable_until_it_is_back() {
    let disk = Arc::new(MemoryDisk::new());
    let (db, table) = filled(disk.clone());
    drop(table);
    db.close().unwrap();
    let files = disk.list("/db".as_ref()).unwrap();
    let is_table = |path: &&PathBuf| path.to_str().unwrap().contains("t.rows");
    let file = files.iter().find(is_table).unwrap();
    let hidden = file.with_extension("hidden");
    disk.rename(file, &hidden).unwrap();
    let db = on(&disk).open().unwrap();
    let refused = db.table("t");
    let Err(Error::TableUnavailable { name, cause }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, "t");
    assert!(matches!(cause, StorageError::NotFound { .. }), "{cause:?}");
    drop(db);
    disk.rename(&hidden, file).unwrap();
    let db = on(&disk).open().unwrap();
    assert_eq!(
        db.table("t").unwrap().get("key").unwrap().unwrap(),
        b"value"
    );
}

#[test]
fn after_a_failed_sync_of_the_log_the_database_refuses_writes() {
    let disk = Arc::new(FaultDisk::new(1));
    let (_db, table) = filled(disk.clone());
    disk.fail_sync(0, SyncFailure::Dropped);
    assert!(matches!(table.insert("lost", ""), Err(Error::Storage(_))));
    let refused = table.insert("later", "");
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
    assert_eq!(table.get("key").unwrap().unwrap(), b"value");
}

#[test]
fn too_large_and_too_small_values_are_refused() {
    let db = Database::in_memory().unwrap();
    let table = db.table("t").unwrap();
    let refused = table.insert(vec![0; 1 << 17], "");
    assert!(
        matches!(refused, Err(Error::TooLarge { what: "key", .. })),
        "{refused:?}"
    );
    let small = Database::builder("/")
        .cache_bytes(1)
        .disk(Arc::new(MemoryDisk::new()));
    assert!(matches!(small.open(), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_transaction_that_is_open_at_closing_can_still_commit() {
    let disk = Arc::new(MemoryDisk::new());
    for commits in [true, false] {
        let db = on(&disk).open().unwrap();
        let table = db.table("t").unwrap();
        let transaction = db.begin();
        transaction
            .insert(&table, format!("{commits}"), "value")
            .unwrap();
        drop(table);
        db.close().unwrap();
        // Until the transaction ends, the files cannot be opened again.
        assert!(matches!(on(&disk).open(), Err(Error::InUse { .. })));
        if commits {
            transaction.commit().unwrap();
        } else {
            drop(transaction);
        }
    }
    let db = on(&disk).open().unwrap();
    let table = db.table("t").unwrap();
    let snapshot = db.snapshot();
    let rows = snapshot.iter(&table).map(|row| row.unwrap().key);
    assert_eq!(rows.collect::<Vec<_>>(), [b"true"]);
    assert_eq!(table.verify().unwrap(), Vec::<String>::new());
}
