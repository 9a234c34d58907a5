//! Threads that move money between accounts: conflicts, deadlocks, retries.
//!
//! `cargo run -p teak --example transactions_and_conflicts`

use std::sync::atomic::{AtomicU64, Ordering};
use teak::{Database, Error, Result, Table, Transaction};

const ACCOUNTS: u64 = 5;
const TRANSFERS: u64 = 200;

fn account(number: u64) -> Vec<u8> {
    format!("account {number}").into_bytes()
}

fn balance(transaction: &Transaction, accounts: &Table, number: u64) -> Result<i64> {
    let value = transaction.get(accounts, account(number))?;
    let bytes = value.and_then(|value| value.try_into().ok());
    Ok(i64::from_be_bytes(bytes.unwrap_or_default()))
}

fn transfer(transaction: &Transaction, accounts: &Table, from: u64, to: u64) -> Result<()> {
    let (source, target) = (
        balance(transaction, accounts, from)?,
        balance(transaction, accounts, to)?,
    );
    std::thread::yield_now(); // makes conflicts between the threads more likely
    transaction.update(accounts, account(from), (source - 1).to_be_bytes())?;
    transaction.update(accounts, account(to), (target + 1).to_be_bytes())?;
    Ok(())
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let accounts = db.table("accounts")?;
    for number in 0..ACCOUNTS {
        accounts.insert(account(number), 100i64.to_be_bytes())?;
    }

    // Two transactions read and write the same account. The second one must not overwrite the value
    // that the first one has written, because it has not read that value.
    let (first, second) = (db.begin(), db.begin());
    balance(&first, &accounts, 0)?;
    balance(&second, &accounts, 0)?;
    transfer(&first, &accounts, 0, 1)?;
    first.commit()?;
    match transfer(&second, &accounts, 0, 2) {
        Err(Error::Conflict) => println!("the second transaction conflicts, and is rolled back"),
        other => println!("unexpected: {other:?}"),
    }
    second.rollback();

    // Several threads transfer money at the same time; `transact` runs a transaction again until it
    // succeeds.
    let attempts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| {
            let (db, accounts, attempts) = (&db, &accounts, &attempts);
            scope.spawn(move || -> Result<()> {
                for n in 0..TRANSFERS {
                    let from = (thread + n) % ACCOUNTS;
                    let to = (from + 1 + thread) % ACCOUNTS;
                    db.transact(|transaction| {
                        attempts.fetch_add(1, Ordering::Relaxed);
                        transfer(transaction, accounts, from, to)
                    })?;
                }
                Ok(())
            })
        });
        threads.into_iter().try_for_each(|thread| {
            let outcome = thread.join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let made = attempts.into_inner();
    println!("{} transfers took {made} attempts", 4 * TRANSFERS);

    let transaction = db.begin();
    let mut sum = 0;
    for number in 0..ACCOUNTS {
        sum += balance(&transaction, &accounts, number)?;
    }
    println!("all accounts together still have {sum}");
    let statistics = db.statistics();
    println!(
        "{} conflicts, {} lock waits, {} deadlocks",
        statistics.snapshot_conflicts, statistics.lock_waits, statistics.deadlocks
    );
    Ok(())
}
