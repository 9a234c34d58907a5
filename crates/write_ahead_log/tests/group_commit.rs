//! Group commit of several threads, and the errors of waiting threads when the
//! disk fails.

use crate::common::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use teak_base::{FileId, Lsn, Operation, StorageError, WriteId};
use teak_disk::Disk;
use teak_testing::GateDisk;
use teak_write_ahead_log::{Record, WriteOperation};

/// The empty text, which every path contains: the gate is for all files.
const ALL: &str = "";

fn gated() -> (GateDisk, Arc<dyn Disk>) {
    let gate = GateDisk::new(memory());
    (gate.clone(), Arc::new(gate))
}

#[test]
fn followers_of_slow_syncs_share_the_next_one() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    gate.hold_syncs(ALL);
    thread::scope(|scope| {
        let log = &log;
        // The second is synced concurrently with the first.
        for (n, arrivals) in [(0, 1), (1, 2)] {
            let (lsn, _) = append_row(log, n);
            scope.spawn(move || log.sync(lsn).unwrap());
            gate.wait_for_arrivals(ALL, arrivals);
        }
        for n in 2..22 {
            let (lsn, _) = append_row(log, n);
            scope.spawn(move || {
                log.sync(lsn).unwrap();
                assert!(log.durable() > lsn);
            });
        }
        while log.statistics().sync_calls < 22 {
            thread::yield_now();
        }
        assert_eq!(log.durable(), Lsn(0));
        gate.open_gate(ALL);
    });
    assert!((2..=4).contains(&log.statistics().syncs));
    assert!((3..=4).contains(&log.statistics().batches));
    assert_eq!(log.durable(), log.end());
}

#[test]
fn the_later_of_two_syncs_makes_both_groups_durable() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    let (first, _) = append_row(&log, 0);
    let (second, end) = thread::scope(|scope| {
        let log = &log;
        gate.hold_next_sync(ALL);
        let slow = scope.spawn(move || log.sync(first));
        gate.wait_for_arrival(ALL);
        let (second, _) = append_row(log, 1);
        let end = log.end();
        log.sync(second).unwrap();
        assert_eq!(log.durable(), end);
        // A sync of the first record now returns without waiting.
        log.sync(first).unwrap();
        gate.open_gate(ALL);
        slow.join().unwrap().unwrap();
        (second, end)
    });
    assert!(second > first);
    assert_eq!(log.durable(), end);
    assert_eq!(list(&disk).unwrap().len(), 2);
}

#[test]
fn every_committer_of_many_threads_is_durable_on_return() {
    commit_from_many_threads(&memory());
}

#[test]
fn every_committer_is_durable_on_return_from_syncs_that_overlap() {
    let (gate, disk) = gated();
    gate.delay_syncs(ALL, Duration::from_micros(200));
    commit_from_many_threads(&disk);
    assert!(gate.overlaps(ALL) > 0, "no two syncs were concurrent");
}

fn commit_from_many_threads(disk: &Arc<dyn Disk>) {
    let mut options = small_segments();
    options.pending_bytes = 2000;
    let log = open(disk, options);
    let acknowledged = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let log = &log;
        let acknowledged = &acknowledged;
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                // Runs often, so that it interferes with the committing threads at any point.
                thread::yield_now();
                log.write_pending().unwrap();
            }
        });
        let committers: Vec<_> = (0..8u64)
            .map(|thread| {
                scope.spawn(move || {
                    for n in 0..150 {
                        let (lsn, printed) = append_row(log, thread * 1000 + n);
                        if n % 3 > 0 {
                            log.sync(lsn).unwrap();
                            assert!(log.durable() > lsn);
                        }
                        acknowledged.lock().push((lsn, printed));
                    }
                    log.sync(log.end()).unwrap();
                })
            })
            .collect();
        for committer in committers {
            committer.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        log.wake();
    });
    let mut expected = acknowledged.into_inner();
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|row| row.1).collect();
    assert_eq!(list(disk).unwrap(), expected);
}

#[test]
fn a_failed_sync_fails_every_waiting_thread_and_poisons_the_log() {
    let (gate, disk) = gated();
    let log = open(&disk, options());
    gate.hold_syncs(ALL);
    let (first, kept) = append_row(&log, 0);
    thread::scope(|scope| {
        let log = &log;
        let leader = scope.spawn(move || log.sync(first));
        gate.wait_for_arrival(ALL);
        let (second, _) = append_row(log, 1);
        let same_group = scope.spawn(move || log.sync(first));
        let next_group = scope.spawn(move || log.sync(second));
        gate.fail_syncs(ALL);
        let leader = leader.join().unwrap();
        assert!(matches!(leader, Err(StorageError::Io { .. })), "{leader:?}");
        let result = same_group.join().unwrap();
        assert!(
            matches!(result, Err(StorageError::Poisoned { .. })),
            "{result:?}"
        );
        // The next group may have been synced concurrently with the first one, and have failed
        // itself.
        let result = next_group.join().unwrap();
        let is_failed = matches!(
            result,
            Err(StorageError::Poisoned { .. } | StorageError::Io { .. })
        );
        assert!(is_failed, "{result:?}");
    });
    gate.open_gate(ALL);
    let refused = log.append(&teak_write_ahead_log::Record::IndexesChanged { bytes: b"" });
    assert!(matches!(refused, Err(StorageError::Poisoned { .. })));
    assert!(log.sync(first).is_err());
    assert!(log.write_pending().is_err());
    assert_eq!(log.durable(), Lsn(0));
    drop(log);
    // Opening writes all readable records again and syncs them.
    let (log, found) = open_listing(&disk, options(), 0).unwrap();
    assert_eq!(found.first(), Some(&kept));
    assert_eq!(log.durable(), log.end());
}

#[test]
fn a_full_disk_refuses_waiting_appenders_and_keeps_the_accepted_records() {
    let (gate, disk) = gated();
    let mut options = options();
    options.pending_bytes = 500;
    let log = open(&disk, options);
    gate.fill_up(ALL);
    let record = teak_write_ahead_log::Record::IndexesChanged { bytes: &[7; 100] };
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let refused = (0..1000).find_map(|_| match log.append(&record) {
                    Ok(_) => {
                        taken.fetch_add(1, Ordering::SeqCst);
                        None
                    }
                    Err(error) => Some(error),
                });
                assert!(matches!(refused, Some(StorageError::NoSpace { .. })));
            });
        }
    });
    assert!(matches!(
        log.sync(log.end()),
        Err(StorageError::NoSpace { .. })
    ));
    gate.open_gate(ALL);
    log.sync(log.end()).unwrap();
    log.append(&record).unwrap();
    log.sync(log.end()).unwrap();
    drop(log);
    let taken = taken.load(Ordering::SeqCst);
    assert_eq!(list(&disk).unwrap().len(), taken + 1);
}

#[test]
fn appenders_wait_for_a_leader_when_both_buffers_are_full() {
    let (gate, disk) = gated();
    let mut options = options();
    options.pending_bytes = 300;
    let log = open(&disk, options);
    gate.hold_syncs(ALL);
    let (first, _) = append_row(&log, 0);
    thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || log.sync(first).unwrap());
        gate.wait_for_arrival(ALL);
        for thread in 0..3 {
            scope.spawn(move || {
                for n in 0..30 {
                    append_row(log, thread * 100 + n);
                }
            });
        }
        gate.open_gate(ALL);
    });
    log.sync(log.end()).unwrap();
    assert_eq!(list(&disk).unwrap().len(), 91);
}

#[test]
fn waiting_for_pending_ends_by_records_by_wake_and_by_time() {
    let disk = memory();
    let mut options = options();
    options.pending_bytes = 800;
    let log = open(&disk, options);
    assert!(!log.wait_for_pending(Duration::from_millis(1)));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| log.wait_for_pending(Duration::from_secs(3600)));
        for n in 0..4 {
            append_row(&log, n);
        }
        assert!(waiter.join().unwrap());
        log.write_pending().unwrap();
        let waiter = scope.spawn(|| log.wait_for_pending(Duration::from_secs(3600)));
        while !waiter.is_finished() {
            log.wake();
            thread::yield_now();
        }
        assert!(!waiter.join().unwrap());
    });
}

/// Without this, a thread that is about to wait when the log is closed would miss the call.
#[test]
fn waking_before_the_wait_ends_it() {
    let log = open(&memory(), options());
    log.wake();
    assert!(!log.wait_for_pending(Duration::MAX));
    log.wake();
    log.wait_for_preparation(Duration::MAX);
}

/// A large record makes the buffers as large as itself, until it is written.
#[test]
fn buffers_that_a_large_record_needed_are_freed() {
    let mut options = options();
    options.pending_bytes = 64 << 10;
    let log = open(&memory(), options);
    for n in 0..2000 {
        append_row(&log, n);
    }
    log.sync(log.end()).unwrap();
    let before = log.statistics().buffer_bytes;
    assert!((1..=512 << 10).contains(&before), "{before}");
    let value = vec![7; 4 << 20];
    let operations = [WriteOperation {
        file: FileId(1),
        operation: Operation::Put,
        key: b"key",
        value: &value,
    }];
    let record = Record::Write {
        write_id: WriteId(1),
        operations: (&operations).into(),
    };
    log.append(&record).unwrap();
    log.sync(log.end()).unwrap();
    for n in 0..2 {
        append_row(&log, n);
        log.sync(log.end()).unwrap();
    }
    let after = log.statistics().buffer_bytes;
    assert!(after <= 512 << 10, "{after}");
}
