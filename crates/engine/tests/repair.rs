//! Repairing damaged tables: the rows that can be read are saved, the loss is
//! reported, and the damaged files are moved to the directory of orphans.

use crate::common::repair::repair;
use crate::common::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{
    AddedIndex, AlterationPlan, Engine, EngineError, EntryOrder, IndexNumber, PlannedIndex,
    RowEntry, StorageError, TableHandle,
};
use teak_testing::{FaultDisk, FileFailure};

fn files(disk: &FaultDisk, directory: &str, name: &str) -> Vec<PathBuf> {
    let all = disk.list(Path::new(directory)).unwrap();
    all.into_iter()
        .filter(|path| path.to_str().unwrap().contains(name))
        .collect()
}

fn file(disk: &FaultDisk, name: &str) -> PathBuf {
    files(disk, "/data/db", name).pop().unwrap()
}

fn value_of(n: u64) -> String {
    format!("{n:040}")
}

fn fill(engine: &Engine, table: &TableHandle, rows: std::ops::Range<u64>) {
    commit(engine, |t| {
        for n in rows {
            insert(t, table, &format!("{n:05}"), &value_of(n)).unwrap();
        }
    });
}

/// A table with 2000 rows, settled and closed.
fn filled() -> Arc<FaultDisk> {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, 0..2000);
    engine.settle().unwrap();
    drop(table);
    engine.close().unwrap();
    disk
}

/// Flips a bit in each 512-byte sector after the superblocks that `which` selects.
fn flip(disk: &FaultDisk, path: &Path, which: impl Fn(u64) -> bool) {
    let length = disk.open(path).unwrap().len().unwrap();
    for sector in (16..length / 512).filter(|sector| which(*sector)) {
        disk.flip_bit(path, sector * 512 + 30, 3).unwrap();
    }
}

/// Damages all blocks that begin in the 512-byte sectors after the superblocks that `which` selects.
fn damage_blocks(disk: &FaultDisk, path: &Path, which: impl Fn(u64) -> bool) {
    let length = disk.open(path).unwrap().len().unwrap();
    for sector in (16..length / 512).filter(|sector| which(*sector)) {
        // Blocks begin at multiples of 128 bytes.
        for unit in 0..4 {
            let offset = sector * 512 + unit * 128 + 30;
            disk.flip_bit(path, offset, 3).unwrap();
        }
    }
}

/// The rows of the table. Checks that each row has the value that was written, and that the
/// indexes agree.
fn checked_rows(engine: &Engine) -> BTreeMap<String, String> {
    let table = engine.open_table(TABLE).unwrap();
    assert!(!table.is_damaged());
    table
        .verify(&mut || true, &mut |text| panic!("{text}"))
        .unwrap();
    let found: BTreeMap<String, String> = rows(engine, &table).into_iter().collect();
    for (key, value) in &found {
        assert_eq!(*value, value_of(key.parse().unwrap()));
    }
    found
}

#[test]
fn a_repair_saves_the_rows_of_intact_pages() {
    let disk = filled();
    let path = file(&disk, "t.PRIMARY");
    flip(&disk, &path, |sector| sector == 40);
    let engine = open(&disk);
    let table = engine.open_table(TABLE).unwrap();
    let mut reader = begin(&engine);
    let failed = try_scan(&mut reader, &table, 0, teak_engine::ReadMode::Snapshot);
    assert!(failed.unwrap_err().is_corrupt());
    drop((reader, table));

    let mut findings = Vec::new();
    let report = repair(&engine, &mut findings).unwrap();
    assert_eq!(report.lost_parts, 1, "{findings:?}");
    assert_eq!(report.rows + report.lost_entries, 2000);
    assert_eq!(report.doubtful_rows, 0);
    assert!(
        findings[0].contains("cannot be read: keys from"),
        "{findings:?}"
    );
    assert_eq!(checked_rows(&engine).len() as u64, report.rows);

    // The damaged file still exists.
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(files(&disk, "/data/#teak_orphans/db", name).len(), 1);
    assert!(files(&disk, "/data/db", name).is_empty());

    // The table can be written, and the outcome is durable.
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 5000..5010);
    drop(table);
    engine.abandon();
    for seed in 0..5 {
        let engine = open(&Arc::new(disk.crash(seed)));
        assert_eq!(checked_rows(&engine).len() as u64, report.rows + 10);
    }
}

/// The ids of the transaction are between those of the table's rows, so the repair has to find out
/// whether the transaction has written the table.
#[test]
fn a_prepared_transaction_prevents_the_repair_of_the_tables_it_has_written() {
    const OTHER: &str = "./db/u";
    for writes_table in [false, true] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_table(&disk);
        engine.create_table(&definition(OTHER)).unwrap();
        let other = engine.open_table(OTHER).unwrap();
        // Until this snapshot ends, no write id is replaced by zero.
        let mut reader = begin(&engine);
        assert_eq!(see(&mut reader, &table), []);
        fill(&engine, &table, 0..1000);
        let mut prepared = begin(&engine);
        insert(&mut prepared, &other, "row", "1").unwrap();
        if writes_table {
            insert(&mut prepared, &table, "99999", &value_of(99_999)).unwrap();
        }
        prepared.prepare(b"x").unwrap();
        prepared.detach();
        fill(&engine, &table, 1000..2000);
        engine.checkpoint().unwrap();
        drop((prepared, reader, table, other));
        engine.abandon();
        let disk = Arc::new(disk.crash(1));
        flip(&disk, &file(&disk, "t.PRIMARY"), |sector| sector == 40);
        let engine = open(&disk);
        let mut findings = Vec::new();
        if writes_table {
            assert!(is_timeout(repair(&engine, &mut findings)));
            engine.commit_prepared(b"x", Duration::ZERO).unwrap();
        }
        let report = repair(&engine, &mut findings).unwrap();
        assert!(report.lost_parts > 0);
        let found = checked_rows(&engine);
        assert_eq!(found.contains_key("99999"), writes_table);
        assert_eq!(found.len() as u64, report.rows);
    }
}

#[test]
fn a_table_with_a_damaged_node_is_repaired_from_what_is_left() {
    let disk = filled();
    let path = file(&disk, "t.PRIMARY");
    let length = disk.open(&path).unwrap().len().unwrap() / 512;
    let mut unreadable = 0;
    for sector in 16..length {
        let disk = Arc::new(disk.crash(0));
        damage_blocks(&disk, &path, |damaged| damaged == sector);
        let engine = open(&disk);
        if let Err(error) = engine.open_table(TABLE).map(|_| ()) {
            assert!(error.is_corrupt(), "{error}");
            unreadable += 1;
        }
        let mut findings = Vec::new();
        let report = repair(&engine, &mut findings).unwrap();
        let found = checked_rows(&engine).len() as u64;
        assert_eq!(found, report.rows);
        assert!(found == 2000 || report.lost_parts > 0, "{sector}");
        let table = engine.open_table(TABLE).unwrap();
        fill(&engine, &table, 5000..5010);
    }
    assert!(unreadable > 0);
}

#[test]
fn a_missing_or_damaged_secondary_index_is_built_again() {
    for remove in [true, false] {
        let disk = filled();
        let path = file(&disk, "by_value");
        match remove {
            true => disk.remove(&path).unwrap(),
            false => damage_blocks(&disk, &path, |_| true),
        }
        let engine = open(&disk);
        let error = engine.open_table(TABLE).map(|_| ()).unwrap_err();
        let is_missing = matches!(error, EngineError::TableUnavailable { .. });
        assert_eq!((is_missing, error.is_corrupt()), (remove, !remove));
        let mut findings = Vec::new();
        let report = repair(&engine, &mut findings).unwrap();
        assert_eq!((report.rows, report.lost_parts), (2000, 0), "{findings:?}");
        assert_eq!(checked_rows(&engine).len(), 2000);
    }
}

#[test]
fn a_repair_without_readable_rows_is_refused_and_changes_nothing() {
    let disk = filled();
    let path = file(&disk, "t.PRIMARY");
    let aside = path.with_extension("aside");
    disk.rename(&path, &aside).unwrap();
    let engine = open(&disk);
    let refused = repair(&engine, &mut Vec::new()).unwrap_err();
    assert!(
        matches!(
            &refused,
            EngineError::TableDamaged {
                cause: StorageError::NotFound { .. },
                ..
            }
        ),
        "{refused}"
    );
    disk.rename(&aside, &path).unwrap();
    assert_eq!(checked_rows(&engine).len(), 2000);
}

#[test]
fn a_check_lists_what_is_damaged_and_changes_nothing() {
    let disk = filled();
    let path = file(&disk, "t.PRIMARY");
    flip(&disk, &path, |sector| {
        sector == 40 || sector == 41 || sector == 80
    });
    let engine = open(&disk);
    let table = engine.open_damaged_table(TABLE).unwrap();
    let check = || {
        let mut findings = Vec::new();
        let checked = table.verify(&mut || true, &mut |text| findings.push(text.to_owned()));
        assert!(checked.unwrap_err().is_corrupt());
        findings
    };
    let findings = check();
    let lost = findings
        .iter()
        .filter(|text| text.contains("cannot be read"));
    assert!(lost.count() >= 2, "{findings:?}");
    assert_eq!(check(), findings);
}

#[test]
fn an_unreadable_table_can_only_be_salvaged() {
    let disk = filled();
    disk.remove(&file(&disk, "by_value")).unwrap();
    let engine = open(&disk);
    let table = engine.open_damaged_table(TABLE).unwrap();
    assert!(table.is_unreadable());
    assert!(engine.open_table(TABLE).is_err());
    assert!(engine.open_damaged_table(TABLE).is_err());
    let other = engine.open_table_lazily(TABLE).unwrap();
    let mut transaction = begin(&engine);
    for handle in [&table, &other] {
        assert!(insert(&mut transaction, handle, "x", "1").is_err());
        let unchecked = RowEntry {
            index: IndexNumber::ROWS,
            unique: false,
            key: b"x",
            value: b"1",
        };
        assert!(transaction.insert(handle, &[unchecked]).is_err());
        let cursor = try_scan(&mut transaction, handle, 0, teak_engine::ReadMode::Snapshot);
        assert!(cursor.is_err_and(|error| error.is_corrupt()));
    }
    transaction.rollback();
    drop((table, other));
    // A damaged table can be truncated.
    engine.truncate_table(TABLE).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 0..10);
    assert_eq!(rows(&engine, &table).len(), 10);
}

/// Row X has the key of W in the first unique index, and Y has the key of X in the second.
/// When X is left out, Y is not a duplicate.
#[test]
fn duplicates_are_left_out_index_by_index() {
    let (engine, table) = fresh();
    // Key of the row, its key in the first unique index, and its key in the second.
    let rows = [("w", "1", "9"), ("x", "1", "5"), ("y", "7", "5")];
    let index = |unique, entry_order| AddedIndex {
        definition: definition(TABLE).indexes.remove(0),
        unique,
        entry_order,
    };
    let indexes = [
        index(true, EntryOrder::ByKey),
        index(true, EntryOrder::Any),
        index(true, EntryOrder::Any),
    ];
    let mut left_out: Vec<String> = Vec::new();
    for duplicate_index in [Some(1), None] {
        let begun = engine.begin_alteration(&table, &indexes, Box::new(|| false));
        let mut alteration = begun.unwrap();
        alteration.repair(10);
        for (row, first, second) in rows {
            if !left_out.iter().any(|key| key == row) {
                for (number, key) in (0..).zip([row, first, second]) {
                    alteration
                        .add(number, key.as_bytes(), row.as_bytes())
                        .unwrap();
                }
            }
        }
        alteration.build(&mut |_, _| {}).unwrap();
        let found = alteration.duplicates();
        assert_eq!(found.first().map(|one| one.index.0), duplicate_index);
        assert!(found.len() <= 1, "{found:?}");
        let keys = found
            .iter()
            .map(|one| String::from_utf8(one.value.clone()).unwrap());
        left_out.extend(keys);
        let has_duplicates = !found.is_empty();
        let planned = (0..3).map(PlannedIndex::Added);
        let plan = AlterationPlan {
            indexes: planned.collect(),
            metadata: b"metadata".to_vec(),
        };
        let committed = teak_engine::Alteration::commit(vec![(alteration, plan)]);
        assert_eq!(committed.is_err(), has_duplicates);
    }
    assert_eq!(left_out.len(), 1);
    assert!(left_out[0] == "w" || left_out[0] == "x");
}

/// Each file operation of a repair fails once: the table is as before, and the
/// repair can be repeated.
#[test]
fn a_failed_repair_changes_nothing() {
    let disk = filled();
    flip(&disk, &file(&disk, "t.PRIMARY"), |sector| sector == 40);
    for after in 0..60 {
        let disk = Arc::new(disk.crash(0));
        let engine = open(&disk);
        match after % 2 {
            0 => disk.fail_write(after / 2, teak_testing::WriteFailure::Nothing),
            _ => disk.fail_name_change(after / 2),
        }
        let outcome = repair(&engine, &mut Vec::new());
        disk.clear_failures();
        if outcome.is_err() {
            // The outcome may be unknown until the engine is opened again.
            engine.abandon();
            let engine = open(&Arc::new(disk.crash(after)));
            let report = repair(&engine, &mut Vec::new()).unwrap();
            assert_eq!(checked_rows(&engine).len() as u64, report.rows);
        } else {
            assert!(checked_rows(&engine).len() > 1900);
        }
    }
}

#[test]
fn a_crash_during_a_repair_leaves_the_old_or_the_new_table() {
    let disk = filled();
    flip(&disk, &file(&disk, "t.PRIMARY"), |sector| sector == 40);
    let name = file(&disk, "t.PRIMARY");
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    let (mut old, mut new) = (0, 0);
    let changes = {
        let disk = Arc::new(disk.crash(0));
        let engine = open(&disk);
        let before = disk.changes();
        repair(&engine, &mut Vec::new()).unwrap();
        disk.changes() - before
    };
    let sparse = (0..changes).step_by(7);
    for after in sparse.chain(changes.saturating_sub(25)..changes) {
        let disk = Arc::new(disk.crash(0));
        let engine = open(&disk);
        disk.cut_power(after);
        let _ = repair(&engine, &mut Vec::new());
        engine.abandon();
        let disk = Arc::new(disk.crash(after));
        let engine = open(&disk);
        let table = engine.open_damaged_table(TABLE).unwrap();
        let aside = files(&disk, "/data/#teak_orphans/db", &name).len();
        match table.verify(&mut || true, &mut |_| {}) {
            Ok(()) => {
                new += 1;
                // The damaged file still exists.
                assert_eq!(aside, 1, "{after}");
            }
            Err(_) => {
                old += 1;
                assert_eq!(aside, 0, "{after}");
            }
        }
        drop(table);
        let report = repair(&engine, &mut Vec::new()).unwrap();
        assert!((1900..2000).contains(&report.rows));
        assert_eq!(checked_rows(&engine).len() as u64, report.rows);
    }
    assert!(old > 0 && new > 0, "{old} {new}");
}

/// The damaged file that a repair replaced cannot be moved, for example because it is in another
/// file system. It is not removed, and is moved when that is possible.
#[test]
fn a_replaced_file_that_cannot_be_moved_is_not_removed() {
    let filled = filled();
    let path = file(&filled, "t.PRIMARY");
    flip(&filled, &path, |sector| sector == 40);
    let name = path.file_name().unwrap().to_str().unwrap();
    for writes_catalogue in [false, true] {
        let mut disk = Arc::new(filled.crash(0));
        for round in 0..3 {
            disk.fail_file(&path, FileFailure::Renames);
            let engine = open(&disk);
            if round == 0 {
                repair(&engine, &mut Vec::new()).unwrap();
            }
            assert!(checked_rows(&engine).len() > 1900);
            assert!(disk.exists(&path).unwrap(), "{writes_catalogue} {round}");
            if writes_catalogue {
                engine.checkpoint().unwrap();
            }
            drop(engine);
            disk = Arc::new(disk.crash(round));
        }
        drop(open(&disk));
        assert!(!disk.exists(&path).unwrap());
        assert_eq!(files(&disk, "/data/#teak_orphans/db", name).len(), 1);
    }
}

/// After a repair the file of retained log records is moved, too, because the repair may not have
/// used all of them.
#[test]
fn retained_records_that_cannot_be_moved_are_not_removed() {
    let crashed = {
        let disk = filled();
        let engine = open(&disk);
        let table = engine.open_table(TABLE).unwrap();
        fill(&engine, &table, 3000..3010);
        drop((table, engine));
        disk.crash(0)
    };
    damage_blocks(&crashed, &file(&crashed, "t.PRIMARY"), |_| true);
    for writes_catalogue in [false, true] {
        let mut disk = Arc::new(crashed.crash(0));
        let engine = open(&disk);
        engine.open_table(TABLE).map(|_| ()).unwrap_err();
        let path = files(&disk, "/data", "teak.retained").pop().unwrap();
        drop(engine);
        for round in 0..3 {
            disk.fail_file(&path, FileFailure::Renames);
            let engine = open(&disk);
            if round == 0 {
                repair(&engine, &mut Vec::new()).unwrap();
            }
            checked_rows(&engine);
            assert!(disk.exists(&path).unwrap(), "{writes_catalogue} {round}");
            if writes_catalogue {
                engine.checkpoint().unwrap();
            }
            drop(engine);
            disk = Arc::new(disk.crash(round));
        }
        drop(open(&disk));
        assert!(!disk.exists(&path).unwrap());
        assert_eq!(files(&disk, "/data/#teak_orphans", "retained").len(), 1);
    }
}
