//! Temporary tables: transactional, never synced, removed by a restart.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    AddedIndex, AlterationPlan, Engine, EngineError, EntryOrder, IndexNumber, PlannedIndex,
    TableHandle,
};
use teak_testing::{FaultDisk, WriteFailure};

const TEMPORARY: &str = "#temporary-1-2-3";

fn create(engine: &Engine) -> TableHandle {
    engine
        .create_temporary_table(&definition(TEMPORARY))
        .unwrap();
    engine.open_table(TEMPORARY).unwrap()
}

fn temporary_files(disk: &dyn Disk) -> usize {
    let files = disk.list(Path::new("/data")).unwrap();
    let is_temporary = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("teak.temporary.")
    };
    files.iter().filter(is_temporary).count()
}

fn key(number: u32) -> String {
    format!("{number:06}")
}

/// Inserts, updates and deletes more rows than fit in memory, and rolls back changes. Returns the
/// rows that must exist.
fn use_it(engine: &Engine, table: &TableHandle) -> Rows {
    let mut expected = Rows::new();
    for batch in 0..20 {
        commit(engine, |t| {
            for n in batch * 300..(batch + 1) * 300 {
                insert(t, table, &key(n), &"first".repeat(20)).unwrap();
            }
        });
        engine.run_background_until_idle().unwrap();
    }
    commit(engine, |t| {
        for n in 0..6000 {
            if n % 3 == 0 {
                delete(t, table, &key(n), &"first".repeat(20)).unwrap();
            } else {
                update(t, table, &key(n), &"first".repeat(20), "second").unwrap();
                expected.push((key(n), "second".into()));
            }
        }
    });
    let mut undone = begin(engine);
    for (key, value) in &expected {
        update(&mut undone, table, key, value, "undone").unwrap();
    }
    undone.rollback();
    let mut partly = begin(engine);
    insert(&mut partly, table, "x", "kept").unwrap();
    let savepoint = partly.savepoint().unwrap();
    insert(&mut partly, table, "y", "undone").unwrap();
    partly.rollback_to_savepoint(savepoint).unwrap();
    partly.commit().unwrap();
    expected.push(("x".into(), "kept".into()));
    engine.run_background_until_idle().unwrap();
    expected
}

#[test]
fn a_temporary_table_is_used_without_a_sync_or_a_log_record() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, _) = with_table(&disk);
    let (syncs, end) = (disk.syncs(), engine.log_end());
    let table = create(&engine);
    let expected = use_it(&engine, &table);
    assert_eq!(rows(&engine, &table), expected);
    table.verify(&mut || true, &mut |_| {}).unwrap();
    table.advance_counter(1, 5).unwrap();
    table.set_counter(2, 6).unwrap();
    assert_eq!(table.reserve_row_ids(10).unwrap(), 0);
    engine.truncate_table(TEMPORARY).unwrap();
    assert!(rows(&engine, &table).is_empty());
    assert_eq!(table.counter(1).unwrap(), 0);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
    drop(table);
    engine.drop_table(TEMPORARY).unwrap();
    assert_eq!(temporary_files(&*disk), 0);
    assert_eq!(disk.syncs(), syncs);
    assert_eq!(engine.log_end(), end);
}

#[test]
fn an_index_is_added_to_a_temporary_table_without_a_sync() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open(&disk);
    let table = create(&engine);
    commit(&engine, |t| {
        for n in 0..500 {
            insert(t, &table, &key(n), "v").unwrap();
        }
    });
    let (syncs, end) = (disk.syncs(), engine.log_end());
    let added = AddedIndex {
        definition: definition(TEMPORARY).indexes[0].clone(),
        unique: true,
        entry_order: EntryOrder::Any,
    };
    let mut alteration = engine
        .begin_alteration(&table, &[added], Box::new(|| false))
        .unwrap();
    for n in (0..500).rev() {
        alteration.add(0, key(n).as_bytes(), b"new").unwrap();
    }
    alteration.build(&mut |_, _| {}).unwrap();
    let kept = |number: u32| {
        let definition = definition(TEMPORARY).indexes[number as usize].clone();
        PlannedIndex::Kept(IndexNumber(number), definition)
    };
    let plan = AlterationPlan {
        indexes: vec![kept(0), kept(1), PlannedIndex::Added(0)],
        metadata: b"altered".to_vec(),
    };
    teak_engine::Alteration::commit(vec![(alteration, plan)]).unwrap();
    let table = engine.open_table(TEMPORARY).unwrap();
    assert_eq!(table.metadata(), b"altered");
    assert_eq!(table.index_count(), 3);
    let mut transaction = begin(&engine);
    let entries = try_scan(&mut transaction, &table, 2, teak_engine::ReadMode::Snapshot).unwrap();
    assert_eq!(entries.len(), 500);
    assert_eq!(disk.syncs(), syncs);
    assert_eq!(engine.log_end(), end);
}

#[test]
fn the_file_of_a_temporary_table_reuses_its_space() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open(&disk);
    let table = create(&engine);
    let value = |round: u32| format!("{round:0200}");
    commit(&engine, |t| {
        for n in 0..2000 {
            insert(t, &table, &key(n), &value(0)).unwrap();
        }
    });
    let round = |number: u32| {
        commit(&engine, |t| {
            for n in 0..2000 {
                update(t, &table, &key(n), &value(number - 1), &value(number)).unwrap();
            }
        });
        engine.settle().unwrap();
        engine.run_maintenance().unwrap();
    };
    (1..4).for_each(round);
    let used = disk.used_bytes();
    (4..24).for_each(round);
    assert!(
        disk.used_bytes() < 3 * used,
        "{used} grew to {}",
        disk.used_bytes()
    );
    assert_eq!(rows(&engine, &table).len(), 2000);
}

#[test]
fn a_transaction_that_writes_both_kinds_of_tables_is_durable() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let temporary = create(&engine);
    let syncs = disk.syncs();
    commit(&engine, |t| {
        insert(t, &temporary, "a", "1").unwrap();
        insert(t, &table, "a", "1").unwrap();
    });
    assert!(disk.syncs() > syncs);
    // The statement that wrote the durable table is rolled back, so the commit writes only the
    // temporary one.
    let mut partly = begin(&engine);
    insert(&mut partly, &temporary, "b", "2").unwrap();
    let savepoint = partly.savepoint().unwrap();
    insert(&mut partly, &table, "b", "2").unwrap();
    partly.rollback_to_savepoint(savepoint).unwrap();
    partly.commit().unwrap();
    assert_eq!(rows(&engine, &temporary), pairs(&[("a", "1"), ("b", "2")]));

    let crashed = Arc::new(disk.crash(1));
    let engine = open(&crashed);
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
    assert!(matches!(
        engine.open_table(TEMPORARY),
        Err(EngineError::NoSuchTable { .. })
    ));
    assert_eq!(temporary_files(&*crashed), 0);
}

#[test]
fn a_prepared_transaction_of_both_kinds_survives_without_its_temporary_rows() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let temporary = create(&engine);
    let mut both = begin(&engine);
    insert(&mut both, &temporary, "a", "1").unwrap();
    insert(&mut both, &table, "a", "1").unwrap();
    both.prepare(b"both").unwrap();
    let mut only = begin(&engine);
    insert(&mut only, &temporary, "b", "2").unwrap();
    only.prepare(b"only").unwrap();
    only.commit().unwrap();

    let engine = open(&Arc::new(disk.crash(1)));
    assert_eq!(engine.prepared(), vec![b"both".to_vec()]);
    engine
        .commit_prepared(b"both", std::time::Duration::ZERO)
        .unwrap();
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

/// Writes a temporary and a durable table, with checkpoints. Counts in `acknowledged` the
/// transactions that wrote the durable table and whose commit succeeded.
fn mixed_work(engine: &Engine, acknowledged: &mut u32) -> Result<(), EngineError> {
    engine.create_temporary_table(&definition(TEMPORARY))?;
    let temporary = engine.open_table(TEMPORARY)?;
    let table = engine.open_table(TABLE)?;
    for number in 0..4 {
        let mut only = begin(engine);
        for n in 0..80 {
            insert(&mut only, &temporary, &key(number * 80 + n), "temporary")?;
        }
        only.commit()?;
        let mut both = begin(engine);
        insert(&mut both, &temporary, &format!("t{number}"), "both")?;
        insert(&mut both, &table, &key(number), "durable")?;
        both.commit()?;
        *acknowledged += 1;
        engine.run_background_until_idle()?;
        if number % 2 == 0 {
            engine.run_maintenance()?;
        }
        if number == 2 {
            engine.truncate_table(TEMPORARY)?;
        }
    }
    drop(temporary);
    engine.drop_table(TEMPORARY)
}

#[test]
fn a_crash_at_any_point_leaves_no_trace_of_a_temporary_table() {
    let mut after = 0;
    loop {
        let disk = Arc::new(FaultDisk::new(after));
        let (engine, table) = with_table(&disk);
        drop(table);
        disk.cut_power(after);
        let mut acknowledged = 0;
        let finished = mixed_work(&engine, &mut acknowledged).is_ok();
        for seed in 0..2 {
            let crashed = Arc::new(disk.crash(after * 2 + seed));
            let engine = open(&crashed);
            assert_eq!(temporary_files(&*crashed), 0);
            let table = engine.open_table(TABLE).unwrap();
            let found = rows(&engine, &table).len();
            assert!(
                found == acknowledged as usize || found == acknowledged as usize + 1,
                "{found} rows, {acknowledged} acknowledged"
            );
            assert!(engine.open_table(TEMPORARY).is_err());
            let again = create(&engine);
            assert!(rows(&engine, &again).is_empty());
            commit(&engine, |t| insert(t, &again, "a", "1").unwrap());
            assert_eq!(rows(&engine, &again), pairs(&[("a", "1")]));
        }
        if finished {
            break;
        }
        after += 1;
    }
    assert!(after > 20, "{after} changes");
}

#[test]
fn a_clean_stop_leaves_no_temporary_table() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open(&disk);
    let table = create(&engine);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    drop(table);
    engine.close().unwrap();
    let engine = open(&disk);
    assert!(engine.open_table(TEMPORARY).is_err());
    assert_eq!(temporary_files(&*disk), 0);
}

#[test]
fn a_full_disk_refuses_a_temporary_table_and_leaves_no_file() {
    let disk = Arc::new(FaultDisk::new(1));
    let engine = open(&disk);
    for after in 0..4 {
        disk.fail_write(after, WriteFailure::NoSpace);
        let outcome = engine.create_temporary_table(&definition(TEMPORARY));
        disk.clear_failures();
        assert!(outcome.is_err(), "write {after}");
        assert_eq!(temporary_files(&*disk), 0);
    }
    assert!(rows(&engine, &create(&engine)).is_empty());
}

#[test]
fn a_temporary_table_stays_open_when_idle_tables_are_closed() {
    let mut options = options();
    options.open_tables_kept = 0;
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap();
    let table = create(&engine);
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    drop(table);
    engine.run_maintenance().unwrap();
    let table = engine.open_table(TEMPORARY).unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

#[test]
fn an_older_snapshot_reads_a_temporary_table_before_and_after_truncation() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    let table = create(&engine);
    insert(&mut older, &table, "a", "1").unwrap();
    let read = |transaction: &mut _| {
        try_scan(transaction, &table, 0, teak_engine::ReadMode::Snapshot).unwrap()
    };
    assert_eq!(read(&mut older), pairs(&[("a", "1")]));
    older.commit().unwrap();
    let mut older = begin(&engine);
    older.take_snapshot().unwrap();
    engine.truncate_table(TEMPORARY).unwrap();
    assert!(read(&mut older).is_empty());
}

#[test]
fn names_of_temporary_tables_have_their_own_prefix() {
    let (engine, _table) = with_table(&Arc::new(MemoryDisk::new()));
    let refused = |outcome| matches!(outcome, Err(EngineError::InvalidArgument(_)));
    assert!(refused(engine.create_table(&definition(TEMPORARY))));
    assert!(refused(engine.create_temporary_table(&definition(TABLE))));
    assert!(refused(engine.rename_table(TABLE, TEMPORARY)));
    drop(create(&engine));
    assert!(refused(engine.rename_table(TEMPORARY, "./db/u")));
    assert!(refused(engine.refuse_older_snapshots(TEMPORARY)));
    assert!(matches!(
        engine.create_temporary_table(&definition(TEMPORARY)),
        Err(EngineError::TableExists { .. })
    ));
    assert_eq!(engine.table_names(), ["db/t"]);
}
