//! Reports of locks and waits, the order in which locks are granted, and lock escalation.

use crate::common::*;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::MemoryDisk;
use teak_engine::report::{LockExtent, WaitKind};
use teak_engine::{
    BlockerKind, Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, Isolation,
    ReadMode, RowEntry, RowRetention, TableHandle, WaitError,
};

const LONG: Duration = Duration::from_secs(60);

fn filled(rows: u32) -> (Engine, TableHandle) {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for n in 0..rows {
            insert(t, &table, &key(n), &format!("v{n}")).unwrap();
        }
    });
    (engine, table)
}

fn key(n: u32) -> String {
    format!("{n:05}")
}

/// Inserts a row whose value is the key of a unique secondary index.
fn insert_unique(
    t: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    value: &str,
) -> EngineResult<()> {
    let entries = [(0, key, value), (1, value, "")].map(|(index, key, value)| RowEntry {
        index: IndexNumber(index),
        unique: true,
        key: key.as_bytes(),
        value: value.as_bytes(),
    });
    t.insert(table, &entries)
}

fn lock_up_to(t: &mut EngineTransaction, table: &TableHandle, end: u32) -> EngineResult<u32> {
    let mut cursor = t.cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)?;
    let end = key(end);
    cursor.set_bounds(None, Some(end.as_bytes()));
    let mut rows = 0;
    let mut found = cursor.first(t)?.is_some();
    while found {
        rows += 1;
        found = cursor.next(t)?.is_some();
    }
    Ok(rows)
}

fn lock(
    t: &mut EngineTransaction,
    table: &TableHandle,
    key: &str,
    mode: ReadMode,
) -> EngineResult<bool> {
    let mut cursor = t.cursor(table, IndexNumber::ROWS, mode)?;
    Ok(cursor.get(t, key.as_bytes())?.is_some())
}

fn until_waiting(engine: &Engine, waits: usize) {
    while engine.lock_waits().len() < waits {
        std::thread::yield_now();
    }
}

#[test]
fn a_long_locking_scan_escalates_and_others_lock_rows_outside_its_range() {
    let (engine, table) = filled(3000);
    engine.set_lock_bytes_max(64 << 10);
    let mut big = begin(&engine);
    assert_eq!(lock_up_to(&mut big, &table, 2000).unwrap(), 2000);
    let statistics = engine.statistics();
    assert!(statistics.lock_escalations > 0);
    assert!(statistics.lock_bytes <= 64 << 10);
    let mut other = begin(&engine);
    let refused = lock(&mut other, &table, &key(1000), ReadMode::Shared);
    assert!(matches!(
        refused,
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    assert!(lock(&mut other, &table, &key(2500), ReadMode::Exclusive).unwrap());
    let mut locks = Vec::new();
    engine.for_each_lock(&mut |lock| locks.push(lock));
    let names = engine.index_names();
    let ranges = locks.iter().filter(|lock| match &lock.extent {
        LockExtent::RowRange { low, .. } => {
            assert_eq!(&**low, key(0).as_bytes());
            true
        }
        _ => false,
    });
    assert_eq!(ranges.count(), 1);
    for lock in &locks {
        assert_eq!(&*names.get(lock.file).unwrap().table, &*table.name());
    }
    // The holder can still use its rows, roll back, and commit.
    insert(&mut big, &table, &format!("{}x", key(7)), "new").unwrap();
    big.commit().unwrap();
    assert!(lock(&mut other, &table, &key(1000), ReadMode::Exclusive).unwrap());
    other.rollback();
    assert_eq!(engine.statistics().lock_bytes, 0);
}

#[test]
fn locks_that_cannot_escalate_are_refused_beyond_the_limit() {
    let (engine, table) = filled(400);
    let mut one = begin(&engine);
    let mut two = begin(&engine);
    for n in (0..200).step_by(2) {
        assert!(lock(&mut one, &table, &key(n), ReadMode::Exclusive).unwrap());
        assert!(lock(&mut two, &table, &key(n + 1), ReadMode::Exclusive).unwrap());
    }
    engine.set_lock_bytes_max(16 << 10);
    let refused = |outcome| matches!(outcome, Err(EngineError::Wait(WaitError::TooManyLocks)));
    assert!(refused(lock(
        &mut one,
        &table,
        &key(300),
        ReadMode::Exclusive
    )));
    assert!(refused(lock(
        &mut two,
        &table,
        &key(301),
        ReadMode::Exclusive
    )));
    assert_eq!(engine.statistics().lock_refusals, 2);
    two.rollback();
    assert!(lock(&mut one, &table, &key(300), ReadMode::Exclusive).unwrap());
}

#[test]
fn waits_for_written_rows_and_unique_keys_are_reported_and_served_in_order() {
    let (engine, table) = filled(3);
    let mut writer = begin(&engine);
    writer.handle().set_thread(1);
    insert_unique(&mut writer, &table, "new", "unique").unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for n in 2..5u32 {
            let (engine, table, order) = (&engine, &table, &order);
            scope.spawn(move || {
                let mut mine = begin(engine);
                mine.handle().set_thread(n.into());
                mine.set_lock_timeout(LONG);
                let outcome = insert_unique(&mut mine, table, &format!("other{n}"), "unique");
                order.lock().unwrap().push((n, outcome.is_ok()));
                mine.rollback();
            });
            until_waiting(engine, n as usize - 1);
        }
        let waits = engine.lock_waits();
        let names = engine.index_names();
        for wait in &waits {
            assert_eq!(&*names.get(wait.request.file).unwrap().index, "by_value");
            let ahead = wait.blockers.iter().map(|b| b.participant.thread).max();
            assert_eq!(ahead, Some(wait.requester.thread - 1));
        }
        assert!(
            waits
                .iter()
                .any(|wait| wait.request.kind == WaitKind::Write)
        );
        let shown = engine.transactions();
        let found = shown.iter().find(|shown| shown.thread() == 1).unwrap();
        assert_eq!((found.rows_written(), found.write_ids()), (1, 1));
        writer.rollback();
    });
    assert_eq!(*order.lock().unwrap(), [(2, true), (3, true), (4, true)]);
}

#[test]
fn a_wait_shows_the_kind_of_lock_that_blocks_it() {
    let (engine, table) = filled(3000);
    for (retention, kind) in [
        (RowRetention::UntilUnlocked, BlockerKind::Gap),
        (RowRetention::UntilTransactionEnd, BlockerKind::WriteRange),
    ] {
        let mut reader = begin(&engine);
        let mut cursor = reader
            .cursor(&table, IndexNumber::ROWS, ReadMode::Shared)
            .unwrap();
        cursor.set_row_retention(retention);
        assert!(cursor.first(&mut reader).unwrap().is_some());
        assert!(cursor.next(&mut reader).unwrap().is_some());
        let blocked = format!("{}x", key(0));
        assert_eq!(blocker_of(&engine, &table, &blocked), kind);
        drop(cursor);
        reader.rollback();
    }
    engine.set_lock_bytes_max(64 << 10);
    let mut big = begin(&engine);
    lock_up_to(&mut big, &table, 2000).unwrap();
    let mut other = begin(&engine);
    assert!(lock(&mut other, &table, &key(1000), ReadMode::Shared).is_err());
    let failed = other.take_failed_wait().unwrap();
    assert_eq!(failed.blockers[0].kind, BlockerKind::RowRange);
}

/// How another transaction blocks the insertion of a row.
fn blocker_of(engine: &Engine, table: &TableHandle, key: &str) -> BlockerKind {
    let mut writer = begin(engine);
    let refused = insert(&mut writer, table, key, "value");
    assert!(is_timeout(refused));
    let failed = writer.take_failed_wait().unwrap();
    assert_eq!(failed.blockers.len(), 1);
    failed.blockers[0].kind
}

#[test]
fn escalation_does_not_affect_rows_that_others_have_locked_or_written() {
    let (engine, table) = filled(40);
    let mut other = begin(&engine);
    assert!(lock(&mut other, &table, &key(10), ReadMode::Exclusive).unwrap());
    insert(&mut other, &table, &format!("{}x", key(20)), "written").unwrap();
    let mut big = begin(&engine);
    for n in (0..40).filter(|n| *n != 10) {
        assert!(lock(&mut big, &table, &key(n), ReadMode::Exclusive).unwrap());
    }
    engine.set_lock_bytes_max(8 << 10);
    // Each shard of the lock table checks the limit by itself. Among 100 keys there is one of a
    // shard that has reached it.
    for n in 0..100 {
        assert!(!lock(&mut big, &table, &format!("no{n}"), ReadMode::Exclusive).unwrap());
    }
    assert!(engine.statistics().lock_escalations > 0);
    // The row range of `big` covers both rows now, but does not block `other`.
    update(&mut other, &table, &key(10), "v10", "new").unwrap();
    update(&mut other, &table, &key(10), "new", "newer").unwrap();
    let written = format!("{}x", key(20));
    delete(&mut other, &table, &written, "written").unwrap();
    insert(&mut other, &table, &written, "again").unwrap();
    let stopped = insert(&mut other, &table, &format!("{}x", key(21)), "new");
    assert!(matches!(
        stopped,
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    other.commit().unwrap();
}

#[test]
fn a_locked_absent_key_remains_absent() {
    let (engine, table) = filled(2);
    let mut first = engine.begin(Isolation::ReadCommitted);
    assert!(
        !first
            .lock_absent(&table, IndexNumber::ROWS, key(1).as_bytes())
            .unwrap()
    );
    assert!(
        first
            .lock_absent(&table, IndexNumber::ROWS, key(5).as_bytes())
            .unwrap()
    );
    let mut second = engine.begin(Isolation::ReadCommitted);
    second.set_lock_timeout(Duration::ZERO);
    let refused = insert_unique(&mut second, &table, &key(5), "other");
    assert!(matches!(
        refused,
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    // Neither the existing key nor its neighbours were locked.
    assert!(lock(&mut second, &table, &key(1), ReadMode::Exclusive).unwrap());
    insert_unique(&mut second, &table, &key(4), "other").unwrap();
    first.set_lock_timeout(Duration::ZERO);
    assert!(matches!(
        first.lock_absent(&table, IndexNumber::ROWS, key(4).as_bytes()),
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    insert_unique(&mut first, &table, &key(5), "mine").unwrap();
    first.commit().unwrap();
    assert!(matches!(
        insert_unique(&mut second, &table, &key(5), "late"),
        Err(EngineError::DuplicateKey)
    ));
}
