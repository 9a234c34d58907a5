//! Transactions against each other: locks, waits, deadlocks and snapshots.

use super::*;
use std::sync::mpsc;
use teak_base::FileId;

const LONG: Duration = Duration::from_secs(60);

fn system() -> Arc<TransactionSystem> {
    let ids = WriteIdTable::new(WriteId(1), WriteId(1), &[]);
    Arc::new(TransactionSystem::new(ids, 1))
}

fn row(name: &str) -> LockId {
    LockId::new(FileId(1), name.as_bytes())
}

fn try_lock(
    system: &TransactionSystem,
    transaction: &mut Transaction,
    lock: LockId,
    mode: LockMode,
) -> bool {
    system.try_lock(transaction, lock, mode).unwrap()
}

/// Waits until as many transactions wait for a row as the test has made wait.
fn until_waits(system: &TransactionSystem, waits: u64) {
    while system.counts().lock_waits < waits {
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
    let old = system.view(&reader, Reads::Snapshot(before));
    assert!(!old.sees(first) && !old.sees(second));
    let mut later = system.begin();
    let after = system.take_snapshot(&mut later);
    let new = system.view(&later, Reads::Snapshot(after));
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
    let mark = a.savepoint();
    let gone = system.write_id(&mut a);
    assert_eq!(system.rollback_to(&mut a, mark), [gone]);
    let again = system.write_id(&mut a);
    assert_eq!(a.write_ids(), [kept, again]);
    system.publish(a);
    assert_eq!(system.ids().fate(gone), WriteFate::Aborted);
    assert!(matches!(system.ids().fate(kept), WriteFate::Committed(_)));
}

#[test]
fn a_writer_waits_until_the_other_is_decided() {
    let system = system();
    let mut a = system.begin();
    let id = system.write_id(&mut a);
    let other = Arc::clone(&system);
    let waiter = std::thread::spawn(move || {
        let b = other.begin();
        let outcome = other.wait_for_write(&b, id, LONG);
        other.publish(b);
        outcome
    });
    until_waits(&system, 1);
    system.publish(a);
    assert_eq!(waiter.join().unwrap(), Ok(()));
    assert_eq!(system.counts().active, 0);
}

#[test]
fn waits_end_by_timeout_and_by_interrupt() {
    let system = system();
    let mut a = system.begin();
    let id = system.write_id(&mut a);
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    let mut b = system.begin();
    let none = Duration::ZERO;
    assert_eq!(system.wait_for_write(&b, id, none), Err(WaitError::Timeout));
    assert_eq!(
        system.lock(&mut b, row("x"), LockMode::Shared, none),
        Err(WaitError::Timeout)
    );
    b.shared().interrupt();
    assert_eq!(
        system.wait_for_write(&b, id, LONG),
        Err(WaitError::Interrupted)
    );
    assert_eq!(
        system.lock(&mut b, row("x"), LockMode::Shared, LONG),
        Err(WaitError::Interrupted)
    );
    system.abort(a);
    b.shared().clear_interrupt();
    assert_eq!(
        system.lock(&mut b, row("x"), LockMode::Shared, none),
        Ok(())
    );
    system.abort(b);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn locks_are_granted_first_come_first_served() {
    let system = system();
    let mut holder = system.begin();
    assert!(try_lock(
        &system,
        &mut holder,
        row("x"),
        LockMode::Exclusive
    ));
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let sender = sender.clone();
            let system = &system;
            scope.spawn(move || {
                let mut mine = system.begin();
                system
                    .lock(&mut mine, row("x"), LockMode::Exclusive, LONG)
                    .unwrap();
                sender.send(n).unwrap();
                system.publish(mine);
            });
            until_waits(system, n + 1);
        }
        system.publish(holder);
        let order: Vec<u64> = (0..4).map(|_| receiver.recv().unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 3]);
    });
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn readers_share_and_an_upgrade_goes_first() {
    let system = system();
    let mut a = system.begin();
    let mut b = system.begin();
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Shared));
    assert!(try_lock(&system, &mut b, row("x"), LockMode::Shared));
    assert!(!try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    assert!(
        system
            .locks()
            .conflicts(row("x"), a.id(), LockMode::Exclusive)
    );
    system.unlock(&mut b, row("x"));
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    assert!(!try_lock(&system, &mut b, row("x"), LockMode::Shared));
    system.abort(a);
    system.abort(b);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn a_circle_of_row_locks_is_refused() {
    let system = system();
    let mut a = system.begin();
    let mut b = system.begin();
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    assert!(try_lock(&system, &mut b, row("y"), LockMode::Exclusive));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = system.lock(&mut a, row("y"), LockMode::Exclusive, LONG);
            system.publish(a);
            outcome
        });
        until_waits(&system, 1);
        assert_eq!(
            system.lock(&mut b, row("x"), LockMode::Exclusive, LONG),
            Err(WaitError::Deadlock)
        );
        system.abort(b);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert_eq!(system.counts().deadlocks, 1);
}

#[test]
fn a_circle_of_writes_and_upgrades_is_refused() {
    let system = system();
    let mut a = system.begin();
    let mut b = system.begin();
    let written = system.write_id(&mut a);
    assert!(try_lock(&system, &mut a, row("s"), LockMode::Shared));
    assert!(try_lock(&system, &mut b, row("s"), LockMode::Shared));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = system.lock(&mut a, row("s"), LockMode::Exclusive, LONG);
            system.publish(a);
            outcome
        });
        until_waits(&system, 1);
        assert_eq!(
            system.wait_for_write(&b, written, LONG),
            Err(WaitError::Deadlock)
        );
        system.abort(b);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_written_rows_lock_goes_unless_a_mark_came_between() {
    let system = system();
    let mut a = system.begin();
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    system.unlock_written(&mut a, row("x"));
    assert_eq!(system.locks().count(), 0);
    assert!(try_lock(&system, &mut a, row("x"), LockMode::Exclusive));
    a.savepoint();
    system.unlock_written(&mut a, row("x"));
    assert_eq!(system.locks().count(), 1);
    system.abort(a);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn the_floor_of_a_committing_transaction_is_kept() {
    let system = system();
    let mut a = system.begin();
    system.write_id(&mut a);
    assert_eq!(system.commit_floor(), None);
    a.shared().set_commit_floor(Lsn(77));
    assert_eq!(system.commit_floor(), Some(Lsn(77)));
    system.publish(a);
    assert_eq!(system.commit_floor(), None);
}

#[test]
fn counters_of_many_threads_never_lose_an_update() {
    // Every thread adds to one row under an exclusive lock; the row is a cell.
    let system = system();
    let cell = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mut mine = system.begin();
                    system
                        .lock(&mut mine, row("n"), LockMode::Exclusive, LONG)
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

#[test]
fn locks_beyond_their_memory_are_refused() {
    let system = system();
    system.set_lock_bytes_max(100 * 128);
    let mut a = system.begin();
    let mut granted = 0;
    let refused = loop {
        match system.try_lock(&mut a, row(&format!("{granted}")), LockMode::Shared) {
            Ok(got) => assert!(got),
            Err(error) => break error,
        }
        granted += 1;
    };
    assert_eq!(refused, WaitError::TooManyLocks);
    assert!((100..200).contains(&granted));
    system.abort(a);
    assert_eq!(system.locks().memory_bytes(), 0);
}

/// Keeps what it is told; while it is told, it looks whether `gate` is open.
#[derive(Default)]
struct Heard {
    waits: Mutex<Vec<(usize, usize)>>,
    gate: Mutex<()>,
}

impl WaitReports for Heard {
    fn wait_begins(&self, waiter: crate::Owner, holder: crate::Owner) {
        self.waits.lock().push((waiter.0, holder.0));
        drop(self.gate.lock());
    }
}

fn owned(system: &TransactionSystem, owner: usize) -> Transaction {
    let transaction = system.begin();
    transaction.shared().set_owner(crate::Owner(owner));
    transaction
}

#[test]
fn every_wait_is_reported_with_everyone_ahead() {
    let system = system();
    let heard = Arc::new(Heard::default());
    system.set_wait_reports(heard.clone());
    let mut writer = owned(&system, 1);
    let id = system.write_id(&mut writer);
    let reader = owned(&system, 2);
    let timeout = Duration::from_millis(1);
    let waited = system.wait_for_write(&reader, id, timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    assert_eq!(std::mem::take(&mut *heard.waits.lock()), [(2, 1)]);

    // A shared holder, behind it one that wants to write, behind that one more.
    let mut holder = owned(&system, 3);
    assert!(try_lock(&system, &mut holder, row("a"), LockMode::Shared));
    std::thread::scope(|scope| {
        let before = system.counts().lock_waits;
        for (waiting, owner) in [4, 5].into_iter().enumerate() {
            let system = &system;
            scope.spawn(move || {
                let mut transaction = owned(system, owner);
                system
                    .lock(&mut transaction, row("a"), LockMode::Exclusive, LONG)
                    .unwrap();
                system.abort(transaction);
            });
            while heard.waits.lock().len() < [1, 3][waiting] {
                std::thread::yield_now();
            }
        }
        assert_eq!(system.counts().lock_waits, before + 2);
        system.abort(holder);
    });
    let mut waits = std::mem::take(&mut *heard.waits.lock());
    waits.sort_unstable();
    assert_eq!(waits, [(4, 3), (5, 3), (5, 4)]);

    // A range, and nobody to name.
    let ranges = Arc::new(RangeLocks::default());
    let mut scanner = owned(&system, 6);
    system.mark_range(&mut scanner, &ranges, Keeps::Insertions, b"a", Some(b"c"));
    let waited = system.wait_for_range(&reader, &ranges, b"b", true, timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    scanner.shared().forget_owner();
    let waited = system.wait_for_range(&reader, &ranges, b"b", true, timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    assert_eq!(std::mem::take(&mut *heard.waits.lock()), [(2, 6)]);
}

#[test]
fn a_transaction_does_not_end_while_it_is_reported() {
    let system = system();
    let heard = Arc::new(Heard::default());
    system.set_wait_reports(heard.clone());
    let mut writer = owned(&system, 1);
    let id = system.write_id(&mut writer);
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let gate = heard.gate.lock();
        let (system, heard) = (&system, &heard);
        let waiter = scope.spawn(move || {
            let reader = owned(system, 2);
            system.wait_for_write(&reader, id, LONG)
        });
        while heard.waits.lock().is_empty() {
            std::thread::yield_now();
        }
        scope.spawn(move || {
            system.publish(writer);
            ended.send(()).unwrap();
        });
        assert!(end.recv_timeout(Duration::from_millis(50)).is_err());
        drop(gate);
        end.recv().unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
}
