//! Recovery with threads finds the same tables and rows as recovery on one
//! thread.

use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use teak_disk::Disk;
use teak_engine::{Engine, TableHandle};
use teak_testing::{FaultDisk, Random};

const TABLES: u64 = 4;
const KEYS: u64 = 600;

fn name_of(number: u64) -> String {
    format!("./db/t{number}")
}

/// The committed rows of a table. Updates and deletes pass the old values.
type Expected = BTreeMap<String, String>;

struct Workload {
    engine: Engine,
    tables: BTreeMap<u64, (TableHandle, Expected)>,
    random: Random,
}

impl Workload {
    fn create(&mut self, number: u64) {
        let name = name_of(number);
        self.engine.create_table(&definition(&name)).unwrap();
        let table = self.engine.open_table(&name).unwrap();
        self.tables.insert(number, (table, Expected::new()));
    }

    /// Writes some rows to a table in a transaction and ends it.
    fn write(&mut self, number: u64) {
        let random = &mut self.random;
        let (table, expected) = self.tables.get_mut(&number).unwrap();
        let mut after = expected.clone();
        let mut transaction = begin(&self.engine);
        for _ in 0..=random.below(30) {
            let key = format!("{:04}", random.below(KEYS));
            let times = usize::try_from(1 + random.below(20)).unwrap();
            let value = format!("{:x}", random.next_u64()).repeat(times);
            match after.get(&key).cloned() {
                Some(old) if random.one_in(3) => {
                    delete(&mut transaction, table, &key, &old).unwrap();
                    after.remove(&key);
                }
                Some(old) => {
                    update(&mut transaction, table, &key, &old, &value).unwrap();
                    after.insert(key, value);
                }
                None => {
                    insert(&mut transaction, table, &key, &value).unwrap();
                    after.insert(key, value);
                }
            }
        }
        if random.one_in(5) {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            *expected = after;
        }
    }

    /// Drops a table and creates it again, or empties it, or renames it twice.
    fn change(&mut self, number: u64) {
        let name = name_of(number);
        self.tables.remove(&number);
        match self.random.below(3) {
            0 => {
                self.engine.drop_table(&name).unwrap();
                self.create(number);
                return;
            }
            1 => self.engine.truncate_table(&name).unwrap(),
            _ => {
                self.engine.rename_table(&name, "./db/other").unwrap();
                self.engine.rename_table("./db/other", &name).unwrap();
            }
        }
        let table = self.engine.open_table(&name).unwrap();
        let found = rows(&self.engine, &table).into_iter().collect();
        self.tables.insert(number, (table, found));
    }
}

fn recovered(disk: FaultDisk, threads: usize) -> Vec<(String, Rows)> {
    let mut options = options();
    options.background_threads = threads;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let engine = Engine::open(disk, options).unwrap();
    (0..TABLES)
        .map(|number| {
            let name = name_of(number);
            let table = engine.open_table(&name).unwrap();
            let found = rows(&engine, &table);
            (name, found)
        })
        .collect()
}

#[test]
fn recovery_with_threads_equals_recovery_on_one_thread() {
    for seed in 0..12 {
        let disk = Arc::new(FaultDisk::new(seed));
        let mut work = Workload {
            engine: open(&disk),
            tables: BTreeMap::new(),
            random: Random::new(seed),
        };
        for number in 0..TABLES {
            work.create(number);
        }
        for step in 0..300 {
            let number = work.random.below(TABLES);
            match work.random.below(60) {
                0 => work.change(number),
                1 if step < 200 && seed % 2 == 0 => work.engine.checkpoint().unwrap(),
                _ => work.write(number),
            }
        }
        work.engine.flush_log().unwrap();
        let serial = recovered(disk.crash(seed), 0);
        assert_eq!(serial.len(), work.tables.len());
        for ((_, found), (_, expected)) in serial.iter().zip(work.tables.values()) {
            let expected: Rows = expected.clone().into_iter().collect();
            assert_eq!(*found, expected, "seed {seed}");
        }
        for threads in [1, 2, 4] {
            assert_eq!(recovered(disk.crash(seed), threads), serial, "seed {seed}");
        }
    }
}

/// Otherwise the first writers would be stopped while the memtables are flushed.
#[test]
fn the_memtables_after_a_recovery_have_room_for_writers() {
    let disk = Arc::new(FaultDisk::new(1));
    let (engine, table) = with_table(&disk);
    for batch in 0..200 {
        commit(&engine, |t| {
            for row in 0..20 {
                let key = format!("{:06}", (batch * 20 + row) * 7919 % 4000);
                insert(t, &table, &key, &"x".repeat(2000)).unwrap();
            }
        });
    }
    engine.flush_log().unwrap();
    for seed in 0..4 {
        let mut options = options();
        options.background_threads = 2;
        options.cache_bytes = 8 << 20;
        let disk: Arc<dyn Disk> = Arc::new(disk.crash(seed));
        let engine = Engine::open(disk, options).unwrap();
        let found = engine.statistics();
        assert!(found.recovered_records > 0);
        // The memtables' share is 2/5 of the cache.
        assert!(found.memtable_bytes <= 2 << 20, "{}", found.memtable_bytes);
    }
}
