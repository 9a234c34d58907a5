//! A worker: a thread that writes its own rows and moves amounts between the
//! shared accounts, and checks the results.

use crate::outcome::is_full;
use crate::threads::rows::{ACCOUNTS, Rows, SHARED_OWNER, SUM, key_of, number_at, read, write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, Isolation, ReadMode,
    TableHandle, WaitError,
};
use teak_testing::Random;

/// Number of different rows of one worker.
const KEYS: u64 = 48;

/// The rows of a worker in this incarnation: at its start, and after each commit.
#[derive(Default)]
pub(super) struct History {
    /// The last state may belong to a commit in progress.
    pub(super) states: Vec<Rows>,
    /// Number of acknowledged commits.
    pub(super) acknowledged: usize,
    /// The bug that the worker found.
    pub(super) bug: Option<String>,
}

pub(super) fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut cursor = transaction.cursor(table, IndexNumber::ROWS, ReadMode::Exclusive)?;
    for (account, withdraws) in [(from, true), (to, false)] {
        let key = key_of(SHARED_OWNER, account);
        let row = cursor.get(transaction, &key)?;
        let balance = row.map(|row| number_at(row.value, 0));
        let Some(balance) = balance else {
            return Err(EngineError::Internal("an account is missing".into()));
        };
        let after = if withdraws {
            balance.wrapping_sub(amount)
        } else {
            balance.wrapping_add(amount)
        };
        write(transaction, table, &key, Some(balance), Some(after))?;
    }
    Ok(())
}

/// Makes the writes of one transaction. Returns the transaction, not yet committed, and
/// the rows of the worker after its commit; `None` if it was rolled back.
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

/// Runs a worker until `stop` is set. Returns a bug that it found.
pub(super) fn work(
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
            let sum = read(&mut transaction, table, SHARED_OWNER)?
                .values()
                .fold(0u64, |sum, balance| sum.wrapping_add(*balance));
            if sum != SUM {
                return Ok(Some(format!("the accounts contain {sum}, not {SUM}")));
            }
        }
    }
    Ok(None)
}
