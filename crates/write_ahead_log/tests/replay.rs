//! Appended records are replayed: after reopening, over several segments, after
//! trimming, and for every kind of record.

use crate::common::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use teak_base::bytes::Take;
use teak_base::{FileId, Lsn, Operation, StorageError, WriteId, WriteIdRanges};
use teak_disk::Disk;
use teak_write_ahead_log::{IdParts, RECORD_BYTES_MAX, Record, WriteAheadLog, WriteOperation};

#[test]
fn a_new_log_is_empty_and_begins_at_zero() {
    let disk = memory();
    let (log, found) = open_listing(&disk, options(), 0).unwrap();
    assert!(found.is_empty());
    assert_eq!(log.end(), Lsn(0));
    assert_eq!(log.durable(), Lsn(0));
    assert!(!log.write_pending().unwrap());
    log.sync(log.end()).unwrap();
    assert_eq!(log.statistics().batches, 0);
}

#[test]
fn records_are_replayed_in_order_after_every_reopening() {
    let disk = memory();
    let mut expected = Vec::new();
    for round in 0..5 {
        let (log, found) = open_listing(&disk, small_segments(), 0).unwrap();
        assert_eq!(found, expected);
        for n in 0..40 {
            let (lsn, printed) = append_row(&log, round * 100 + n);
            expected.push(printed);
            if n % 7 == 0 {
                log.sync(lsn).unwrap();
                assert!(log.durable() > lsn);
            }
        }
        assert!(log.write_pending().unwrap());
    }
    assert_eq!(list(&disk).unwrap(), expected);
}

#[test]
fn replay_begins_at_the_wanted_record() {
    let disk = memory();
    let log = open(&disk, small_segments());
    let mut rows = Vec::new();
    for n in 0..60 {
        rows.push(append_row(&log, n));
        if n % 4 == 3 {
            log.write_pending().unwrap();
        }
    }
    drop(log);
    for (index, (lsn, _)) in rows.iter().enumerate() {
        let (_, found) = open_listing(&disk, small_segments(), lsn.0).unwrap();
        let expected: Vec<_> = rows[index..].iter().map(|row| row.1.clone()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn unwritten_records_are_lost_after_reopening() {
    let disk = memory();
    let log = open(&disk, options());
    let (lsn, kept) = append_row(&log, 1);
    log.sync(lsn).unwrap();
    append_row(&log, 2);
    drop(log);
    assert_eq!(list(&disk).unwrap(), [kept]);
}

/// The first position of the oldest segment, from its header.
fn oldest(disk: &Arc<dyn Disk>) -> Lsn {
    let segments = disk.list(&directory()).unwrap();
    let oldest = segments.iter().min().unwrap();
    let first = contents(disk, oldest)[32..40].try_into().unwrap();
    Lsn(u64::from_le_bytes(first))
}

#[test]
fn trimming_keeps_everything_from_the_given_position() {
    let disk = memory();
    let log = open(&disk, small_segments());
    let mut rows = Vec::new();
    for n in 0..80 {
        rows.push(append_row(&log, n));
        log.sync(log.end()).unwrap();
    }
    let before = log.statistics().segments;
    assert!(before > 5);
    let (middle, _) = rows[40];
    log.trim(middle).unwrap();
    assert!(oldest(&disk) <= middle);
    assert!(log.statistics().segments < before);
    let expected: Vec<_> = rows[40..].iter().map(|row| row.1.clone()).collect();
    drop(log);
    let (log, found) = open_listing(&disk, small_segments(), middle.0).unwrap();
    assert_eq!(found, expected);
    log.trim(log.end()).unwrap();
    assert_eq!(log.statistics().segments, 1);
    let end = log.end();
    drop(log);
    assert!(open_listing(&disk, small_segments(), end.0).is_ok());
    assert!(is_corrupt(&open_listing(&disk, small_segments(), 0)));
}

#[test]
fn a_trim_that_a_crash_undid_in_part_does_no_harm() {
    let disk = memory();
    let log = open(&disk, small_segments());
    for n in 0..80 {
        append_row(&log, n);
        log.sync(log.end()).unwrap();
    }
    let end = log.end();
    drop(log);
    // The second removal is durable, the first is not.
    disk.remove(&segment(2)).unwrap();
    let (log, _) = open_listing(&disk, small_segments(), end.0).unwrap();
    assert!(!disk.exists(&segment(1)).unwrap());
    assert_eq!(log.end(), end);
}

#[test]
fn a_log_that_is_missing_or_too_short_is_corrupt() {
    let disk = memory();
    assert!(is_corrupt(&open_listing(&disk, options(), 10)));
    let log = open(&disk, options());
    append_row(&log, 1);
    log.sync(log.end()).unwrap();
    let end = log.end().0;
    drop(log);
    assert!(is_corrupt(&open_listing(&disk, options(), end + 1)));
    assert!(open_listing(&disk, options(), end).is_ok());
}

#[test]
fn the_log_of_another_instance_is_refused() {
    let disk = memory();
    let log = open(&disk, options());
    append_row(&log, 1);
    log.sync(log.end()).unwrap();
    drop(log);
    let other = teak_write_ahead_log::LogOptions::new(INSTANCE + 1);
    assert!(is_corrupt(&open_listing(&disk, other, 0)));
}

#[test]
fn a_visitor_that_refuses_ends_the_opening() {
    let disk = memory();
    let log = open(&disk, options());
    append_row(&log, 1);
    log.sync(log.end()).unwrap();
    drop(log);
    let opened =
        WriteAheadLog::open::<StorageError>(&disk, &directory(), options(), Lsn(0), &mut |_, _| {
            Err(StorageError::Interrupted)
        });
    assert!(matches!(opened, Err(StorageError::Interrupted)));
}

#[test]
fn a_record_beyond_the_limit_is_refused_and_harms_nothing() {
    let disk = memory();
    let log = open(&disk, options());
    let huge = vec![0u8; RECORD_BYTES_MAX];
    let refused = log.append(&Record::IndexesChanged { bytes: &huge });
    assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    let (_, kept) = append_row(&log, 1);
    log.sync(log.end()).unwrap();
    assert_eq!(list(&disk).unwrap(), [kept]);
}

#[test]
fn the_largest_record_is_replayed() {
    let disk = memory();
    let log = open(&disk, options());
    let bytes: Vec<u8> = (0..RECORD_BYTES_MAX - 64)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect();
    append_row(&log, 1);
    log.append(&Record::IndexesChanged { bytes: &bytes })
        .unwrap();
    append_row(&log, 2);
    log.sync(log.end()).unwrap();
    drop(log);
    let mut found = 0;
    WriteAheadLog::open::<StorageError>(
        &disk,
        &directory(),
        options(),
        Lsn(0),
        &mut |_, record| {
            found += 1;
            if let Record::IndexesChanged { bytes: read } = record {
                assert!(read == bytes);
            }
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(found, 3);
}

#[test]
fn appending_beyond_the_pending_limit_writes_out() {
    let disk = memory();
    let mut options = options();
    options.pending_bytes = 1000;
    let log = open(&disk, options);
    let expected: Vec<_> = (0..200).map(|n| append_row(&log, n).1).collect();
    assert!(log.statistics().batches > 5);
    assert_eq!(log.durable(), Lsn(0));
    log.sync(log.end()).unwrap();
    assert_eq!(list(&disk).unwrap(), expected);
}

/// Makes a record of one of the kinds 1 to 10, or of kind 13 for any other number.
fn with_record(kind: u8, numbers: &[u64], strings: &[Vec<u8>], check: impl Fn(Record<'_>)) {
    let number = |i: usize| numbers.get(i).copied().unwrap_or(9);
    let string = |i: usize| strings.get(i).map_or(&[][..], Vec::as_slice);
    let ids: BTreeSet<u64> = numbers.iter().map(|n| n % u64::MAX).collect();
    let ids = ids.into_iter().filter(|id| *id > 0).map(WriteId);
    let ids: WriteIdRanges = ids.collect();
    let count = number(3);
    let first = Lsn(if count > 0 { number(4) } else { 0 });
    let parts = IdParts { count, first };
    let operations: Vec<_> = numbers
        .iter()
        .enumerate()
        .map(|(i, file)| WriteOperation {
            file: FileId(*file),
            operation: Operation::ALL[i % 2],
            key: string(i),
            value: string(i + 1),
        })
        .collect();
    check(match kind {
        1 => Record::Write {
            write_id: WriteId(number(0)),
            operations: (&operations).into(),
        },
        2 => Record::DeleteRange {
            file: FileId(number(0)),
            write_id: WriteId(number(1)),
            start: string(0),
            end: string(1),
        },
        3 => Record::Commit {
            transaction: number(0),
            parts,
            write_ids: (&ids).into(),
        },
        4 => Record::Abort {
            parts,
            write_ids: (&ids).into(),
        },
        5 => Record::Prepare {
            transaction: number(0),
            xid: string(0),
            parts,
            write_ids: (&ids).into(),
        },
        6 => Record::TableCreated { table: string(0) },
        7 => Record::TableDropped {
            table_id: number(0),
        },
        8 => Record::TableRenamed {
            table_id: number(0),
            name: string(0),
            paths: string(1),
        },
        9 => Record::Counter {
            table_id: number(0),
            counter: u8::try_from(number(1) % 256).unwrap(),
            value: number(2),
        },
        10 => Record::IndexesChanged { bytes: string(0) },
        14 => Record::Load {
            file: FileId(number(0)),
            write_id: WriteId(number(1)),
        },
        _ => Record::MoreWriteIds {
            owner: WriteId(number(0)),
            write_ids: (&ids).into(),
        },
    });
}

proptest! {
    #[test]
    fn every_record_round_trips(
        kind in prop_oneof![1u8..=10, 13u8..=14],
        numbers in proptest::collection::vec(any::<u64>(), 0..6),
        strings: Vec<Vec<u8>>,
    ) {
        with_record(kind, &numbers, &strings, |record| {
            assert_eq!(record.number(), kind);
            let mut encoded = vec![1, 2, 3];
            record.encode(&mut encoded);
            let mut take = Take::new(&encoded[3..]);
            let decoded = Record::decode(&mut take).unwrap();
            assert!(take.is_empty());
            assert_eq!(decoded, record);
            assert_eq!(decoded.to_string(), record.to_string());
            let mut again = vec![];
            decoded.encode(&mut again);
            assert_eq!(again, &encoded[3..]);
            for cut in 0..again.len() {
                assert!(Record::decode(&mut Take::new(&again[..cut])).is_err());
            }
        });
    }

    #[test]
    fn decoding_any_bytes_never_panics(bytes: Vec<u8>, kind in 0u8..14) {
        teak_write_ahead_log::fuzzing::records(&bytes);
        teak_write_ahead_log::fuzzing::headers(&bytes);
        let mut framed = u32::try_from(bytes.len() + 1).unwrap().to_le_bytes().to_vec();
        framed.push(kind);
        framed.extend_from_slice(&bytes);
        teak_write_ahead_log::fuzzing::records(&framed);
    }
}
