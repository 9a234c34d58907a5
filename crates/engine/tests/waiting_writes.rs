//! Writes of rows that the transaction has not locked, and that wait for another transaction.

use crate::common::*;
use std::time::Duration;
use teak_engine::{
    Engine, EngineError, EngineResult, EngineTransaction, IndexNumber, ReadMode, TableHandle,
};

/// How the first transaction ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
}

/// The first transaction runs `write`. The second one, with an older snapshot, updates row "a" and
/// waits. After the first transaction has ended, returns the result of the second one and the rows
/// of the table. `locks_first`: the first transaction locks the row, and runs `write` only when the
/// second one waits.
fn second_write(
    locks_first: bool,
    write: impl Fn(&mut EngineTransaction, &TableHandle),
    end: End,
) -> (EngineResult<()>, Rows) {
    let (engine, table) = fresh();
    commit(&engine, |t| insert(t, &table, "a", "1").unwrap());
    let (mut first, mut second) = (begin(&engine), begin(&engine));
    second.set_lock_timeout(Duration::from_secs(60));
    second.take_snapshot().unwrap();
    if locks_first {
        let mut cursor = first
            .cursor(&table, IndexNumber::ROWS, ReadMode::Exclusive)
            .unwrap();
        assert!(cursor.get(&mut first, b"a").unwrap().is_some());
    } else {
        write(&mut first, &table);
    }
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = update(&mut second, &table, "a", "1", "second");
            if outcome.is_ok() {
                second.commit().unwrap();
            } else {
                second.rollback();
            }
            outcome
        });
        wait_for_a_waiter(&engine);
        if locks_first {
            write(&mut first, &table);
        }
        match end {
            End::Commit => first.commit().unwrap(),
            End::Rollback => first.rollback(),
        }
        waiting.join().unwrap()
    });
    (outcome, rows(&engine, &table))
}

fn wait_for_a_waiter(engine: &Engine) {
    while engine.statistics().lock_waits == 0 {
        std::thread::yield_now();
    }
}

fn change(transaction: &mut EngineTransaction, table: &TableHandle) {
    update(transaction, table, "a", "1", "first").unwrap();
}

fn remove(transaction: &mut EngineTransaction, table: &TableHandle) {
    delete(transaction, table, "a", "1").unwrap();
}

#[test]
fn a_write_that_waited_for_a_newer_version_is_a_conflict() {
    for locks_first in [false, true] {
        let (outcome, rows) = second_write(locks_first, change, End::Commit);
        assert!(matches!(outcome, Err(EngineError::Conflict)), "{outcome:?}");
        assert_eq!(rows, pairs(&[("a", "first")]));
    }
}

#[test]
fn a_write_that_waited_for_a_delete_finds_no_row() {
    for locks_first in [false, true] {
        let (outcome, rows) = second_write(locks_first, remove, End::Commit);
        assert!(matches!(outcome, Err(EngineError::NotFound)), "{outcome:?}");
        assert_eq!(rows, pairs(&[]));
    }
}

#[test]
fn a_write_that_waited_for_a_rollback_succeeds() {
    for write in [change, remove] {
        for locks_first in [false, true] {
            let (outcome, rows) = second_write(locks_first, write, End::Rollback);
            assert!(outcome.is_ok(), "{outcome:?}");
            assert_eq!(rows, pairs(&[("a", "second")]));
        }
    }
}
