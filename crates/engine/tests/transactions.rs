//! Snapshots, write conflicts, savepoints and deadlocks.

use crate::common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, Isolation, ReadMode, Row,
    Seek, WaitError,
};

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
    // The reader's first read takes its snapshot.
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
fn a_snapshot_shows_the_newest_commit_of_its_time() {
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
fn a_transaction_is_listed_as_running_until_it_has_ended_prepared_or_not() {
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
fn read_committed_takes_a_snapshot_for_each_statement() {
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
fn only_dirty_readers_see_uncommitted_rows() {
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
fn rollback_to_a_savepoint_hides_later_writes_immediately() {
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
fn a_cursor_keeps_its_position_over_a_rollback_to_a_savepoint() {
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
fn a_duplicate_returns_the_existing_entry_and_writes_nothing() {
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
fn of_two_writers_of_one_row_only_one_succeeds() {
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
    // After a locking read, the newest version can be changed.
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
fn a_write_of_a_row_deleted_since_the_snapshot_is_a_conflict_under_snapshot_isolation() {
    let (engine, table) = fresh();
    for refuses in [true, false] {
        commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
        let mut writer = begin(&engine);
        writer.set_snapshot_isolation(refuses);
        writer.take_snapshot().unwrap();
        commit(&engine, |t| delete(t, &table, "a", "1").unwrap());
        let conflicts = engine.statistics().snapshot_conflicts;
        for outcome in [
            update(&mut writer, &table, "a", "1", "2"),
            delete(&mut writer, &table, "a", "1"),
        ] {
            match outcome {
                Err(EngineError::Conflict) => assert!(refuses),
                Err(EngineError::NotFound) => assert!(!refuses),
                other => panic!("{other:?}"),
            }
        }
        let refused = engine.statistics().snapshot_conflicts - conflicts;
        assert_eq!(refused, if refuses { 2 } else { 0 });
        // A row that never existed, or that the transaction has deleted.
        let absent = update(&mut writer, &table, "b", "1", "2");
        assert!(matches!(absent, Err(EngineError::NotFound)), "{absent:?}");
        insert(&mut writer, &table, "c", "1").unwrap();
        delete(&mut writer, &table, "c", "1").unwrap();
        let absent = delete(&mut writer, &table, "c", "1");
        assert!(matches!(absent, Err(EngineError::NotFound)), "{absent:?}");
    }
}

/// Merges drop the delete of a row that was inserted after each snapshot, but not the delete of a
/// row that a snapshot sees.
#[test]
fn a_row_deleted_since_the_snapshot_is_a_conflict_only_if_the_snapshot_sees_it() {
    for merges in [false, true] {
        let (engine, table) = fresh();
        commit(&engine, |t| {
            insert(t, &table, "seen", "1").unwrap();
            insert(t, &table, "locked", "1").unwrap();
        });
        let begin_writer = |refuses| {
            let mut writer = begin(&engine);
            writer.set_snapshot_isolation(refuses);
            writer.take_snapshot().unwrap();
            writer
        };
        let mut writers = [true, true, false].map(begin_writer);
        commit(&engine, |t| {
            insert(t, &table, "unseen", "1").unwrap();
            insert(t, &table, "absent", "1").unwrap();
        });
        commit(&engine, |t| {
            for key in ["seen", "locked", "unseen", "absent"] {
                delete(t, &table, key, "1").unwrap();
            }
        });
        if merges {
            engine.checkpoint().unwrap();
            engine.settle().unwrap();
            let statistics = table.index_statistics(IndexNumber::ROWS).unwrap();
            assert_eq!(statistics.tombstones, 2);
        }
        let [refusing, locking, accepting] = &mut writers;
        let mut cursor = locking
            .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
            .unwrap();
        let found = cursor.get(locking, b"absent").unwrap();
        assert!(found.is_none());
        let found = cursor.get(locking, b"locked");
        assert!(matches!(found, Err(EngineError::Conflict)), "{found:?}");
        insert(refusing, &table, "unseen", "2").unwrap();
        let refused = insert(refusing, &table, "seen", "2");
        assert!(matches!(refused, Err(EngineError::Conflict)), "{refused:?}");
        assert_eq!(see(refusing, &table).len(), 3);
        assert!(!refusing.is_past_snapshot());
        insert(accepting, &table, "seen", "2").unwrap();
        assert!(accepting.is_past_snapshot());
    }
}

/// The transaction writes between the steps of a scan. With `flushes`, the memtable in
/// which the scan began is flushed in between.
#[test]
fn a_cursor_opened_before_the_first_write_sees_every_later_write() {
    for flushes in [false, true] {
        let (engine, table) = fresh();
        let flush = || {
            if flushes {
                engine.checkpoint().unwrap();
                engine.run_background_until_idle().unwrap();
            }
        };
        commit(&engine, |t| {
            for key in ["b", "d", "f", "h"] {
                insert(t, &table, key, "1").unwrap();
            }
        });
        let mut writer = begin(&engine);
        let cursor = |writer: &mut EngineTransaction| {
            writer
                .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
                .unwrap()
        };
        let key =
            |row: Option<Row<'_>>| row.map(|row| String::from_utf8(row.key.to_vec()).unwrap());
        let (mut up, mut down) = (cursor(&mut writer), cursor(&mut writer));
        assert_eq!(key(up.first(&mut writer).unwrap()).as_deref(), Some("b"));
        assert_eq!(key(down.last(&mut writer).unwrap()).as_deref(), Some("h"));
        let savepoint = writer.savepoint().unwrap();
        for round in 0..2 {
            insert(&mut writer, &table, "c", "2").unwrap();
            insert(&mut writer, &table, "g", "2").unwrap();
            flush();
            assert_eq!(key(up.next(&mut writer).unwrap()).as_deref(), Some("c"));
            assert_eq!(
                key(down.previous(&mut writer).unwrap()).as_deref(),
                Some("g")
            );
            if round == 0 {
                // Both cursors begin their scans again while the transaction has no writes.
                writer.rollback_to_savepoint(savepoint).unwrap();
                up.first(&mut writer).unwrap();
                down.last(&mut writer).unwrap();
            }
        }
        update(&mut writer, &table, "d", "1", "3").unwrap();
        delete(&mut writer, &table, "f", "1").unwrap();
        insert(&mut writer, &table, "e", "2").unwrap();
        flush();
        let row = up.next(&mut writer).unwrap().unwrap();
        assert_eq!((row.key, row.value), (&b"d"[..], &b"3"[..]));
        assert_eq!(key(up.next(&mut writer).unwrap()).as_deref(), Some("e"));
        assert_eq!(
            key(down.previous(&mut writer).unwrap()).as_deref(),
            Some("e")
        );
        insert(&mut writer, &table, "ee", "2").unwrap();
        flush();
        assert_eq!(key(up.next(&mut writer).unwrap()).as_deref(), Some("ee"));
        assert_eq!(key(up.next(&mut writer).unwrap()).as_deref(), Some("g"));
    }
}

#[test]
fn a_lock_timeout_that_the_clock_cannot_represent_never_expires() {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut first = begin(&engine);
    update(&mut first, &table, "a", "1", "2").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut second = begin(&engine);
            second.set_lock_timeout(Duration::MAX);
            update(&mut second, &table, "a", "2", "3").unwrap();
            second.commit().unwrap();
        });
        while engine.statistics().lock_waits == 0 && !waiting.is_finished() {
            std::thread::yield_now();
        }
        first.commit().unwrap();
    });
    assert_eq!(rows(&engine, &table), pairs(&[("a", "3")]));
}

#[test]
fn bounds_apply_as_soon_as_they_are_set() {
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
fn an_interrupt_stops_every_call_until_the_next_statement() {
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
fn one_transaction_of_a_deadlock_fails_and_the_other_continues() {
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

/// Several threads transfer amounts between accounts, with concurrent flushes. Every snapshot must
/// see the same sum.
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

#[test]
fn an_ended_transaction_begins_again_as_a_new_one() {
    let (engine, table) = fresh();
    let mut transaction = begin(&engine);
    transaction.set_lock_timeout(Duration::from_millis(7));
    transaction.handle().set_thread(5);
    insert(&mut transaction, &table, "a", "1").unwrap();
    let busy = transaction.begin_again(Isolation::RepeatableRead);
    assert!(matches!(busy, Err(EngineError::Internal(_))), "{busy:?}");
    assert_eq!(see(&mut transaction, &table), pairs(&[("a", "1")]));
    let first = Arc::clone(transaction.handle());
    transaction.commit().unwrap();
    // Another thread still has the handle, and must not find another transaction in it.
    let id = first.id();
    transaction.begin_again(Isolation::RepeatableRead).unwrap();
    assert_eq!(first.id(), id);
    assert!(transaction.handle().id() > id);
    assert_eq!(transaction.handle().thread(), 5);
    drop(first);

    // It has neither the snapshot nor the writes of the one before.
    assert_eq!(
        (transaction.snapshot(), transaction.has_writes()),
        (None, false)
    );
    assert_eq!(see(&mut transaction, &table), pairs(&[("a", "1")]));
    commit(&engine, |t| insert(t, &table, "b", "1").unwrap());
    assert_eq!(see(&mut transaction, &table), pairs(&[("a", "1")]));
    let last = transaction.handle().id();
    transaction.commit().unwrap();
    transaction.begin_again(Isolation::ReadUncommitted).unwrap();
    assert!(transaction.handle().id() > last);
    let both = pairs(&[("a", "1"), ("b", "1")]);
    assert_eq!(see(&mut transaction, &table), both);
    let mut other = begin(&engine);
    insert(&mut other, &table, "c", "1").unwrap();
    assert_eq!(see(&mut transaction, &table).len(), 3);

    // The lock timeout is that of the first one.
    assert!(is_timeout(insert(&mut transaction, &table, "c", "2")));
    other.rollback();
    insert(&mut transaction, &table, "c", "2").unwrap();
    transaction.rollback();
    assert_eq!(rows(&engine, &table), both);
    // The row that was rolled back does not count.
    transaction.begin_again(Isolation::RepeatableRead).unwrap();
    insert(&mut transaction, &table, "d", "1").unwrap();
    delete(&mut transaction, &table, "d", "1").unwrap();
    transaction.commit().unwrap();
    assert_eq!(begin(&engine).count_rows(&table).unwrap(), Some(2));
    transaction.begin_again(Isolation::RepeatableRead).unwrap();
    update(&mut transaction, &table, "a", "1", "2").unwrap();
    drop(transaction);
    assert_eq!(rows(&engine, &table), both);
    assert_eq!(engine.statistics().transactions_active, 0);
}
