//! Index files that belong to no table when the engine is opened.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::{Alteration, Engine};
use teak_testing::FaultDisk;

fn files(disk: &FaultDisk, directory: &str) -> Vec<PathBuf> {
    let all = disk.list(directory.as_ref()).unwrap_or_default();
    let is_index = |path: &PathBuf| path.extension().is_some_and(|end| end == "teak");
    all.into_iter().filter(is_index).collect()
}

fn read(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write(disk: &FaultDisk, path: &Path, bytes: &[u8]) {
    if disk.exists(path).unwrap() {
        disk.remove(path).unwrap();
    }
    let file = disk.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(path.parent().unwrap()).unwrap();
}

/// The files directly in the data directory, without those in its subdirectories.
fn state(disk: &FaultDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let all = disk.list("/data".as_ref()).unwrap();
    let files = all.into_iter().filter(|path| disk.open(path).is_ok());
    files
        .map(|path| (path.clone(), read(disk, &path)))
        .collect()
}

/// Replaces the files directly in the data directory by those of an earlier [`state`].
fn restore(disk: &FaultDisk, earlier: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in state(disk) {
        disk.remove(&path).unwrap();
    }
    for (path, bytes) in earlier {
        write(disk, path, bytes);
    }
}

#[test]
fn an_older_catalogue_does_not_cost_the_newer_tables() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, _) = with_table(&disk);
    engine.close().unwrap();
    let older = state(&disk);
    let engine = open(&disk);
    engine.create_table(&definition("./db/newer")).unwrap();
    let table = engine.open_table("./db/newer").unwrap();
    commit(&engine, |t| insert(t, &table, "1", "one").unwrap());
    drop(table);
    engine.close().unwrap();
    let newer = state(&disk);
    restore(&disk, &older);

    let mut options = options();
    let logged = capture_messages(&mut options);
    let any: Arc<dyn Disk> = disk.clone();
    let engine = Engine::open(any, options).unwrap();
    assert!(engine.open_table(TABLE).is_ok());
    assert_eq!(files(&disk, "/data/db").len(), 2);
    let moved = files(&disk, "/data/#teak_orphans/db");
    assert_eq!(moved.len(), 2);
    assert_eq!(engine.statistics().orphan_files, 2);
    assert!(engine.statistics().orphan_bytes > 2 * 8192);
    let logged = logged.lock().unwrap().clone();
    let is_moved = |text: &&String| text.contains("was moved to");
    assert_eq!(logged.iter().filter(is_moved).count(), 2, "{logged:?}");
    engine.abandon();

    // With the newer catalogue and the files moved back, the table is whole.
    for path in moved {
        let place = Path::new("/data/db").join(path.file_name().unwrap());
        disk.rename(&path, &place).unwrap();
    }
    restore(&disk, &newer);
    let engine = open(&disk);
    let table = engine.open_table("./db/newer").unwrap();
    assert_eq!(rows(&engine, &table), pairs(&[("1", "one")]));
    assert_eq!(engine.statistics().orphan_files, 0);
}

#[test]
fn a_second_file_of_one_name_replaces_none() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| insert(t, &table, "1", "one").unwrap());
    drop(table);
    engine.close().unwrap();
    let bytes = read(&disk, &files(&disk, "/data/db")[0]);
    let stray = Path::new("/data/db/gone.PRIMARY-00001000.teak");
    for round in 1..4 {
        write(&disk, stray, &bytes);
        let engine = open(&disk);
        assert_eq!(engine.statistics().orphan_files, round);
        assert!(!disk.exists(stray).unwrap());
    }
}

#[test]
fn an_unreadable_file_of_no_table_is_moved() {
    let disk = Arc::new(FaultDisk::new(1));
    drop(with_table(&disk));
    let stray = Path::new("/data/db/gone.PRIMARY-00001000.teak");
    write(&disk, stray, &[7; 20_000]);
    let engine = open(&disk);
    assert_eq!(engine.statistics().orphan_files, 1);
}

/// The catalogue and the log are from the time when the index was built, its file is newer.
#[test]
fn an_older_catalogue_does_not_cost_an_index_that_was_being_built() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    let added = definition(TABLE).indexes[1].clone();
    let mut alteration = begin_adding(&engine, &table, added).unwrap();
    alteration.add(0, b"one\x001", b"").unwrap();
    alteration.build(&mut |_, _| {}).unwrap();
    engine.checkpoint().unwrap();
    let older = state(&disk);
    let plan = plan_with_added(definition(TABLE).indexes, b"metadata");
    Alteration::commit(vec![(alteration, plan)]).unwrap();
    drop(table);
    engine.close().unwrap();
    restore(&disk, &older);
    let engine = open(&disk);
    assert_eq!(engine.statistics().orphan_files, 1);
    assert_eq!(files(&disk, "/data/db").len(), 2);
}

/// The rows of a new table may be in memtables only: its files have no entries.
#[test]
fn an_empty_file_of_no_table_is_moved() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, _) = with_table(&disk);
    engine.close().unwrap();
    let older = state(&disk);
    let engine = open(&disk);
    engine.create_table(&definition("./db/newer")).unwrap();
    engine.abandon();
    restore(&disk, &older);
    assert_eq!(open(&disk).statistics().orphan_files, 2);
}

#[test]
fn a_file_that_cannot_be_moved_stays() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, _) = with_table(&disk);
    engine.close().unwrap();
    let stray = Path::new("/data/db/gone.PRIMARY-00001000.teak");
    write(&disk, stray, &[7; 20_000]);
    let mut moved = 0;
    for after in 0..30 {
        let disk = Arc::new(disk.crash(after));
        disk.fail_name_change(after);
        drop(try_open(&disk));
        let exists = disk.exists(stray).unwrap();
        moved += u64::from(!exists);
        assert_eq!(
            files(&disk, "/data/#teak_orphans/db").len(),
            usize::from(!exists)
        );
    }
    assert!(moved > 0 && moved < 30);
}

#[test]
fn files_of_interrupted_creations_and_drops_are_removed() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    commit(&engine, |t| {
        for n in 0..500 {
            insert(t, &table, &format!("{n:04}"), "value").unwrap();
        }
    });
    engine.checkpoint().unwrap();
    let before = disk.changes();
    // A crash after each disk change interrupts these table changes.
    let change = |engine: &Engine| {
        engine.create_table(&definition("./db/new"))?;
        let table = engine.open_table(TABLE)?;
        let added = definition(TABLE).indexes[1].clone();
        let mut alteration = begin_adding(engine, &table, added)?;
        engine.checkpoint()?;
        for n in 0..500 {
            alteration.add(0, format!("value\0{n:04}").as_bytes(), b"")?;
        }
        alteration.build(&mut |_, _| {})?;
        engine.checkpoint()?;
        drop(alteration);
        engine.truncate_table(TABLE)?;
        engine.drop_table("./db/new")?;
        engine.drop_table(TABLE)
    };
    let start = disk.crash(0);
    drop(table);
    engine.abandon();
    let mut after = 0;
    loop {
        let disk = Arc::new(start.crash(0));
        let Ok(engine) = try_open(&disk) else {
            panic!("the engine opens");
        };
        disk.cut_power(after);
        let done = change(&engine).is_ok();
        engine.abandon();
        let disk = Arc::new(disk.crash(after));
        let engine = open(&disk);
        assert_eq!(engine.statistics().orphan_files, 0, "after {after}");
        let names = engine.table_names();
        let found = files(&disk, "/data/db");
        assert_eq!(found.len(), 2 * names.len(), "after {after}: {names:?}");
        let is_new = |path: &PathBuf| path.to_string_lossy().ends_with(".new.teak");
        assert!(!found.iter().any(is_new), "after {after}: {found:?}");
        for name in names {
            engine.open_table(&name).unwrap();
        }
        if done {
            break;
        }
        after += 1;
    }
    assert!(after > 50 && before > 0);
}
