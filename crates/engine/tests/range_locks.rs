//! Gap locks and range locks of locking reads.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, FilterKeys, IndexNumber, Isolation,
    KeySuffix, ReadMode, RowRetention, Seek, TableHandle, WaitError,
};
use teak_testing::Random;

type Bounds<'a> = (Option<&'a str>, Option<&'a str>);

fn filled(keys: &[&str]) -> (Arc<MemoryDisk>, Engine, TableHandle) {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for key in keys {
            insert(t, &table, key, "v").unwrap();
        }
    });
    (disk, engine, table)
}

/// An engine whose lock requests wait for 20 seconds, with an empty table.
fn with_waits(background_threads: usize) -> (Engine, TableHandle) {
    let mut with_waits = options();
    with_waits.lock_timeout = Duration::from_secs(20);
    with_waits.background_threads = background_threads;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), with_waits).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    (engine, table)
}

/// Whether another transaction can do this work now. `false` if a lock wait times out.
fn may(engine: &Engine, work: impl FnOnce(&mut EngineTransaction) -> EngineResult<()>) -> bool {
    let mut other = begin(engine);
    let outcome = work(&mut other);
    other.rollback();
    match outcome {
        Ok(()) => true,
        Err(EngineError::Wait(WaitError::Timeout)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Whether another transaction may insert this row now.
fn may_insert(engine: &Engine, table: &TableHandle, key: &str, value: &str) -> bool {
    may(engine, |other| insert(other, table, key, value))
}

fn try_scan(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    index: u32,
    bounds: Bounds<'_>,
) -> EngineResult<Vec<String>> {
    let mut cursor = transaction.cursor(table, IndexNumber(index), ReadMode::Exclusive)?;
    cursor.set_bounds(bounds.0.map(str::as_bytes), bounds.1.map(str::as_bytes));
    let mut keys = Vec::new();
    let mut row = cursor.first(transaction)?.map(|row| row.key.to_vec());
    while let Some(key) = row {
        keys.push(String::from_utf8(key).unwrap());
        row = cursor.next(transaction)?.map(|row| row.key.to_vec());
    }
    Ok(keys)
}

fn scan(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    index: u32,
    bounds: Bounds<'_>,
) -> Vec<String> {
    try_scan(transaction, table, index, bounds).unwrap()
}

#[test]
fn a_locking_scan_blocks_inserts_into_its_range() {
    let (_disk, engine, table) = filled(&["a", "c", "e", "g"]);
    let mut reader = begin(&engine);
    let found = scan(&mut reader, &table, 0, (Some("b"), Some("f")));
    assert_eq!(found, ["c", "e"]);
    for (key, free) in [
        ("aa", true),
        ("b", false),
        ("d", false),
        ("ez", false),
        ("f", true),
    ] {
        assert_eq!(may_insert(&engine, &table, key, "v"), free, "{key}");
    }
    insert(&mut reader, &table, "d", "mine").unwrap();
    reader.rollback();
    assert!(may_insert(&engine, &table, "d", "v"));
}

#[test]
fn a_scan_that_stops_early_locks_only_what_it_read() {
    let keys: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (_disk, engine, table) = filled(&keys);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    let found = cursor.seek(&mut reader, b"010x", Seek::AtOrAfter).unwrap();
    assert_eq!(found.unwrap().key, b"011");
    assert!(!may_insert(&engine, &table, "010z", "v"));
    assert!(may_insert(&engine, &table, "0110", "v"));
    assert!(may_insert(&engine, &table, "999", "v"));
    let found = cursor.previous(&mut reader).unwrap();
    assert_eq!(found.unwrap().key, b"010");
    assert!(!may_insert(&engine, &table, "0105", "v"));
    assert!(may_insert(&engine, &table, "008x", "v"));
}

#[test]
fn backward_scans_lock_the_gaps_that_they_pass() {
    let (_disk, engine, table) = filled(&["a", "c", "e", "g"]);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Shared)
        .unwrap();
    assert_eq!(cursor.last(&mut reader).unwrap().unwrap().key, b"g");
    assert!(!may_insert(&engine, &table, "z", "v"));
    assert!(may_insert(&engine, &table, "f", "v"));
    assert_eq!(cursor.previous(&mut reader).unwrap().unwrap().key, b"e");
    assert!(!may_insert(&engine, &table, "f", "v"));
    while cursor.previous(&mut reader).unwrap().is_some() {}
    assert!(!may_insert(&engine, &table, "0", "v"));
}

#[test]
fn a_key_that_was_not_found_cannot_be_inserted() {
    let (_disk, engine, table) = filled(&["a", "c"]);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    assert!(cursor.get(&mut reader, b"b").unwrap().is_none());
    assert!(cursor.get(&mut reader, b"c").unwrap().is_some());
    for (key, free) in [("aa", true), ("b", false), ("ba", true), ("d", true)] {
        assert_eq!(may_insert(&engine, &table, key, "v"), free, "{key}");
    }
}

#[test]
fn gap_locks_of_a_secondary_index_block_inserts_and_updates_into_them() {
    let (_disk, engine, table) = filled(&["a", "c"]);
    commit(&engine, |t| insert(t, &table, "x", "w").unwrap());
    let mut reader = begin(&engine);
    let found = scan(&mut reader, &table, 1, (Some("v"), Some("w")));
    assert_eq!(found.len(), 2);
    assert!(!may_insert(&engine, &table, "m", "v"));
    assert!(may_insert(&engine, &table, "m", "w"));
    let mut other = begin(&engine);
    assert!(update(&mut other, &table, "x", "w", "v").is_err());
    update(&mut other, &table, "x", "w", "y").unwrap();
    other.rollback();
}

/// The filters of the secondary index exclude the prefix, so the read reaches no entry.
#[test]
fn a_read_of_a_prefix_locks_its_gap() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    let mut definition = definition(TABLE);
    definition.indexes[1].filter_keys = FilterKeys::WithoutSuffix(KeySuffix::Fixed(1));
    engine.create_table(&definition).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| {
        for (key, value) in [("a", "1"), ("b", "1"), ("c", "3")] {
            insert(t, &table, key, value).unwrap();
        }
    });
    engine.checkpoint().unwrap();
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber(1), ReadMode::Exclusive)
        .unwrap();
    for backward in [false, true] {
        cursor.set_prefix(b"2\0");
        let row = match backward {
            false => cursor.first(&mut reader).unwrap(),
            true => cursor.last(&mut reader).unwrap(),
        };
        assert_eq!(row, None);
        assert!(!may_insert(&engine, &table, "x", "2"));
        assert!(may_insert(&engine, &table, "x", "1"));
        assert!(may_insert(&engine, &table, "x", "3"));
    }
    reader.rollback();
    // A write that is not committed yet is waited for, in the memtable and in a run.
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "x", "2").unwrap();
    let mut reader = begin(&engine);
    for _ in 0..2 {
        let mut cursor = reader
            .cursor(&table, IndexNumber(1), ReadMode::Exclusive)
            .unwrap();
        cursor.set_prefix(b"2\0");
        assert!(is_timeout(cursor.first(&mut reader)));
        cursor.set_prefix(b"3\0");
        let row = cursor.first(&mut reader).unwrap();
        assert_eq!(row.map(|row| row.key), Some(b"3\0c".as_slice()));
        engine.checkpoint().unwrap();
    }
    writer.commit().unwrap();
    let mut cursor = reader
        .cursor(&table, IndexNumber(1), ReadMode::Exclusive)
        .unwrap();
    cursor.set_prefix(b"2\0");
    let row = cursor.first(&mut reader).unwrap();
    assert_eq!(row.map(|row| row.key), Some(b"2\0x".as_slice()));
}

#[test]
fn read_committed_and_plain_reads_lock_no_gaps() {
    let (_disk, engine, table) = filled(&["a", "c"]);
    let mut reader = engine.begin(Isolation::ReadCommitted);
    assert_eq!(scan(&mut reader, &table, 0, (None, None)).len(), 2);
    let mut plain = begin(&engine);
    let mut cursor = plain
        .cursor(&table, IndexNumber::ROWS, ReadMode::Snapshot)
        .unwrap();
    while cursor.next(&mut plain).unwrap().is_some() {}
    assert!(cursor.first(&mut plain).unwrap().is_some());
    assert!(may_insert(&engine, &table, "b", "v"));
}

#[test]
fn two_gap_locks_and_inserts_into_both_are_a_deadlock() {
    let (engine, table) = with_waits(0);
    let barrier = std::sync::Barrier::new(2);
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = ["b", "c"]
            .into_iter()
            .map(|key| {
                let (engine, table, barrier) = (&engine, &table, &barrier);
                scope.spawn(move || {
                    let mut transaction = begin(engine);
                    assert!(scan(&mut transaction, table, 0, (None, None)).is_empty());
                    barrier.wait();
                    match insert(&mut transaction, table, key, "v") {
                        Ok(()) => {
                            transaction.commit().unwrap();
                            true
                        }
                        Err(EngineError::Wait(WaitError::Deadlock)) => {
                            transaction.rollback();
                            false
                        }
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|won| **won).count(), 1);
    assert_eq!(rows(&engine, &table).len(), 1);
}

/// Runs writers of random rows, and a reader of random ranges, which reads each
/// range twice in one transaction.
fn read_twice_under_writers<T: PartialEq + std::fmt::Debug>(
    engine: &Engine,
    write: impl Fn(&mut EngineTransaction, &mut Random) -> EngineResult<()> + Sync,
    read: impl Fn(&mut EngineTransaction, Bounds<'_>) -> EngineResult<T>,
) {
    let stop = AtomicBool::new(false);
    let commits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (write, stop, commits) = (&write, &stop, &commits);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !stop.load(Ordering::Relaxed) {
                    let mut writer = begin(engine);
                    match write(&mut writer, &mut random) {
                        Ok(()) => {
                            writer.commit().unwrap();
                            commits.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => writer.rollback(),
                    }
                }
            });
        }
        let mut random = Random::new(9);
        let mut repeated = 0;
        while repeated < 300 || commits.load(Ordering::Relaxed) < 600 {
            let mut reader = begin(engine);
            // The reader waits for writers, which hold row locks for a short time.
            reader.set_lock_timeout(Duration::from_secs(60));
            let (low, high) = (random.below(60), random.below(60));
            let (low, high) = (format!("{low:02}"), format!("{high:02}"));
            let bounds = (Some(low.as_str()), Some(high.as_str()));
            let first = match read(&mut reader, bounds) {
                Ok(first) => first,
                Err(EngineError::Wait(WaitError::Deadlock)) => {
                    reader.rollback();
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            assert_eq!(first, read(&mut reader, bounds).unwrap());
            reader.commit().unwrap();
            repeated += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn repeated_locking_reads_agree_under_concurrent_writers() {
    let (engine, table) = with_waits(1);
    let write = |writer: &mut EngineTransaction, random: &mut Random| {
        let key = format!("{:02}", random.below(60));
        match random.below(3) {
            0 => delete(writer, &table, &key, "v"),
            _ => insert(writer, &table, &key, "v"),
        }
    };
    read_twice_under_writers(&engine, write, |reader, bounds| {
        try_scan(reader, &table, 0, bounds)
    });
}

/// The rows within the bounds, read by a cursor that protects them until the
/// transaction ends.
fn try_retain(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    mode: ReadMode,
    bounds: Bounds<'_>,
) -> EngineResult<Rows> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut cursor = transaction.cursor(table, IndexNumber::ROWS, mode)?;
    cursor.set_row_retention(RowRetention::UntilTransactionEnd);
    cursor.set_bounds(bounds.0.map(str::as_bytes), bounds.1.map(str::as_bytes));
    let mut rows = Rows::new();
    let mut row = cursor
        .first(transaction)?
        .map(|row| (text(row.key), text(row.value)));
    while let Some(found) = row {
        rows.push(found);
        cursor.unlock(transaction)?;
        row = cursor
            .next(transaction)?
            .map(|row| (text(row.key), text(row.value)));
    }
    Ok(rows)
}

/// Whether another transaction may change and delete this row now.
fn may_change(engine: &Engine, table: &TableHandle, key: &str) -> bool {
    let changes = may(engine, |other| update(other, table, key, "v", "w"));
    let deletes = may(engine, |other| delete(other, table, key, "v"));
    assert_eq!(changes, deletes);
    let locks = may(engine, |other| {
        let mut cursor = other.cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)?;
        cursor.get(other, key.as_bytes()).map(|_| ())
    });
    assert_eq!(changes, locks);
    changes
}

#[test]
fn a_retaining_scan_protects_rows_without_a_lock_for_each() {
    let keys: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for mode in [ReadMode::Shared, ReadMode::Exclusive] {
        let (_disk, engine, table) = filled(&keys);
        let mut reader = begin(&engine);
        let bounds = (Some("100"), Some("200"));
        let found = try_retain(&mut reader, &table, mode, bounds).unwrap();
        assert_eq!(found.len(), 100);
        assert_eq!(reader.locks_held(), 0);
        for (key, free) in [("099", true), ("100", false), ("199", false), ("200", true)] {
            assert_eq!(may_change(&engine, &table, key), free, "{key}");
        }
        assert!(!may_insert(&engine, &table, "150x", "v"));
        update(&mut reader, &table, "150", "v", "mine").unwrap();
        let again = try_retain(&mut begin(&engine), &table, mode, (None, Some("100")));
        assert_eq!(again.unwrap().len(), 100);
        reader.rollback();
        assert!(may_change(&engine, &table, "150"));
    }
}

#[test]
fn a_row_that_was_looked_up_remains_protected_after_unlock() {
    let (_disk, engine, table) = filled(&["a", "c"]);
    let mut reader = begin(&engine);
    let mut cursor = reader
        .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
        .unwrap();
    cursor.set_row_retention(RowRetention::UntilTransactionEnd);
    assert!(cursor.get(&mut reader, b"a").unwrap().is_some());
    cursor.unlock(&mut reader).unwrap();
    assert!(!may_change(&engine, &table, "a"));
    assert!(may_change(&engine, &table, "c"));
    reader.commit().unwrap();
    assert!(may_change(&engine, &table, "a"));
}

#[test]
fn read_committed_retains_no_rows() {
    let (_disk, engine, table) = filled(&["a", "c"]);
    let mut reader = engine.begin(Isolation::ReadCommitted);
    let found = try_retain(&mut reader, &table, ReadMode::Exclusive, (None, None)).unwrap();
    assert_eq!(found.len(), 2);
    assert!(may_change(&engine, &table, "a"));
}

#[test]
fn retaining_a_row_newer_than_the_snapshot_is_a_conflict() {
    let (_disk, engine, table) = filled(&["a"]);
    let mut reader = begin(&engine);
    reader.set_snapshot_isolation(true);
    reader.take_snapshot().unwrap();
    commit(&engine, |t| update(t, &table, "a", "v", "w").unwrap());
    let outcome = try_retain(&mut reader, &table, ReadMode::Shared, (None, None));
    assert!(matches!(outcome, Err(EngineError::Conflict)));
}

#[test]
fn of_two_transactions_that_retain_and_write_one_row_one_fails_with_a_deadlock() {
    let (_disk, engine, table) = filled(&["a"]);
    let barrier = std::sync::Barrier::new(2);
    let outcomes = std::thread::scope(|scope| {
        let write = || {
            let mut one = begin(&engine);
            one.set_lock_timeout(Duration::from_secs(60));
            try_retain(&mut one, &table, ReadMode::Shared, (None, None)).unwrap();
            barrier.wait();
            let outcome = update(&mut one, &table, "a", "v", "w");
            if outcome.is_ok() {
                one.commit().unwrap();
            } else {
                one.rollback();
            }
            outcome
        };
        let both = [scope.spawn(write), scope.spawn(write)];
        both.map(|thread| thread.join().unwrap())
    });
    let refused =
        |outcome: &EngineResult<()>| matches!(outcome, Err(EngineError::Wait(WaitError::Deadlock)));
    assert_eq!(
        outcomes.iter().filter(|outcome| refused(outcome)).count(),
        1
    );
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

#[test]
fn retained_rows_do_not_change_under_concurrent_writers() {
    let keys: Vec<String> = (0..60).map(|n| format!("{n:02}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (_disk, engine, table) = filled(&keys);
    let write = |writer: &mut EngineTransaction, random: &mut Random| {
        let key = format!("{:02}", random.below(60));
        let mut cursor = writer
            .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
            .unwrap();
        let found = cursor.get(writer, key.as_bytes());
        let old = found.map(|row| row.map(|row| row.value.to_vec()));
        drop(cursor);
        let new = format!("{}", random.below(1000));
        let Some(old) = old? else {
            return insert(writer, &table, &key, &new);
        };
        let old = String::from_utf8(old).unwrap();
        match random.below(3) {
            0 => delete(writer, &table, &key, &old),
            _ => update(writer, &table, &key, &old, &new),
        }
    };
    read_twice_under_writers(&engine, write, |reader, bounds| {
        let rows = try_retain(reader, &table, ReadMode::Shared, bounds)?;
        assert_eq!(reader.locks_held(), 0);
        Ok(rows)
    });
}

#[test]
fn a_counter_is_locked_by_one_transaction_at_a_time() {
    let (_disk, engine, table) = filled(&[]);
    let mut one = begin(&engine);
    let mut other = begin(&engine);
    one.lock_counter(&table, 0).unwrap();
    let refused = |outcome| matches!(outcome, Err(EngineError::Wait(WaitError::Timeout)));
    assert!(refused(other.lock_counter(&table, 0)));
    other.lock_counter(&table, 1).unwrap();
    one.unlock_counter(&table, 0).unwrap();
    other.lock_counter(&table, 0).unwrap();
    assert!(refused(one.lock_counter(&table, 0)));
    other.rollback();
    one.lock_counter(&table, 0).unwrap();
}
