//! Repairing unavailable tables: the log records that are retained for them are
//! applied to what can be read, or the repair is refused.

use crate::common::repair::{added, repair};
use crate::common::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{Alteration, AlterationPlan, Engine, EngineError, PlannedIndex, StorageError};
use teak_testing::FaultDisk;

/// Number of rows in the index file, and number of rows in the file and the log together.
const IN_FILE: u64 = 2000;
const IN_ALL: u64 = 2100;

fn path_of(disk: &FaultDisk, directory: &str, part: &str) -> PathBuf {
    let all = disk.list(directory.as_ref()).unwrap();
    let mut found = all
        .into_iter()
        .filter(|path| path.to_str().unwrap().contains(part));
    found.next().unwrap()
}

fn count_files(disk: &FaultDisk, part: &str) -> usize {
    let all = disk.list("/data".as_ref()).unwrap();
    let is_wanted = |path: &&PathBuf| path.to_str().unwrap().contains(part);
    all.iter().filter(is_wanted).count()
}

fn key(n: u64) -> String {
    format!("{n:05}")
}

fn value(n: u64, word: &str) -> String {
    format!("{word}{n:040}")
}

/// The change of a row that only the log contains: `Some(None)` if the row is deleted, otherwise
/// the word in its new value.
fn change_of(n: u64) -> Option<Option<&'static str>> {
    match n % 50 {
        7 => Some(None),
        8 => Some(Some("newest")),
        _ if n >= IN_FILE => Some(Some("logged")),
        _ => None,
    }
}

fn expected() -> BTreeMap<String, String> {
    let rows = (0..IN_ALL).filter_map(|n| {
        let word = change_of(n).unwrap_or(Some("filed"))?;
        Some((key(n), value(n, word)))
    });
    rows.collect()
}

/// A disk after a crash: the file of the table contains `IN_FILE` rows. The log contains two
/// operations on each of some rows: an insert or an update, then an update or a delete. `end` is
/// called before the crash.
fn crashed_with(end: impl FnOnce(&Engine)) -> Arc<FaultDisk> {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for n in 0..IN_FILE {
            insert(t, &table, &key(n), &value(n, "filed")).unwrap();
        }
    });
    engine.settle().unwrap();
    engine.checkpoint().unwrap();
    commit(&engine, |t| {
        for n in 0..IN_ALL {
            let Some(change) = change_of(n) else {
                continue;
            };
            let newer = value(n, "newer");
            match n < IN_FILE {
                true => update(t, &table, &key(n), &value(n, "filed"), &newer).unwrap(),
                false => insert(t, &table, &key(n), &newer).unwrap(),
            }
            match change {
                Some(word) => update(t, &table, &key(n), &newer, &value(n, word)).unwrap(),
                None => delete(t, &table, &key(n), &newer).unwrap(),
            }
        }
    });
    let mut lost = begin(&engine);
    insert(&mut lost, &table, "undone", "1").unwrap();
    lost.rollback();
    end(&engine);
    engine.flush_log().unwrap();
    let crashed = disk.crash(3);
    drop((table, engine));
    Arc::new(crashed)
}

fn crashed() -> Arc<FaultDisk> {
    crashed_with(|_| {})
}

fn sectors(disk: &FaultDisk) -> std::ops::Range<u64> {
    let path = path_of(disk, "/data/db", "t.PRIMARY");
    16..disk.open(&path).unwrap().len().unwrap() / 512
}

fn damage(disk: &FaultDisk, sector: u64) {
    let path = path_of(disk, "/data/db", "t.PRIMARY");
    // Blocks begin at multiples of 128 bytes.
    for unit in 0..4 {
        let offset = sector * 512 + unit * 128 + 30;
        disk.flip_bit(&path, offset, 3).unwrap();
    }
}

/// Damages the list of free space, so that the table is unavailable although its rows are readable.
fn damage_space_map(disk: &FaultDisk) {
    let path = path_of(disk, "/data/db", "t.PRIMARY");
    let file = disk.open(&path).unwrap();
    let mut header = [0; 25];
    for offset in (8192..=file.len().unwrap() - 128).step_by(128) {
        file.read_exact_at(&mut header, offset).unwrap();
        if header[24] == 4 && header[8..16] == offset.to_le_bytes() {
            disk.flip_bit(&path, offset + 30, 3).unwrap();
        }
    }
}

/// A copy of the disk in which the root of the rows' index is damaged, so that the table is
/// unavailable.
fn with_damaged_node(disk: &FaultDisk) -> Arc<FaultDisk> {
    let is_unavailable = |disk: &Arc<FaultDisk>| {
        let engine = open(disk);
        matches!(
            engine.open_table(TABLE).map(|_| ()),
            Err(EngineError::TableUnavailable { .. })
        )
    };
    let damaged = sectors(disk).find(|sector| {
        let copy = Arc::new(disk.crash(0));
        damage(&copy, *sector);
        is_unavailable(&copy)
    });
    let copy = Arc::new(disk.crash(0));
    damage(&copy, damaged.unwrap());
    copy
}

/// The file of the rows contains the effects of all its retained records, so the repair does not
/// need them.
#[test]
fn records_that_the_file_contains_are_not_needed() {
    let disk = crashed();
    disk.remove(&path_of(&disk, "/data/db", "t.by_value"))
        .unwrap();
    let engine = open(&disk);
    assert!(engine.open_table(TABLE).is_err());
    drop(engine);
    let records = path_of(&disk, "/data", "teak.retained");
    let length = disk.open(&records).unwrap().len().unwrap();
    disk.flip_bit(&records, length - 1, 1).unwrap();
    let engine = open(&disk);
    let report = repair(&engine, &mut Vec::new()).unwrap();
    assert_eq!(report.lost_parts, 0);
    assert_eq!(checked_rows(&engine), expected().len());
}

/// Checks the rows of the table, and returns their number. Each row must have its newest value, and
/// no row that the log changed may be missing.
fn checked_rows(engine: &Engine) -> usize {
    let table = engine.open_table(TABLE).unwrap();
    let found: BTreeMap<String, String> = rows(engine, &table).into_iter().collect();
    let expected = expected();
    for (key, value) in &found {
        assert_eq!(expected.get(key), Some(value), "{key}");
    }
    let changed = (0..IN_ALL).filter(|n| change_of(*n).is_some());
    for key in changed.map(key) {
        assert_eq!(found.get(&key), expected.get(&key), "{key}");
    }
    found.len()
}

#[test]
fn a_repair_applies_the_retained_records() {
    let disk = crashed();
    let (mut unavailable, mut partial) = (0, 0);
    let damages = sectors(&disk).flat_map(|sector| [(sector, false), (sector, true)]);
    for (sector, is_space_damaged) in damages {
        let disk = Arc::new(disk.crash(0));
        if is_space_damaged {
            damage_space_map(&disk);
        }
        damage(&disk, sector);
        let engine = open(&disk);
        let is_unavailable = engine.open_table(TABLE).is_err();
        if !is_unavailable && sector % 8 > 0 {
            continue;
        }
        let mut findings = Vec::new();
        let report = repair(&engine, &mut findings).unwrap();
        let found = checked_rows(&engine);
        assert_eq!(found as u64, report.rows);
        assert!(found == expected().len() || report.lost_parts > 0);
        unavailable += u64::from(is_unavailable);
        partial += u64::from(is_unavailable && report.lost_parts > 0 && found > 200);
        assert_eq!(count_files(&disk, "teak.retained"), 0);
        assert_eq!(engine.statistics().unavailable_tables, 0);
        // The retained records of an unavailable table were moved to the directory of orphans.
        let aside = disk.list("/data/#teak_orphans".as_ref());
        let aside = aside.unwrap_or_default();
        let is_records = |path: &&PathBuf| path.to_str().unwrap().contains("teak.retained");
        let kept = aside.iter().filter(is_records).count();
        assert_eq!(kept, usize::from(is_unavailable), "{aside:?}");
        drop(engine);
        let engine = open(&Arc::new(disk.crash(sector)));
        assert_eq!(checked_rows(&engine), found);
    }
    assert!(unavailable > 0 && partial > 0, "{unavailable} {partial}");
}

#[test]
fn a_crash_during_the_repair_loses_no_record() {
    let disk = with_damaged_node(&crashed());
    let changes = {
        let disk = Arc::new(disk.crash(0));
        let engine = open(&disk);
        let before = disk.changes();
        repair(&engine, &mut Vec::new()).unwrap();
        disk.changes() - before
    };
    let sparse = (0..changes).step_by(11);
    for after in sparse.chain(changes.saturating_sub(30)..changes) {
        let disk = Arc::new(disk.crash(0));
        let engine = open(&disk);
        disk.cut_power(after);
        let _ = repair(&engine, &mut Vec::new());
        drop(engine);
        let engine = open(&Arc::new(disk.crash(after)));
        let report = repair(&engine, &mut Vec::new()).unwrap();
        assert_eq!(checked_rows(&engine) as u64, report.rows);
    }
}

#[test]
fn a_full_disk_refuses_the_repair_and_loses_nothing() {
    let disk = crashed();
    let path = path_of(&disk, "/data/db", "t.by_value");
    let hidden = Path::new("/data/hidden");
    disk.rename(&path, hidden).unwrap();
    let engine = open(&disk);
    disk.rename(hidden, &path).unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    assert!(engine.open_table(TABLE).is_err());
    let refused = repair(&engine, &mut Vec::new()).unwrap_err();
    assert!(
        matches!(&refused, EngineError::Storage(error) if error.is_no_space()),
        "{refused}"
    );
    disk.set_capacity(None);
    assert_eq!(checked_rows(&engine), expected().len());
}

#[test]
fn records_of_prepared_transactions_refuse_the_repair() {
    for commits in [true, false] {
        let disk = crashed_with(|engine| {
            let table = engine.open_table(TABLE).unwrap();
            let mut prepared = begin(engine);
            insert(&mut prepared, &table, "prepared", "1").unwrap();
            prepared.prepare(b"x").unwrap();
            prepared.detach();
        });
        let disk = with_damaged_node(&disk);
        let engine = open(&disk);
        for _ in 0..2 {
            assert!(is_timeout(repair(&engine, &mut Vec::new())));
        }
        let found = match commits {
            true => engine.commit_prepared(b"x", Duration::ZERO),
            false => engine.rollback_prepared(b"x", Duration::ZERO),
        };
        found.unwrap();
        repair(&engine, &mut Vec::new()).unwrap();
        let table = engine.open_table(TABLE).unwrap();
        let found = rows(&engine, &table);
        assert_eq!(found.iter().any(|(key, _)| key == "prepared"), commits);
    }
}

#[test]
fn missing_records_refuse_the_repair() {
    let disk = with_damaged_node(&crashed());
    drop(open(&disk));
    let records = path_of(&disk, "/data", "teak.retained");
    let hidden = Path::new("/data/hidden");
    disk.rename(&records, hidden).unwrap();
    let engine = open(&disk);
    let refused = repair(&engine, &mut Vec::new()).unwrap_err();
    assert!(
        matches!(
            &refused,
            EngineError::TableUnavailable {
                cause: StorageError::NotFound { .. },
                ..
            }
        ),
        "{refused}"
    );
    disk.rename(hidden, &records).unwrap();
    let report = repair(&engine, &mut Vec::new()).unwrap();
    assert_eq!(checked_rows(&engine) as u64, report.rows);
}

#[test]
fn records_that_cannot_be_read_now_refuse_the_repair() {
    let crashed = with_damaged_node(&crashed());
    drop(open(&crashed));
    let (mut refused, mut repaired) = (0, 0);
    // A repair reads the records after most of the file of the rows.
    for after in 0..200 {
        let disk = Arc::new(crashed.crash(0));
        let engine = open(&disk);
        disk.fail_read(after);
        match repair(&engine, &mut Vec::new()) {
            Ok(_) => repaired += 1,
            Err(_) => {
                refused += 1;
                disk.clear_failures();
                repair(&engine, &mut Vec::new()).unwrap();
            }
        }
        disk.clear_failures();
        checked_rows(&engine);
    }
    assert!(refused > 0 && repaired > 0, "{refused} {repaired}");
}

#[test]
fn damaged_records_are_reported() {
    let disk = with_damaged_node(&crashed());
    drop(open(&disk));
    let records = path_of(&disk, "/data", "teak.retained");
    let length = disk.open(&records).unwrap().len().unwrap();
    for (offset, text) in [
        (3, "all retained log records are lost: "),
        (length - 1, " log records are lost: "),
    ] {
        let disk = Arc::new(disk.crash(0));
        disk.flip_bit(&records, offset, 1).unwrap();
        let engine = open(&disk);
        let mut findings = Vec::new();
        let report = repair(&engine, &mut findings).unwrap();
        assert!(report.lost_parts > 1, "{findings:?}");
        assert!(findings[0].contains(text), "{findings:?}");
        assert!(findings[0].contains("teak.retained"), "{findings:?}");
        let table = engine.open_table(TABLE).unwrap();
        let found = rows(&engine, &table);
        assert_eq!(found.len() as u64, report.rows);
        assert!(found.iter().all(|(_, value)| value.starts_with("filed")));
        assert_eq!(count_files(&disk, "teak.retained"), 0);
    }
}

#[test]
fn records_before_a_damaged_one_are_applied() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let value = |n: u64| format!("{n:0900}");
    for n in 0..600 {
        commit(&engine, |t| {
            insert(t, &table, &key(n), &value(n)).unwrap();
        });
    }
    drop((table, engine));
    let disk = Arc::new(disk.crash(1));
    // The retained records need more memory than sorts may use.
    let path = path_of(&disk, "/data/db", "t.PRIMARY");
    let hidden = Path::new("/data/hidden");
    disk.rename(&path, hidden).unwrap();
    drop(open(&disk));
    disk.rename(hidden, &path).unwrap();
    let records = path_of(&disk, "/data", "teak.retained");
    let length = disk.open(&records).unwrap().len().unwrap();
    disk.flip_bit(&records, length - 1, 1).unwrap();
    let engine = open(&disk);
    let mut findings = Vec::new();
    let report = repair(&engine, &mut findings).unwrap();
    assert_eq!(report.lost_parts, 1, "{findings:?}");
    let lost: u64 = findings[0].split(' ').next().unwrap().parse().unwrap();
    let table = engine.open_table(TABLE).unwrap();
    let found = rows(&engine, &table);
    assert_eq!(found.len() as u64 + lost, 600);
    assert!(found.len() > 200 && lost > 0);
    for (n, (found_key, found_value)) in (0..).zip(&found) {
        assert_eq!((found_key, found_value), (&key(n), &value(n)));
    }
    assert_eq!(count_files(&disk, "teak.sort"), 0);
}

#[test]
fn a_repair_that_did_not_read_the_records_is_refused() {
    let disk = with_damaged_node(&crashed());
    let engine = open(&disk);
    let table = engine.open_damaged_table(TABLE).unwrap();
    let begun = engine.begin_alteration(&table, &added(), Box::new(|| false));
    let mut alteration = begun.unwrap();
    alteration.repair(10);
    alteration.build(&mut |_, _| {}).unwrap();
    let plan = AlterationPlan {
        indexes: vec![PlannedIndex::Added(0), PlannedIndex::Added(1)],
        metadata: b"metadata".to_vec(),
    };
    let refused = Alteration::commit(vec![(alteration, plan)]).unwrap_err();
    assert!(matches!(refused, EngineError::InvalidArgument(_)));
    drop(table);
    repair(&engine, &mut Vec::new()).unwrap();
    checked_rows(&engine);
}

#[test]
fn a_repair_is_interrupted_while_it_reads_the_records() {
    let disk = with_damaged_node(&crashed());
    let engine = open(&disk);
    let table = engine.open_damaged_table(TABLE).unwrap();
    let salvaged = table.salvage(
        Box::new(|| true),
        &mut |_| panic!("a row was passed"),
        &mut |_| {},
    );
    assert!(matches!(
        salvaged.unwrap_err(),
        EngineError::Wait(teak_engine::WaitError::Interrupted)
    ));
}
