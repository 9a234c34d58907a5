//! Tests of the wait queue of range locks.

use super::*;
use crate::lock_types::{BlockerKind, RangeLockKind};
use crate::range_queue_positions::RangeQueuePositions;
use crate::report::{LockRequest, WaitKind};
use std::sync::mpsc;
use std::time::Instant;

const NOW: Duration = Duration::ZERO;

fn lock_gap(
    system: &TransactionSystem,
    transaction: &mut Transaction,
    index: &Arc<RangeLocks>,
    (low, high): (&str, &str),
    timeout: Duration,
) -> Result<(), WaitError> {
    let range = (low.as_bytes(), Some(high.as_bytes()));
    system.lock_range(transaction, index, RangeLockKind::Gap, range, timeout)
}

fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "no transaction waits");
        std::thread::yield_now();
    }
}

fn wait_until_waiting(system: &TransactionSystem, count: u64) {
    wait_until(|| system.counts().waiting >= count);
}

fn wait_until_requested(system: &TransactionSystem, matches: impl Fn(&LockRequest) -> bool) {
    wait_until(|| {
        system
            .lock_waits()
            .iter()
            .any(|wait| matches(&wait.request))
    });
}

/// Executes a write that is blocked at two keys in turn. It keeps its positions in both queues
/// until it is done.
fn write_through(system: &TransactionSystem, places: [(&Arc<RangeLocks>, &[u8]); 2]) {
    let writer = system.begin();
    writer.handle().note_row_written();
    let mut queue_positions = RangeQueuePositions::default();
    for (index, key) in places {
        system
            .wait_for_range_lock(&writer, &mut queue_positions, index, key, true, LONG)
            .unwrap();
    }
    drop(queue_positions);
    system.publish(writer);
}

#[test]
fn later_range_requests_wait_for_a_blocked_write() {
    let system = system();
    let index = index();
    let mut first = system.begin();
    lock_gap(&system, &mut first, &index, ("b", "f"), LONG).unwrap();
    let (sender, order) = mpsc::channel();
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        let write_sender = sender.clone();
        scope.spawn(move || {
            let writer = system.begin();
            let mut queue_positions = RangeQueuePositions::default();
            while index.blocks(b"d", true, writer.id()) {
                system
                    .wait_for_range_lock(&writer, &mut queue_positions, index, b"d", true, LONG)
                    .unwrap();
            }
            write_sender.send("written").unwrap();
            drop(queue_positions);
            system.publish(writer);
        });
        wait_until_waiting(system, 1);

        // The queue does not affect requests for other keys, requests of the transaction that
        // blocks the write, or requests that do not wait.
        let mut elsewhere = system.begin();
        lock_gap(system, &mut elsewhere, index, ("d0", "z"), LONG).unwrap();
        lock_gap(system, &mut elsewhere, index, ("a", "d"), LONG).unwrap();
        lock_gap(system, &mut first, index, ("a", "z"), LONG).unwrap();
        let mut not_waiting = system.begin();
        lock_gap(system, &mut not_waiting, index, ("d", "e"), NOW).unwrap();
        system.publish(not_waiting);
        system.publish(elsewhere);

        let lock_sender = sender.clone();
        scope.spawn(move || {
            let mut later = system.begin();
            lock_gap(system, &mut later, index, ("a", "e"), LONG).unwrap();
            lock_sender.send("locked").unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let waits = system.lock_waits();
        let queued = waits
            .iter()
            .find(|wait| wait.request.kind == WaitKind::RangeRequest(RangeLockKind::Gap));
        assert_eq!(&*queued.unwrap().request.key, b"a");
        let blockers = &queued.unwrap().blockers;
        assert_eq!(blockers.len(), 1);
        assert_eq!(blockers[0].kind, BlockerKind::WaitingWrite);
        system.publish(first);
    });
    drop(sender);
    assert_eq!(order.iter().collect::<Vec<_>>(), ["written", "locked"]);
    assert!(!index.in_use());
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn a_blocked_write_reports_the_kind_of_each_range_lock() {
    let system = system();
    let index = index();
    let range = (b"b".as_slice(), Some(b"f".as_slice()));
    let holders = [
        &[RangeLockKind::Gap][..],
        &[RangeLockKind::Write],
        &[RangeLockKind::Gap, RangeLockKind::Write],
    ]
    .map(|kinds| {
        let mut holder = system.begin();
        for kind in kinds {
            system
                .lock_range(&mut holder, &index, *kind, range, LONG)
                .unwrap();
        }
        holder
    });
    let [gap, write, both] = [0, 1, 2].map(|n| holders[n].id());
    for (is_insert, expected) in [
        (
            true,
            vec![
                (gap, BlockerKind::Gap),
                (write, BlockerKind::WriteRange),
                (both, BlockerKind::WriteRange),
            ],
        ),
        (
            false,
            vec![
                (write, BlockerKind::WriteRange),
                (both, BlockerKind::WriteRange),
            ],
        ),
    ] {
        let writer = system.begin();
        let mut queue = RangeQueuePositions::default();
        let short = Duration::from_millis(1);
        let waited =
            system.wait_for_range_lock(&writer, &mut queue, &index, b"d", is_insert, short);
        assert_eq!(waited, Err(WaitError::Timeout));
        drop(queue);
        let failed = writer.handle().take_failed_wait().unwrap();
        let blockers = failed.blockers.iter();
        let mut found: Vec<_> = blockers
            .map(|b| (b.participant.transaction, b.kind))
            .collect();
        found.sort_by_key(|(transaction, _)| *transaction);
        assert_eq!(found, expected);
        system.abort(writer);
    }
    holders.into_iter().for_each(|holder| {
        system.abort(holder);
    });
}

#[test]
fn range_waits_without_a_representable_deadline_never_expire() {
    let system = system();
    let index = index();
    let mut first = system.begin();
    lock_gap(&system, &mut first, &index, ("b", "f"), Duration::MAX).unwrap();
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        let write = scope.spawn(move || {
            let writer = system.begin();
            let mut queue = RangeQueuePositions::default();
            let waited =
                system.wait_for_range_lock(&writer, &mut queue, index, b"d", true, Duration::MAX);
            drop(queue);
            system.publish(writer);
            waited
        });
        wait_until_waiting(system, 1);
        let request = scope.spawn(move || {
            let mut later = system.begin();
            let locked = lock_gap(system, &mut later, index, ("a", "e"), Duration::MAX);
            system.publish(later);
            locked
        });
        wait_until_waiting(system, 2);
        system.publish(first);
        assert_eq!(write.join().unwrap(), Ok(()));
        assert_eq!(request.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_cancelled_write_releases_the_requests_that_wait_for_it() {
    let system = system();
    let index = index();
    let mut first = system.begin();
    lock_gap(&system, &mut first, &index, ("b", "f"), LONG).unwrap();
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        let writer = system.begin();
        let interrupter = Arc::clone(writer.handle());
        scope.spawn(move || {
            let mut queue_positions = RangeQueuePositions::default();
            let waited =
                system.wait_for_range_lock(&writer, &mut queue_positions, index, b"d", true, LONG);
            assert_eq!(waited, Err(WaitError::Interrupted));
            drop(queue_positions);
            system.abort(writer);
        });
        wait_until_waiting(system, 1);
        let reader = scope.spawn(move || {
            let mut later = system.begin();
            lock_gap(system, &mut later, index, ("a", "e"), LONG).unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let mut third = system.begin();
        let short = Duration::from_millis(1);
        let waited = lock_gap(system, &mut third, index, ("c", "e"), short);
        assert_eq!(waited, Err(WaitError::Timeout));
        system.abort(third);
        interrupter.interrupt();
        // The first range lock is still held.
        reader.join().unwrap();
    });
    system.publish(first);
    assert!(!index.in_use());
}

#[test]
fn a_write_blocked_at_two_keys_of_an_index_leaves_both_positions() {
    let system = system();
    let index = index();
    let holders = [("b", "c"), ("m", "n")].map(|range| {
        let mut reader = system.begin();
        lock_gap(&system, &mut reader, &index, range, LONG).unwrap();
        reader
    });
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        // An update of a key: the old and the new key are in one index.
        scope.spawn(move || write_through(system, [(index, b"b"), (index, b"m")]));
        wait_until_waiting(system, 1);
        scope.spawn(move || {
            let mut later = system.begin();
            lock_gap(system, &mut later, index, ("a", "c"), LONG).unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let [first, second] = holders;
        system.publish(first);
        wait_until_requested(system, |request| *request.key == *b"m");
        system.publish(second);
    });
    assert!(!index.in_use());
}

#[test]
fn a_range_request_that_waits_for_a_write_that_waits_for_it_is_a_deadlock() {
    let system = system();
    let (index, other) = (index(), Arc::new(RangeLocks::new(FileId(9))));
    let mut first = system.begin();
    lock_gap(&system, &mut first, &index, ("b", "c"), LONG).unwrap();
    std::thread::scope(|scope| {
        let (system, index, other) = (&system, &index, &other);
        let mut reader = system.begin();
        lock_gap(system, &mut reader, other, ("m", "n"), LONG).unwrap();
        // The row has entries in two indexes. The write keeps its position in the first queue.
        let writer = scope.spawn(move || write_through(system, [(index, b"b"), (other, b"m")]));
        wait_until_waiting(system, 1);
        system.publish(first);
        wait_until_requested(system, |request| request.file == other.file());
        let outcome = lock_gap(system, &mut reader, index, ("a", "z"), LONG);
        assert_eq!(outcome, Err(WaitError::Deadlock));
        system.abort(reader);
        writer.join().unwrap();
    });
    assert!(!index.in_use() && !other.in_use());
}
