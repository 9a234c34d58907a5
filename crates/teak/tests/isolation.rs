//! What each isolation level reads, refuses and locks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use common::{printed, text};
use std::cell::Cell;
use std::time::Duration;
use teak::{Database, Error, IndexRow, Isolation, Result, Row, Table, TableSchema, Transaction};

const ISOLATIONS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::Snapshot,
    Isolation::Serializable,
];

fn key(row: Option<Result<Row>>) -> Option<String> {
    row.map(|row| text(&row.unwrap().key))
}

fn entry(row: Option<Result<IndexRow>>) -> Option<String> {
    row.map(printed)
}

/// A table without secondary indexes, and one with an index of the values.
fn tables() -> (Database, [Table; 2]) {
    let db = Database::in_memory().unwrap();
    let plain = db.table("plain").unwrap();
    let schema = TableSchema::new("indexed").index("values", |_key, value| Some(value.to_vec()));
    let indexed = db.table(schema).unwrap();
    (db, [plain, indexed])
}

type Write = fn(&Transaction, &Table) -> Result<()>;

/// Every way to write or lock the row "1". The last one only locks what it finds.
const WRITES: [Write; 5] = [
    |t, table| t.update(table, "1", "elm").map(drop),
    |t, table| t.upsert(table, "1", "elm"),
    |t, table| t.delete(table, "1").map(drop),
    |t, table| t.get_for_update(table, "1").map(drop),
    |t, table| {
        t.range_for_update(table, "1".."2")
            .try_for_each(|row| row.map(drop))
    },
];

#[test]
fn a_row_changed_after_the_snapshot_is_a_conflict() {
    let (db, tables) = tables();
    for table in &tables {
        for write in WRITES {
            table.upsert("1", "oak").unwrap();
            let transaction = db.begin();
            assert!(transaction.get(table, "1").unwrap().is_some());
            table.update("1", "ash").unwrap();
            let refused = write(&transaction, table);
            assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
            assert!(refused.unwrap_err().is_retryable());
        }
    }
}

#[test]
fn a_row_deleted_after_the_snapshot_is_a_conflict() {
    let (db, tables) = tables();
    for table in &tables {
        for write in &WRITES[..4] {
            table.upsert("1", "oak").unwrap();
            let transaction = db.begin();
            assert!(transaction.get(table, "1").unwrap().is_some());
            table.delete("1").unwrap();
            let refused = write(&transaction, table);
            assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
        }
        // There is no conflict without a snapshot, or if the row was deleted before the snapshot.
        let transaction = db.begin();
        assert!(!transaction.update(table, "1", "elm").unwrap());
        transaction.get(table, "1").unwrap();
        assert!(!transaction.update(table, "1", "elm").unwrap());
        assert!(!transaction.delete(table, "1").unwrap());
    }
}

#[test]
fn read_committed_writes_the_newest_row() {
    let (db, tables) = tables();
    for table in &tables {
        for write in WRITES {
            for is_deleted in [false, true] {
                table.upsert("1", "oak").unwrap();
                let transaction = db.begin_with(Isolation::ReadCommitted);
                assert!(transaction.get(table, "1").unwrap().is_some());
                if is_deleted {
                    table.delete("1").unwrap();
                } else {
                    table.update("1", "ash").unwrap();
                }
                write(&transaction, table).unwrap();
                transaction.commit().unwrap();
            }
        }
        table.upsert("1", "oak").unwrap();
        let transaction = db.begin_with(Isolation::ReadCommitted);
        transaction.get(table, "1").unwrap();
        table.update("1", "ash").unwrap();
        assert_eq!(transaction.get(table, "1").unwrap().unwrap(), b"ash");
        assert!(transaction.update(table, "1", "elm").unwrap());
        transaction.commit().unwrap();
        assert_eq!(table.get("1").unwrap().unwrap(), b"elm");
        // A key that was deleted since the last read can be inserted.
        let transaction = db.begin_with(Isolation::ReadCommitted);
        transaction.get(table, "1").unwrap();
        table.delete("1").unwrap();
        transaction.insert(table, "1", "fir").unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn an_iterator_sees_writes_that_follow_its_creation() {
    let (db, tables) = tables();
    for table in &tables {
        for isolation in ISOLATIONS {
            for number in [b"1", b"3", b"5", b"7"] {
                table.upsert(number, "").unwrap();
            }
            let transaction = db.begin_with(isolation);
            let (mut up, mut down) = (transaction.iter(table), transaction.iter(table));
            assert_eq!(key(up.next()).as_deref(), Some("1"));
            assert_eq!(key(down.next_back()).as_deref(), Some("7"));
            transaction.insert(table, "2", "").unwrap();
            transaction.insert(table, "6", "").unwrap();
            assert_eq!(key(up.next()).as_deref(), Some("2"));
            assert_eq!(key(down.next_back()).as_deref(), Some("6"));
            transaction.delete(table, "3").unwrap();
            transaction.insert(table, "4", "").unwrap();
            db.checkpoint().unwrap();
            assert_eq!(key(up.next()).as_deref(), Some("4"));
            assert_eq!(key(down.next_back()).as_deref(), Some("5"));
            transaction.insert(table, "42", "").unwrap();
            assert_eq!(key(up.next()).as_deref(), Some("42"));
            assert_eq!(key(down.next_back()).as_deref(), Some("42"));
            // Reads one iterator from both ends.
            assert_eq!(key(up.next_back()).as_deref(), Some("7"));
            transaction.insert(table, "65", "").unwrap();
            assert_eq!(key(up.next_back()).as_deref(), Some("65"));
            transaction.delete(table, "5").unwrap();
            assert_eq!(key(up.next()).as_deref(), Some("6"));
            assert!(up.next().is_none() && up.next_back().is_none());
        }
    }
}

#[test]
fn an_index_iterator_returns_a_row_once_after_a_write_over_a_newer_row() {
    let (db, [_, table]) = tables();
    for (key, value) in [("1", "a"), ("2", "b"), ("3", "e")] {
        table.insert(key, value).unwrap();
    }
    let transaction = db.begin_with(Isolation::ReadCommitted);
    let mut rows = transaction.index(&table, "values").unwrap().iter();
    assert_eq!(entry(rows.next()).as_deref(), Some("a/1"));
    table.update("2", "c").unwrap();
    transaction.update(&table, "2", "d").unwrap();
    assert_eq!(entry(rows.next()).as_deref(), Some("d/2"));
    assert_eq!(entry(rows.next()).as_deref(), Some("e/3"));
    assert_eq!(entry(rows.next()), None);
}

#[test]
fn an_index_iterator_ends_after_an_error() {
    let (db, [_, table]) = tables();
    for key in ["1", "2", "3"] {
        table.insert(key, "a").unwrap();
    }
    let holder = db.begin();
    holder.get_for_update(&table, "2").unwrap();
    let reader = db.begin_with(Isolation::Serializable);
    reader.set_lock_timeout(Duration::ZERO);
    let mut rows = reader.index(&table, "values").unwrap().iter();
    assert_eq!(entry(rows.next()).as_deref(), Some("a/1"));
    let refused = rows.next();
    assert!(
        matches!(refused, Some(Err(Error::LockTimeout))),
        "{refused:?}"
    );
    assert!(rows.next().is_none() && rows.next_back().is_none());
}

#[test]
fn only_read_committed_locks_no_gaps() {
    let (db, tables) = tables();
    for table in &tables {
        for isolation in ISOLATIONS {
            let locks_gaps = isolation != Isolation::ReadCommitted;
            table.upsert("5", "").unwrap();
            let reader = db.begin_with(isolation);
            assert_eq!(reader.get_for_update(table, "1").unwrap(), None);
            assert_eq!(reader.range_for_update(table, "4".."8").count(), 1);
            let writer = db.begin();
            writer.set_lock_timeout(Duration::ZERO);
            for gap in ["1", "4", "6"] {
                match writer.insert(table, gap, "") {
                    Ok(()) => assert!(!locks_gaps),
                    Err(Error::LockTimeout) => assert!(locks_gaps),
                    Err(error) => panic!("{error}"),
                }
            }
            let refused = writer.update(table, "5", "");
            assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
        }
    }
}

#[test]
fn a_lock_timeout_without_limit_waits() {
    let (db, [table, _]) = tables();
    table.insert("1", "oak").unwrap();
    let holder = db.begin();
    holder.update(&table, "1", "ash").unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let transaction = db.begin();
            transaction.set_lock_timeout(Duration::MAX);
            transaction.update(&table, "1", "elm")?;
            transaction.commit()
        });
        while db.statistics().lock_waits == 0 && !waiter.is_finished() {
            std::thread::yield_now();
        }
        holder.commit().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(table.get("1").unwrap().unwrap(), b"elm");
}

#[test]
fn transact_runs_again_after_retryable_errors_only() {
    let (db, _) = tables();
    for (error, is_retryable) in [
        (Error::Conflict, true),
        (Error::Deadlock, true),
        (Error::LockTimeout, false),
        (Error::TooManyLocks, false),
    ] {
        assert_eq!(error.is_retryable(), is_retryable);
        let runs = Cell::new(0);
        let outcome = db.transact(|_| {
            runs.set(runs.get() + 1);
            if runs.get() < 3 {
                return Err(error.clone());
            }
            Ok(())
        });
        assert_eq!(outcome.is_ok(), is_retryable, "{error}");
        assert_eq!(runs.get(), if is_retryable { 3 } else { 1 }, "{error}");
    }
}
