//! Hot backup: the copy has exactly what was committed at the cut.

use crate::common::backup::*;
use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_engine::{Alteration, Engine, EngineOptions, EngineResult, TableHandle};
use teak_testing::Random;

fn load(engine: &Engine, table: &TableHandle, prefix: &str) {
    let mut transaction = begin(engine);
    let mut load = transaction.begin_load(table, &[true, false], 1).unwrap();
    for n in 0..500 {
        let (key, value) = (format!("{prefix}{n:05}"), format!("loaded {n}"));
        add_to_load(&mut load, &key, &value).unwrap();
    }
    transaction.finish_load(load, &mut |_, _| ()).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_copy_has_the_rows_of_the_cut_although_all_are_rewritten() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 2000);
    engine.checkpoint().unwrap();
    fill(&engine, &table, "b", 300);
    let expected = content(&engine);
    let backup = cut(&engine);
    churn(&engine, &table);
    let target = target();
    backup.copy(&target).unwrap();
    let progress = backup.progress();
    assert_eq!((progress.files, progress.files_copied), (3, 3));
    assert_eq!(progress.pinned_bytes, 0);
    drop(backup);
    check_copy(&target, &expected);
    assert_eq!(rows(&engine, &table).len(), 2300);
}

#[test]
fn transactions_that_are_active_at_the_cut_are_not_in_the_copy() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 100);
    let expected = content(&engine);
    let mut active = begin(&engine);
    insert(&mut active, &table, "active", "1").unwrap();
    let mut rolled_back = begin(&engine);
    insert(&mut rolled_back, &table, "rolled back", "1").unwrap();
    engine.checkpoint().unwrap();
    let backup = cut(&engine);
    active.commit().unwrap();
    rolled_back.rollback();
    engine.checkpoint().unwrap();
    let target = target();
    backup.copy(&target).unwrap();
    check_copy(&target, &expected);
}

#[test]
fn a_prepared_transaction_is_prepared_in_the_copy() {
    let (engine, table) = fresh();
    let mut prepared = begin(&engine);
    insert(&mut prepared, &table, "prepared", "1").unwrap();
    prepared.prepare(b"x").unwrap();
    let backup = cut(&engine);
    prepared.commit().unwrap();
    let target = target();
    backup.copy(&target).unwrap();
    let copy = reopen(&target);
    let copied = copy.open_table(TABLE).unwrap();
    assert_eq!(rows(&copy, &copied), pairs(&[]));
    copy.commit_prepared(b"x", Duration::ZERO).unwrap();
    assert_eq!(rows(&copy, &copied), pairs(&[("prepared", "1")]));
}

#[test]
fn tables_are_dropped_truncated_renamed_and_created_during_the_copy() {
    for are_closed in [false, true] {
        let disk = Arc::new(MemoryDisk::new());
        let engine = open(&disk);
        for name in ["drop", "truncate", "rename", "rewrite"] {
            let name = format!("./db/{name}");
            engine.create_table(&definition(&name)).unwrap();
            let table = engine.open_table(&name).unwrap();
            fill(&engine, &table, "a", 500);
            load(&engine, &table, "b");
        }
        let expected = content(&engine);
        let engine = if are_closed {
            engine.close().unwrap();
            open(&disk)
        } else {
            engine
        };
        let backup = cut(&engine);
        engine.drop_table("./db/drop").unwrap();
        engine.truncate_table("./db/truncate").unwrap();
        fill(
            &engine,
            &engine.open_table("./db/truncate").unwrap(),
            "new",
            500,
        );
        engine.rename_table("./db/rename", "./other/name").unwrap();
        engine.create_table(&definition("./db/drop")).unwrap();
        churn(&engine, &engine.open_table("./db/rewrite").unwrap());
        // Closes idle tables, except those that the backup needs.
        for _ in 0..3 {
            engine.run_maintenance().unwrap();
        }
        churn(&engine, &engine.open_table("./db/rewrite").unwrap());
        let target = target();
        backup.copy(&target).unwrap();
        drop(backup);
        check_copy(&target, &expected);
        let after = content(&engine);
        engine.close().unwrap();
        let engine = open(&disk);
        assert_eq!(content(&engine), after);
    }
}

#[test]
fn a_table_is_altered_during_the_copy() {
    let (engine, table) = fresh();
    fill(&engine, &table, "a", 500);
    let expected = content(&engine);
    let begins = |engine: &Engine| begin_adding(engine, &table, index("added")).unwrap();
    let plan = plan_with_added(vec![index("PRIMARY")], b"altered");
    // The alteration has begun before the cut, and drops an index after it.
    let mut alteration = begins(&engine);
    let backup = cut(&engine);
    alteration.build(&mut |_, _| ()).unwrap();
    Alteration::commit(vec![(alteration, plan)]).unwrap();
    engine.checkpoint().unwrap();
    let target = target();
    backup.copy(&target).unwrap();
    drop(backup);
    check_copy(&target, &expected);
    // The next cut has the altered table.
    let second = self::target();
    cut(&engine).copy(&second).unwrap();
    let copy = reopen(&second);
    let copied = copy.open_table(TABLE).unwrap();
    assert_eq!(copied.index_count(), 2);
    assert_eq!(
        see(&mut begin(&copy), &copied),
        expected[TABLE.trim_start_matches("./")]
    );
}

/// Random work between random cuts, on tables that are often closed.
#[test]
fn random_work_before_and_after_the_cut() {
    for seed in 0..4 {
        random_work(seed);
    }
}

fn small_options() -> EngineOptions {
    let mut options = options();
    options.open_tables_kept = 1;
    options.table_idle_period = Duration::ZERO;
    options.log_bytes_max = 4 << 20;
    options
}

fn random_work(seed: u64) {
    let mut random = Random::new(seed);
    let disk = Arc::new(MemoryDisk::new());
    let as_disk = || Arc::clone(&disk) as Arc<dyn Disk>;
    let engine = Engine::open(as_disk(), small_options()).unwrap();
    let name = |n: u64| format!("./db/t{n}");
    let mut loads = 0;
    let mut work = |random: &mut Random, steps: u64| {
        for _ in 0..steps {
            let name = name(random.below(6));
            if !engine.table_exists(&name).unwrap() {
                engine.create_table(&definition(&name)).unwrap();
            }
            match random.below(24) {
                0 => engine.drop_table(&name).unwrap(),
                1 => engine.truncate_table(&name).unwrap(),
                2 => {
                    let other = format!("./db/renamed{}", random.below(1000));
                    if !engine.table_exists(&other).unwrap() {
                        engine.rename_table(&name, &other).unwrap();
                    }
                }
                3..=4 => engine.checkpoint().unwrap(),
                5 => engine.settle().unwrap(),
                6 => engine.reclaim_space().unwrap(),
                7..=10 => engine.run_maintenance().unwrap(),
                11 => {
                    loads += 1;
                    let table = engine.open_table(&name).unwrap();
                    load(&engine, &table, &format!("load{loads:04}-"));
                }
                12 => {
                    let table = engine.open_table(&name).unwrap();
                    let mut transaction = begin(&engine);
                    let _ = insert(&mut transaction, &table, "aborted", "1");
                    transaction.rollback();
                }
                _ => {
                    let table = engine.open_table(&name).unwrap();
                    let key = format!("{:03}", random.below(300));
                    let value = format!("{}", random.below(1000));
                    let mut transaction = begin(&engine);
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
    };
    for _ in 0..6 {
        let steps = random.below(60);
        work(&mut random, steps);
        let expected = content(&engine);
        for _ in 0..random.below(3) {
            // Closes tables before the cut.
            engine.run_maintenance().unwrap();
        }
        let backup = cut(&engine);
        let target = target();
        loop {
            let steps = random.below(20);
            work(&mut random, steps);
            if !backup.copy_step(&target).unwrap() {
                break;
            }
        }
        backup.finish(&target).unwrap();
        drop(backup);
        check_copy(&target, &expected);
    }
}

#[test]
fn cuts_under_concurrent_transfers_and_loads_are_consistent() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = options();
    options.background_threads = 2;
    options.cache_bytes = 4 << 20;
    options.commit_sync = false;
    options.lock_timeout = Duration::from_secs(5);
    options.checkpoint_period = Duration::from_millis(20);
    options.memtable_bytes_min = 1 << 14;
    let engine = Engine::open(disk, options).unwrap();
    for name in ["./db/accounts", "./db/loads"] {
        engine.create_table(&definition(name)).unwrap();
    }
    let accounts = engine.open_table("./db/accounts").unwrap();
    let loads = engine.open_table("./db/loads").unwrap();
    const ACCOUNTS: u64 = 50;
    commit(&engine, |t| {
        for n in 0..ACCOUNTS {
            insert(t, &accounts, &format!("{n:03}"), "100").unwrap();
        }
    });
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (engine, accounts, ends) = (&engine, &accounts, &ends);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !ends.load(Ordering::Acquire) {
                    transfer(engine, accounts, &mut random);
                }
            });
        }
        scope.spawn(|| {
            let mut number = 0;
            while !ends.load(Ordering::Acquire) && number < 60 {
                load(&engine, &loads, &format!("{number:05}-"));
                number += 1;
            }
        });
        for _ in 0..12 {
            thread::sleep(Duration::from_millis(5));
            let target = target();
            let backup = cut(&engine);
            backup.copy(&target).unwrap();
            drop(backup);
            let copy = reopen(&target);
            let table = copy.open_table("./db/accounts").unwrap();
            let found = rows(&copy, &table);
            let sum: i64 = found.iter().map(|row| row.1.parse::<i64>().unwrap()).sum();
            assert_eq!((found.len() as u64, sum), (ACCOUNTS, 5000));
            let table = copy.open_table("./db/loads").unwrap();
            assert_eq!(see(&mut begin(&copy), &table).len() % 500, 0);
        }
        ends.store(true, Ordering::Release);
    });
}

/// Moves 1 from one account to another, unless it must wait too long.
fn transfer(engine: &Engine, table: &TableHandle, random: &mut Random) {
    let account = |random: &mut Random| format!("{:03}", random.below(50));
    let (from, to) = (account(random), account(random));
    if from == to {
        return;
    }
    let mut transaction = begin(engine);
    let mut work = || -> EngineResult<()> {
        let found = see(&mut transaction, table);
        let value = |key: &str| found.iter().find(|row| row.0 == key).unwrap().1.clone();
        for (key, change) in [(&from, -1), (&to, 1)] {
            let old = value(key);
            let new = (old.parse::<i64>().unwrap() + change).to_string();
            update(&mut transaction, table, key, &old, &new)?;
        }
        Ok(())
    };
    // After an error, for example a conflict, nothing is transferred.
    match work() {
        Ok(()) => transaction.commit().unwrap(),
        Err(_) => transaction.rollback(),
    }
}
