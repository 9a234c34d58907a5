//! Index files that are older than the catalogue: the newest superblock is damaged,
//! or an older copy of the file was put in its place. The log does not contain the
//! rows that such a file lacks, so the table must not be opened without them.

use crate::common::repair::{added, repair};
use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use teak_block_file::read_superblocks;
use teak_disk::Disk;
use teak_engine::{Alteration, AlterationPlan, Engine, EngineError, PlannedIndex, TableHandle};
use teak_testing::FaultDisk;

const OTHER: &str = "./db/u";
const SLOT_BYTES: u64 = 4096;

fn files(disk: &FaultDisk, directory: &str, part: &str) -> Vec<PathBuf> {
    let all = disk.list(directory.as_ref()).unwrap_or_default();
    let is_wanted = |path: &PathBuf| path.to_str().unwrap().contains(part);
    all.into_iter().filter(is_wanted).collect()
}

fn path_of(disk: &FaultDisk, part: &str) -> PathBuf {
    files(disk, "/data/db", part).pop().unwrap()
}

fn read(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn replace(disk: &FaultDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

/// The generations of both superblocks.
fn generations(disk: &FaultDisk, path: &Path) -> [Option<u64>; 2] {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let both = read_superblocks(&disk, path).unwrap();
    both.map(|superblock| superblock.ok().map(|superblock| superblock.generation))
}

/// A power loss after which only one slot of the file has the newest superblock, which
/// is then damaged.
fn lose_newest(disk: &FaultDisk, part: &str) -> Arc<FaultDisk> {
    let path = path_of(disk, part);
    for seed in 0..1000 {
        let crashed = disk.crash(seed);
        let [first, second] = generations(&crashed, &path);
        if first.is_some() && second.is_some() && first != second {
            let newest = if first > second { 0 } else { SLOT_BYTES };
            crashed.flip_bit(&path, newest + 100, 3).unwrap();
            return Arc::new(crashed);
        }
    }
    panic!("no power loss leaves two states");
}

fn fill(engine: &Engine, table: &TableHandle, from: u64, to: u64) {
    commit(engine, |t| {
        for n in from..to {
            insert(t, table, &format!("{n:05}"), &format!("value {n}")).unwrap();
        }
    });
}

/// A table with 20 rows that are in its files and not in the log, and another table.
fn with_rows(disk: &Arc<FaultDisk>) -> (Engine, TableHandle) {
    let (engine, table) = with_table(disk);
    engine.create_table(&definition(OTHER)).unwrap();
    fill(&engine, &engine.open_table(OTHER).unwrap(), 0, 5);
    fill(&engine, &table, 0, 20);
    engine.checkpoint().unwrap();
    // No power loss undoes the renaming of new files.
    disk.sync_directory("/data/db".as_ref()).unwrap();
    (engine, table)
}

/// A disk with an older copy of a file of a table.
struct OlderCopy {
    disk: Arc<FaultDisk>,
    path: PathBuf,
    /// The copy, with 20 rows.
    older: Vec<u8>,
    /// What it replaced: with the log, 50 rows.
    newer: Vec<u8>,
}

/// Replaces a file by an older copy, after the engine was closed or has crashed.
fn older_copy(part: &str, is_closed: bool) -> OlderCopy {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk);
    let path = path_of(&disk, part);
    let older = read(&disk, &path);
    fill(&engine, &table, 20, 40);
    engine.checkpoint().unwrap();
    fill(&engine, &table, 40, 50);
    drop(table);
    match is_closed {
        true => engine.close().unwrap(),
        false => engine.abandon(),
    }
    let newer = read(&disk, &path);
    replace(&disk, &path, &older);
    OlderCopy {
        disk,
        path,
        older,
        newer,
    }
}

fn refused(engine: &Engine, path: &Path) -> EngineError {
    let error = engine.open_table(TABLE).map(|_| ()).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains("older copy of the file"), "{text}");
    error
}

fn count(engine: &Engine, name: &str) -> usize {
    rows(engine, &engine.open_table(name).unwrap()).len()
}

/// Repairs the table. Checks the number of rows, and that the old file still exists.
fn check_repair(disk: &FaultDisk, engine: &Engine, path: &Path, expected: usize) {
    let mut findings = Vec::new();
    let report = repair(engine, &mut findings).unwrap();
    assert_eq!(report.rows, expected as u64, "{findings:?}");
    assert_eq!(count(engine, TABLE), expected);
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(files(disk, "/data/#teak_orphans/db", name).len(), 1);
    if name.contains("PRIMARY") {
        assert_eq!(report.lost_parts, 1, "{findings:?}");
        assert!(report.doubtful_rows > 0);
        assert!(findings[0].contains("older copy of the file"));
    }
}

#[test]
fn a_damaged_superblock_after_a_clean_stop_does_not_lose_rows_unnoticed() {
    for (part, saved) in [("t.PRIMARY", 20), ("t.by_value", 40)] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_rows(&disk);
        fill(&engine, &table, 20, 40);
        drop(table);
        engine.close().unwrap();
        let path = path_of(&disk, part);
        let disk = lose_newest(&disk, part);
        for _ in 0..2 {
            let engine = open(&disk);
            let error = refused(&engine, &path);
            assert!(matches!(error, EngineError::TableDamaged { .. }), "{error}");
            assert_eq!(count(&engine, OTHER), 5);
            engine.checkpoint().unwrap();
            engine.close().unwrap();
        }
        let engine = open(&disk);
        check_repair(&disk, &engine, &path, saved);
    }
}

#[test]
fn a_damaged_superblock_after_a_crash_does_not_lose_rows_unnoticed() {
    for (part, saved) in [("t.PRIMARY", 30), ("t.by_value", 50)] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_rows(&disk);
        fill(&engine, &table, 20, 40);
        engine.checkpoint().unwrap();
        fill(&engine, &table, 40, 50);
        drop(table);
        engine.abandon();
        let path = path_of(&disk, part);
        let disk = lose_newest(&disk, part);
        for _ in 0..2 {
            let engine = open(&disk);
            let error = refused(&engine, &path);
            let is_unavailable = matches!(error, EngineError::TableUnavailable { .. });
            assert!(is_unavailable, "{error}");
            assert_eq!(count(&engine, OTHER), 5);
            engine.checkpoint().unwrap();
            engine.abandon();
        }
        let engine = open(&disk);
        check_repair(&disk, &engine, &path, saved);
    }
}

#[test]
fn an_older_copy_of_a_file_is_refused_until_the_file_is_back() {
    for part in ["t.PRIMARY", "t.by_value"] {
        for is_closed in [true, false] {
            let OlderCopy {
                disk,
                path,
                older,
                newer,
            } = older_copy(part, is_closed);
            for _ in 0..2 {
                let engine = open(&disk);
                refused(&engine, &path);
                let other = engine.open_table(OTHER).unwrap();
                commit(&engine, |t| {
                    let key = engine.log_end().0.to_string();
                    insert(t, &other, &key, "1").unwrap();
                });
                drop(other);
                engine.close().unwrap();
                assert_eq!(read(&disk, &path), older);
            }
            replace(&disk, &path, &newer);
            let engine = open(&disk);
            assert_eq!(count(&engine, TABLE), 50);
            assert_eq!(count(&engine, OTHER), 7);
        }
    }
}

/// The table is also refused if it was closed while the engine was open, and the
/// catalogue was written again since.
#[test]
fn the_state_of_a_closed_table_remains_known() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk);
    drop(table);
    engine.close().unwrap();
    let path = path_of(&disk, "t.PRIMARY");
    let older = read(&disk, &path);
    let mut closing = options();
    closing.table_idle_period = Duration::ZERO;
    let any: Arc<dyn Disk> = disk.clone();
    let engine = Engine::open(any, closing).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, 20, 40);
    for _ in 0..3 {
        engine.run_maintenance().unwrap();
    }
    assert_eq!(engine.statistics().open_tables, 0);
    let newer = read(&disk, &path);
    assert_ne!(newer, older);
    replace(&disk, &path, &older);
    refused(&engine, &path);
    // Neither another table's work nor another start changes what the catalogue says.
    let other = engine.open_table(OTHER).unwrap();
    fill(&engine, &other, 5, 10);
    engine.checkpoint().unwrap();
    drop((table, other));
    engine.close().unwrap();
    let engine = open(&disk);
    refused(&engine, &path);
    replace(&disk, &path, &newer);
    assert_eq!(count(&engine, TABLE), 40);
}

fn rebuild(engine: &Engine) {
    let table = engine.open_table(TABLE).unwrap();
    let found = rows(engine, &table);
    let mut alteration = engine
        .begin_alteration(&table, &added(), Box::new(|| false))
        .unwrap();
    for (key, value) in found {
        alteration.add(0, key.as_bytes(), value.as_bytes()).unwrap();
        let second = format!("{value}\0{key}");
        alteration.add(1, second.as_bytes(), &[]).unwrap();
    }
    alteration.build(&mut |_, _| {}).unwrap();
    let plan = AlterationPlan {
        indexes: vec![PlannedIndex::Added(0), PlannedIndex::Added(1)],
        metadata: b"metadata".to_vec(),
    };
    Alteration::commit(vec![(alteration, plan)]).unwrap();
}

/// The older superblock of a file that an alteration has filled is that of an empty index,
/// and the log has no records of the rows.
#[test]
fn a_rebuilt_table_with_a_damaged_superblock_is_not_empty() {
    for (is_repair, saved_by_catalogue) in [(false, false), (false, true), (true, false)] {
        let disk = Arc::new(FaultDisk::new(1));
        let (engine, table) = with_rows(&disk);
        drop(table);
        match is_repair {
            true => drop(repair(&engine, &mut Vec::new()).unwrap()),
            false => rebuild(&engine),
        }
        if saved_by_catalogue {
            let other = engine.open_table(OTHER).unwrap();
            fill(&engine, &other, 5, 10);
            engine.checkpoint().unwrap();
        }
        assert_eq!(count(&engine, TABLE), 20);
        engine.abandon();
        disk.sync_directory("/data/db".as_ref()).unwrap();
        let path = path_of(&disk, "t.PRIMARY");
        let disk = lose_newest(&disk, "t.PRIMARY");
        let engine = open(&disk);
        refused(&engine, &path);
        engine.close().unwrap();
        let engine = open(&disk);
        refused(&engine, &path);
    }
}

/// While the log has all records that an older state lacks, this state is as good as the
/// newest: the catalogue was not written since.
#[test]
fn an_older_state_is_used_while_the_log_contains_what_it_lacks() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk);
    let paths = ["t.PRIMARY", "t.by_value"].map(|part| path_of(&disk, part));
    let older = paths.each_ref().map(|path| read(&disk, path));
    fill(&engine, &table, 20, 40);
    disk.fail_name_change(0);
    engine.checkpoint().unwrap_err();
    drop(table);
    engine.abandon();
    for (path, older) in paths.iter().zip(&older) {
        let [first, second] = generations(&disk, path);
        let newest = first.max(second);
        replace(&disk, path, older);
        let [first, second] = generations(&disk, path);
        assert!(newest > first.max(second));
    }
    let engine = open(&disk);
    assert_eq!(count(&engine, TABLE), 40);
    engine.close().unwrap();
    assert_eq!(count(&open(&disk), TABLE), 40);
}

#[test]
fn a_refused_table_can_be_truncated_and_dropped() {
    for is_closed in [true, false] {
        for is_truncated in [true, false] {
            let OlderCopy { disk, path, .. } = older_copy("t.PRIMARY", is_closed);
            let engine = open(&disk);
            refused(&engine, &path);
            match is_truncated {
                true => {
                    engine.truncate_table(TABLE).unwrap();
                    let table = engine.open_table(TABLE).unwrap();
                    fill(&engine, &table, 0, 3);
                }
                false => engine.drop_table(TABLE).unwrap(),
            }
            engine.abandon();
            let engine = open(&Arc::new(disk.crash(4)));
            match is_truncated {
                true => assert_eq!(count(&engine, TABLE), 3),
                false => assert!(engine.open_table(TABLE).is_err()),
            }
            assert_eq!(count(&engine, OTHER), 5);
        }
    }
}

/// Prepared transactions that wrote the table can end while it is refused.
#[test]
fn a_prepared_transaction_of_a_refused_table_is_committed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_rows(&disk);
    let path = path_of(&disk, "t.PRIMARY");
    let older = read(&disk, &path);
    let mut prepared = begin(&engine);
    insert(&mut prepared, &table, "prepared", "1").unwrap();
    prepared.prepare(b"xid").unwrap();
    engine.checkpoint().unwrap();
    fill(&engine, &table, 20, 30);
    prepared.detach();
    drop((prepared, table));
    engine.abandon();
    let newer = read(&disk, &path);
    replace(&disk, &path, &older);
    let engine = open(&disk);
    refused(&engine, &path);
    engine.commit_prepared(b"xid", Duration::ZERO).unwrap();
    engine.close().unwrap();
    let engine = open(&disk);
    refused(&engine, &path);
    replace(&disk, &path, &newer);
    assert_eq!(count(&engine, TABLE), 31);
}
