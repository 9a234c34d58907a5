//! Tests of the wait listener.

use super::*;
use crate::lock_types::RangeLockKind;
use crate::range_queue_positions::RangeQueuePositions;
use crate::wait_listener::{Owner, WaitListener};

/// Records notifications; each blocks while `gate` is locked.
#[derive(Default)]
struct Recorder {
    waits: Mutex<Vec<(usize, usize)>>,
    gate: Mutex<()>,
}

impl WaitListener for Recorder {
    fn wait_begins(&self, waiter: Owner, holder: Owner) {
        self.waits.lock().push((waiter.0, holder.0));
        drop(self.gate.lock());
    }
}

fn owned(system: &TransactionSystem, owner: usize) -> Transaction {
    let transaction = system.begin();
    transaction.handle().set_owner(Owner(owner));
    transaction
}

#[test]
fn each_wait_is_reported_with_all_transactions_ahead() {
    let system = system();
    let index = index();
    let recorder = Arc::new(Recorder::default());
    system.set_wait_listener(recorder.clone());
    let mut writer = owned(&system, 1);
    let id = system.write_id(&mut writer);
    let reader = owned(&system, 2);
    let timeout = Duration::from_millis(1);
    let waited = system.wait_for_write(&reader, id, row(&index, "w"), timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    assert_eq!(std::mem::take(&mut *recorder.waits.lock()), [(2, 1)]);

    // A shared holder, and two exclusive requests in its queue.
    let mut holder = owned(&system, 3);
    assert!(try_lock(
        &system,
        &mut holder,
        row(&index, "a"),
        LockMode::Shared
    ));
    std::thread::scope(|scope| {
        let before = system.counts().lock_waits;
        for (waiting, owner) in [4, 5].into_iter().enumerate() {
            let (system, index) = (&system, &index);
            scope.spawn(move || {
                let mut transaction = owned(system, owner);
                system
                    .lock(&mut transaction, row(index, "a"), LockMode::Exclusive, LONG)
                    .unwrap();
                system.abort(transaction);
            });
            while recorder.waits.lock().len() < [1, 3][waiting] {
                std::thread::yield_now();
            }
        }
        assert_eq!(system.counts().lock_waits, before + 2);
        system.abort(holder);
    });
    let mut waits = std::mem::take(&mut *recorder.waits.lock());
    waits.sort_unstable();
    assert_eq!(waits, [(4, 3), (5, 3), (5, 4)]);

    // A range lock, first with an owner and then without.
    let ranges = Arc::new(RangeLocks::new(FileId(2)));
    let mut scanner = owned(&system, 6);
    system
        .lock_range(
            &mut scanner,
            &ranges,
            RangeLockKind::Gap,
            (b"a", Some(b"c")),
            timeout,
        )
        .unwrap();
    let mut queue_positions = RangeQueuePositions::default();
    let waited =
        system.wait_for_range_lock(&reader, &mut queue_positions, &ranges, b"b", true, timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    scanner.handle().clear_owner();
    let waited =
        system.wait_for_range_lock(&reader, &mut queue_positions, &ranges, b"b", true, timeout);
    assert_eq!(waited, Err(WaitError::Timeout));
    assert_eq!(std::mem::take(&mut *recorder.waits.lock()), [(2, 6)]);
}

#[test]
fn a_transaction_does_not_end_during_a_notification() {
    let system = system();
    let index = index();
    let recorder = Arc::new(Recorder::default());
    system.set_wait_listener(recorder.clone());
    let mut writer = owned(&system, 1);
    let id = system.write_id(&mut writer);
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let gate = recorder.gate.lock();
        let (system, recorder, index) = (&system, &recorder, &index);
        let waiter = scope.spawn(move || {
            let reader = owned(system, 2);
            system.wait_for_write(&reader, id, row(index, "w"), LONG)
        });
        while recorder.waits.lock().is_empty() {
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
