//! A file that cannot be synced, written or read: its table becomes read-only or
//! its statements fail, and other tables are not affected.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Alteration, AlterationPlan, Engine, EngineError, EngineOptions, IndexNumber, PlannedIndex,
    RowEntry, TableHandle,
};
use teak_testing::{FaultDisk, FileFailure, GateDisk};

const OTHER: &str = "./db/other";

fn two_tables(options: EngineOptions) -> (GateDisk, Engine, TableHandle, TableHandle) {
    let disk = GateDisk::new(Arc::new(MemoryDisk::new()));
    let any: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(any, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    engine.create_table(&definition(OTHER)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let other = engine.open_table(OTHER).unwrap();
    (disk, engine, table, other)
}

fn put(engine: &Engine, table: &TableHandle, key: &str) -> Result<(), EngineError> {
    let mut transaction = begin(engine);
    let value = "v".repeat(400);
    insert(&mut transaction, table, key, &value)?;
    transaction.commit()
}

fn is_read_only(outcome: Result<(), EngineError>) -> bool {
    matches!(outcome, Err(EngineError::TableReadOnly { .. }))
}

#[test]
fn a_failed_sync_makes_only_its_table_read_only() {
    let mut options = options();
    let logged = capture_messages(&mut options);
    let (disk, engine, table, other) = two_tables(options);
    put(&engine, &table, "a").unwrap();
    put(&engine, &other, "a").unwrap();
    disk.fail_syncs("db/t.by_value");
    assert!(engine.checkpoint().is_err());
    disk.open_gate("db/t.by_value");
    let refused = put(&engine, &table, "b").unwrap_err();
    assert!(refused.to_string().contains("by_value"), "{refused}");
    assert!(refused.to_string().contains("read-only"), "{refused}");
    assert!(engine.status_text().contains("READ-ONLY"));
    // The rows of the read-only table can be read.
    assert_eq!(rows(&engine, &table).len(), 1);
    put(&engine, &other, "b").unwrap();
    engine.run_maintenance().unwrap_err();
    assert!(is_read_only(put(&engine, &table, "c")));
    put(&engine, &other, "c").unwrap();
    let messages = logged.lock().unwrap();
    let reports = messages
        .iter()
        .filter(|text| text.contains("is read-only now"));
    assert_eq!(reports.count(), 1, "{messages:?}");
    drop(messages);
    // Truncating replaces the file.
    engine.truncate_table(TABLE).unwrap();
    put(&engine, &table, "d").unwrap();
    engine.checkpoint().unwrap();
    assert_eq!(rows(&engine, &table).len(), 1);
    assert_eq!(rows(&engine, &other).len(), 3);
}

#[test]
fn a_transaction_that_wrote_before_commits() {
    let (disk, engine, table, _other) = two_tables(options());
    let mut writer = begin(&engine);
    insert(&mut writer, &table, "a", "1").unwrap();
    disk.fail_syncs("db/t.PRIMARY");
    assert!(engine.checkpoint().is_err());
    assert!(is_read_only(insert(&mut writer, &table, "b", "1")));
    writer.commit().unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("a", "1")]));
}

/// The files of a table cannot be written, for example because their file system
/// is full, and later they can.
#[test]
fn a_table_that_cannot_be_flushed_becomes_read_only_until_it_can() {
    let mut options = options();
    options.cache_bytes = 64 << 20;
    options.log_bytes_max = 2 << 20;
    let (disk, engine, table, other) = two_tables(options);
    disk.fill_up("db/t.");
    let mut refused = false;
    for n in 0..4000 {
        let outcome = put(&engine, &table, &format!("{n:05}"));
        refused = is_read_only(outcome);
        if refused {
            break;
        }
        let _ = engine.run_maintenance();
    }
    assert!(refused);
    // Other tables can be written.
    for n in 0..100 {
        put(&engine, &other, &format!("{n:05}")).unwrap();
    }
    disk.open_gate("db/t.");
    engine.checkpoint().unwrap();
    put(&engine, &table, "later").unwrap();
    rows(&engine, &table);
    drop((table, other));
    engine.close().unwrap();
}

const NEW_FILE: &str = "db/t.by_new";

fn begin_build(engine: &Engine, table: &TableHandle) -> Alteration {
    let mut index = definition(TABLE).indexes.pop().unwrap();
    index.label = "by_new".into();
    begin_adding(engine, table, index).unwrap()
}

/// Inserts a row, with its entry in the index that is being built.
fn put_built(engine: &Engine, table: &TableHandle, key: &str) -> Result<(), EngineError> {
    let value = "v".repeat(400);
    let second = format!("{value}\0{key}");
    let entry = |index, key, value| RowEntry {
        index: IndexNumber(index),
        unique: index == 0,
        key,
        value,
    };
    let entries = [
        entry(0, key.as_bytes(), value.as_bytes()),
        entry(1, second.as_bytes(), &[]),
        entry(2, key.as_bytes(), &[]),
    ];
    let mut transaction = begin(engine);
    transaction.insert(table, &entries)?;
    transaction.commit()
}

fn plan() -> AlterationPlan {
    let mut kept = definition(TABLE).indexes.into_iter();
    let mut keep = |number| PlannedIndex::Kept(IndexNumber(number), kept.next().unwrap());
    AlterationPlan {
        indexes: vec![keep(0), keep(1), PlannedIndex::Added(0)],
        metadata: b"metadata".to_vec(),
    }
}

/// The new file of an alteration fails. The alteration fails at its next step, however late that
/// is. Until then the table can be written, and the log is not retained for the new file.
#[test]
fn a_failing_new_file_fails_its_alteration_and_nothing_else() {
    for is_built in [false, true] {
        let mut options = options();
        let logged = capture_messages(&mut options);
        let (disk, engine, table, other) = two_tables(options);
        put(&engine, &table, "a").unwrap();
        let mut alteration = begin_build(&engine, &table);
        alteration.add(0, b"a", &[]).unwrap();
        if is_built {
            alteration.build(&mut |_, _| {}).unwrap();
        }
        put_built(&engine, &table, "b").unwrap();
        disk.fail_syncs(NEW_FILE);
        engine.checkpoint().unwrap_err();
        put_built(&engine, &table, "c").unwrap();
        for n in 0..400 {
            put(&engine, &other, &format!("{n:05}")).unwrap();
        }
        put_built(&engine, &table, "d").unwrap();
        let before = engine.statistics().log_bytes_used;
        engine.checkpoint().unwrap();
        assert!(engine.statistics().log_bytes_used < before / 2);
        disk.open_gate(NEW_FILE);
        engine.run_maintenance().unwrap();
        put_built(&engine, &table, "e").unwrap();
        let failed = match is_built {
            false => {
                let failed = alteration.add(0, b"x", &[]);
                drop(alteration);
                failed
            }
            true => Alteration::commit(vec![(alteration, plan())]),
        };
        let failed = failed.unwrap_err();
        assert!(failed.to_string().contains("by_new"), "{failed}");
        assert_eq!(rows(&engine, &table).len(), 5);
        assert_eq!(table.index_count(), 2);
        put(&engine, &table, "f").unwrap();
        let mut alteration = begin_build(&engine, &table);
        alteration.build(&mut |_, _| {}).unwrap();
        Alteration::commit(vec![(alteration, plan())]).unwrap();
        let logged = logged.lock().unwrap().clone();
        let reported = |text: &&String| text.contains("ALTER TABLE fails");
        assert_eq!(logged.iter().filter(reported).count(), 1, "{logged:?}");
        assert!(
            !logged.iter().any(|text| text.contains("read-only")),
            "{logged:?}"
        );
        drop((table, other));
        engine.close().unwrap();
        let engine = open(&Arc::new(disk));
        let table = engine.open_table(TABLE).unwrap();
        assert_eq!(rows(&engine, &table).len(), 6);
        assert_eq!(engine.statistics().orphan_files, 0);
    }
}

/// A file of the same name may have the only copy of earlier records, if it could not be moved to
/// the directory of orphans before.
#[test]
fn a_file_of_earlier_records_is_not_replaced() {
    let faults = FaultDisk::new(1);
    let gates = GateDisk::new(Arc::new(faults.clone()));
    let engine = Engine::open(Arc::new(gates.clone()), options()).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    put(&engine, &table, "a").unwrap();
    let name = format!("teak.retained.{:08x}", engine.table_id(TABLE).unwrap());
    let path = Path::new("/data").join(&name);
    let earlier = [7; 100];
    let file = faults.create(&path).unwrap();
    file.write_all_at(&earlier, 0).unwrap();
    let is_earlier = |path: &Path| {
        let mut found = [0; 100];
        let file = faults.open(path).unwrap();
        file.read_exact_at(&mut found, 0).unwrap();
        found == earlier && file.len().unwrap() == 100
    };
    faults.fail_file(&path, FileFailure::Renames);
    gates.fail_syncs("db/t.");
    engine.checkpoint().unwrap_err();
    assert!(is_read_only(put(&engine, &table, "b")));
    assert_eq!(engine.statistics().retained_bytes, 0);
    assert!(is_earlier(&path));
    faults.clear_failures();
    let deadline = Instant::now() + Duration::from_secs(60);
    while engine.statistics().retained_bytes == 0 {
        assert!(Instant::now() < deadline, "the records are not retained");
        std::thread::sleep(Duration::from_millis(20));
        let _ = engine.checkpoint();
    }
    assert!(is_earlier(&Path::new("/data/#teak_orphans").join(&name)));
    drop(table);
    engine.abandon();
    let engine = open(&Arc::new(faults.crash(1)));
    let table = engine.open_table(TABLE).unwrap();
    assert_eq!(rows(&engine, &table).len(), 1);
}
