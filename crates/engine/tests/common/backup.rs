//! Backups and their copies.

use super::*;
use std::collections::BTreeMap;
use teak_engine::{Backup, BackupLimits, BackupTarget};

/// The rows of each table.
pub type Content = BTreeMap<String, Rows>;

pub fn cut(engine: &Engine) -> Backup {
    engine.begin_backup(BackupLimits::default()).unwrap()
}

/// A target with the path of the data directory, so that the same options open it.
pub fn target_on(disk: Arc<dyn Disk>) -> BackupTarget {
    BackupTarget {
        disk,
        directory: "/data".into(),
        bytes_per_second: 0,
    }
}

pub fn target() -> BackupTarget {
    target_on(Arc::new(MemoryDisk::new()))
}

pub fn content(engine: &Engine) -> Content {
    let mut names = engine.table_names();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let table = engine.open_table(&name).unwrap();
            let rows = rows(engine, &table);
            (name, rows)
        })
        .collect()
}

pub fn reopen(target: &BackupTarget) -> Engine {
    Engine::open(Arc::clone(&target.disk), options()).unwrap()
}

/// Opens the copy, checks its content, and that it can be written and opened again.
pub fn check_copy(target: &BackupTarget, expected: &Content) {
    let engine = reopen(target);
    assert_eq!(&content(&engine), expected);
    for name in expected.keys() {
        let table = engine.open_table(name).unwrap();
        table.verify(&mut || true, &mut |_| {}).unwrap();
        commit(&engine, |t| insert(t, &table, "after", "restore").unwrap());
    }
    engine.checkpoint().unwrap();
    engine.run_background_until_idle().unwrap();
    engine.close().unwrap();
    let engine = reopen(target);
    for (name, mut rows) in content(&engine) {
        rows.retain(|(key, _)| key != "after");
        assert_eq!(Some(&rows), expected.get(&name));
    }
}

pub fn fill(engine: &Engine, table: &TableHandle, prefix: &str, count: u32) {
    commit(engine, |t| {
        for n in 0..count {
            insert(
                t,
                table,
                &format!("{prefix}{n:05}"),
                &format!("v{}", n % 97),
            )
            .unwrap();
        }
    });
}

pub fn overwrite_all(engine: &Engine, table: &TableHandle, new: &str) {
    for (key, value) in rows(engine, table) {
        commit(engine, |t| update(t, table, &key, &value, new).unwrap());
    }
}

/// Rewrites all blocks and reuses freed space, as far as pins permit.
pub fn churn(engine: &Engine, table: &TableHandle) {
    for round in 0..3 {
        overwrite_all(engine, table, &format!("round {round}"));
        engine.checkpoint().unwrap();
        engine.run_background_until_idle().unwrap();
        engine.checkpoint().unwrap();
    }
    engine.reclaim_space().unwrap();
}
