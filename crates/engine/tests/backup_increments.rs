//! Incremental backups: chains have exactly what was committed at each cut, and nothing is missing silently.

use crate::common::backup::*;
use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{
    Alteration, BACKUP_LIST_FILE, BASE_LIST_FILE, BackupChain, BackupTarget, Engine, EngineOptions,
    EngineResult, increment_path,
};
use teak_testing::{FaultDisk, Random};

fn read_all(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write_all(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) {
    if disk.exists(path).unwrap() {
        disk.remove(path).unwrap();
    }
    disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
}

/// Backups in directories of one disk.
struct Backups {
    disk: Arc<dyn Disk>,
}

impl Backups {
    fn new() -> Self {
        Self {
            disk: Arc::new(MemoryDisk::new()),
        }
    }

    fn target(&self, name: &str, base: Option<&str>) -> BackupTarget {
        let directory = PathBuf::from(format!("/backups/{name}"));
        if let Some(base) = base {
            let list = Path::new("/backups").join(base).join(BACKUP_LIST_FILE);
            let bytes = read_all(&self.disk, &list);
            write_all(&self.disk, &directory.join(BASE_LIST_FILE), &bytes);
        }
        BackupTarget {
            disk: Arc::clone(&self.disk),
            directory,
            bytes_per_second: 0,
        }
    }

    fn make(&self, engine: &Engine, name: &str, base: Option<&str>) -> u64 {
        let backup = cut(engine);
        backup.copy(&self.target(name, base)).unwrap();
        backup.progress().bytes_copied
    }

    fn try_make(&self, engine: &Engine, name: &str, base: Option<&str>) -> EngineResult<()> {
        cut(engine).copy(&self.target(name, base))
    }

    fn chain(&self, names: &[&str]) -> EngineResult<BackupChain> {
        let directories: Vec<PathBuf> = names
            .iter()
            .map(|name| Path::new("/backups").join(name))
            .collect();
        BackupChain::open(&self.disk, &directories)
    }

    /// Merges a chain into a data directory.
    fn restore(&self, names: &[&str]) -> EngineResult<BackupTarget> {
        let restored = target();
        let chain = self.chain(names)?;
        for listed in chain.files() {
            chain.merge(listed, None, &mut |_| Ok(()))?;
        }
        chain.merge_all(&restored.disk, &restored.directory, &mut |_| Ok(()))?;
        let newest = Path::new("/backups").join(names.last().unwrap());
        for path in self.disk.list(&newest).unwrap() {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with("teak.log.") || name == "teak.backups" {
                let bytes = read_all(&self.disk, &path);
                write_all(&restored.disk, &restored.directory.join(name), &bytes);
            }
        }
        Ok(restored)
    }
}

fn load(engine: &Engine, name: &str, prefix: &str, rows: usize) {
    let table = engine.open_table(name).unwrap();
    let mut transaction = begin(engine);
    let mut load = transaction.begin_load(&table, &[true, false], 1).unwrap();
    for n in 0..rows {
        let (key, value) = (format!("{prefix}{n:06}"), format!("loaded {n}"));
        add_to_load(&mut load, &key, &value).unwrap();
    }
    transaction.finish_load(load, &mut |_, _| ()).unwrap();
    transaction.commit().unwrap();
}

fn add_key(engine: &Engine, name: &str) {
    let table = engine.open_table(name).unwrap();
    let mut alteration = begin_adding(engine, &table, index("added")).unwrap();
    alteration.build(&mut |_, _| ()).unwrap();
    let plan = plan_with_added(vec![index("PRIMARY")], b"altered");
    Alteration::commit(vec![(alteration, plan)]).unwrap();
}

fn small_options() -> EngineOptions {
    let mut options = options();
    options.open_tables_kept = 1;
    options.table_idle_period = Duration::ZERO;
    options.log_bytes_max = 4 << 20;
    options
}

struct Work {
    random: Random,
    loads: u64,
}

impl Work {
    fn steps(&mut self, engine: &Engine, steps: u64) {
        for _ in 0..steps {
            self.step(engine);
        }
    }

    fn step(&mut self, engine: &Engine) {
        let random = &mut self.random;
        let name = format!("./db/t{}", random.below(6));
        if !engine.table_exists(&name).unwrap() {
            engine.create_table(&definition(&name)).unwrap();
        }
        match random.below(24) {
            0 => engine.drop_table(&name).unwrap(),
            1 => engine.truncate_table(&name).unwrap(),
            2 => {
                let other = format!("./db/t{}", random.below(6));
                if !engine.table_exists(&other).unwrap() {
                    engine.rename_table(&name, &other).unwrap();
                }
            }
            3..=5 => engine.checkpoint().unwrap(),
            6 => engine.settle().unwrap(),
            7 => engine.reclaim_space().unwrap(),
            8..=10 => engine.run_maintenance().unwrap(),
            11..=12 => {
                self.loads += 1;
                let rows = usize::try_from(random.below(500)).unwrap();
                load(engine, &name, &format!("load{:04}-", self.loads), rows);
            }
            _ => {
                let table = engine.open_table(&name).unwrap();
                for _ in 0..random.below(30) {
                    let key = format!("{:03}", random.below(300));
                    let value = format!("{}", random.below(1000));
                    let mut transaction = begin(engine);
                    let old = see(&mut transaction, &table);
                    match old.iter().find(|row| row.0 == key) {
                        Some((_, old)) if random.below(3) == 0 => {
                            delete(&mut transaction, &table, &key, old).unwrap();
                        }
                        Some((_, old)) => {
                            update(&mut transaction, &table, &key, old, &value).unwrap();
                        }
                        None => insert(&mut transaction, &table, &key, &value).unwrap(),
                    }
                    transaction.commit().unwrap();
                }
            }
        }
    }
}

/// Random work, DDL, loads and crashes between backups, of which each has any earlier one as its base.
#[test]
fn random_chains_have_the_rows_of_each_cut() {
    for seed in 0..6 {
        random_chain(seed);
    }
}

fn random_chain(seed: u64) {
    let mut work = Work {
        random: Random::new(seed),
        loads: 0,
    };
    let mut disk = Arc::new(FaultDisk::new(seed));
    let open = |disk: &Arc<FaultDisk>| {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        Engine::open(disk, small_options()).unwrap()
    };
    let mut engine = open(&disk);
    let backups = Backups::new();
    let mut chains: Vec<Vec<String>> = Vec::new();
    for number in 0..10u64 {
        let steps = work.random.below(50);
        work.steps(&engine, steps);
        match work.random.below(4) {
            0 => {
                engine.close().unwrap();
                engine = open(&disk);
            }
            1 => {
                engine.abandon();
                disk = Arc::new(disk.crash(seed * 100 + number));
                engine = open(&disk);
            }
            _ => {}
        }
        let expected = content(&engine);
        for _ in 0..work.random.below(3) {
            // Closes tables before the cut.
            engine.run_maintenance().unwrap();
        }
        let at = usize::try_from(work.random.below(chains.len() as u64 + 1)).unwrap();
        let mut chain = chains.get(at).cloned().unwrap_or_default();
        let name = format!("b{number}");
        let target = backups.target(&name, chain.last().map(String::as_str));
        let backup = cut(&engine);
        loop {
            let steps = work.random.below(20);
            work.steps(&engine, steps);
            if !backup.copy_step(&target).unwrap() {
                break;
            }
        }
        backup.finish(&target).unwrap();
        drop(backup);
        chain.push(name);
        let names: Vec<&str> = chain.iter().map(String::as_str).collect();
        let restored = backups.restore(&names).unwrap();
        check_copy(&restored, &expected);
        chains.push(chain);
    }
}

#[test]
fn an_increment_after_few_changes_is_small() {
    let mut options = options();
    options.tree.page_bytes = 16 << 10;
    options.tree.leaf_bytes = 64 << 10;
    options.tree.child_buffer_bytes = 64 << 10;
    options.tree.run_bytes_max = 1 << 20;
    options.cache_bytes = 16 << 20;
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(disk, options).unwrap();
    engine.create_table(&definition(TABLE)).unwrap();
    load(&engine, TABLE, "row", 200_000);
    engine.checkpoint().unwrap();
    let backups = Backups::new();
    let full = backups.make(&engine, "full", None);
    let table = engine.open_table(TABLE).unwrap();
    commit(&engine, |t| {
        for n in 50_000..50_100 {
            let (key, old) = (format!("row{n:06}"), format!("loaded {n}"));
            update(t, &table, &key, &old, &format!("loaded {n}!")).unwrap();
        }
    });
    // So that the changes are in blocks, and not only in the log.
    engine.settle().unwrap();
    engine.checkpoint().unwrap();
    let expected = content(&engine);
    let increment = backups.make(&engine, "one", Some("full"));
    let chain = backups.chain(&["full", "one"]).unwrap();
    let files = chain.files().iter();
    let changed: u64 = files.map(|listed| listed.changed_bytes).sum();
    assert!(changed * 100 > full, "{changed} of {full}");
    assert!(
        increment * 100 < full * 3,
        "{increment} of {full}, {changed}"
    );
    check_copy(&backups.restore(&["full", "one"]).unwrap(), &expected);
}

#[test]
fn tables_are_altered_between_increments() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 500);
    engine.checkpoint().unwrap();
    let backups = Backups::new();
    backups.make(&engine, "full", None);
    add_key(&engine, TABLE);
    engine.create_table(&definition("./db/new")).unwrap();
    load(&engine, "./db/new", "x", 700);
    backups.make(&engine, "one", Some("full"));
    let table = engine.open_table(TABLE).unwrap();
    let expected = see(&mut begin(&engine), &table);
    engine.truncate_table("./db/new").unwrap();
    load(&engine, "./db/new", "y", 300);
    backups.make(&engine, "two", Some("one"));
    let loaded = rows(&engine, &engine.open_table("./db/new").unwrap());
    assert_eq!(loaded.len(), 300);
    engine.drop_table("./db/new").unwrap();
    backups.make(&engine, "three", Some("two"));
    for (names, tables) in [
        (vec!["full"], 1),
        (vec!["full", "one"], 2),
        (vec!["full", "one", "two"], 2),
        (vec!["full", "one", "two", "three"], 1),
    ] {
        let copy = reopen(&backups.restore(&names).unwrap());
        assert_eq!(copy.table_names().len(), tables, "{names:?}");
        let copied = copy.open_table(TABLE).unwrap();
        assert_eq!(copied.index_count(), 2);
        assert_eq!(see(&mut begin(&copy), &copied), expected);
        if names.len() == 3 {
            let new = copy.open_table("./db/new").unwrap();
            assert_eq!(rows(&copy, &new), loaded);
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[test]
fn bases_of_other_histories_are_refused() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 300);
    let backups = Backups::new();
    backups.make(&engine, "full", None);
    // A backup that was not completed.
    let incomplete = cut(&engine);
    while incomplete.copy_step(&backups.target("part", None)).unwrap() {}
    drop(incomplete);
    let list = Path::new("/backups/part").join(BACKUP_LIST_FILE);
    write_all(
        &backups.disk,
        &Path::new("/backups/x").join(BASE_LIST_FILE),
        &read_all(&backups.disk, &list),
    );
    let refused = text(backups.try_make(&engine, "x", None).unwrap_err());
    assert!(refused.contains("is cut off"), "{refused}");
    // A restored data directory has the same instance and the same files, and another history.
    let restored = reopen(&backups.restore(&["full"]).unwrap());
    let refused = text(backups.try_make(&restored, "y", Some("full")).unwrap_err());
    assert!(refused.contains("is not known to the server"), "{refused}");
    backups.make(&restored, "again", None);
    backups.make(&restored, "more", Some("again"));
    check_copy(
        &backups.restore(&["again", "more"]).unwrap(),
        &content(&restored),
    );
    let refused = text(backups.try_make(&engine, "z", Some("more")).unwrap_err());
    assert!(refused.contains("is not known to the server"), "{refused}");
    let mut other = options();
    other.instance = Some(8);
    let other = Engine::open(Arc::new(MemoryDisk::new()), other).unwrap();
    let refused = text(backups.try_make(&other, "w", Some("full")).unwrap_err());
    assert!(refused.contains("is of another server"), "{refused}");
}

#[test]
fn damaged_lists_are_refused() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 300);
    engine.checkpoint().unwrap();
    let backups = Backups::new();
    backups.make(&engine, "full", None);
    let bytes = read_all(
        &backups.disk,
        &Path::new("/backups/full").join(BACKUP_LIST_FILE),
    );
    for at in 0..bytes.len() {
        let name = format!("d{at}");
        let path = Path::new("/backups").join(&name).join(BASE_LIST_FILE);
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        write_all(&backups.disk, &path, &damaged);
        assert!(backups.try_make(&engine, &name, None).is_err(), "{at}");
    }
    write_all(
        &backups.disk,
        &Path::new("/backups/short").join(BASE_LIST_FILE),
        &bytes[..bytes.len() / 2],
    );
    assert!(backups.try_make(&engine, "short", None).is_err());
    backups.make(&engine, "one", Some("full"));
}

#[test]
fn wrong_changed_and_damaged_bases_are_refused_by_a_restore() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 300);
    engine.checkpoint().unwrap();
    let backups = Backups::new();
    backups.make(&engine, "full", None);
    backups.make(&engine, "other", None);
    fill(&engine, &table, "b", 300);
    engine.checkpoint().unwrap();
    backups.make(&engine, "one", Some("full"));
    fill(&engine, &table, "c", 300);
    backups.make(&engine, "two", Some("one"));
    let expected = content(&engine);
    for names in [
        &["full", "two"][..],
        &["other", "one"],
        &["full", "two", "one"],
        &["one", "two"],
        &["full", "full"],
        &["full", "one", "one"],
        &[],
    ] {
        let error = text(backups.chain(names).map(|_| ()).unwrap_err());
        let is_clear = [
            "is not the base of",
            "is an increment",
            "has no base",
            "no backup",
        ];
        assert!(
            is_clear.iter().any(|part| error.contains(part)),
            "{names:?}: {error}"
        );
    }
    let names = ["full", "one", "two"];
    check_copy(&backups.restore(&names).unwrap(), &expected);
    // Any damaged byte that the chain needs is noticed, in any of its files.
    let mut noticed = 0;
    for name in names {
        let directory = Path::new("/backups").join(name);
        let mut paths = backups.disk.list(&directory.join("db")).unwrap();
        paths.push(directory.join(BACKUP_LIST_FILE));
        for path in paths {
            let bytes = read_all(&backups.disk, &path);
            for at in (0..bytes.len()).step_by(331) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                write_all(&backups.disk, &path, &damaged);
                match backups.restore(&names) {
                    Err(_) => noticed += 1,
                    // The byte is not needed: the block is freed or padding.
                    Ok(restored) => assert_eq!(content(&reopen(&restored)), expected),
                }
            }
            write_all(&backups.disk, &path, &bytes[..bytes.len() - 1]);
            assert!(backups.restore(&names).is_err() || bytes[bytes.len() - 1] == 0);
            backups.disk.remove(&path).unwrap();
            let is_needed = backups.restore(&names).is_err();
            assert!(is_needed, "{}", path.display());
            write_all(&backups.disk, &path, &bytes);
        }
    }
    assert!(noticed > 25, "{noticed}");
    check_copy(&backups.restore(&names).unwrap(), &expected);
}

#[test]
fn an_increment_that_fails_can_be_repeated() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 3000);
    engine.checkpoint().unwrap();
    let backups = Backups::new();
    backups.make(&engine, "full", None);
    churn(&engine, &table);
    let full_disk = Arc::new(FaultDisk::new(1));
    let failing: Arc<dyn Disk> = full_disk.clone();
    let list = read_all(
        &backups.disk,
        &Path::new("/backups/full").join(BACKUP_LIST_FILE),
    );
    let target = target_on(Arc::clone(&failing));
    write_all(&failing, &target.directory.join(BASE_LIST_FILE), &list);
    full_disk.set_capacity(Some(list.len() as u64 + 20_000));
    let backup = cut(&engine);
    assert!(backup.copy(&target).is_err());
    assert_eq!(backup.progress().pinned_bytes, 0);
    drop(backup);
    churn(&engine, &table);
    let expected = content(&engine);
    backups.make(&engine, "one", Some("full"));
    check_copy(&backups.restore(&["full", "one"]).unwrap(), &expected);
    let path = Path::new("/backups/one/db");
    let files = backups.disk.list(path).unwrap();
    assert!(files.iter().all(|file| {
        let name = file.to_str().unwrap();
        name.ends_with(increment_path(Path::new(".teak")).to_str().unwrap())
    }));
}
