//! Locking reads: visibility, locks, SKIP LOCKED and waits.

use crate::common::*;
use teak_engine::{
    EngineError, EngineTransaction, IndexNumber, Isolation, LockPolicy, ReadMode, Seek,
    TableHandle, WaitError,
};

#[test]
fn locking_reads_see_the_newest_rows_and_lock_them() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for key in ["a", "b", "c"] {
            insert(t, &table, key, "1").unwrap();
        }
    });
    let mut reader = begin(&engine);
    reader.take_snapshot().unwrap();
    commit(&engine, |t| {
        update(t, &table, "b", "1", "2").unwrap();
        delete(t, &table, "c", "1").unwrap();
    });
    let locked = try_scan(&mut reader, &table, 0, ReadMode::Exclusive).unwrap();
    assert_eq!(locked, pairs(&[("a", "1"), ("b", "2")]));
    assert_eq!(reader.locks_held(), 2);
    let mut other = begin(&engine);
    assert!(is_timeout(update(&mut other, &table, "b", "2", "3")));
    assert!(is_timeout(insert(&mut other, &table, "c", "9")));
    reader.rollback();
    insert(&mut other, &table, "c", "9").unwrap();
    update(&mut other, &table, "b", "2", "3").unwrap();
    other.commit().unwrap();
    assert_eq!(engine.statistics().row_locks, 0);
}

#[test]
fn shared_locks_are_compatible_and_block_writers() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let (mut one, mut two, mut writer) = (begin(&engine), begin(&engine), begin(&engine));
    for reader in [&mut one, &mut two] {
        assert_eq!(
            try_scan(reader, &table, 0, ReadMode::Shared).unwrap().len(),
            1
        );
    }
    assert!(is_timeout(delete(&mut writer, &table, "a", "1")));
    one.commit().unwrap();
    assert!(is_timeout(delete(&mut writer, &table, "a", "1")));
    two.commit().unwrap();
    delete(&mut writer, &table, "a", "1").unwrap();
}

#[test]
fn a_locking_scan_waits_for_uncommitted_inserts_and_deletes() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        insert(t, &table, "a", "1").unwrap();
        insert(t, &table, "b", "1").unwrap();
    });
    let mut writer = begin(&engine);
    delete(&mut writer, &table, "b", "1").unwrap();
    let mut reader = begin(&engine);
    assert!(is_timeout(try_scan(
        &mut reader,
        &table,
        0,
        ReadMode::Shared
    )));
    writer.rollback();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "aa", "1").unwrap();
    assert!(is_timeout(try_scan(
        &mut reader,
        &table,
        0,
        ReadMode::Shared
    )));
    assert!(is_timeout(try_scan(
        &mut reader,
        &table,
        1,
        ReadMode::Shared
    )));
    writer.commit().unwrap();
    let found = try_scan(&mut reader, &table, 0, ReadMode::Shared).unwrap();
    assert_eq!(found, pairs(&[("a", "1"), ("aa", "1"), ("b", "1")]));
}

/// The keys that a scan of an index finds while it skips locked rows.
fn unlocked(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    index: u32,
    mode: ReadMode,
) -> Vec<String> {
    let mut cursor = transaction.cursor(table, IndexNumber(index), mode).unwrap();
    cursor.set_lock_policy(LockPolicy::SkipLocked);
    let mut keys = Vec::new();
    let mut found = cursor
        .first(transaction)
        .unwrap()
        .map(|row| row.key.to_vec());
    while let Some(key) = found {
        keys.push(String::from_utf8(key).unwrap());
        found = cursor
            .next(transaction)
            .unwrap()
            .map(|row| row.key.to_vec());
    }
    keys
}

#[test]
fn skip_locked_skips_rows_that_others_have_written_or_locked() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for key in ["a", "b", "c", "d", "e"] {
            insert(t, &table, key, "1").unwrap();
        }
    });
    let mut other = begin(&engine);
    update(&mut other, &table, "a", "1", "2").unwrap();
    delete(&mut other, &table, "c", "1").unwrap();
    insert(&mut other, &table, "f", "1").unwrap();
    let mut holder = other
        .cursor(&table, IndexNumber::ROWS, ReadMode::Shared)
        .unwrap();
    holder.get(&mut other, b"d").unwrap().unwrap();

    let mut reader = begin(&engine);
    assert_eq!(
        unlocked(&mut reader, &table, 0, ReadMode::Exclusive),
        ["b", "e"]
    );
    assert_eq!(reader.locks_held(), 2);
    assert_eq!(
        unlocked(&mut reader, &table, 0, ReadMode::Shared),
        ["b", "d", "e"]
    );
    // A scan of a secondary index locks no rows, so it returns the entries of all committed rows.
    let entries = unlocked(&mut reader, &table, 1, ReadMode::Exclusive);
    assert_eq!(entries, ["1\0a", "1\0b", "1\0c", "1\0d", "1\0e"]);
    let mut rows = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    rows.set_lock_policy(LockPolicy::SkipLocked);
    assert!(rows.get(&mut reader, b"a").unwrap().is_none());
    assert!(rows.get(&mut reader, b"f").unwrap().is_none());
    assert!(rows.get(&mut reader, b"b").unwrap().is_some());
    // Secondary indexes have no semi-consistent reads: the cursor ignores the policy.
    let mut entries = reader
        .cursor(&table, IndexNumber(1), ReadMode::Exclusive)
        .unwrap();
    entries.set_lock_policy(LockPolicy::SkipLocked);
    entries.set_lock_policy(LockPolicy::SemiConsistent);
    assert_eq!(entries.lock_policy(), LockPolicy::SkipLocked);
    // The reads have not waited, and no locks remain after the transactions have ended.
    reader.rollback();
    other.rollback();
    assert_eq!(engine.statistics().row_locks, 0);
    assert_eq!(engine.statistics().lock_waits, 0);
}

#[test]
fn a_semi_consistent_scan_returns_the_last_committed_version_and_a_second_seek_waits() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for key in ["a", "b", "c", "d"] {
            insert(t, &table, key, "1").unwrap();
        }
    });
    let mut other = begin(&engine);
    update(&mut other, &table, "a", "1", "2").unwrap();
    delete(&mut other, &table, "b", "1").unwrap();
    insert(&mut other, &table, "bb", "1").unwrap();
    let mut holder = other
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    holder.get(&mut other, b"d").unwrap().unwrap();

    let mut reader = engine.begin(Isolation::ReadCommitted);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    cursor.set_lock_policy(LockPolicy::SemiConsistent);
    let mut seen = Vec::new();
    let mut found = cursor.first(&mut reader).unwrap();
    while let Some(row) = found {
        let row = (row.key.to_vec(), row.value.to_vec());
        seen.push((
            String::from_utf8(row.0).unwrap(),
            String::from_utf8(row.1).unwrap(),
            cursor.is_unlocked(),
        ));
        found = cursor.next(&mut reader).unwrap();
    }
    let row = |key: &str, unlocked| (key.to_owned(), "1".to_owned(), unlocked);
    assert_eq!(
        seen,
        [
            row("a", true),
            row("b", true),
            row("c", false),
            row("d", true)
        ]
    );
    assert_eq!(reader.locks_held(), 1);
    assert_eq!(engine.statistics().lock_waits, 0);
    // A lookup waits under SemiConsistent. A seek waits under the default policy.
    assert!(matches!(
        cursor.get(&mut reader, b"a"),
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    cursor.set_lock_policy(LockPolicy::Wait);
    assert!(matches!(
        cursor.seek(&mut reader, b"a", Seek::AtOrAfter),
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    other.commit().unwrap();
    let row = cursor
        .seek(&mut reader, b"a", Seek::AtOrAfter)
        .unwrap()
        .unwrap();
    assert_eq!((row.key, row.value), (&b"a"[..], &b"2"[..]));
    assert!(!cursor.is_unlocked());
    // The policy has no effect where reads lock gaps.
    let mut holder = engine.begin(Isolation::ReadCommitted);
    update(&mut holder, &table, "c", "1", "3").unwrap_err();
    reader.rollback();
    update(&mut holder, &table, "c", "1", "3").unwrap();
    let mut strict = begin(&engine);
    let mut cursor = strict
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    cursor.set_lock_policy(LockPolicy::SemiConsistent);
    assert!(matches!(
        cursor.seek(&mut strict, b"c", Seek::AtOrAfter),
        Err(EngineError::Wait(WaitError::Timeout))
    ));
}

#[test]
fn locks_do_not_grow_with_the_rows_updated() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for n in 0..300 {
            insert(t, &table, &format!("{n:03}"), "1").unwrap();
        }
    });
    let mut writer = begin(&engine);
    let mut cursor = writer
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    let mut found = cursor.first(&mut writer).unwrap().is_some();
    let mut n = 0;
    while found {
        update(&mut writer, &table, &format!("{n:03}"), "1", "2").unwrap();
        assert!(writer.locks_held() <= 1);
        n += 1;
        found = cursor.next(&mut writer).unwrap().is_some();
    }
    assert_eq!(n, 300);
    writer.commit().unwrap();
    assert!(rows(&engine, &table).iter().all(|(_, value)| value == "2"));
}

#[test]
fn a_lock_taken_before_a_savepoint_survives_the_rollback_to_it() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut holder = begin(&engine);
    try_scan(&mut holder, &table, 0, ReadMode::Exclusive).unwrap();
    let mark = holder.savepoint().unwrap();
    update(&mut holder, &table, "a", "1", "2").unwrap();
    holder.rollback_to_savepoint(mark).unwrap();
    let mut other = begin(&engine);
    assert!(is_timeout(update(&mut other, &table, "a", "1", "3")));
}

#[test]
fn rollback_to_a_savepoint_releases_written_rows_but_not_explicit_locks() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut transaction = begin(&engine);
    let mark = transaction.savepoint().unwrap();
    assert_eq!(see(&mut transaction, &table), pairs(&[("a", "1")]));
    insert(&mut transaction, &table, "b", "1").unwrap();
    assert!(transaction.holds_locks());
    transaction.rollback_to_savepoint(mark).unwrap();
    assert!(!transaction.holds_locks());
    try_scan(&mut transaction, &table, 0, ReadMode::Exclusive).unwrap();
    transaction.rollback_to_savepoint(mark).unwrap();
    assert!(transaction.holds_locks());
}

#[test]
fn a_row_locked_and_deleted_by_its_transaction_is_not_found() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "k", "1").unwrap());
    let mut transaction = begin(&engine);
    // The snapshot is older than the locked version; the lock is older than the savepoint.
    transaction.take_snapshot().unwrap();
    commit(&engine, |t| update(t, &table, "k", "1", "2").unwrap());
    let mut cursor = transaction
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    assert!(cursor.get(&mut transaction, b"k").unwrap().is_some());
    let mark = transaction.savepoint().unwrap();
    delete(&mut transaction, &table, "k", "2").unwrap();
    let again = delete(&mut transaction, &table, "k", "2");
    assert!(matches!(again, Err(EngineError::NotFound)), "{again:?}");
    let changed = update(&mut transaction, &table, "k", "2", "3");
    assert!(matches!(changed, Err(EngineError::NotFound)), "{changed:?}");
    // After the rollback the row exists again and is still locked: no conflict.
    transaction.rollback_to_savepoint(mark).unwrap();
    update(&mut transaction, &table, "k", "2", "3").unwrap();
    update(&mut transaction, &table, "k", "3", "4").unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("k", "4")]));
}

#[test]
fn unlock_releases_the_row() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    cursor.first(&mut reader).unwrap().unwrap();
    cursor.unlock(&mut reader).unwrap();
    assert_eq!(reader.locks_held(), 0);
    commit(&engine, |t| update(t, &table, "a", "1", "2").unwrap());
}
