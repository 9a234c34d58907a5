//! Segments that are prepared ahead, in new files or in those of trimmed
//! segments: old content is never read, and no call of the appending threads
//! creates, renames or removes a file.

use crate::common::*;
use std::sync::Arc;
use teak_base::{Lsn, StorageError};
use teak_disk::Disk;
use teak_testing::{FaultDisk, Random};
use teak_write_ahead_log::{LogOptions, SegmentCreation, WriteAheadLog};

fn prepared_segments() -> LogOptions {
    let mut options = small_segments();
    options.pending_bytes = 400;
    options.segment_creation = SegmentCreation::Ahead;
    options
}

fn numbers(disk: &Arc<dyn Disk>) -> Vec<u64> {
    let mut numbers: Vec<u64> = disk
        .list(&directory())
        .unwrap()
        .iter()
        .map(|path| path.extension().unwrap().to_str().unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Appends and syncs rows one by one, preparing segments in between.
fn append_rows(log: &WriteAheadLog, rows: std::ops::Range<u64>) -> Vec<(Lsn, String)> {
    rows.map(|n| {
        log.prepare_segments().unwrap();
        let row = append_row(log, n);
        log.sync(row.0).unwrap();
        row
    })
    .collect()
}

/// A log whose current segment is in the file of a trimmed one, and its rows
/// after the last trim.
fn recycled(disk: &Arc<dyn Disk>) -> (WriteAheadLog, Vec<(Lsn, String)>) {
    let log = open(disk, prepared_segments());
    append_rows(&log, 0..60);
    for round in 1..4 {
        log.trim(log.end()).unwrap();
        let rows = append_rows(&log, round * 100..round * 100 + 30);
        if round == 3 {
            return (log, rows);
        }
    }
    unreachable!();
}

#[test]
fn trimmed_files_become_next_segments() {
    let disk = memory();
    let (log, rows) = recycled(&disk);
    let statistics = log.statistics();
    assert!(statistics.segments > 3);
    assert!(statistics.spare_bytes > 0);
    // The files are those of segments, the prepared one, and spare ones.
    let files = numbers(&disk).len() as u64;
    assert!(files <= 2 * statistics.segments + 2, "{files} files");
    let from = rows[0].0;
    drop(log);
    let (log, found) = open_listing(&disk, prepared_segments(), from.0).unwrap();
    let expected: Vec<_> = rows.iter().map(|row| row.1.clone()).collect();
    assert_eq!(found, expected);
    let listed = numbers(&disk);
    let contiguous: Vec<u64> = (listed[0]..=listed[listed.len() - 1]).collect();
    assert_eq!(listed, contiguous, "spare files are removed");
    assert_eq!(log.statistics().segments, listed.len() as u64);
}

#[test]
fn old_content_after_the_tail_is_not_read() {
    let disk = memory();
    let (log, rows) = recycled(&disk);
    let from = rows[0].0;
    drop(log);
    let newest_with_rows = || {
        let numbers = numbers(&disk);
        let used = numbers.iter().rev().find(|number| {
            let bytes = contents(&disk, &segment(**number));
            // The current segment has its first batch and old content after it.
            bytes.len() > 64 && bytes[64..68] == *b"tkba"
        });
        *used.unwrap()
    };
    let last = newest_with_rows();
    let bytes = contents(&disk, &segment(last));
    let old_batches = bytes.windows(4).filter(|window| window == b"tkba").count();
    assert!(old_batches > 1, "no old content");
    // Damages 20 bytes at various offsets: a torn tail in the midst of old content.
    for cut in (64..bytes.len()).step_by(7) {
        let disk = copy(&disk);
        let mut torn = bytes.clone();
        for byte in &mut torn[cut..(cut + 20).min(bytes.len())] {
            *byte ^= 0x55;
        }
        overwrite(&disk, &segment(last), &torn);
        match open_listing(&disk, prepared_segments(), from.0) {
            Ok((_, found)) => {
                let expected = rows.iter().map(|row| &row.1);
                assert!(expected.take(found.len()).eq(found.iter()), "cut at {cut}");
            }
            Err(error) => assert!(is_corrupt::<()>(&Err(error)), "cut at {cut}"),
        }
    }
}

#[test]
fn appending_creates_renames_and_removes_nothing() {
    let disk = FaultDisk::new(5);
    disk.create_directories(&directory()).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = open(&shared, prepared_segments());
    append_rows(&log, 0..60);
    log.trim(log.end()).unwrap();
    for n in 100..200 {
        log.prepare_segments().unwrap();
        let before = numbers(&shared);
        disk.fail_name_change(0);
        let (lsn, _) = append_row(&log, n);
        log.sync(lsn).unwrap();
        log.trim(Lsn(lsn.0)).unwrap();
        disk.clear_failures();
        assert_eq!(numbers(&shared), before);
    }
}

#[test]
fn a_log_without_a_prepared_segment_continues_in_the_current_one() {
    let disk = memory();
    let log = open(&disk, prepared_segments());
    let mut expected = Vec::new();
    for n in 0..60 {
        let (lsn, row) = append_row(&log, n);
        log.sync(lsn).unwrap();
        expected.push(row);
    }
    assert_eq!(numbers(&disk), [1]);
    assert!(log.prepare_segments().unwrap());
    assert!(!log.prepare_segments().unwrap());
    for n in 60..70 {
        let (lsn, row) = append_row(&log, n);
        log.sync(lsn).unwrap();
        expected.push(row);
    }
    assert_eq!(log.statistics().segments, 2);
    drop(log);
    assert_eq!(list(&disk).unwrap(), expected);
}

#[test]
fn a_part_of_an_open_log_can_be_read_while_it_grows() {
    let disk = memory();
    let (log, mut rows) = recycled(&disk);
    for round in 10..13 {
        // This record is not synced yet, and is after the range to read.
        let until = log.end();
        let (lsn, _) = append_row(&log, round);
        let middle = rows[rows.len() / 2].0;
        for from in [rows[0].0, middle] {
            let mut found = Vec::new();
            let read = log.read_between::<StorageError>(from, until, &mut |lsn, record| {
                append_row(&log, round);
                found.push((lsn, format!("{lsn} {record}")));
                Ok(())
            });
            read.unwrap();
            let expected = rows.iter().filter(|(lsn, _)| *lsn >= from);
            assert_eq!(found, expected.cloned().collect::<Vec<_>>());
            log.sync(lsn).unwrap();
        }
        log.sync(log.end()).unwrap();
        log.trim(log.end()).unwrap();
        rows = append_rows(&log, round * 100..round * 100 + 40);
    }
}

#[test]
fn a_log_trimmed_before_the_first_batch_of_a_prepared_segment_opens_again() {
    for seed in 0..200 {
        let disk = FaultDisk::new(seed);
        disk.create_directories(&directory()).unwrap();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = open(&shared, prepared_segments());
        let mut random = Random::new(seed);
        append_rows(&log, 0..20 + random.below(20));
        let durable = log.durable();
        append_row(&log, 7);
        // Switches to the next segment, and writes its first batch without a sync.
        log.write_pending().unwrap();
        log.trim(durable).unwrap();
        log.prepare_segments().unwrap();
        drop(log);
        let shared: Arc<dyn Disk> = Arc::new(disk.crash(seed));
        let (log, found) = open_listing(&shared, prepared_segments(), durable.0).unwrap();
        assert!(found.len() <= 1);
        assert!(log.end() >= durable);
    }
}
