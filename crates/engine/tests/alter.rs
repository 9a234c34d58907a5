//! Altering tables in place: adding, dropping and reordering indexes, and crashes
//! at any point.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, Engine, EngineError, EngineResult, EngineTransaction,
    EntryOrder, IndexNumber, PlannedIndex, ReadMode, RowEntry, TableHandle, WaitError,
};
use teak_testing::{FaultDisk, WriteFailure};

fn added(label: &str, unique: bool) -> AddedIndex {
    AddedIndex {
        definition: index(label),
        unique,
        entry_order: EntryOrder::Any,
    }
}

fn begin_alteration(engine: &Engine, table: &TableHandle, list: &[AddedIndex]) -> Alteration {
    engine
        .begin_alteration(table, list, Box::new(|| false))
        .unwrap()
}

/// The key of an entry in the index that the tests add: the reversed value, and the row's key.
fn entry(key: &str, value: &str) -> String {
    let backwards: String = value.chars().rev().collect();
    format!("{backwards}\0{key}")
}

/// Adds the entries of all rows that a new snapshot sees.
fn fill(engine: &Engine, table: &TableHandle, alteration: &mut Alteration) {
    let mut transaction = begin(engine);
    for (key, value) in try_scan(&mut transaction, table, 0, ReadMode::Snapshot).unwrap() {
        alteration
            .add(0, entry(&key, &value).as_bytes(), &[])
            .unwrap();
    }
}

fn plan(metadata: &str, indexes: &[PlannedIndex]) -> AlterationPlan {
    AlterationPlan {
        indexes: indexes.to_vec(),
        metadata: metadata.as_bytes().to_vec(),
    }
}

fn kept(number: u32) -> PlannedIndex {
    let label = ["PRIMARY", "by_value", "backwards"][number as usize];
    PlannedIndex::Kept(IndexNumber(number), index(label))
}

fn keys(engine: &Engine, table: &TableHandle, index: u32) -> Vec<String> {
    let mut transaction = begin(engine);
    let rows = try_scan(&mut transaction, table, index, ReadMode::Snapshot).unwrap();
    rows.into_iter().map(|(key, _)| key).collect()
}

fn check_backwards(engine: &Engine, table: &TableHandle, index: u32) {
    let mut expected: Vec<String> = rows(engine, table)
        .iter()
        .map(|(key, value)| entry(key, value))
        .collect();
    expected.sort();
    assert_eq!(keys(engine, table, index), expected);
    table.verify(&mut || true, &mut |_| {}).unwrap();
}

fn files(disk: &dyn Disk) -> Vec<PathBuf> {
    let mut found = disk.list(Path::new("/data/db")).unwrap();
    let spills = disk.list(Path::new("/data")).unwrap();
    let is_spill = |path: &PathBuf| path.to_string_lossy().contains("teak.sort");
    found.extend(spills.into_iter().filter(is_spill));
    found
}

fn some_rows(engine: &Engine, table: &TableHandle, count: u32) {
    commit(engine, |t| {
        for n in 0..count {
            let n = n.wrapping_mul(2_654_435_761) % 100_000;
            let _ = insert(t, table, &format!("{n:06}"), &format!("v{}", n % 977));
        }
    });
}

#[test]
fn an_index_is_added_and_others_dropped_in_one_step() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    some_rows(&engine, &table, 3000);
    let mut alteration = begin_alteration(&engine, &table, &[added("backwards", false)]);
    assert_eq!(table.index_count(), 2);
    fill(&engine, &table, &mut alteration);
    let mut reports = Vec::new();
    alteration
        .build(&mut |done, total| reports.push((done, total)))
        .unwrap();
    let last = reports.last().unwrap();
    assert_eq!(last.0, last.1);
    let order = [kept(0), PlannedIndex::Added(0), kept(1)];
    Alteration::commit(vec![(alteration, plan("two", &order))]).unwrap();
    assert_eq!(table.index_count(), 3);
    assert_eq!(table.metadata(), b"metadata", "a handle keeps what it has");
    drop(table);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(table.metadata(), b"two");
    let found = keys(&engine, &table, 1);
    assert_eq!(found.len(), keys(&engine, &table, 0).len());
    assert!(found.is_sorted());
    table.verify(&mut || true, &mut |_| {}).unwrap();
    assert!(table.index_statistics(IndexNumber(1)).unwrap().height > 1);

    let alteration = begin_alteration(&engine, &table, &[]);
    let order = [
        kept(0),
        PlannedIndex::Kept(IndexNumber(2), index("by_value")),
    ];
    Alteration::commit(vec![(alteration, plan("three", &order))]).unwrap();
    rows(&engine, &table);
    assert_eq!(files(&*disk).len(), 2);
    drop(table);
    engine.abandon();
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(
        (table.index_count(), table.metadata()),
        (2, b"three".as_slice())
    );
    rows(&engine, &table);
}

/// Begins an alteration that rebuilds all indexes, including the index of the rows.
fn begin_rebuild(engine: &Engine, table: &TableHandle) -> EngineResult<Alteration> {
    let rows = AddedIndex {
        entry_order: EntryOrder::ByKey,
        ..added("PRIMARY", true)
    };
    let list = [rows, added("by_value", false)];
    engine.begin_alteration(table, &list, Box::new(|| false))
}

fn rebuild(engine: &Engine, table: &TableHandle) -> EngineResult<()> {
    let mut alteration = begin_rebuild(engine, table)?;
    let mut transaction = begin(engine);
    for (key, value) in try_scan(&mut transaction, table, 0, ReadMode::Snapshot)? {
        alteration.add(0, key.as_bytes(), value.as_bytes())?;
        alteration.add(1, format!("{value}\0{key}").as_bytes(), &[])?;
    }
    drop(transaction);
    alteration.build(&mut |_, _| {})?;
    let order = [PlannedIndex::Added(0), PlannedIndex::Added(1)];
    Alteration::commit(vec![(alteration, plan("anew", &order))])
}

#[test]
fn a_table_is_rebuilt() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    some_rows(&engine, &table, 3000);
    let before = rows(&engine, &table);
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    commit(&engine, |t| insert(t, &table, "a", "later").unwrap());
    commit(&engine, |t| delete(t, &table, "a", "later").unwrap());
    let own = files(&*disk);
    rebuild(&engine, &table).unwrap();
    assert_eq!(table.index_count(), 2);
    assert_eq!(rows(&engine, &table), before);
    assert!(files(&*disk).iter().all(|file| !own.contains(file)));
    assert_eq!(files(&*disk).len(), 2);
    let refused = try_scan(&mut older, &table, 0, ReadMode::Snapshot);
    assert!(matches!(refused, Err(EngineError::TableChanged)));
    drop(older);
    commit(&engine, |t| insert(t, &table, "b", "after").unwrap());
    let after = rows(&engine, &table);
    assert_eq!(after.len(), before.len() + 1);
    table.verify(&mut || true, &mut |_| {}).unwrap();
    drop(table);
    engine.abandon();
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(table.metadata(), b"anew");
    assert_eq!(rows(&engine, &table), after);
    table.verify(&mut || true, &mut |_| {}).unwrap();
}

#[test]
fn entries_not_in_the_requested_order_are_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut alteration = begin_rebuild(&engine, &table).unwrap();
    alteration.add(0, b"k2", b"").unwrap();
    for key in ["k1", "k2"] {
        let refused = alteration.add(0, key.as_bytes(), b"");
        assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    }
    alteration.build(&mut |_, _| {}).unwrap();
    let rows_last = [PlannedIndex::Added(1), PlannedIndex::Added(0), kept(0)];
    let refused = Alteration::commit(vec![(alteration, plan("", &rows_last))]);
    assert!(matches!(refused, Err(EngineError::InvalidArgument(_))));
    assert_eq!(files(&*disk).len(), 2);
}

#[test]
fn a_rebuild_on_a_full_disk_fails_and_leaves_the_table() {
    let (mut failed, mut whole) = (0, false);
    for after in 0.. {
        let disk = Arc::new(FaultDisk::new(after));
        let (engine, table) = with_table(&disk);
        some_rows(&engine, &table, 500);
        let before = rows(&engine, &table);
        disk.fail_write(after, WriteFailure::NoSpace);
        let outcome = rebuild(&engine, &table);
        disk.clear_failures();
        whole = outcome.is_ok();
        failed += u32::from(!whole);
        assert_eq!(rows(&engine, &table), before);
        assert_eq!(files(&*disk).len(), 2);
        drop(table);
        engine.abandon();
        let engine = open(&Arc::new(disk.crash(after)));
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(table.metadata() == b"anew", whole, "write {after}");
        assert_eq!(rows(&engine, &table), before);
        if whole {
            break;
        }
    }
    assert!(whole && failed > 3);
}

#[test]
fn an_alteration_on_a_full_disk_fails_and_leaves_no_files() {
    for after in 0.. {
        let disk = Arc::new(FaultDisk::new(after));
        let (engine, table) = with_table(&disk);
        some_rows(&engine, &table, 200);
        let expected = rows(&engine, &table);
        let mut alteration = begin_alteration(&engine, &table, &[added("backwards", false)]);
        fill(&engine, &table, &mut alteration);
        alteration.build(&mut |_, _| {}).unwrap();
        disk.fail_write(after, WriteFailure::NoSpace);
        let plan = plan("new", &[kept(0), kept(1), PlannedIndex::Added(0)]);
        let outcome = Alteration::commit(vec![(alteration, plan)]);
        disk.clear_failures();
        let count = if outcome.is_ok() { 3 } else { 2 };
        assert_eq!(files(&*disk).len(), count, "write {after}");
        drop(table);
        engine.abandon();
        let engine = open(&Arc::new(disk.crash(after)));
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(table.index_count(), count, "write {after}");
        assert_eq!(rows(&engine, &table), expected);
        if outcome.is_ok() {
            assert!(after > 0, "no write failed");
            return;
        }
    }
}

/// Writes a row, with its entry in index 2, which is being built.
fn insert_all(t: &mut EngineTransaction, table: &TableHandle, key: &str, value: &str) {
    let (second, third) = (format!("{value}\0{key}"), entry(key, value));
    let one = |index, unique, key, value| RowEntry {
        index: IndexNumber(index),
        unique,
        key,
        value,
    };
    let entries = [
        one(0, true, key.as_bytes(), value.as_bytes()),
        one(1, false, second.as_bytes(), &[]),
        one(2, false, third.as_bytes(), &[]),
    ];
    t.insert(table, &entries).unwrap();
}

fn delete_all(t: &mut EngineTransaction, table: &TableHandle, key: &str, value: &str) {
    let (second, third) = (format!("{value}\0{key}"), entry(key, value));
    let one = |index, key| RowEntry {
        index: IndexNumber(index),
        unique: false,
        key,
        value: &[],
    };
    let entries = [
        one(0, key.as_bytes()),
        one(1, second.as_bytes()),
        one(2, third.as_bytes()),
    ];
    t.delete(table, &entries).unwrap();
}

#[test]
fn rows_are_written_while_an_index_is_built() {
    let disk = Arc::new(FaultDisk::new(5));
    let (engine, table) = with_table(&disk);
    some_rows(&engine, &table, 2000);
    let mut alteration = begin_alteration(&engine, &table, &[added("backwards", false)]);
    let before = rows(&engine, &table);
    // Committed before the snapshot of the build, so both the build and the writer write these
    // entries.
    commit(&engine, |t| insert_all(t, &table, "a", "early"));
    let mut open = begin(&engine);
    insert_all(&mut open, &table, "b", "open");
    let mut undone = begin(&engine);
    delete_all(&mut undone, &table, &before[3].0, &before[3].1);
    fill(&engine, &table, &mut alteration);
    // Deleted after the snapshot of the build, so the build still adds entries of these rows.
    commit(&engine, |t| {
        for (key, value) in &before[10..300] {
            delete_all(t, &table, key, value);
        }
        delete_all(t, &table, "a", "early");
        insert_all(t, &table, "a", "late");
    });
    // The build then adds its entries as bottom runs. The entries of writers that were flushed and
    // merged before must still take precedence.
    engine.checkpoint().unwrap();
    engine.settle().unwrap();
    alteration.build(&mut |_, _| {}).unwrap();
    undone.rollback();
    commit(&engine, |t| {
        for (key, value) in &before[400..500] {
            delete_all(t, &table, key, value);
        }
        let mark = t.savepoint().unwrap();
        delete_all(t, &table, &before[600].0, &before[600].1);
        t.rollback_to_savepoint(mark).unwrap();
    });
    open.commit().unwrap();
    engine.flush_log().unwrap();
    let lost = disk.crash(1);
    let order = [kept(0), kept(1), PlannedIndex::Added(0)];
    Alteration::commit(vec![(alteration, plan("new", &order))]).unwrap();
    check_backwards(&engine, &table, 2);
    let expected = rows(&engine, &table);
    let kept_disk = disk.crash(2);
    engine.settle().unwrap();
    check_backwards(&engine, &table, 2);

    for (disk, count) in [(lost, 2), (kept_disk, 3)] {
        let disk = Arc::new(disk);
        let engine = open_and_check(&disk, count);
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table), expected);
        if count == 3 {
            check_backwards(&engine, &table, 2);
            engine.settle().unwrap();
            check_backwards(&engine, &table, 2);
        }
    }
}

fn open_and_check(disk: &Arc<FaultDisk>, count: usize) -> Engine {
    let engine = open(disk);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(table.index_count(), count);
    assert_eq!(files(&**disk).len(), count, "no stray file");
    engine
}

#[test]
fn rows_written_after_an_alteration_are_recovered_into_all_indexes() {
    let disk = Arc::new(FaultDisk::new(5));
    let (engine, table) = with_table(&disk);
    some_rows(&engine, &table, 100);
    let mut alteration = begin_alteration(&engine, &table, &[added("backwards", false)]);
    commit(&engine, |t| insert_all(t, &table, "a", "during"));
    fill(&engine, &table, &mut alteration);
    alteration.build(&mut |_, _| {}).unwrap();
    let order = [kept(0), kept(1), PlannedIndex::Added(0)];
    Alteration::commit(vec![(alteration, plan("new", &order))]).unwrap();
    commit(&engine, |t| insert_all(t, &table, "b", "after"));
    engine.rename_table(TABLE, "./db/u").unwrap();
    let mut open_one = begin(&engine);
    insert_all(&mut open_one, &table, "c", "never");
    engine.flush_log().unwrap();
    for seed in 0..8 {
        let disk = Arc::new(disk.crash(seed));
        let engine = open(&disk);
        let table = engine.open_table("./db/u").unwrap();
        assert_eq!(rows(&engine, &table).len(), 102);
        check_backwards(&engine, &table, 2);
        assert_eq!(files(&*disk).len(), 3);
    }
}

#[test]
fn a_unique_index_reports_the_duplicate_key() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let mut alteration = begin_alteration(&engine, &table, &[added("u", true)]);
    for n in 0..1000u32 {
        let key = (n * 7919 % 999).to_be_bytes();
        alteration.add(0, &key, &n.to_be_bytes()).unwrap();
    }
    let error = alteration.build(&mut |_, _| {}).unwrap_err();
    assert!(matches!(error, EngineError::DuplicateKey));
    assert_eq!(alteration.duplicate().key, 0u32.to_be_bytes());
    drop(alteration);
    assert_eq!(table.index_count(), 2);
    assert_eq!(files(&*disk).len(), 2);
    // The table can be altered again.
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    drop(begin_alteration(&engine, &table, &[]));
}

#[test]
fn an_older_snapshot_is_refused_by_the_new_index_only() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut old = begin(&engine);
    old.take_snapshot().unwrap();
    commit(&engine, |t| insert(t, &table, "b", "1").unwrap());
    let mut alteration = begin_alteration(&engine, &table, &[added("backwards", false)]);
    fill(&engine, &table, &mut alteration);
    alteration.build(&mut |_, _| {}).unwrap();
    let order = [kept(0), kept(1), PlannedIndex::Added(0)];
    Alteration::commit(vec![(alteration, plan("new", &order))]).unwrap();
    let found = try_scan(&mut old, &table, 0, ReadMode::Snapshot).unwrap();
    assert_eq!(found, pairs(&[("a", "1")]));
    let refused = try_scan(&mut old, &table, 2, ReadMode::Snapshot);
    assert!(matches!(refused, Err(EngineError::TableChanged)));
    check_backwards(&engine, &table, 2);
}

#[test]
fn an_interrupt_stops_filling_and_building() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let mut alteration = engine
        .begin_alteration(
            &table,
            &[added("u", false)],
            Box::new(move || seen.load(Ordering::Relaxed)),
        )
        .unwrap();
    for n in 0..20_000u32 {
        alteration.add(0, &n.to_be_bytes(), &[]).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let error = alteration.build(&mut |_, _| {}).unwrap_err();
    assert!(matches!(error, EngineError::Wait(WaitError::Interrupted)));
    drop(alteration);
    assert_eq!(files(&*disk).len(), 2);
}

#[test]
fn changes_of_a_table_are_refused_during_its_alteration() {
    let disk = Arc::new(MemoryDisk::new());
    let (engine, table) = with_table(&disk);
    let alteration = begin_alteration(&engine, &table, &[]);
    let refused = |outcome: EngineResult<()>| {
        assert!(matches!(outcome, Err(EngineError::InvalidArgument(_))));
    };
    refused(engine.drop_table(TABLE));
    refused(engine.truncate_table(TABLE));
    refused(engine.rename_table(TABLE, "./db/u"));
    let again = engine.begin_alteration(&table, &[], Box::new(|| false));
    refused(again.map(|_| ()));
    drop(alteration);
    for order in [
        vec![],
        vec![kept(1)],
        vec![kept(1), kept(0)],
        vec![kept(0), kept(0)],
        vec![kept(0), PlannedIndex::Added(0)],
        vec![kept(0), PlannedIndex::Kept(IndexNumber(2), index("x"))],
    ] {
        let alteration = begin_alteration(&engine, &table, &[]);
        refused(Alteration::commit(vec![(alteration, plan("x", &order))]));
        assert_eq!(table.index_count(), 2);
    }
    engine.drop_table(TABLE).unwrap();
}

#[test]
fn several_tables_are_altered_together() {
    let names = ["./db/p1", "./db/p2", "./db/p3"];
    let disk = Arc::new(FaultDisk::new(9));
    let engine = open(&disk);
    let mut tables = Vec::new();
    for name in names {
        engine.create_table(&definition(name)).unwrap();
        let table = engine.open_table(name).unwrap();
        some_rows(&engine, &table, 200);
        tables.push(table);
    }
    // Lets the n-th disk operation fail, for every n, until no operation fails.
    for n in 0.. {
        let crashed = Arc::new(disk.crash(n));
        let engine = open(&crashed);
        crashed.cut_power(n);
        let outcome = alter_all(&engine, &names);
        engine.abandon();
        let after = Arc::new(crashed.crash(n + 1));
        let engine = open(&after);
        let counts: Vec<usize> = names
            .iter()
            .map(|name| engine.open_table(name).unwrap().index_count())
            .collect();
        assert!(counts.iter().all(|c| *c == counts[0]), "{n}: {counts:?}");
        assert_eq!(files(&*after).len(), 3 * counts[0], "{n}");
        for name in names {
            let table = engine.open_table(name).unwrap();
            rows(&engine, &table);
            if counts[0] == 3 {
                check_backwards(&engine, &table, 2);
                assert_eq!(table.metadata(), b"new");
            }
        }
        if outcome.is_ok() {
            assert_eq!(counts[0], 3, "{n}");
            assert!(n > 20, "the crashes lay within the alteration");
            return;
        }
    }
}

fn alter_all(engine: &Engine, names: &[&str]) -> EngineResult<()> {
    let mut list = Vec::new();
    for name in names {
        let table = engine.open_table(name)?;
        let wanted = [added("backwards", false)];
        let mut alteration = engine.begin_alteration(&table, &wanted, Box::new(|| false))?;
        let mut transaction = begin(engine);
        for (key, value) in try_scan(&mut transaction, &table, 0, ReadMode::Snapshot)? {
            alteration.add(0, entry(&key, &value).as_bytes(), &[])?;
        }
        alteration.build(&mut |_, _| {})?;
        let order = [kept(0), kept(1), PlannedIndex::Added(0)];
        list.push((alteration, plan("new", &order)));
    }
    Alteration::commit(list)
}

#[test]
fn new_indexes_are_refused_while_a_recovered_prepared_transaction_has_written_the_table() {
    let disk = Arc::new(FaultDisk::new(3));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let mut prepared = begin(&engine);
    insert(&mut prepared, &table, "b", "2").unwrap();
    prepared.prepare(b"x").unwrap();
    let disk = Arc::new(disk.crash(1));
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    let wanted = [added("backwards", false)];
    let refused = engine.begin_alteration(&table, &wanted, Box::new(|| false));
    assert!(matches!(
        refused.map(|_| ()),
        Err(EngineError::Wait(WaitError::Timeout))
    ));
    engine.commit_prepared(b"x", Duration::ZERO).unwrap();
    let mut alteration = begin_alteration(&engine, &table, &wanted);
    fill(&engine, &table, &mut alteration);
    alteration.build(&mut |_, _| {}).unwrap();
    let order = [kept(0), kept(1), PlannedIndex::Added(0)];
    Alteration::commit(vec![(alteration, plan("new", &order))]).unwrap();
    check_backwards(&engine, &table, 2);
    assert_eq!(rows(&engine, &table).len(), 2);
}

#[test]
fn a_prepared_transaction_blocks_new_indexes_only_of_tables_that_it_has_written() {
    let disk = Arc::new(FaultDisk::new(3));
    let (engine, table) = with_table(&disk);
    engine.create_table(&definition("db/other")).unwrap();
    let other = engine.open_table("db/other").unwrap();
    let wanted = [added("backwards", false)];
    let key_of = |n: u8| char::from(b'a' + n).to_string();
    for (n, deletes) in [(0, false), (1, true)] {
        // Both tables also contain committed writes, with lower and higher ids than the prepared
        // one has.
        commit(&engine, |t| insert(t, &table, &key_of(n), "1").unwrap());
        commit(&engine, |t| insert(t, &other, &key_of(n), "1").unwrap());
        let mut prepared = begin(&engine);
        if deletes {
            delete(&mut prepared, &other, &key_of(n), "1").unwrap();
        } else {
            insert(&mut prepared, &other, "p", "1").unwrap();
        }
        prepared.prepare(b"x").unwrap();
        prepared.detach();
        commit(&engine, |t| {
            insert(t, &table, &key_of(n + 10), "1").unwrap()
        });
        commit(&engine, |t| {
            insert(t, &other, &key_of(n + 10), "1").unwrap()
        });
        drop(begin_alteration(&engine, &table, &wanted));
        let refused = engine.begin_alteration(&other, &wanted, Box::new(|| false));
        assert!(matches!(
            refused.map(|_| ()),
            Err(EngineError::Wait(WaitError::Timeout))
        ));
        engine.rollback_prepared(b"x", Duration::ZERO).unwrap();
        drop(begin_alteration(&engine, &other, &wanted));
    }
}
