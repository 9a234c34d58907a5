//! The bound of the log's size: row records are refused at it, records that end
//! transactions are not, and a trim makes space.

use crate::common::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use teak_base::{FileId, Lsn, Operation, WriteId, WriteIdRange};
use teak_write_ahead_log::{IdParts, LogOptions, LogSpace, Record, WriteAheadLog, WriteOperation};

fn bounded() -> LogOptions {
    let mut options = options();
    options.segment_bytes = 8 << 10;
    options.pending_bytes = 4 << 10;
    options.bytes_max = 64 << 10;
    options
}

/// Appends a row with a value of `value_bytes` through a reservation; `None` at the bound.
fn try_write(log: &WriteAheadLog, n: u64, value_bytes: usize) -> Option<Lsn> {
    let key = n.to_be_bytes();
    let value = vec![7; value_bytes];
    let operations = [WriteOperation {
        file: FileId(1),
        operation: Operation::Put,
        key: &key,
        value: &value,
    }];
    let record = Record::Write {
        write_id: WriteId(n),
        operations: (&operations).into(),
    };
    match log.reserve(&record).unwrap() {
        LogSpace::Reserved(space) => Some(log.append_reserved(space, &record).unwrap()),
        LogSpace::BoundReached => None,
    }
}

fn commit(log: &WriteAheadLog, id: u64) -> Lsn {
    let ids = [WriteIdRange::one(WriteId(id))];
    let record = Record::Commit {
        transaction: 0,
        parts: IdParts::default(),
        write_ids: ids.as_slice().into(),
    };
    append_durably(log, &record).unwrap()
}

/// Writes rows until none is accepted; returns their number.
fn fill(log: &WriteAheadLog) -> u64 {
    let mut written = 0;
    loop {
        let before = written;
        while try_write(log, written, 100).is_some() {
            written += 1;
        }
        if written == before {
            return written;
        }
        // The records take less than their reservations.
        log.sync(log.end()).unwrap();
    }
}

#[test]
fn rows_are_refused_at_the_bound_and_accepted_after_a_trim() {
    let log = open(&memory(), bounded());
    let written = fill(&log);
    assert!(written > 300);
    assert!(try_write(&log, 0, 100).is_none());
    let used = log.log_use();
    assert!(log.end().0 <= used.stop_bytes && used.stop_bytes < used.bytes_max);
    for n in 0..20 {
        assert!(try_write(&log, n, 100).is_none());
        commit(&log, n);
    }
    log.trim(log.end()).unwrap();
    assert!(fill(&log) >= written - 20);
}

#[test]
fn a_row_of_any_size_is_accepted_below_half_of_the_bound() {
    let log = open(&memory(), bounded());
    assert!(try_write(&log, 0, 100_000).is_some());
    assert!(try_write(&log, 0, 100).is_none());
    log.sync(log.end()).unwrap();
    log.trim(log.end()).unwrap();
    assert!(try_write(&log, 0, 100_000).is_some());
}

#[test]
fn files_count_like_records() {
    let log = open(&memory(), bounded());
    // Each small record gets a batch, with a header, of its own. So the files have more bytes than
    // the records.
    let mut records = 0;
    while try_write(&log, records, 0).is_some() {
        log.sync(log.end()).unwrap();
        records += 1;
    }
    assert!(log.end().0 < log.log_use().stop_bytes * 3 / 4);
    assert!(log.statistics().segments_bytes <= log.log_use().bytes_max);
    log.trim(log.end()).unwrap();
    assert!(try_write(&log, 0, 0).is_some());
}

#[test]
fn a_log_that_opens_above_a_lower_bound_refuses_rows() {
    let disk = memory();
    let log = open(&disk, bounded());
    fill(&log);
    log.sync(log.end()).unwrap();
    drop(log);
    let mut lower = bounded();
    lower.bytes_max = 1;
    lower.segment_bytes = 2 << 10;
    lower.pending_bytes = 1 << 10;
    let log = open(&disk, lower);
    assert!(try_write(&log, 0, 100).is_none());
    assert!(try_write(&log, 0, 10).is_none());
    commit(&log, 1);
    log.trim(log.end()).unwrap();
    assert!(try_write(&log, 0, 10).is_some());
}

#[test]
fn space_that_is_given_back_can_be_taken() {
    let log = open(&memory(), bounded());
    let record = Record::Void {
        bytes: teak_write_ahead_log::Rest(&[0; 1000]),
    };
    let mut held = Vec::new();
    for _ in 0..4 {
        match log.reserve(&record).unwrap() {
            LogSpace::Reserved(space) => held.push(space),
            LogSpace::BoundReached => panic!("the log is empty"),
        }
    }
    // The reservations fill the pending buffer: this thread waits until they are released.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| try_write(&log, 1, 500).unwrap());
        thread::yield_now();
        held.clear();
        waiter.join().unwrap();
    });
}

#[test]
fn many_writers_never_exceed_the_bound() {
    let disk = memory();
    let log = open(&disk, bounded());
    let (stop, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        let (log, stop, refused, written) = (&log, &stop, &refused, &written);
        for thread in 0..6u64 {
            scope.spawn(move || {
                let mut n = thread << 32;
                while !stop.load(Ordering::SeqCst) {
                    if try_write(log, n, 50).is_none() {
                        refused.store(true, Ordering::SeqCst);
                        thread::yield_now();
                        continue;
                    }
                    n += 1;
                    written.fetch_add(1, Ordering::SeqCst);
                    if n % 64 == 0 {
                        commit(log, n);
                    }
                }
            });
        }
        let mut trimmed = 0;
        while trimmed < 40 {
            if refused.swap(false, Ordering::SeqCst) {
                let used = log.log_use();
                assert!(used.bytes <= used.bytes_max);
                log.sync(log.end()).unwrap();
                log.trim(log.durable()).unwrap();
                trimmed += 1;
            }
            thread::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(written.load(Ordering::SeqCst) > 1000);
}
