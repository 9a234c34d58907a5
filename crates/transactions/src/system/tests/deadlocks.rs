//! Tests of the choice of deadlock victims and of deadlock reports.

use super::*;
use crate::lock_types::BlockerKind;
use crate::report::WaitKind;

/// Locks `x` exclusively, then ends the transaction.
fn wait_and_end(
    system: &TransactionSystem,
    index: &Arc<RangeLocks>,
    mut transaction: Transaction,
    x: &str,
) -> Result<(), WaitError> {
    let outcome = system.lock(&mut transaction, row(index, x), LockMode::Exclusive, LONG);
    match outcome {
        Ok(()) => system.publish(transaction),
        Err(_) => drop(system.abort(transaction)),
    }
    outcome
}

/// Creates a deadlock: `a` holds x and waits for y first; then `b`, which holds y, requests x.
/// Returns the outcomes of `a` and `b`.
fn create_deadlock(
    system: &TransactionSystem,
    index: &Arc<RangeLocks>,
    mut a: Transaction,
    mut b: Transaction,
) -> [Result<(), WaitError>; 2] {
    assert!(try_lock(
        system,
        &mut a,
        row(index, "x"),
        LockMode::Exclusive
    ));
    assert!(try_lock(
        system,
        &mut b,
        row(index, "y"),
        LockMode::Exclusive
    ));
    let before = system.counts().lock_waits;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| wait_and_end(system, index, a, "y"));
        wait_for_waits(system, before + 1);
        let second = wait_and_end(system, index, b, "x");
        [first.join().unwrap(), second]
    })
}

#[test]
fn the_cheapest_member_of_a_cycle_is_the_victim() {
    let system = system();
    let index = index();
    let (a, b) = (system.begin(), system.begin());
    // Neither has written, so the requester that closes the cycle is the victim, whichever is
    // younger.
    assert_eq!(
        create_deadlock(&system, &index, a, b),
        [Ok(()), Err(WaitError::Deadlock)]
    );
    let (b, a) = (system.begin(), system.begin());
    assert_eq!(
        create_deadlock(&system, &index, a, b),
        [Ok(()), Err(WaitError::Deadlock)]
    );
    // The transaction with more locks, or more rows written, survives.
    let (a, mut b) = (system.begin(), system.begin());
    assert!(try_lock(
        &system,
        &mut b,
        row(&index, "z"),
        LockMode::Shared
    ));
    assert_eq!(
        create_deadlock(&system, &index, a, b),
        [Err(WaitError::Deadlock), Ok(())]
    );
    let (mut a, b) = (system.begin(), system.begin());
    for name in ["u", "v", "w"] {
        assert!(try_lock(
            &system,
            &mut a,
            row(&index, name),
            LockMode::Shared
        ));
    }
    b.handle().note_row_written();
    assert_eq!(
        create_deadlock(&system, &index, a, b),
        [Err(WaitError::Deadlock), Ok(())]
    );
    // The weight has precedence.
    let (a, b) = (system.begin(), system.begin());
    a.handle().set_weight(1);
    b.handle().note_row_written();
    assert_eq!(
        create_deadlock(&system, &index, a, b),
        [Ok(()), Err(WaitError::Deadlock)]
    );
    assert_eq!(system.counts().deadlocks, 5);
    assert_eq!(system.counts().waiting, 0);
    assert_eq!(system.locks().count(), 0);
}

#[test]
fn one_wait_may_close_several_cycles() {
    let system = system();
    let index = index();
    let mut last = system.begin();
    last.handle().set_weight(1);
    assert!(try_lock(
        &system,
        &mut last,
        row(&index, "x"),
        LockMode::Exclusive
    ));
    let mut readers = [system.begin(), system.begin()];
    for reader in &mut readers {
        assert!(try_lock(
            &system,
            reader,
            row(&index, "s"),
            LockMode::Shared
        ));
    }
    std::thread::scope(|scope| {
        let waits = readers.map(|reader| {
            let (system, index) = (&system, &index);
            scope.spawn(move || wait_and_end(system, index, reader, "x"))
        });
        wait_for_waits(&system, 2);
        let got = system.lock(&mut last, row(&index, "s"), LockMode::Exclusive, LONG);
        assert_eq!(got, Ok(()));
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Err(WaitError::Deadlock));
        }
    });
    system.publish(last);
    assert_eq!(system.counts().deadlocks, 2);
}

#[test]
fn a_deadlock_of_three_is_reported_with_its_members_in_order() {
    let system = system();
    let index = index();
    let names = ["p", "q", "r"];
    let mut members: Vec<Transaction> = names
        .iter()
        .zip(11u64..)
        .map(|(name, thread)| {
            let mut member = system.begin();
            member.handle().set_thread(thread);
            assert!(try_lock(
                &system,
                &mut member,
                row(&index, name),
                LockMode::Exclusive
            ));
            member
        })
        .collect();
    let written = system.write_id(&mut members[0]);
    members[0].handle().note_row_written();
    let ids: Vec<TransactionId> = members.iter().map(Transaction::id).collect();
    std::thread::scope(|scope| {
        let mut waits = Vec::new();
        let third = members.pop().unwrap();
        for (member, wanted) in members.into_iter().zip(["q", "r"]) {
            let (system, index) = (&system, &index);
            let before = system.counts().lock_waits;
            waits.push(scope.spawn(move || wait_and_end(system, index, member, wanted)));
            wait_for_waits(system, before + 1);
        }
        let waiting = system.lock_waits();
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting[0].requester.thread, 11);
        assert_eq!(waiting[0].blockers[0].participant.thread, 12);
        assert_eq!(waiting[0].blockers[0].kind, BlockerKind::Row);
        assert_eq!(&*waiting[0].request.key, b"q");
        let outcome = system.wait_for_write(&third, written, row(&index, "k"), LONG);
        assert_eq!(outcome, Err(WaitError::Deadlock));
        let failed = third.handle().take_failed_wait().unwrap();
        assert_eq!(failed.request.kind, WaitKind::Write);
        assert_eq!(failed.blockers[0].participant.transaction, ids[0]);
        assert_eq!(failed.blockers[0].kind, BlockerKind::Written);
        system.abort(third);
        assert!(waits.into_iter().all(|wait| wait.join().unwrap().is_ok()));
    });
    let report = system.last_deadlock().unwrap();
    assert_eq!(report.victim, ids[2]);
    let mut rotated: Vec<u64> = report
        .members
        .iter()
        .map(|m| m.participant.thread)
        .collect();
    let first = rotated.iter().position(|thread| *thread == 11).unwrap();
    rotated.rotate_left(first);
    assert_eq!(rotated, [11, 12, 13]);
    let first = report
        .members
        .iter()
        .find(|m| m.participant.thread == 11)
        .unwrap();
    assert_eq!(first.rows_written, 1);
    assert_eq!(first.request.kind, WaitKind::Lock(LockMode::Exclusive));
    let blocked_by = report
        .members
        .iter()
        .map(|m| (m.participant.thread, m.blocked_by));
    let mut blocked_by: Vec<_> = blocked_by.collect();
    blocked_by.sort_by_key(|(thread, _)| *thread);
    let (row, written) = (BlockerKind::Row, BlockerKind::Written);
    assert_eq!(blocked_by, [(11, row), (12, row), (13, written)]);
}

#[test]
fn a_request_that_does_not_wait_causes_no_deadlock() {
    let system = system();
    let index = index();
    let (mut a, mut b) = (system.begin(), system.begin());
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
    a.handle().note_row_written();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_and_end(&system, &index, b, "x"));
        wait_for_waits(&system, 1);
        let none = Duration::ZERO;
        let refused = system.lock(&mut a, row(&index, "y"), LockMode::Exclusive, none);
        assert_eq!(refused, Err(WaitError::Timeout));
        let failed = a.handle().take_failed_wait().unwrap();
        assert_eq!(&*failed.request.key, b"y");
        system.publish(a);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert_eq!(system.counts().deadlocks, 0);
}
