//! Several threads on one engine, whose disk fills up and loses power. The seed determines the
//! operations of each thread, but not their interleaving, so a failure may not repeat.
//!
//! Each worker owns rows that no other worker writes, and records their state
//! after each of its commits. All workers share accounts and move amounts between
//! them in the same transactions. At any time:
//! - a worker reads its own rows in the state of its last commit;
//! - the accounts have the same sum in every snapshot.
//!
//! After a power loss, the rows of each worker are in the state after the last commit that was
//! acknowledged before it, or after a later commit.

mod rows;
mod worker;

use crate::report::{Failure, Report};
use crate::swarm::DIRECTORY;
use rows::{ACCOUNTS, Rows, SHARED_OWNER, SUM, key_of, read, write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{
    Codec, Engine, EngineError, EngineOptions, EngineResult, IndexDefinition, Isolation,
    TableDefinition,
};
use teak_testing::{FaultDisk, Random};
use teak_tree::{FilterKeys, TreeOptions};
use worker::{History, lock, work};

const TABLE: &str = "./d/threads";
const INCARNATIONS: u64 = 3;
fn options(random: &mut Random) -> EngineOptions {
    let mut options = EngineOptions::new(DIRECTORY);
    options.cache_bytes = 1 << (20 + random.below(2));
    options.log_segment_bytes = 1 << 17;
    options.log_id_ranges_max = 2;
    options.log_bytes_max = 1 << 18;
    options.background_threads = 2;
    options.checkpoint_period = Duration::from_millis(5);
    options.lock_timeout = Duration::from_secs(60);
    options.memtable_bytes_min = 1 << 13;
    options.node_bytes_max = Some(0).filter(|_| random.one_in(2));
    options.instance = Some(7);
    options.tree = TreeOptions::tiny();
    options
}

fn create(engine: &Engine) -> EngineResult<()> {
    let index = |label: &str| IndexDefinition {
        label: label.into(),
        codec: Codec::Lz4,
        page_bytes: 0,
        encryption_key: None,
        filter_keys: FilterKeys::Whole,
        value_fixed_bytes: 0,
        columns: Default::default(),
    };
    engine.create_table(&TableDefinition {
        name: TABLE.into(),
        indexes: vec![index("rows"), index("by_value")],
        metadata: Vec::new(),
    })?;
    let table = engine.open_table(TABLE)?;
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for account in 0..ACCOUNTS {
        let key = key_of(SHARED_OWNER, account);
        write(&mut transaction, &table, &key, None, Some(1000))?;
    }
    transaction.commit()
}

/// Checks, after the engine was opened, that the rows of every worker have the state after commit
/// number `min` of the worker or after a later one, and checks the sum of the accounts. Returns a
/// description of a bug.
fn check(
    engine: &Engine,
    histories: &[(u8, Mutex<History>)],
    min: &[usize],
) -> EngineResult<Option<String>> {
    let table = engine.open_table(TABLE)?;
    table.verify(&mut || true, &mut |_| {})?;
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    for ((owner, history), min) in histories.iter().zip(min) {
        let found = read(&mut transaction, &table, *owner)?;
        let mut history = lock(history);
        let kept = history.states.iter().skip(*min).any(|rows| *rows == found);
        if !kept {
            return Ok(Some(format!(
                "worker {owner} finds rows that it never left"
            )));
        }
        history.states = vec![found];
        history.acknowledged = 0;
    }
    let sum = read(&mut transaction, &table, SHARED_OWNER)?
        .values()
        .fold(0u64, |sum, balance| sum.wrapping_add(*balance));
    Ok((sum != SUM).then(|| format!("after recovery the accounts contain {sum}, not {SUM}")))
}

/// Runs one incarnation of the engine. Returns the disk after the power loss at
/// its end, and for each worker, how many of its commits this disk must have at least.
fn run_incarnation(
    disk: &FaultDisk,
    engine: &Engine,
    histories: &[(u8, Mutex<History>)],
    random: &mut Random,
    report: &mut Report,
) -> EngineResult<(FaultDisk, Vec<usize>)> {
    let table = engine.open_table(TABLE)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (owner, history) in histories {
            let (table, stop) = (&table, &stop);
            let mut own = Random::new(random.next_u64());
            scope.spawn(move || {
                let worked = work(engine, table, *owner, history, stop, &mut own);
                match worked {
                    Ok(bug) => lock(history).bug = bug,
                    Err(error) => lock(history).bug = Some(format!("worker {owner}: {error}")),
                }
            });
        }
        for _ in 0..random.below(6) {
            std::thread::sleep(Duration::from_millis(random.below(8)));
            disk.set_capacity(Some(disk.used_bytes() + random.below(30_000)));
            std::thread::sleep(Duration::from_millis(random.below(8)));
            disk.set_capacity(None);
            report.fault_errors += 1;
        }
        std::thread::sleep(Duration::from_millis(random.below(20)));
        // Commits that were acknowledged before the power loss must be durable.
        let min = histories
            .iter()
            .map(|(_, history)| lock(history).acknowledged);
        let min: Vec<usize> = min.collect();
        let crashed = disk.crash(random.next_u64());
        report.crashes += 1;
        stop.store(true, Ordering::Release);
        Ok((crashed, min))
    })
}

/// Runs the simulation of a seed with several threads.
///
/// # Errors
/// [`Failure`] when a thread read wrong data, recovery left wrong data, or the engine
/// returned an unexpected error.
pub fn simulate_threads(seed: u64, threads: u8) -> Result<Report, Box<Failure>> {
    let failed = |message: String| {
        Box::new(Failure {
            seed,
            message,
            trace: Vec::new(),
        })
    };
    let wrong = |error: EngineError| failed(error.to_string());
    let mut random = Random::new(seed);
    let mut report = Report::default();
    let mut disk = FaultDisk::new(seed);
    let made = disk.create_directories(Path::new(DIRECTORY));
    made.map_err(|error| failed(error.to_string()))?;
    let first = || {
        Mutex::new(History {
            states: vec![Rows::new()],
            ..History::default()
        })
    };
    let histories: Vec<(u8, Mutex<History>)> = (0..threads).map(|n| (n, first())).collect();
    let mut min = vec![0; histories.len()];
    for number in 0..=INCARNATIONS {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let engine = Engine::open(shared, options(&mut random)).map_err(wrong)?;
        if number == 0 {
            create(&engine).map_err(wrong)?;
        }
        if let Some(bug) = check(&engine, &histories, &min).map_err(wrong)? {
            return Err(failed(bug));
        }
        if number == INCARNATIONS {
            engine.close().map_err(wrong)?;
            break;
        }
        let (crashed, kept) =
            run_incarnation(&disk, &engine, &histories, &mut random, &mut report).map_err(wrong)?;
        for (_, history) in &histories {
            let history = lock(history);
            report.commits += history.acknowledged as u64;
            if let Some(bug) = &history.bug {
                return Err(failed(bug.clone()));
            }
        }
        engine.abandon();
        disk = crashed;
        min = kept;
    }
    Ok(report)
}
