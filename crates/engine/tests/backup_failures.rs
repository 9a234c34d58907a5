//! Hot backup: failures and limits.

use crate::common::backup::*;
use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{BackupLimits, Engine, EngineError, StorageError};
use teak_testing::{FaultDisk, FileFailure};

#[test]
fn there_is_one_backup_at_a_time() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 10);
    let first = cut(&engine);
    let second = engine.begin_backup(BackupLimits::default());
    assert!(matches!(second, Err(EngineError::BackupFailed(_))));
    drop(first);
    cut(&engine).copy(&target()).unwrap();
}

#[test]
fn a_full_target_ends_the_backup_and_releases_everything() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 3000);
    engine.checkpoint().unwrap();
    let disk = Arc::new(FaultDisk::new(1));
    disk.set_capacity(Some(20_000));
    let target = target_on(disk);
    let backup = cut(&engine);
    churn(&engine, &table);
    let copied = backup.copy(&target);
    assert!(
        matches!(
            &copied,
            Err(EngineError::Storage(StorageError::NoSpace { .. }))
        ),
        "{copied:?}"
    );
    assert_eq!(backup.progress().pinned_bytes, 0);
    let next = backup.copy_step(&target);
    assert!(matches!(
        next,
        Err(EngineError::BackupFailed(_)) | Ok(false)
    ));
    assert!(matches!(
        backup.finish(&target),
        Err(EngineError::InvalidArgument(_))
    ));
    drop(backup);
    // What was copied is no data directory.
    assert!(Engine::open(Arc::clone(&target.disk), options()).is_err());
    engine.checkpoint().unwrap();
    assert_eq!(rows(&engine, &table).len(), 3000);
}

#[test]
fn a_backup_that_retains_too_much_is_cancelled() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 3000);
    engine.checkpoint().unwrap();
    let limits = BackupLimits {
        pinned_bytes_max: 20_000,
        ..BackupLimits::default()
    };
    let backup = engine.begin_backup(limits).unwrap();
    churn(&engine, &table);
    engine.run_maintenance().unwrap();
    let error = backup.copy(&target()).unwrap_err().to_string();
    assert!(error.contains("may retain 20000"), "{error}");
    // The space is free again although the backup still exists.
    engine.checkpoint().unwrap();
    assert_eq!(backup.progress().pinned_bytes, 0);
    assert_eq!(engine.statistics().pinned_bytes, 0);
}

#[test]
fn a_backup_without_progress_is_cancelled() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 10);
    let limits = BackupLimits {
        lease: Duration::ZERO,
        ..BackupLimits::default()
    };
    let backup = engine.begin_backup(limits).unwrap();
    thread::sleep(Duration::from_millis(2));
    engine.run_maintenance().unwrap();
    let error = backup.copy(&target()).unwrap_err().to_string();
    assert!(error.contains("no progress"), "{error}");
}

#[test]
fn a_damaged_block_fails_the_backup_and_names_the_file() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, "a", 2000);
    engine.checkpoint().unwrap();
    let path = engine.index_paths(TABLE).unwrap().remove(0);
    let length = disk.open(&path).unwrap().len().unwrap();
    for offset in (8192..length).step_by(512) {
        disk.flip_bit(&path, offset, 3).unwrap();
    }
    let error = cut(&engine).copy(&target()).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    assert!(error.to_string().contains("PRIMARY"), "{error}");
}

#[test]
fn a_read_only_table_is_refused_with_its_name() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, "a", 500);
    engine.checkpoint().unwrap();
    fill(&engine, &table, "b", 500);
    for path in engine.index_paths(TABLE).unwrap() {
        disk.fail_file(&path, FileFailure::Syncs);
    }
    assert!(engine.checkpoint().is_err());
    let _ = engine.run_maintenance();
    assert_eq!(engine.statistics().read_only_tables, 1);
    let refused = engine.begin_backup(BackupLimits::default()).err().unwrap();
    assert!(refused.to_string().contains("db/t"), "{refused}");
}

#[test]
fn a_target_with_a_data_directory_is_refused() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 10);
    let target = target();
    cut(&engine).copy(&target).unwrap();
    let again = cut(&engine).copy(&target).unwrap_err().to_string();
    assert!(again.contains("the target contains"), "{again}");
    assert!(
        target
            .disk
            .exists(Path::new("/data/teak.catalogue"))
            .unwrap()
    );
}

#[test]
fn several_threads_copy_together() {
    let disk = Arc::new(MemoryDisk::new());
    let engine = open(&disk);
    for n in 0..20 {
        let name = format!("./db/t{n}");
        engine.create_table(&definition(&name)).unwrap();
        let table = engine.open_table(&name).unwrap();
        fill(&engine, &table, "a", 50);
    }
    let expected = content(&engine);
    let backup = cut(&engine);
    let target = target();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while backup.copy_step(&target).unwrap() {});
        }
    });
    backup.finish(&target).unwrap();
    check_copy(&target, &expected);
}

#[test]
fn the_rate_of_a_copy_is_limited() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 5000);
    engine.checkpoint().unwrap();
    let backup = cut(&engine);
    let mut target = target();
    target.bytes_per_second = 1_000_000;
    let began = std::time::Instant::now();
    backup.copy(&target).unwrap();
    let bytes = backup.progress().bytes_copied;
    let seconds = began.elapsed().as_secs_f64();
    assert!(bytes > 30_000, "{bytes}");
    assert!(seconds * 1_000_000.0 >= bytes as f64 * 0.9);
}

#[test]
fn a_full_disk_of_the_server_ends_the_backup() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    fill(&engine, &table, "a", 2000);
    engine.checkpoint().unwrap();
    let backup = cut(&engine);
    fill(&engine, &table, "b", 2000);
    disk.set_capacity(Some(0));
    assert!(engine.checkpoint().is_err());
    // A pass of maintenance may report the full disk.
    let _ = engine.run_maintenance();
    disk.set_capacity(None);
    let error = backup.copy(&target()).unwrap_err().to_string();
    assert!(error.contains("disk of the server is full"), "{error}");
}

#[test]
fn a_backup_that_retains_many_removed_files_is_cancelled() {
    let engine = open(&Arc::new(MemoryDisk::new()));
    let names: Vec<String> = (0..501).map(|n| format!("./db/t{n}")).collect();
    for name in &names {
        engine.create_table(&definition(name)).unwrap();
        // An open file is pinned by the cut.
        let table = engine.open_table(name).unwrap();
        fill(&engine, &table, "a", 1);
    }
    let backup = cut(&engine);
    for name in &names {
        engine.drop_table(name).unwrap();
    }
    engine.run_maintenance().unwrap();
    let error = backup.copy(&target()).unwrap_err().to_string();
    assert!(error.contains("files of dropped tables"), "{error}");
}
