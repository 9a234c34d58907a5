//! Tests of the write ids of transactions with many statements.

use super::*;
use teak_base::CommitSequence;

/// A statement that writes.
fn statement(system: &TransactionSystem, transaction: &mut Transaction) -> WriteId {
    transaction.savepoint();
    system.write_id(transaction)
}

/// Upper limit of the number of ranges of a transaction with this many statements.
fn ranges_max(statements: u64) -> u64 {
    // Blocks of one id, blocks that grow by 1/64 each, and blocks of 4096 ids.
    64 * 2 + 64 * 9 + statements / 4096
}

#[test]
fn alternating_statements_take_few_ranges() {
    const STATEMENTS: u64 = 300_000;
    let system = system();
    let (mut a, mut b) = (system.begin(), system.begin());
    let mut last = (WriteId(0), WriteId(0));
    for _ in 0..STATEMENTS {
        let ids = (statement(&system, &mut a), statement(&system, &mut b));
        assert!(last.0 < ids.0 && last.1 < ids.1 && ids.0 != ids.1);
        assert_eq!(system.ids().active_owner(ids.0), Some(a.id()));
        assert_eq!(system.ids().active_owner(ids.1), Some(b.id()));
        last = ids;
    }
    for transaction in [&a, &b] {
        let ranges = transaction.write_ids().ranges().len() as u64;
        assert!(ranges <= ranges_max(STATEMENTS), "{ranges} ranges");
        assert_eq!(transaction.write_ids().len(), STATEMENTS);
        assert_eq!(transaction.handle().write_ids(), STATEMENTS);
    }
    assert!(system.ids().next().0 <= 2 * STATEMENTS * 66 / 64 + 2 * 4096);
    system.publish(a);
    system.abort(b);
    assert!(matches!(
        system.ids().status(last.0),
        WriteStatus::Committed(_)
    ));
    assert_eq!(system.ids().status(last.1), WriteStatus::Aborted);
    // The reserved ids that no statement took are not active either.
    let next = system.ids().next();
    assert!(system.ids().active_below(next).is_empty());
    assert_eq!(system.prune(), next);
}

#[test]
fn few_statements_leave_no_unused_ids() {
    let system = system();
    let mut a = system.begin();
    for _ in 0..127 {
        statement(&system, &mut a);
    }
    system.publish(a);
    assert_eq!(system.ids().next(), WriteId(128));
}

#[test]
fn reserved_ids_outlive_a_savepoint_rollback() {
    let system = system();
    let (mut a, mut b) = (system.begin(), system.begin());
    for _ in 0..1000 {
        statement(&system, &mut a);
        statement(&system, &mut b);
    }
    let kept: Vec<WriteId> = a.write_ids().iter().collect();
    let savepoint = a.savepoint();
    let undone: Vec<WriteId> = (0..5).map(|_| statement(&system, &mut a)).collect();
    system.rollback_to(&mut a, savepoint);
    let again: Vec<WriteId> = (0..100).map(|_| statement(&system, &mut a)).collect();
    assert!(undone.last() < again.first());
    a.close_write_ids();
    for id in kept.iter().chain(&again) {
        assert!(a.write_ids().contains(*id));
    }
    assert!(undone.iter().all(|id| !a.write_ids().contains(*id)));
    // All writes are undone, so only reserved ids that no write has taken are left.
    system.rollback_to(&mut b, Savepoint(0));
    assert!(!b.has_writes());
    let committed = system.counts().committed;
    system.publish(b);
    assert_eq!(system.counts().committed, committed);
    system.publish(a);
    let sequence = CommitSequence(system.newest().0);
    for id in kept.iter().chain(&again) {
        assert_eq!(system.ids().status(*id), WriteStatus::Committed(sequence));
    }
    let next = system.ids().next();
    assert!(system.ids().active_below(next).is_empty());
}

#[test]
fn a_list_that_rollbacks_divide_counts_as_lock_memory() {
    const BYTES_MAX: u64 = 64 << 10;
    let system = system();
    system.set_lock_bytes_max(BYTES_MAX);
    let mut a = system.begin();
    let mut refused = None;
    for _ in 0..100_000 {
        statement(&system, &mut a);
        let savepoint = a.savepoint();
        system.write_id(&mut a);
        system.rollback_to(&mut a, savepoint);
        if let Err(error) = system.admit_write(&mut a) {
            refused = Some(error);
            break;
        }
    }
    assert_eq!(refused, Some(WaitError::TooManyLocks));
    assert_eq!(system.counts().lock_refusals, 1);
    let ranges = a.write_ids().ranges().len() as u64;
    assert!(ranges * 16 <= BYTES_MAX + (32 << 10), "{ranges} ranges");
    assert_eq!(a.handle().lock_bytes(), system.lock_bytes());
    // A transaction with few write ids can still write.
    let mut b = system.begin();
    statement(&system, &mut b);
    system.admit_write(&mut b).unwrap();
    system.publish(b);
    system.publish(a);
    assert_eq!(system.lock_bytes(), 0);
}
