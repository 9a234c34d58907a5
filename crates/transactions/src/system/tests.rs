//! Tests of concurrent transactions: locks, waits, deadlocks and snapshots.

mod deadlocks;
mod escalation;
mod id_blocks;
mod ranges;
mod reports;

use super::*;
use crate::error::WaitError;
use crate::lock_types::LockMode;
use crate::range_locks::RangeLocks;
use crate::row_name::RowName;
use std::sync::mpsc;
use std::time::Duration;
use teak_base::checksum::hash_key_128;
use teak_base::{FileId, WriteStatus};

const LONG: Duration = Duration::from_secs(60);

fn system() -> Arc<TransactionSystem> {
    let ids = WriteIdTable::new(WriteId(1), &WriteIdRanges::default());
    Arc::new(TransactionSystem::new(ids, 1))
}

fn index() -> Arc<RangeLocks> {
    Arc::new(RangeLocks::new(FileId(1)))
}

fn row<'a>(index: &'a Arc<RangeLocks>, name: &'a str) -> RowName<'a> {
    RowName::new(index, name.as_bytes())
}

fn try_lock(
    system: &TransactionSystem,
    transaction: &mut Transaction,
    lock: RowName<'_>,
    mode: LockMode,
) -> bool {
    system.try_lock(transaction, lock, mode).unwrap()
}

/// Waits until `waits` waits have begun.
fn wait_for_waits(system: &TransactionSystem, waits: u64) {
    // A wait is counted first and enters the graph shortly after.
    while system.counts().lock_waits < waits || system.lock_waits().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn commits_are_seen_in_order_and_whole() {
    let system = system();
    let mut a = system.begin();
    let first = system.write_id(&mut a);
    a.savepoint();
    let second = system.write_id(&mut a);
    assert_ne!(first, second);
    let mut reader = system.begin();
    let before = system.take_snapshot(&mut reader);
    system.publish(a);
    let old = system.view(&reader, ViewKind::Snapshot(before));
    assert!(!old.sees(first) && !old.sees(second));
    let mut later = system.begin();
    let after = system.take_snapshot(&mut later);
    let new = system.view(&later, ViewKind::Snapshot(after));
    assert!(new.sees(first) && new.sees(second));
    assert_eq!(system.prune(), first);
    system.publish(reader);
    assert_eq!(system.prune().0, second.0 + 1);
}

#[test]
fn savepoint_rollback_aborts_only_later_writes() {
    let system = system();
    let mut a = system.begin();
    let kept = system.write_id(&mut a);
    let savepoint = a.savepoint();
    let undone = system.write_id(&mut a);
    let aborted = system.rollback_to(&mut a, savepoint);
    assert_eq!(aborted.iter().collect::<Vec<_>>(), [undone]);
    let again = system.write_id(&mut a);
    assert_eq!(a.write_ids().iter().collect::<Vec<_>>(), [kept, again]);
    system.publish(a);
    assert_eq!(system.ids().status(undone), WriteStatus::Aborted);
    assert!(matches!(
        system.ids().status(kept),
        WriteStatus::Committed(_)
    ));
}

#[test]
fn a_writer_waits_until_the_other_transaction_ends() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let id = system.write_id(&mut a);
    let other = Arc::clone(&system);
    let waiter = std::thread::spawn(move || {
        let b = other.begin();
        let outcome = other.wait_for_write(&b, id, row(&index, "w"), LONG);
        other.publish(b);
        outcome
    });
    wait_for_waits(&system, 1);
    system.publish(a);
    assert_eq!(waiter.join().unwrap(), Ok(()));
    assert_eq!(system.counts().active, 0);
}

#[test]
fn waits_end_by_timeout_and_by_interrupt() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let id = system.write_id(&mut a);
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    let mut b = system.begin();
    let none = Duration::ZERO;
    assert_eq!(
        system.wait_for_write(&b, id, row(&index, "w"), none),
        Err(WaitError::Timeout)
    );
    assert_eq!(
        system.lock(&mut b, row(&index, "x"), LockMode::Shared, none),
        Err(WaitError::Timeout)
    );
    b.handle().interrupt();
    assert_eq!(
        system.wait_for_write(&b, id, row(&index, "w"), LONG),
        Err(WaitError::Interrupted)
    );
    assert_eq!(
        system.lock(&mut b, row(&index, "x"), LockMode::Shared, LONG),
        Err(WaitError::Interrupted)
    );
    system.abort(a);
    b.handle().clear_interrupt();
    assert_eq!(
        system.lock(&mut b, row(&index, "x"), LockMode::Shared, none),
        Ok(())
    );
    system.abort(b);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn a_timeout_that_the_clock_cannot_represent_never_expires() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let id = system.write_id(&mut a);
    let is_locked = try_lock(&system, &mut a, row(&index, "x"), LockMode::Exclusive);
    assert!(is_locked);
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        let writer = scope.spawn(move || {
            let b = system.begin();
            system.wait_for_write(&b, id, row(index, "w"), Duration::MAX)
        });
        wait_for_waits(system, 1);
        let locker = scope.spawn(move || {
            let mut c = system.begin();
            let row = row(index, "x");
            let locked = system.lock(&mut c, row, LockMode::Exclusive, Duration::MAX);
            system.abort(c);
            locked
        });
        wait_for_waits(system, 2);
        system.publish(a);
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert_eq!(locker.join().unwrap(), Ok(()));
    });
}

#[test]
fn locks_are_granted_first_come_first_served() {
    let system = system();
    let index = index();
    let mut holder = system.begin();
    assert!(try_lock(
        &system,
        &mut holder,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let sender = sender.clone();
            let (system, index) = (&system, &index);
            scope.spawn(move || {
                let mut mine = system.begin();
                system
                    .lock(&mut mine, row(index, "x"), LockMode::Exclusive, LONG)
                    .unwrap();
                sender.send(n).unwrap();
                system.publish(mine);
            });
            wait_for_waits(system, n + 1);
        }
        system.publish(holder);
        let order: Vec<u64> = (0..4).map(|_| receiver.recv().unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    });
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn readers_share_and_an_upgrade_is_granted_first() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let mut b = system.begin();
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Shared
    ));
    assert!(try_lock(
        &system,
        &mut b,
        row(&index, "x"),
        LockMode::Shared
    ));
    assert!(!try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    assert!(
        system
            .locks()
            .conflicts(row(&index, "x"), a.id(), LockMode::Exclusive)
    );
    system.unlock(&mut b, row(&index, "x").lock);
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    assert!(!try_lock(
        &system,
        &mut b,
        row(&index, "x"),
        LockMode::Shared
    ));
    system.abort(a);
    system.abort(b);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn a_deadlock_of_row_locks_is_refused() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let mut b = system.begin();
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    assert!(try_lock(
        &system,
        &mut b,
        row(&index, "y"),
        LockMode::Exclusive
    ));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = system.lock(&mut a, row(&index, "y"), LockMode::Exclusive, LONG);
            system.publish(a);
            outcome
        });
        wait_for_waits(&system, 1);
        assert_eq!(
            system.lock(&mut b, row(&index, "x"), LockMode::Exclusive, LONG),
            Err(WaitError::Deadlock)
        );
        system.abort(b);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert_eq!(system.counts().deadlocks, 1);
}

#[test]
fn a_deadlock_of_writes_and_upgrades_is_refused() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    let mut b = system.begin();
    let written = system.write_id(&mut a);
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "s"),
        LockMode::Shared
    ));
    assert!(try_lock(
        &system,
        &mut b,
        row(&index, "s"),
        LockMode::Shared
    ));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = system.lock(&mut a, row(&index, "s"), LockMode::Exclusive, LONG);
            system.publish(a);
            outcome
        });
        wait_for_waits(&system, 1);
        assert_eq!(
            system.wait_for_write(&b, written, row(&index, "w"), LONG),
            Err(WaitError::Deadlock)
        );
        system.abort(b);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_written_rows_lock_is_released_unless_a_savepoint_came_between() {
    let system = system();
    let index = index();
    let mut a = system.begin();
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    system.unlock_written(&mut a, row(&index, "x").lock);
    assert_eq!(system.locks().count(), 0);
    assert!(try_lock(
        &system,
        &mut a,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    a.savepoint();
    system.unlock_written(&mut a, row(&index, "x").lock);
    assert_eq!(system.locks().count(), 1);
    system.abort(a);
    assert_eq!(system.locks().count(), 0);
}

/// A file in which the first half of the lock id of `key` is the same as in `like`.
fn file_with_equal_hash(key: &[u8], like: (FileId, &[u8])) -> FileId {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let inverse = (0..6).fold(FACTOR, |inverse: u64, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse)))
    });
    let (file, other) = like;
    let mixed = hash_key_128(other).0 ^ file.0.wrapping_mul(FACTOR);
    FileId((mixed ^ hash_key_128(key).0).wrapping_mul(inverse))
}

#[test]
fn writing_a_row_does_not_release_another_one_with_half_of_the_hash() {
    let system = system();
    let index = index();
    let locked = row(&index, "x");
    let file = file_with_equal_hash(b"y", (index.file(), b"x"));
    let other = Arc::new(RangeLocks::new(file));
    let written = row(&other, "y");
    assert_eq!(written.lock.hash(), locked.lock.hash());
    let mut a = system.begin();
    assert!(try_lock(&system, &mut a, locked, LockMode::Exclusive));
    assert!(!a.holds_unwritten(written.lock, LockMode::Exclusive));
    system.unlock_written(&mut a, written.lock);
    assert_eq!(system.locks().count(), 1);
    let mut b = system.begin();
    assert!(!try_lock(&system, &mut b, locked, LockMode::Shared));
    assert!(try_lock(&system, &mut b, written, LockMode::Exclusive));
    system.abort(a);
    system.abort(b);
}

#[test]
fn the_commit_floor_of_a_committing_transaction_is_reported() {
    let system = system();
    let mut a = system.begin();
    system.write_id(&mut a);
    assert_eq!(system.commit_floor(), None);
    a.handle().set_commit_floor(Lsn(77));
    assert_eq!(system.commit_floor(), Some(Lsn(77)));
    system.publish(a);
    assert_eq!(system.commit_floor(), None);
}

#[test]
fn counters_of_many_threads_never_lose_an_update() {
    // Every thread increments one row under an exclusive lock. The row is an atomic cell.
    let system = system();
    let index = index();
    let cell = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mut mine = system.begin();
                    system
                        .lock(&mut mine, row(&index, "n"), LockMode::Exclusive, LONG)
                        .unwrap();
                    let value = cell.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    cell.store(value + 1, Ordering::Relaxed);
                    system.publish(mine);
                }
            });
        }
    });
    assert_eq!(cell.load(Ordering::Relaxed), 2000);
    assert_eq!(system.locks().count(), 0);
}
