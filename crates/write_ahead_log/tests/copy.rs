//! Copies of parts of the log, while it is appended to and trimmed.

use crate::common::*;
use std::sync::Arc;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::Disk;
use teak_testing::Random;
use teak_write_ahead_log::{LogOptions, SegmentCreation, WriteAheadLog};

fn options_of(segment_creation: SegmentCreation) -> LogOptions {
    let mut options = small_segments();
    options.pending_bytes = 400;
    options.segment_creation = segment_creation;
    options
}

/// Copies a part of the log to a new disk.
fn copy_of(log: &WriteAheadLog, from: Lsn, until: Lsn) -> StorageResult<Arc<dyn Disk>> {
    let disk = memory();
    let mut reported = 0;
    let bytes = log.copy_between((from, until), &*disk, &directory(), &mut |bytes| {
        reported += bytes;
        Ok(())
    })?;
    assert!(bytes >= reported);
    Ok(disk)
}

#[test]
fn a_copy_has_exactly_the_records_between_two_positions() {
    let mut random = Random::new(3);
    for creation in [
        SegmentCreation::OnDemand,
        SegmentCreation::AheadOrOnDemand,
        SegmentCreation::Ahead,
    ] {
        let disk = memory();
        let log = open(&disk, options_of(creation));
        let mut rows: Vec<(Lsn, String)> = Vec::new();
        let mut next = 0;
        let mut append = |rows: &mut Vec<(Lsn, String)>, count: u64| {
            for _ in 0..count {
                log.prepare_segments().unwrap();
                let row = append_row(&log, next);
                next += 1;
                if next % 3 == 0 {
                    log.sync(row.0).unwrap();
                }
                rows.push(row);
            }
        };
        append(&mut rows, 50);
        for round in 0..40 {
            let hold = log.begin_hold().unwrap();
            assert_eq!(log.begin_hold(), None);
            let until = log.end();
            log.limit_hold(until);
            let first = usize::try_from(random.below(rows.len() as u64 + 1)).unwrap();
            let from = rows.get(first).map_or(until, |row| row.0);
            // The rest of the batch at `until` belongs to later records.
            append(&mut rows, random.below(60));
            log.sync(until).unwrap();
            log.trim(log.end()).unwrap();
            append(&mut rows, random.below(60));
            log.trim(log.end()).unwrap();
            let copied = copy_of(&log, from, until).unwrap();
            log.end_hold(hold).unwrap();
            assert_eq!(log.held_bytes(), 0);
            let expected: Vec<String> = rows
                .iter()
                .filter(|(lsn, _)| (from..until).contains(lsn))
                .map(|row| row.1.clone())
                .collect();
            let (opened, found) = open_listing(&copied, options(), from.0).unwrap();
            assert_eq!(found, expected, "{creation:?} {round}");
            assert_eq!(opened.end(), until);
            // The copy can be continued.
            let (lsn, row) = append_row(&opened, 1_000_000);
            opened.sync(lsn).unwrap();
            drop(opened);
            let (_, found) = open_listing(&copied, options(), from.0).unwrap();
            assert_eq!(found.last(), Some(&row));
            let start = log.start();
            rows.retain(|(lsn, _)| *lsn >= start);
        }
    }
}

#[test]
fn held_segments_do_not_count_towards_the_size_of_the_log() {
    let disk = memory();
    let log = open(&disk, options_of(SegmentCreation::OnDemand));
    let append = |count: u64| {
        for n in 0..count {
            let (lsn, _) = append_row(&log, n);
            log.sync(lsn).unwrap();
        }
    };
    append(100);
    let before = log.log_use().bytes;
    let hold = log.begin_hold().unwrap();
    log.limit_hold(log.end());
    log.trim(log.end()).unwrap();
    assert!(log.log_use().bytes < before / 2);
    let held = log.held_bytes();
    assert!(held > before / 2);
    append(300);
    log.trim(log.end()).unwrap();
    // Segments after the limit of the hold are not retained.
    assert!(log.held_bytes() < held + 2000);
    log.end_hold(hold).unwrap();
    assert_eq!(disk.list(&directory()).unwrap().len(), 1);
    // A hold that has ended cannot end another one.
    append(100);
    let next = log.begin_hold().unwrap();
    log.trim(log.end()).unwrap();
    let held = log.held_bytes();
    assert!(held > 0);
    log.end_hold(hold).unwrap();
    assert_eq!(log.held_bytes(), held);
    log.end_hold(next).unwrap();
    assert_eq!(log.held_bytes(), 0);
}

#[test]
fn damage_in_the_copied_part_is_reported() {
    let disk = memory();
    let log = open(&disk, options_of(SegmentCreation::OnDemand));
    for n in 0..20 {
        let (lsn, _) = append_row(&log, n);
        log.sync(lsn).unwrap();
    }
    let file = disk.open(&segment(1)).unwrap();
    file.write_all_at(b"x", 200).unwrap();
    let copied = copy_of(&log, Lsn(0), log.end());
    assert!(is_corrupt(&copied));
}

#[test]
fn an_error_of_the_caller_ends_the_copy() {
    let disk = memory();
    let log = open(&disk, options());
    let (lsn, _) = append_row(&log, 1);
    log.sync(lsn).unwrap();
    let range = (Lsn(0), log.end());
    let target = memory();
    let copied = log.copy_between(range, &*target, &directory(), &mut |_| {
        Err(StorageError::Interrupted)
    });
    assert!(matches!(copied, Err(StorageError::Interrupted)));
}
