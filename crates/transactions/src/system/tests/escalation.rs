//! Tests of the lock memory limit and of lock escalation.

use super::*;
use crate::lock_types::{BlockerKind, RangeLockKind};
use crate::row_locks::LOCK_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn number(n: u64) -> String {
    format!("{n:04}")
}

fn lock_numbers(
    system: &TransactionSystem,
    index: &Arc<RangeLocks>,
    transaction: &mut Transaction,
    numbers: impl Iterator<Item = u64>,
    mode: LockMode,
) -> Result<(), WaitError> {
    for n in numbers {
        assert!(system.try_lock(transaction, row(index, &number(n)), mode)?);
    }
    Ok(())
}

fn is_free(system: &TransactionSystem, index: &Arc<RangeLocks>, n: u64, mode: LockMode) -> bool {
    let key = number(n);
    let locks = system.locks();
    !locks.conflicts(row(index, &key), TransactionId(0), mode)
}

#[test]
fn a_scan_of_any_length_fits_into_the_limit() {
    let system = system();
    let index = index();
    let bound = 100 * LOCK_BYTES;
    system.set_lock_bytes_max(bound);
    let mut big = system.begin();
    lock_numbers(&system, &index, &mut big, 100..5000, LockMode::Shared).unwrap();
    assert!(system.lock_bytes() <= bound);
    assert_eq!(big.handle().lock_bytes(), system.lock_bytes());
    assert!(system.counts().lock_escalations > 0);
    assert_eq!(system.counts().lock_refusals, 0);
    for held in [100, 2000, 4999] {
        assert!(
            !is_free(&system, &index, held, LockMode::Exclusive),
            "{held}"
        );
        assert!(is_free(&system, &index, held, LockMode::Shared), "{held}");
        assert!(big.holds(row(&index, &number(held)), LockMode::Shared));
    }
    assert!(is_free(&system, &index, 99, LockMode::Exclusive));
    assert!(is_free(&system, &index, 5000, LockMode::Exclusive));
    system.publish(big);
    assert!(is_free(&system, &index, 2000, LockMode::Exclusive));
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn the_largest_holder_escalates_when_another_runs_out_of_memory() {
    let system = system();
    let index = index();
    let mut big = system.begin();
    lock_numbers(&system, &index, &mut big, 0..60, LockMode::Exclusive).unwrap();
    system.set_lock_bytes_max(64 * LOCK_BYTES);
    let mut small = system.begin();
    lock_numbers(&system, &index, &mut small, 5000..5004, LockMode::Exclusive).unwrap();
    assert_eq!(system.counts().lock_escalations, 0);
    lock_numbers(&system, &index, &mut big, 60..61, LockMode::Exclusive).unwrap();
    assert_eq!(system.counts().lock_escalations, 1);
    lock_numbers(&system, &index, &mut small, 5004..5020, LockMode::Exclusive).unwrap();
    assert_eq!(small.locks_held(), 20);
    system.abort(big);
    system.abort(small);
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn a_list_of_write_ids_does_not_make_the_largest_holder() {
    let system = system();
    let index = index();
    let mut listed = system.begin();
    while listed.handle().lock_bytes() < 200 * LOCK_BYTES {
        system.write_id(&mut listed);
        let savepoint = listed.savepoint();
        system.write_id(&mut listed);
        system.rollback_to(&mut listed, savepoint);
    }
    let ids = listed.handle().lock_bytes();
    let mut big = system.begin();
    lock_numbers(&system, &index, &mut big, 0..60, LockMode::Exclusive).unwrap();
    system.set_lock_bytes_max(ids + 64 * LOCK_BYTES);
    let mut small = system.begin();
    lock_numbers(&system, &index, &mut small, 5000..5004, LockMode::Exclusive).unwrap();
    lock_numbers(&system, &index, &mut big, 60..61, LockMode::Exclusive).unwrap();
    assert_eq!(system.counts().lock_escalations, 1);
    assert!(big.locks_held() < 5 && small.locks_held() == 4);
    system.abort(big);
    system.abort(small);
    system.abort(listed);
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn a_request_still_waits_after_its_row_became_part_of_a_row_range() {
    let system = system();
    let index = index();
    let mut big = system.begin();
    lock_numbers(&system, &index, &mut big, 0..60, LockMode::Exclusive).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // The first one starts to wait before the escalation, the others after it.
        for n in 0..3u64 {
            if n == 1 {
                system.set_lock_bytes_max(16 * LOCK_BYTES);
                lock_numbers(&system, &index, &mut big, 60..61, LockMode::Shared).unwrap();
                assert_eq!(system.counts().lock_escalations, 1);
                assert_eq!(big.locks_held(), 2);
            }
            let (system, index, order) = (&system, &index, &order);
            scope.spawn(move || {
                let mut mine = system.begin();
                let key = number(30);
                system
                    .lock(&mut mine, row(index, &key), LockMode::Exclusive, LONG)
                    .unwrap();
                order.lock().push(n);
                system.publish(mine);
            });
            wait_for_waits(system, n + 1);
        }
        scope.spawn(|| {
            let mut mine = system.begin();
            let key = number(40);
            system
                .lock(&mut mine, row(&index, &key), LockMode::Shared, LONG)
                .unwrap();
            system.publish(mine);
        });
        wait_for_waits(&system, 4);
        let waits = system.lock_waits();
        for wait in &waits {
            let mut blockers = wait.blockers.iter();
            let blocker = blockers.find(|blocker| blocker.participant.transaction == big.id());
            // The row lock for which a request waited was not replaced by the row range.
            let expected = match *wait.request.key == *number(30).as_bytes() {
                true => BlockerKind::Row,
                false => BlockerKind::RowRange,
            };
            assert_eq!(blocker.unwrap().kind, expected);
        }
        assert!(order.lock().is_empty());
        system.publish(big);
    });
    assert_eq!(*order.lock(), [0, 1, 2]);
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn row_ranges_that_would_conflict_are_not_added() {
    let system = system();
    let index = index();
    let (mut a, mut b) = (system.begin(), system.begin());
    for n in (0..80).step_by(2) {
        lock_numbers(&system, &index, &mut a, n..n + 1, LockMode::Exclusive).unwrap();
        lock_numbers(&system, &index, &mut b, n + 1..n + 2, LockMode::Exclusive).unwrap();
    }
    system.set_lock_bytes_max(32 * LOCK_BYTES);
    // The first requester gets its row range, but the other locks still exceed the limit. The
    // second one keeps its locks.
    lock_numbers(&system, &index, &mut a, 200..201, LockMode::Exclusive).unwrap_err();
    assert_eq!(a.locks_held(), 0);
    lock_numbers(&system, &index, &mut b, 300..301, LockMode::Exclusive).unwrap_err();
    assert_eq!(b.locks_held(), 40);
    assert_eq!(system.counts().lock_refusals, 2);
    assert!(!is_free(&system, &index, 31, LockMode::Shared));
    system.abort(b);
    lock_numbers(&system, &index, &mut a, 31..32, LockMode::Exclusive).unwrap();
    system.abort(a);
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn gap_locks_are_merged() {
    let system = system();
    let index = index();
    system.set_lock_bytes_max(20_000);
    let mut reader = system.begin();
    for n in 0..5000u64 {
        let low = number(2 * n);
        let high = format!("{low}x");
        system
            .lock_range(
                &mut reader,
                &index,
                RangeLockKind::Gap,
                (low.as_bytes(), Some(high.as_bytes())),
                LONG,
            )
            .unwrap();
    }
    assert!(system.lock_bytes() <= 20_000);
    assert!(index.blocks(b"0003", true, TransactionId(0)));
    assert!(!index.blocks(b"9999", true, TransactionId(0)));
    system.abort(reader);
    assert_eq!(system.lock_bytes(), 0);
    assert!(!index.in_use());
}

/// The locks granted so far: (transaction, mode) by row.
#[derive(Default)]
struct Granted(BTreeMap<u64, Vec<(usize, LockMode)>>);

impl Granted {
    fn conflicts(&self, n: u64, who: usize, mode: LockMode) -> bool {
        let holders = self.0.get(&n).into_iter().flatten();
        holders
            .clone()
            .any(|(holder, held)| *holder != who && held.conflicts(mode))
    }
}

proptest! {
    /// Steps: (transaction, row, action).
    #[test]
    fn escalation_never_grants_what_conflicts(
        steps in prop::collection::vec((0usize..3, 0u64..60, 0u8..20), 1..400),
        bound in 12u64..80,
    ) {
        let system = system();
        let index = index();
        system.set_lock_bytes_max(bound * LOCK_BYTES);
        let mut transactions: Vec<Transaction> = (0..3).map(|_| system.begin()).collect();
        let mut granted = Granted::default();
        for (who, n, what) in steps {
            let end = |transactions: &mut Vec<Transaction>, granted: &mut Granted| {
                let ended = std::mem::replace(&mut transactions[who], system.begin());
                system.abort(ended);
                for holders in granted.0.values_mut() {
                    holders.retain(|(holder, _)| *holder != who);
                }
            };
            if what == 0 {
                end(&mut transactions, &mut granted);
                continue;
            }
            let mode = if what < 10 { LockMode::Shared } else { LockMode::Exclusive };
            let key = number(n);
            let name = row(&index, &key);
            let escalated = system.counts().lock_escalations > 0;
            match system.try_lock(&mut transactions[who], name, mode) {
                Ok(true) => {
                    prop_assert!(!granted.conflicts(n, who, mode), "{who} got {n}");
                    granted.0.entry(n).or_default().push((who, mode));
                    prop_assert!(transactions[who].holds(name, mode));
                }
                Ok(false) => prop_assert!(escalated || granted.conflicts(n, who, mode)),
                Err(_) => {
                    prop_assert!(system.lock_bytes() > bound * LOCK_BYTES);
                    end(&mut transactions, &mut granted);
                }
            }
            // Each granted lock blocks conflicting locks of other transactions.
            for (n, holders) in &granted.0 {
                for (holder, held) in holders {
                    for other in (0..3).filter(|other| other != holder) {
                        let key = number(*n);
                        let wanted = row(&index, &key);
                        let id = transactions[other].id();
                        prop_assert!(system.locks().conflicts(wanted, id, LockMode::Exclusive));
                        if *held == LockMode::Exclusive {
                            prop_assert!(system.locks().conflicts(wanted, id, LockMode::Shared));
                        }
                    }
                }
            }
        }
        for transaction in transactions {
            system.abort(transaction);
        }
        prop_assert_eq!(system.lock_bytes(), 0);
        prop_assert!(!index.in_use());
    }
}
