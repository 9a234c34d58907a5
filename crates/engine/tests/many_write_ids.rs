//! Transactions of many statements: their write ids in several log records, and
//! statements that take none.

use crate::common::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use teak_base::{StorageError, WriteId, WriteIdRange, WriteIdRanges};
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Engine, EngineError, EngineOptions, EngineTransaction, TableHandle};
use teak_testing::FaultDisk;
use teak_write_ahead_log::{IdParts, LogOptions, Record, WriteAheadLog};

const STATEMENTS: usize = 20;

/// Options with few ids in a log record.
fn small_records() -> EngineOptions {
    let mut options = options();
    options.log_id_ranges_max = 3;
    options
}

fn open_small(disk: &Arc<impl Disk + 'static>) -> Engine {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    Engine::open(disk, small_records()).unwrap()
}

fn insert_statement(transaction: &mut EngineTransaction, table: &TableHandle, key: &str) {
    transaction.savepoint().unwrap();
    insert(transaction, table, key, "1").unwrap();
}

/// Two transactions whose statements alternate. The first inserts rows `a...`, the second rows
/// `b...`.
fn interleaved(engine: &Engine, table: &TableHandle) -> (EngineTransaction, EngineTransaction) {
    let (mut a, mut b) = (begin(engine), begin(engine));
    alternate(table, (&mut a, &mut b), 0..STATEMENTS);
    (a, b)
}

fn alternate(
    table: &TableHandle,
    (a, b): (&mut EngineTransaction, &mut EngineTransaction),
    numbers: Range<usize>,
) {
    for n in numbers {
        insert_statement(a, table, &format!("a{n:03}"));
        insert_statement(b, table, &format!("b{n:03}"));
    }
}

fn rows_of(name: &str) -> Rows {
    rows_in(name, 0..STATEMENTS)
}

fn rows_in(name: &str, numbers: Range<usize>) -> Rows {
    let keys = numbers.map(|n| format!("{name}{n:03}"));
    keys.map(|key| (key, "1".to_owned())).collect()
}

fn recovered_rows(disk: &Arc<impl Disk + 'static>) -> Rows {
    let engine = open_small(disk);
    let table = engine.open_table(TABLE).unwrap();
    rows(&engine, &table)
}

#[test]
fn ids_in_several_records_commit_and_roll_back_as_one() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open_small(&disk);
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let (mut a, mut b) = interleaved(&engine, &table);
    b.rollback_to_savepoint(7).unwrap();
    a.commit().unwrap();
    for seed in 0..20 {
        let crashed = Arc::new(disk.crash(seed));
        assert_eq!(recovered_rows(&crashed), rows_of("a"), "seed {seed}");
    }
    b.commit().unwrap();
    let mut expected = rows_of("a");
    expected.extend(rows_of("b").into_iter().take(7));
    assert_eq!(rows(&engine, &table), expected);
    assert_eq!(recovered_rows(&Arc::new(disk.crash(0))), expected);
}

/// Transactions of many statements allocate their write ids in blocks. When they end, some
/// ids of the last block are unused.
#[test]
fn ids_taken_in_blocks_commit_and_roll_back() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open_small(&disk);
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let (mut a, mut b) = (begin(&engine), begin(&engine));
    alternate(&table, (&mut a, &mut b), 0..400);
    // The catalogue contains the blocks as active ids.
    engine.checkpoint().unwrap();
    let rows_after = |seed| recovered_rows(&Arc::new(disk.crash(seed)));
    assert_eq!(rows_after(0), Rows::new());
    alternate(&table, (&mut a, &mut b), 400..450);
    b.rollback_to_savepoint(410).unwrap();
    alternate(&table, (&mut a, &mut b), 450..500);
    a.commit().unwrap();
    let mut expected = rows_in("a", 0..500);
    assert_eq!(rows_after(1), expected);
    b.prepare(b"b").unwrap();
    let crashed = Arc::new(disk.crash(2));
    let recovered = open_small(&crashed);
    let found = recovered.open_table(TABLE).unwrap();
    assert_eq!(rows(&recovered, &found), expected);
    recovered.commit_prepared(b"b", Duration::ZERO).unwrap();
    expected.extend(rows_in("b", 0..410));
    expected.extend(rows_in("b", 450..500));
    assert_eq!(rows(&recovered, &found), expected);
    recovered.settle().unwrap();
    recovered.run_maintenance().unwrap();
    let statistics = recovered.statistics();
    assert_eq!(statistics.write_ids_unsettled, 0);
    assert_eq!(rows(&recovered, &found), expected);
    drop((recovered, found));
    assert_eq!(recovered_rows(&crashed), expected);
}

#[test]
fn ids_of_prepared_transactions_are_in_several_records() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open_small(&disk);
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let (mut a, mut b) = interleaved(&engine, &table);
    a.prepare(b"a").unwrap();
    b.prepare(b"b").unwrap();
    // Without a checkpoint, recovery finds the ids in the records of the log; with one, in the
    // catalogue.
    for checkpoints in [false, true] {
        if checkpoints {
            engine.checkpoint().unwrap();
        }
        let crashed = Arc::new(disk.crash(1));
        let recovered = open_small(&crashed);
        let table = recovered.open_table(TABLE).unwrap();
        assert_eq!(rows(&recovered, &table), pairs(&[]));
        recovered.commit_prepared(b"a", Duration::ZERO).unwrap();
        recovered.rollback_prepared(b"b", Duration::ZERO).unwrap();
        assert_eq!(rows(&recovered, &table), rows_of("a"));
        drop((recovered, table));
        assert_eq!(recovered_rows(&Arc::new(crashed.crash(2))), rows_of("a"));
    }
}

/// Reads the log. Returns it, and the write ids of its rows by the first letter of their keys.
fn logged_ids(log: &Arc<dyn Disk>) -> (WriteAheadLog, BTreeMap<u8, WriteIdRanges>) {
    let mut ids: BTreeMap<u8, WriteIdRanges> = BTreeMap::new();
    let log = WriteAheadLog::open::<StorageError>(
        log,
        Path::new("/data"),
        LogOptions::new(7),
        teak_base::Lsn(0),
        &mut |_, record| {
            if let Record::Write {
                write_id,
                operations,
            } = record
                && let Some(first) = operations.iter().next()
            {
                ids.entry(first.key[0]).or_default().push(write_id);
            }
            Ok(())
        },
    );
    (log.unwrap(), ids)
}

/// Appends a part record for each range of `ids` except the first. Returns the reference to
/// these parts, and the first range, which the commit record itself contains.
fn append_parts<'a>(log: &WriteAheadLog, ids: &'a WriteIdRanges) -> (IdParts, &'a [WriteIdRange]) {
    let (own, more) = ids.ranges().split_at(1);
    let mut parts = IdParts::default();
    for range in more {
        let at = log.append(&Record::MoreWriteIds {
            owner: own[0].first,
            write_ids: std::slice::from_ref(range).into(),
        });
        if parts.count == 0 {
            parts.first = at.unwrap();
        }
        parts.count += 1;
    }
    (parts, own)
}

#[test]
fn a_crash_before_the_deciding_record_commits_nothing() {
    // The crash leaves the first `left` of these steps in the log: the parts of `a`, the parts of
    // `b`, the commit of `b`, the commit of `a`.
    for left in 0..=4 {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_table(&disk);
        let (_a, _b) = interleaved(&engine, &table);
        engine.flush_log().unwrap();
        let crashed: Arc<FaultDisk> = Arc::new(disk.crash(0));
        let as_disk: Arc<dyn Disk> = Arc::clone(&crashed) as Arc<dyn Disk>;
        let (log, ids) = logged_ids(&as_disk);
        let commit = |(parts, own): (IdParts, &[WriteIdRange])| {
            log.append(&Record::Commit {
                transaction: 0,
                parts,
                write_ids: own.into(),
            })
            .unwrap();
        };
        let a = (left > 0).then(|| append_parts(&log, &ids[&b'a']));
        let b = (left > 1).then(|| append_parts(&log, &ids[&b'b']));
        if left > 2 {
            commit(b.unwrap());
        }
        if left > 3 {
            commit(a.unwrap());
        }
        log.sync(log.end()).unwrap();
        drop(log);
        let mut expected = Rows::new();
        if left > 3 {
            expected.extend(rows_of("a"));
        }
        if left > 2 {
            expected.extend(rows_of("b"));
        }
        assert_eq!(recovered_rows(&crashed), expected, "{left} are left");
    }
}

#[test]
fn statements_that_fail_take_no_write_id() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut transaction = begin(&engine);
    let mut locking = begin(&engine);
    insert(&mut locking, &table, "locked", "1").unwrap();
    for _ in 0..100 {
        let mark = transaction.savepoint().unwrap();
        let duplicate = insert(&mut transaction, &table, "a", "2").unwrap_err();
        assert!(matches!(duplicate, EngineError::DuplicateKey));
        transaction.rollback_to_savepoint(mark).unwrap();
        let mark = transaction.savepoint().unwrap();
        let waits = insert(&mut transaction, &table, "locked", "2").unwrap_err();
        assert!(matches!(waits, EngineError::Wait(_)));
        transaction.rollback_to_savepoint(mark).unwrap();
    }
    insert(&mut transaction, &table, "b", "1").unwrap();
    transaction.commit().unwrap();
    locking.commit().unwrap();
    let statistics = engine.statistics();
    assert_eq!(statistics.aborted_ids, 0);
    assert_eq!(statistics.next_write_id, WriteId(4).0);
}
