//! Several threads on one engine, on a disk that fills up and loses power. What
//! the seed draws is what each thread does; who comes first is the machine's
//! choice, so a failure need not come again.
//!
//! Each worker owns rows that nobody else writes, and knows every state that
//! they had after a commit. All workers share accounts, between which they move
//! amounts in the same transactions. At every moment:
//! - a worker reads its own rows as it left them;
//! - in every snapshot the accounts have one sum.
//!
//! After a power loss each worker's rows are those after its last acknowledged
//! commit, or after a later one that it had begun.

use crate::mood::DIRECTORY;
use crate::{Failure, Report};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teak_disk::Disk;
use teak_engine::{
    Codec, Engine, EngineError, EngineOptions, EngineResult, EngineTransaction, IndexDefinition,
    Isolation, ReadMode, RowChange, RowEntry, TableDefinition, TableHandle, WaitError,
};
use teak_testing::{FaultDisk, Random};
use teak_tree::TreeOptions;

const TABLE: &str = "./d/threads";
const LIVES: u64 = 3;
const KEYS: u64 = 48;
const ACCOUNTS: u64 = 6;
const SUM: u64 = ACCOUNTS * 1000;
/// The owner of the accounts.
const EVERYBODY: u8 = 255;

/// Rows of one owner: number to value.
type Rows = BTreeMap<u64, u64>;

/// What a worker's rows were after each of its commits.
#[derive(Default)]
struct History {
    /// The last may be a commit under way.
    states: Vec<Rows>,
    acknowledged: usize,
    /// What went wrong.
    bug: Option<String>,
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(owner: u8, number: u64) -> Vec<u8> {
    let mut key = vec![owner];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn value_of(value: u64) -> Vec<u8> {
    let mut bytes = value.to_be_bytes().to_vec();
    // Some rows are long, so that memtables fill.
    bytes.resize(8 + usize::try_from(value % 200).unwrap_or(0), 0x55);
    bytes
}

fn second_of(key: &[u8], value: u64) -> Vec<u8> {
    [&value.to_be_bytes(), key].concat()
}

fn number_at(bytes: &[u8], start: usize) -> u64 {
    let eight = bytes.get(start..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(u64::MAX, |eight| u64::from_be_bytes(*eight))
}

/// Writes one row; `None` deletes or inserts.
fn write(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    key: &[u8],
    old: Option<u64>,
    new: Option<u64>,
) -> EngineResult<()> {
    let second = |value: u64| second_of(key, value);
    let (before, after) = (old.map(second), new.map(second));
    let value = new.map(value_of).unwrap_or_default();
    let entry = |index, key, value| RowEntry {
        index,
        unique: index == 0,
        key,
        value,
    };
    match (&before, &after) {
        (None, Some(after)) => transaction.insert(
            table,
            &[entry(0, key, value.as_slice()), entry(1, after, &[])],
        ),
        (Some(before), None) => {
            transaction.delete(table, &[entry(0, key, &[]), entry(1, before, &[])])
        }
        (Some(before), Some(after)) => transaction.update(
            table,
            &[
                RowChange {
                    index: 0,
                    unique: true,
                    old_key: Some(key),
                    new_key: Some(key),
                    new_value: &value,
                },
                RowChange {
                    index: 1,
                    unique: false,
                    old_key: Some(before),
                    new_key: Some(after),
                    new_value: &[],
                },
            ],
        ),
        (None, None) => Ok(()),
    }
}

/// The rows of an owner that the transaction sees.
fn read(transaction: &mut EngineTransaction, table: &TableHandle, owner: u8) -> EngineResult<Rows> {
    let mut cursor = transaction.cursor(table, 0, ReadMode::Snapshot)?;
    let end = owner.checked_add(1).map(|end| [end]);
    cursor.set_bounds(Some(&[owner]), end.as_ref().map(<[u8; 1]>::as_slice));
    let mut rows = Rows::new();
    let mut row = cursor.first(transaction)?;
    while let Some(found) = row {
        rows.insert(number_at(found.key, 1), number_at(found.value, 0));
        row = cursor.next(transaction)?;
    }
    Ok(rows)
}

/// Moves an amount between two accounts.
fn transfer(
    transaction: &mut EngineTransaction,
    table: &TableHandle,
    random: &mut Random,
) -> EngineResult<()> {
    let from = random.below(ACCOUNTS);
    let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
    let amount = random.below(5);
    let mut cursor = transaction.cursor(table, 0, ReadMode::Exclusive)?;
    for (account, gives) in [(from, true), (to, false)] {
        let key = key_of(EVERYBODY, account);
        let row = cursor.get(transaction, &key)?;
        let balance = row.map(|row| number_at(row.value, 0));
        let Some(balance) = balance else {
            return Err(EngineError::Internal("an account is missing".into()));
        };
        let after = if gives {
            balance.wrapping_sub(amount)
        } else {
            balance.wrapping_add(amount)
        };
        write(transaction, table, &key, Some(balance), Some(after))?;
    }
    Ok(())
}

fn is_full(error: &EngineError) -> bool {
    matches!(error, EngineError::Storage(error) if error.is_no_space())
}

/// One transaction of a worker. `Ok(None)`: it did not come about.
fn attempt(
    engine: &Engine,
    table: &TableHandle,
    owner: u8,
    rows: &Rows,
    random: &mut Random,
) -> EngineResult<Option<(EngineTransaction, Rows)>> {
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    let mut next = rows.clone();
    let outcome = (|| {
        for _ in 0..=random.below(6) {
            let number = random.below(KEYS);
            let old = next.get(&number).copied();
            let new = (old.is_none() || !random.one_in(3)).then(|| random.below(1 << 32));
            let key = key_of(owner, number);
            write(&mut transaction, table, &key, old, new)?;
            match new {
                Some(new) => next.insert(number, new),
                None => next.remove(&number),
            };
        }
        if random.one_in(2) {
            transfer(&mut transaction, table, random)?;
        }
        Ok(())
    })();
    match outcome {
        Ok(()) if random.one_in(8) => {}
        Ok(()) => return Ok(Some((transaction, next))),
        Err(EngineError::Wait(WaitError::Deadlock)) => {}
        Err(error) if is_full(&error) => {}
        Err(error) => return Err(error),
    }
    transaction.rollback();
    Ok(None)
}

/// What a worker does until it is told to stop.
fn work(
    engine: &Engine,
    table: &TableHandle,
    owner: u8,
    history: &Mutex<History>,
    stop: &AtomicBool,
    random: &mut Random,
) -> EngineResult<Option<String>> {
    while !stop.load(Ordering::Acquire) {
        let rows = lock(history).states.last().cloned().unwrap_or_default();
        if let Some((mut transaction, next)) = attempt(engine, table, owner, &rows, random)? {
            lock(history).states.push(next);
            match transaction.commit() {
                Ok(()) => {
                    let mut history = lock(history);
                    history.acknowledged = history.states.len() - 1;
                }
                Err(error) if is_full(&error) => {
                    transaction.rollback();
                    lock(history).states.pop();
                }
                Err(error) => return Err(error),
            }
        }
        if random.one_in(6) {
            let rows = lock(history).states.last().cloned().unwrap_or_default();
            let mut transaction = engine.begin(Isolation::RepeatableRead);
            if read(&mut transaction, table, owner)? != rows {
                return Ok(Some(format!("worker {owner} does not find its rows")));
            }
            let sum = read(&mut transaction, table, EVERYBODY)?
                .values()
                .fold(0u64, |sum, balance| sum.wrapping_add(*balance));
            if sum != SUM {
                return Ok(Some(format!("the accounts have {sum}, not {SUM}")));
            }
        }
    }
    Ok(None)
}

fn options(random: &mut Random) -> EngineOptions {
    let mut options = EngineOptions::new(DIRECTORY);
    options.cache_bytes = 1 << (20 + random.below(2));
    options.log_segment_bytes = 1 << 17;
    options.log_bytes_max = 1 << 18;
    options.background_threads = 2;
    options.checkpoint_period = Duration::from_millis(5);
    options.lock_timeout = Duration::from_secs(60);
    options.memtable_bytes_min = 1 << 13;
    options.instance = Some(7);
    options.tree = TreeOptions::tiny();
    options
}

fn create(engine: &Engine) -> EngineResult<()> {
    let index = |label: &str| IndexDefinition {
        label: label.into(),
        codec: Codec::Lz4,
        page_bytes: 0,
        exact_lookups: true,
        value_fixed_bytes: 0,
    };
    engine.create_table(&TableDefinition {
        name: TABLE.into(),
        indexes: vec![index("rows"), index("by_value")],
        metadata: Vec::new(),
    })?;
    let table = engine.open_table(TABLE)?;
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    for account in 0..ACCOUNTS {
        let key = key_of(EVERYBODY, account);
        write(&mut transaction, &table, &key, None, Some(1000))?;
    }
    transaction.commit()
}

/// After an opening: every worker's rows are one of those it may have left.
fn check(
    engine: &Engine,
    histories: &[(u8, Mutex<History>)],
    least: &[usize],
) -> EngineResult<Option<String>> {
    let table = engine.open_table(TABLE)?;
    table.verify(&mut || true, &mut |_| {})?;
    let mut transaction = engine.begin(Isolation::RepeatableRead);
    for ((owner, history), least) in histories.iter().zip(least) {
        let found = read(&mut transaction, &table, *owner)?;
        let mut history = lock(history);
        let kept = history
            .states
            .iter()
            .skip(*least)
            .any(|rows| *rows == found);
        if !kept {
            return Ok(Some(format!("worker {owner} finds rows it never left")));
        }
        history.states = vec![found];
        history.acknowledged = 0;
    }
    let sum = read(&mut transaction, &table, EVERYBODY)?
        .values()
        .fold(0u64, |sum, balance| sum.wrapping_add(*balance));
    Ok((sum != SUM).then(|| format!("after recovery the accounts have {sum}, not {SUM}")))
}

/// One life of the engine; returns what the power loss at its end leaves.
fn live(
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
        // Acknowledged before: durable now.
        let least = histories
            .iter()
            .map(|(_, history)| lock(history).acknowledged);
        let least: Vec<usize> = least.collect();
        let crashed = disk.crash(random.next_u64());
        report.crashes += 1;
        stop.store(true, Ordering::Release);
        Ok((crashed, least))
    })
}

/// Tells a story of several threads.
///
/// # Errors
/// [`Failure`] when a thread read, or the disk kept, anything wrong.
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
    let mut least = vec![0; histories.len()];
    for life in 0..=LIVES {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let engine = Engine::open(shared, options(&mut random)).map_err(wrong)?;
        if life == 0 {
            create(&engine).map_err(wrong)?;
        }
        if let Some(bug) = check(&engine, &histories, &least).map_err(wrong)? {
            return Err(failed(bug));
        }
        if life == LIVES {
            engine.close().map_err(wrong)?;
            break;
        }
        let (crashed, kept) =
            live(&disk, &engine, &histories, &mut random, &mut report).map_err(wrong)?;
        for (_, history) in &histories {
            let history = lock(history);
            report.commits += history.acknowledged as u64;
            if let Some(bug) = &history.bug {
                return Err(failed(bug.clone()));
            }
        }
        drop(engine);
        disk = crashed;
        least = kept;
    }
    Ok(report)
}
