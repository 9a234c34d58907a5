//! The interface as an application uses it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use common::{printed, text};
use std::sync::Arc;
use std::time::Duration;
use teak::disk::MemoryDisk;
use teak::{Database, Error, IndexRow, Isolation, Result, Row, Rows, Table, TableSchema};

fn keys(rows: Rows<'_>) -> Vec<String> {
    rows.map(|row| text(&row.unwrap().key)).collect()
}

fn entries(rows: impl Iterator<Item = Result<IndexRow>>) -> Vec<String> {
    rows.map(printed).collect()
}

/// Values are words. The index has an entry for each letter of a word.
fn schema() -> TableSchema {
    TableSchema::new("words")
        .index("letters", |_key, value| {
            value.iter().map(|letter| vec![*letter]).collect::<Vec<_>>()
        })
        .unique_index("words", |_key, value| {
            (!value.is_empty()).then(|| value.to_vec())
        })
}

fn words() -> (Database, Table) {
    let db = Database::in_memory().unwrap();
    let table = db.table(schema()).unwrap();
    (db, table)
}

#[test]
fn ranges_and_prefixes_in_both_directions() {
    let db = Database::in_memory().unwrap();
    let table = db.table("t").unwrap();
    for key in ["a", "aa", "ab", "b", "ba", "c"] {
        table.insert(key, "").unwrap();
    }
    let snapshot = db.snapshot();
    assert_eq!(keys(snapshot.range(&table, "aa".."ba")), ["aa", "ab", "b"]);
    assert_eq!(keys(snapshot.range(&table, "aa"..="ba")).len(), 4);
    assert_eq!(keys(snapshot.range(&table, ..="aa")), ["a", "aa"]);
    assert_eq!(keys(snapshot.range(&table, "b"..)), ["b", "ba", "c"]);
    assert_eq!(keys(snapshot.prefix(&table, "a")), ["a", "aa", "ab"]);
    assert_eq!(keys(snapshot.prefix(&table, "")).len(), 6);
    assert_eq!(keys(snapshot.range(&table, "b".."a")).len(), 0);
    let backward: Vec<_> = snapshot
        .iter(&table)
        .rev()
        .map(|row| row.unwrap().key)
        .collect();
    assert_eq!(text(&backward[0]), "c");
    assert_eq!(backward.len(), 6);
    // Reads alternately from both ends: every row is returned once.
    let mut rows = snapshot.iter(&table);
    let mut found = Vec::new();
    while let Some(row) = if found.len() % 2 == 0 {
        rows.next()
    } else {
        rows.next_back()
    } {
        found.push(text(&row.unwrap().key));
    }
    assert_eq!(found, ["a", "c", "aa", "ba", "ab", "b"]);
    assert!(rows.next().is_none() && rows.next_back().is_none());
}

#[test]
fn indexes_follow_every_write() {
    let (db, table) = words();
    table.insert("1", "oak").unwrap();
    table.insert("2", "teak").unwrap();
    table.upsert("1", "ash").unwrap();
    table.upsert("3", "yew").unwrap();
    assert!(table.update("2", "elm").unwrap());
    assert!(!table.update("9", "fir").unwrap());
    let snapshot = db.snapshot();
    let letters = snapshot.index(&table, "letters").unwrap();
    assert_eq!(
        entries(letters.iter()),
        [
            "a/1", "e/2", "e/3", "h/1", "l/2", "m/2", "s/1", "w/3", "y/3"
        ]
    );
    assert_eq!(entries(letters.equal("e").rev()), ["e/3", "e/2"]);
    assert_eq!(entries(letters.range("h"..="m")), ["h/1", "l/2", "m/2"]);
    assert!(letters.get("k").unwrap().is_none());
    let words = snapshot.index(&table, "words").unwrap();
    assert_eq!(words.get("elm").unwrap().unwrap().key, b"2");
    assert_eq!(entries(words.prefix("")), ["ash/1", "elm/2", "yew/3"]);
    assert!(table.delete("2").unwrap());
    assert!(!table.delete("2").unwrap());
    let now = db.snapshot();
    let letters = now.index(&table, "letters").unwrap();
    assert_eq!(entries(letters.range("e".."n")), ["e/3", "h/1"]);
    // The older snapshot still sees the row.
    assert_eq!(words.get("elm").unwrap().unwrap().value, b"elm");
    assert!(matches!(now.index(&table, "no"), Err(Error::NoSuchIndex { name }) if name == "no"));
}

#[test]
fn a_duplicate_names_its_index_and_changes_nothing() {
    let (db, table) = words();
    table.insert("1", "oak").unwrap();
    let transaction = db.begin();
    let refused = transaction.insert(&table, "2", "oak");
    assert!(matches!(refused, Err(Error::DuplicateKey { index: Some(name) }) if name == "words"));
    let refused = transaction.insert(&table, "1", "elm");
    assert!(matches!(refused, Err(Error::DuplicateKey { index: None })));
    transaction.insert(&table, "3", "elm").unwrap();
    let refused = transaction.upsert(&table, "3", "oak");
    assert!(matches!(
        refused,
        Err(Error::DuplicateKey { index: Some(_) })
    ));
    transaction.commit().unwrap();
    let snapshot = db.snapshot();
    assert_eq!(keys(snapshot.iter(&table)), ["1", "3"]);
    let words = snapshot.index(&table, "words").unwrap();
    assert_eq!(entries(words.iter()), ["elm/3", "oak/1"]);
}

#[test]
fn locks_time_out_and_deadlocks_are_found() {
    let db = Database::builder("/")
        .disk(Arc::new(MemoryDisk::new()))
        .lock_timeout(Duration::from_secs(30))
        .open()
        .unwrap();
    let table = db.table("t").unwrap();
    table.insert("a", "").unwrap();
    table.insert("b", "").unwrap();
    let first = db.begin();
    first.get_for_update(&table, "a").unwrap();
    let second = db.begin();
    second.set_lock_timeout(Duration::ZERO);
    let refused = second.update(&table, "a", "x");
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    second.rollback();

    let second = db.begin();
    second.get_for_update(&table, "b").unwrap();
    let outcomes: Vec<Result<bool>> = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let outcome = second.update(&table, "a", "2");
            match &outcome {
                Ok(_) => second.commit().unwrap(),
                Err(_) => second.rollback(),
            }
            outcome
        });
        let mine = first.update(&table, "b", "1");
        match &mine {
            Ok(_) => first.commit().unwrap(),
            Err(_) => first.rollback(),
        }
        vec![mine, other.join().unwrap()]
    });
    let deadlocks = outcomes
        .iter()
        .filter(|o| matches!(o, Err(Error::Deadlock)));
    assert_eq!(deadlocks.count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 1);
    assert_eq!(db.statistics().deadlocks, 1);
}

#[test]
fn serializable_transactions_do_not_miss_insertions() {
    let (db, table) = words();
    table.insert("1", "oak").unwrap();
    let reader = db.begin_with(Isolation::Serializable);
    assert_eq!(keys(reader.iter(&table)), ["1"]);
    let letters = reader.index(&table, "letters").unwrap();
    assert_eq!(entries(letters.equal("o")), ["o/1"]);
    let writer = db.begin();
    writer.set_lock_timeout(Duration::from_millis(20));
    let refused = writer.insert(&table, "2", "elm");
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    reader.commit().unwrap();
    writer.insert(&table, "2", "elm").unwrap();
    writer.commit().unwrap();
}

#[test]
fn savepoints_undo_a_part() {
    let (db, table) = words();
    let transaction = db.begin();
    transaction.insert(&table, "1", "oak").unwrap();
    let savepoint = transaction.savepoint().unwrap();
    transaction.insert(&table, "2", "elm").unwrap();
    transaction.update(&table, "1", "ash").unwrap();
    transaction.rollback_to(savepoint).unwrap();
    transaction.insert(&table, "3", "elm").unwrap();
    transaction.commit().unwrap();
    let snapshot = db.snapshot();
    assert_eq!(keys(snapshot.iter(&table)), ["1", "3"]);
    let words = snapshot.index(&table, "words").unwrap();
    assert_eq!(entries(words.iter()), ["elm/3", "oak/1"]);
}

#[test]
fn a_transaction_writes_while_it_iterates() {
    let (db, table) = words();
    for number in 0..100 {
        table
            .insert(format!("{number:02}"), format!("w{number}"))
            .unwrap();
    }
    db.transact(|transaction| {
        for row in transaction.iter(&table) {
            let Row { key, value } = row?;
            if key.ends_with(b"3") {
                transaction.delete(&table, key)?;
            } else {
                transaction.update(&table, key, [&value[..], b"!"].concat())?;
            }
        }
        Ok(())
    })
    .unwrap();
    let snapshot = db.snapshot();
    let rows: Vec<Row> = snapshot.iter(&table).collect::<Result<_>>().unwrap();
    assert_eq!(rows.len(), 90);
    assert!(rows.iter().all(|row| row.value.ends_with(b"!")));
    let words = snapshot.index(&table, "words").unwrap();
    assert_eq!(words.iter().count(), 90);
}

#[test]
fn iterators_see_their_snapshot_under_concurrent_writes() {
    let (db, table) = words();
    let value = |number: u32, round: u32| format!("{number}.{round}");
    for number in 0..500u32 {
        table
            .insert(number.to_be_bytes(), value(number, 0))
            .unwrap();
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..20 {
                db.transact(|transaction| {
                    for number in 0..500u32 {
                        let key = number.to_be_bytes();
                        transaction.upsert(&table, key, value(number, round))?;
                    }
                    Ok(())
                })
                .unwrap();
            }
        });
        while !writer.is_finished() {
            let snapshot = db.snapshot();
            let rows: Vec<Row> = snapshot.iter(&table).collect::<Result<_>>().unwrap();
            assert_eq!(rows.len(), 500);
            let round = text(&rows[0].value).split_once('.').unwrap().1.to_owned();
            for (number, row) in (0u32..).zip(&rows) {
                assert_eq!(text(&row.value), format!("{number}.{round}"));
            }
            let words = snapshot.index(&table, "words").unwrap();
            let mut found: Vec<_> = words.iter().map(|row| row.unwrap().value).collect();
            let mut expected: Vec<_> = rows.into_iter().map(|row| row.value).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    });
}

#[test]
fn concurrent_increments_lose_none() {
    let db = Database::in_memory().unwrap();
    let table = db.table("t").unwrap();
    table.insert("n", 0u64.to_be_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    db.transact(|transaction| {
                        let old = transaction.get_for_update(&table, "n")?.unwrap();
                        let old = u64::from_be_bytes(old.try_into().unwrap());
                        transaction.update(&table, "n", (old + 1).to_be_bytes())
                    })
                    .unwrap();
                }
            });
        }
    });
    let found = table.get("n").unwrap().unwrap();
    assert_eq!(u64::from_be_bytes(found.try_into().unwrap()), 200);
}
