//! What transactions see of each other, and who wins a row.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::*;

fn fresh() -> (Engine, TableHandle) {
    with_table(&Arc::new(MemoryDisk::new()))
}

fn is_timeout<T: std::fmt::Debug>(result: EngineResult<T>) -> bool {
    matches!(result, Err(EngineError::Wait(WaitError::Timeout)))
}

fn see(transaction: &mut EngineTransaction, table: &TableHandle) -> Rows {
    try_scan(transaction, table, 0, ReadMode::Snapshot).unwrap()
}

#[test]
fn a_snapshot_is_fixed_at_the_first_read() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut reader = begin(&engine);
    let mut early = begin(&engine);
    early.take_snapshot().unwrap();
    commit(&engine, |t| {
        update(t, &table, "a", "1", "2").unwrap();
        insert(t, &table, "b", "1").unwrap();
    });
    // The reader has not read before: it sees what is committed by now.
    let now = pairs(&[("a", "2"), ("b", "1")]);
    assert_eq!(see(&mut reader, &table), now);
    assert_eq!(see(&mut early, &table), pairs(&[("a", "1")]));
    commit(&engine, |t| delete(t, &table, "a", "2").unwrap());
    assert_eq!(see(&mut reader, &table), now);
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    assert_eq!(see(&mut reader, &table), now);
    assert_eq!(see(&mut early, &table), pairs(&[("a", "1")]));
    assert_eq!(rows(&engine, &table), pairs(&[("b", "1")]));
}

#[test]
fn a_snapshot_shows_the_newest_commit_of_its_moment() {
    let (engine, table) = fresh();
    let before = engine.newest_commit();
    let mut reader = begin(&engine);
    assert_eq!(reader.snapshot(), None);
    reader.take_snapshot().unwrap();
    assert_eq!(reader.snapshot(), Some(before));
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    assert_eq!(engine.newest_commit(), before);
    writer.commit().unwrap();
    assert!(engine.newest_commit() > before);
    assert_eq!(reader.snapshot(), Some(before));
    reader.rollback();
    assert_eq!(reader.snapshot(), None);
}

#[test]
fn a_transaction_is_among_the_running_ones_until_it_has_ended_prepared_or_not() {
    let (engine, table) = fresh();
    let (oldest, next) = engine.running_transactions();
    assert_eq!(oldest, next);
    let mut first = begin(&engine);
    insert(&mut first, &table, "a", "1").unwrap();
    let mut second = begin(&engine);
    let (oldest, next) = engine.running_transactions();
    assert!(oldest < next);
    first.prepare(b"x").unwrap();
    first.detach();
    second.rollback();
    assert_eq!(engine.running_transactions(), (oldest, next));
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
    assert_eq!(engine.running_transactions(), (next, next));
}

#[test]
fn read_committed_sees_anew_with_each_statement() {
    let (engine, table) = fresh();
    let mut reader = engine.begin(Isolation::ReadCommitted);
    reader.begin_statement().unwrap();
    assert_eq!(see(&mut reader, &table), pairs(&[]));
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    assert_eq!(see(&mut reader, &table), pairs(&[]));
    reader.begin_statement().unwrap();
    assert_eq!(see(&mut reader, &table), pairs(&[("a", "1")]));
}

#[test]
fn uncommitted_rows_are_seen_by_dirty_readers_alone() {
    let (engine, table) = fresh();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    let mut dirty = engine.begin(Isolation::ReadUncommitted);
    assert_eq!(see(&mut dirty, &table), pairs(&[("a", "1")]));
    assert_eq!(see(&mut writer, &table), pairs(&[("a", "1")]));
    assert_eq!(rows(&engine, &table), pairs(&[]));
    writer.rollback();
    dirty.begin_statement().unwrap();
    assert_eq!(see(&mut dirty, &table), pairs(&[]));
}

#[test]
fn rollback_to_a_savepoint_hides_later_writes_at_once() {
    let (engine, table) = fresh();
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    let mark = writer.savepoint().unwrap();
    update(&mut writer, &table, "a", "1", "2").unwrap();
    insert(&mut writer, &table, "b", "1").unwrap();
    assert_eq!(see(&mut writer, &table), pairs(&[("a", "2"), ("b", "1")]));
    writer.rollback_to_savepoint(mark).unwrap();
    assert_eq!(see(&mut writer, &table), pairs(&[("a", "1")]));
    insert(&mut writer, &table, "b", "3").unwrap();
    writer.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1"), ("b", "3")]));
}

#[test]
fn a_cursor_goes_on_after_a_rollback_to_a_savepoint() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        for key in ["a", "b", "c", "d"] {
            insert(t, &table, key, "1").unwrap();
        }
    });
    let mut writer = begin(&engine);
    let mark = writer.savepoint().unwrap();
    delete(&mut writer, &table, "c", "1").unwrap();
    let mut cursor = writer
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    assert!(
        cursor
            .seek(&mut writer, b"b", Seek::AtOrAfter)
            .unwrap()
            .is_some()
    );
    writer.rollback_to_savepoint(mark).unwrap();
    let next = cursor.next(&mut writer).unwrap().unwrap();
    assert_eq!(next.key, b"c");
}

#[test]
fn a_duplicate_names_the_entry_and_leaves_nothing_of_the_row() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut writer = begin(&engine);
    assert!(matches!(
        insert(&mut writer, &table, "a", "2"),
        Err(EngineError::DuplicateKey)
    ));
    let duplicate = writer.duplicate();
    assert_eq!(
        (duplicate.index, &*duplicate.key, &*duplicate.value),
        (IndexNumber::ROWS, &b"a"[..], &b"1"[..])
    );
    writer.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

#[test]
fn a_key_is_free_again_after_delete_and_after_rollback() {
    let (engine, table) = fresh();
    let mut gone = begin(&engine);
    insert(&mut gone, &table, "a", "0").unwrap();
    gone.rollback();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    commit(&engine, |t| {
        delete(t, &table, "a", "1").unwrap();
        insert(t, &table, "a", "2").unwrap();
    });
    assert_eq!(rows(&engine, &table), pairs(&[("a", "2")]));
}

#[test]
fn two_writers_of_one_row_never_both_win() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut first = begin(&engine);
    let mut second = begin(&engine);
    update(&mut first, &table, "a", "1", "2").unwrap();
    assert!(is_timeout(update(&mut second, &table, "a", "1", "3")));
    assert!(is_timeout(delete(&mut second, &table, "a", "1")));
    assert!(is_timeout(insert(&mut second, &table, "a", "3")));
    first.commit().unwrap();
    update(&mut second, &table, "a", "2", "3").unwrap();
    second.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "3")]));
    assert_eq!(engine.statistics().row_locks, 0);
}

#[test]
fn an_unlocked_write_of_a_row_changed_since_the_snapshot_is_a_conflict() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut writer = begin(&engine);
    writer.take_snapshot().unwrap();
    commit(&engine, |t| update(t, &table, "a", "1", "2").unwrap());
    assert!(matches!(
        update(&mut writer, &table, "a", "1", "3"),
        Err(EngineError::Conflict)
    ));
    // Locked, the newest row is the one to change.
    let mut cursor = writer
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    let row = cursor.get(&mut writer, b"a").unwrap().unwrap();
    assert_eq!(row.value, b"2");
    update(&mut writer, &table, "a", "2", "3").unwrap();
    writer.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "3")]));
}

#[test]
fn locking_reads_see_the_newest_rows_and_hold_them() {
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
fn shared_locks_are_shared_and_keep_writers_out() {
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
fn a_locking_scan_waits_for_undecided_rows_of_either_kind() {
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

/// The keys that a scan of an index finds while it skips what is locked.
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
fn skip_locked_passes_over_rows_that_others_write_or_have_locked() {
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
    // The entries of a secondary index stand for committed rows.
    let entries = unlocked(&mut reader, &table, 1, ReadMode::Exclusive);
    assert_eq!(entries, ["1\0a", "1\0b", "1\0c", "1\0d", "1\0e"]);
    let mut rows = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    rows.set_lock_policy(LockPolicy::SkipLocked);
    assert!(rows.get(&mut reader, b"a").unwrap().is_none());
    assert!(rows.get(&mut reader, b"f").unwrap().is_none());
    assert!(rows.get(&mut reader, b"b").unwrap().is_some());
    // Nothing of it waits or stays behind.
    reader.rollback();
    other.rollback();
    assert_eq!(engine.statistics().row_locks, 0);
    assert_eq!(engine.statistics().lock_waits, 0);
}

#[test]
fn a_semi_consistent_scan_returns_what_was_committed_last_and_waits_when_asked_again() {
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
    // A look-up waits whatever was set, and so does a seek once it is off.
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
    // Where reads mark ranges nothing of it applies.
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
fn a_lock_taken_before_a_savepoint_outlives_its_rollback() {
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
fn rollback_to_a_savepoint_leaves_a_reader_without_locks_and_others_with_theirs() {
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
fn a_row_locked_and_then_deleted_by_oneself_is_gone() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "k", "1").unwrap());
    let mut transaction = begin(&engine);
    // The snapshot is older than what is locked, and the lock than the mark.
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
    // Taken back, the row is there again, still locked, so no conflict.
    transaction.rollback_to_savepoint(mark).unwrap();
    update(&mut transaction, &table, "k", "2", "3").unwrap();
    update(&mut transaction, &table, "k", "3", "4").unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("k", "4")]));
}

#[test]
fn bounds_hold_from_the_moment_they_are_set() {
    let (engine, table) = fresh();
    let keys = ["1", "2", "3", "4", "5", "6"];
    commit(&engine, |t| {
        for key in keys {
            insert(t, &table, key, key).unwrap();
        }
    });
    let bound = |n: usize| keys.get(n).map(|key| key.as_bytes());
    for mode in [ReadMode::Snapshot, ReadMode::Exclusive] {
        for (start, lower, upper) in (0..6)
            .flat_map(|start| (0..=6).map(move |lower| (start, lower)))
            .flat_map(|(start, lower)| (0..=6).map(move |upper| (start, lower, upper)))
        {
            let inside = |n: &usize| {
                bound(lower).is_none_or(|_| *n >= lower) && bound(upper).is_none_or(|_| *n < upper)
            };
            for forward in [true, false] {
                let mut transaction = begin(&engine);
                let mut cursor = transaction.cursor(&table, IndexNumber::ROWS, mode).unwrap();
                let from = keys[start].as_bytes();
                let row = cursor.seek(&mut transaction, from, Seek::AtOrAfter);
                assert_eq!(row.unwrap().unwrap().key, from);
                cursor.set_bounds(bound(lower), bound(upper));
                let mut expected: Vec<usize> = if forward {
                    (start + 1..6).filter(inside).collect()
                } else {
                    (0..start).rev().filter(inside).collect()
                };
                for (n, key) in keys.iter().enumerate() {
                    let got = cursor.get(&mut transaction, key.as_bytes()).unwrap();
                    assert_eq!(got.is_some(), inside(&n));
                }
                loop {
                    let row = if forward {
                        cursor.next(&mut transaction).unwrap()
                    } else {
                        cursor.previous(&mut transaction).unwrap()
                    };
                    let Some(row) = row else { break };
                    assert_eq!(row.key, keys[expected.remove(0)].as_bytes());
                }
                assert_eq!(expected, [0usize; 0], "{start} {lower} {upper} {forward}");
            }
        }
    }
}

#[test]
fn unlock_gives_the_row_back() {
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

#[test]
fn an_interrupt_ends_what_runs_until_the_next_statement() {
    let (engine, table) = fresh();
    let mut writer = begin(&engine);
    writer.handle().interrupt();
    assert!(matches!(
        insert(&mut writer, &table, "a", "1"),
        Err(EngineError::Wait(WaitError::Interrupted))
    ));
    writer.begin_statement().unwrap();
    insert(&mut writer, &table, "a", "1").unwrap();
}

#[test]
fn a_deadlock_is_told_to_one_and_the_other_goes_on() {
    let (engine, table) = fresh();
    commit(&engine, |t| {
        insert(t, &table, "a", "1").unwrap();
        insert(t, &table, "b", "1").unwrap();
    });
    let long = Duration::from_secs(60);
    let (mut one, mut two) = (begin(&engine), begin(&engine));
    one.set_lock_timeout(long);
    two.set_lock_timeout(long);
    update(&mut one, &table, "a", "1", "one").unwrap();
    update(&mut two, &table, "b", "1", "two").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = update(&mut one, &table, "b", "1", "one");
            (outcome.is_ok(), one)
        });
        while engine.statistics().lock_waits == 0 {
            std::thread::yield_now();
        }
        let outcome = update(&mut two, &table, "a", "1", "two");
        assert!(matches!(
            outcome,
            Err(EngineError::Wait(WaitError::Deadlock))
        ));
        two.rollback();
        let (done, mut one) = waiting.join().unwrap();
        assert!(done);
        one.commit().unwrap();
    });
    assert_eq!(rows(&engine, &table), pairs(&[("a", "one"), ("b", "one")]));
}

/// Transfers between accounts on several threads keep the sum, for every
/// snapshot taken meanwhile, with flushes going on.
#[test]
fn concurrent_transfers_keep_the_sum_in_every_snapshot() {
    const ACCOUNTS: u64 = 16;
    const TRANSFERS: u64 = 150;
    let disk = Arc::new(MemoryDisk::new());
    let mut options = options();
    options.background_threads = 2;
    options.lock_timeout = Duration::from_secs(60);
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| {
        for n in 0..ACCOUNTS {
            insert(t, &table, &format!("{n:02}"), "100").unwrap();
        }
    });
    let sum = |rows: &Rows| -> i64 { rows.iter().map(|(_, v)| v.parse::<i64>().unwrap()).sum() };
    let expected = 100 * i64::try_from(ACCOUNTS).unwrap();
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for seed in 0..3u64 {
            let (engine, table) = (&engine, &table);
            writers.push(scope.spawn(move || {
                for n in 0..TRANSFERS {
                    let from = (n * 7 + seed * 5) % ACCOUNTS;
                    let to = (n * 3 + seed + 1) % ACCOUNTS;
                    if from == to {
                        continue;
                    }
                    let mut transaction = begin(engine);
                    let mut cursor = transaction
                        .cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)
                        .unwrap();
                    let mut move_by = |account: u64, amount: i64| -> EngineResult<()> {
                        let key = format!("{account:02}");
                        let row = cursor.get(&mut transaction, key.as_bytes())?.unwrap();
                        let old = String::from_utf8(row.value.to_vec()).unwrap();
                        let new = old.parse::<i64>().unwrap() + amount;
                        update(&mut transaction, table, &key, &old, &new.to_string())
                    };
                    match move_by(from, -1).and_then(|()| move_by(to, 1)) {
                        Ok(()) => transaction.commit().unwrap(),
                        Err(EngineError::Wait(WaitError::Deadlock)) => transaction.rollback(),
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        while writers.iter().any(|writer| !writer.is_finished()) {
            assert_eq!(sum(&rows(&engine, &table)), expected);
            engine.checkpoint().unwrap();
        }
    });
    assert_eq!(sum(&rows(&engine, &table)), expected);
    assert_eq!(engine.statistics().row_locks, 0);
    drop(table);
    engine.close().unwrap();
}
