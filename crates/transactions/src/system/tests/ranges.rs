//! The line of those who want to write in ranges, and to mark them.

use super::*;
use crate::RangeQueuePositions;
use crate::range_locks::RangeLockKind;
use crate::report::{LockRequest, WaitKind};
use std::sync::mpsc;
use std::time::Instant;

const NOW: Duration = Duration::ZERO;

fn mark(
    system: &TransactionSystem,
    transaction: &mut Transaction,
    index: &Arc<RangeLocks>,
    (low, high): (&str, &str),
    timeout: Duration,
) -> Result<(), WaitError> {
    let range = (low.as_bytes(), Some(high.as_bytes()));
    system.lock_range(transaction, index, RangeLockKind::Gap, range, timeout)
}

fn wait_until(it_is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !it_is_so() {
        assert!(began.elapsed() < LONG, "nobody waits");
        std::thread::yield_now();
    }
}

fn wait_until_waiting(system: &TransactionSystem, count: u64) {
    wait_until(|| system.counts().waiting >= count);
}

fn wait_until_wanted(system: &TransactionSystem, is_it: impl Fn(&LockRequest) -> bool) {
    wait_until(|| system.lock_waits().iter().any(|wait| is_it(&wait.request)));
}

/// A write that is stopped at one place after the other, and keeps them all
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
fn readers_that_come_later_mark_behind_a_writer_that_waits() {
    let system = system();
    let index = index();
    let mut first = system.begin();
    mark(&system, &mut first, &index, ("b", "f"), LONG).unwrap();
    let (told, order) = mpsc::channel();
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        let write_told = told.clone();
        scope.spawn(move || {
            let writer = system.begin();
            let mut queue_positions = RangeQueuePositions::default();
            while index.blocks(b"d", true, writer.id()) {
                system
                    .wait_for_range_lock(&writer, &mut queue_positions, index, b"d", true, LONG)
                    .unwrap();
            }
            write_told.send("written").unwrap();
            drop(queue_positions);
            system.publish(writer);
        });
        wait_until_waiting(system, 1);

        // Elsewhere, and for whom the writer waits anyway, nothing has changed; nor for who will not wait.
        let mut beside = system.begin();
        mark(system, &mut beside, index, ("d0", "z"), LONG).unwrap();
        mark(system, &mut beside, index, ("a", "d"), LONG).unwrap();
        mark(system, &mut first, index, ("a", "z"), LONG).unwrap();
        let mut hasty = system.begin();
        mark(system, &mut hasty, index, ("d", "e"), NOW).unwrap();
        system.publish(hasty);
        system.publish(beside);

        let mark_told = told.clone();
        scope.spawn(move || {
            let mut later = system.begin();
            mark(system, &mut later, index, ("a", "e"), LONG).unwrap();
            mark_told.send("marked").unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let waits = system.lock_waits();
        let behind = waits
            .iter()
            .find(|wait| wait.request.kind == WaitKind::RangeRequest);
        assert_eq!(&*behind.unwrap().request.key, b"a");
        assert_eq!(behind.unwrap().blockers.len(), 1);
        system.publish(first);
    });
    drop(told);
    assert_eq!(order.iter().collect::<Vec<_>>(), ["written", "marked"]);
    assert!(!index.in_use());
    assert_eq!(system.lock_bytes(), 0);
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_go_on() {
    let system = system();
    let index = index();
    let mut first = system.begin();
    mark(&system, &mut first, &index, ("b", "f"), LONG).unwrap();
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
            mark(system, &mut later, index, ("a", "e"), LONG).unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let mut third = system.begin();
        let short = Duration::from_millis(1);
        let waited = mark(system, &mut third, index, ("c", "e"), short);
        assert_eq!(waited, Err(WaitError::Timeout));
        system.abort(third);
        interrupter.interrupt();
        // Though the first mark is still there.
        reader.join().unwrap();
    });
    system.publish(first);
    assert!(!index.in_use());
}

#[test]
fn a_writer_that_was_stopped_at_two_keys_of_an_index_leaves_both() {
    let system = system();
    let index = index();
    let marks = [("b", "c"), ("m", "n")].map(|range| {
        let mut reader = system.begin();
        mark(&system, &mut reader, &index, range, LONG).unwrap();
        reader
    });
    std::thread::scope(|scope| {
        let (system, index) = (&system, &index);
        // A row whose key changes: both keys are of one index.
        scope.spawn(move || write_through(system, [(index, b"b"), (index, b"m")]));
        wait_until_waiting(system, 1);
        scope.spawn(move || {
            let mut later = system.begin();
            mark(system, &mut later, index, ("a", "c"), LONG).unwrap();
            system.publish(later);
        });
        wait_until_waiting(system, 2);
        let [first, second] = marks;
        system.publish(first);
        wait_until_wanted(system, |wanted| *wanted.key == *b"m");
        system.publish(second);
    });
    assert!(!index.in_use());
}

#[test]
fn a_reader_behind_a_writer_that_waits_for_it_is_a_deadlock() {
    let system = system();
    let (index, other) = (index(), Arc::new(RangeLocks::new(FileId(9))));
    let mut first = system.begin();
    mark(&system, &mut first, &index, ("b", "c"), LONG).unwrap();
    std::thread::scope(|scope| {
        let (system, index, other) = (&system, &index, &other);
        let mut reader = system.begin();
        mark(system, &mut reader, other, ("m", "n"), LONG).unwrap();
        // A row's entries in two indexes: awake it keeps its place in the first.
        let writer = scope.spawn(move || write_through(system, [(index, b"b"), (other, b"m")]));
        wait_until_waiting(system, 1);
        system.publish(first);
        wait_until_wanted(system, |wanted| wanted.file == other.file());
        let outcome = mark(system, &mut reader, index, ("a", "z"), LONG);
        assert_eq!(outcome, Err(WaitError::Deadlock));
        system.abort(reader);
        writer.join().unwrap();
    });
    assert!(!index.in_use() && !other.in_use());
}
