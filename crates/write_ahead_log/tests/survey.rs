//! Surveys of logs that may be damaged: every record that is left is found, and everything else is reported.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use teak_base::Encryption;
use teak_base::StorageError;
use teak_disk::Disk;
use teak_write_ahead_log::{LogPart, survey_log};

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    records: Vec<String>,
    damage: Vec<String>,
    unused: Vec<String>,
    end: Option<u64>,
}

fn survey(disk: &Arc<dyn Disk>) -> Found {
    let mut found = Found::default();
    let directory = segment(1).parent().unwrap().to_path_buf();
    survey_log::<StorageError>(
        disk.as_ref(),
        &directory,
        &Encryption::default(),
        &mut |part| {
            match part {
                LogPart::Record { lsn, record, .. } => {
                    found.records.push(format!("{lsn} {record}"))
                }
                LogPart::Damage(error) => found.damage.push(error.to_string()),
                LogPart::Unused { path, reason } => {
                    found.unused.push(format!("{}: {reason}", path.display()));
                }
                LogPart::End { lsn, .. } => found.end = Some(lsn.0),
                _ => {}
            }
            Ok(())
        },
    )
    .unwrap();
    found
}

/// A log of several segments, each write in a batch of its own that is synced.
fn sample() -> (Arc<dyn Disk>, Vec<String>, u64) {
    let disk = memory();
    let log = open(&disk, small_segments());
    let mut expected = Vec::new();
    for n in 0..40 {
        expected.push(append_row(&log, n).1);
        log.sync(log.end()).unwrap();
    }
    let end = log.end().0;
    drop(log);
    (disk, expected, end)
}

fn used_segments(disk: &Arc<dyn Disk>) -> Vec<u64> {
    let is_there = |number: &u64| disk.exists(&segment(*number)).unwrap();
    (1..100).take_while(is_there).collect()
}

#[test]
fn an_intact_log_is_found_wholly() {
    let (disk, expected, end) = sample();
    let found = survey(&disk);
    assert_eq!(found.records, expected);
    assert!(found.damage.is_empty(), "{found:?}");
    assert_eq!(found.end, Some(end));
}

#[test]
fn a_torn_tail_is_the_end_of_the_log_and_no_damage() {
    let disk = memory();
    let log = open(&disk, options());
    let mut expected = Vec::new();
    for n in 0..20 {
        expected.push(append_row(&log, n).1);
        log.write_pending().unwrap();
    }
    drop(log);
    let bytes = contents(&disk, &segment(1));
    // Zeros follow the last batch.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for cut in (64..used).step_by(3) {
        let disk = copy(&disk);
        overwrite(&disk, &segment(1), &bytes[..cut]);
        let found = survey(&disk);
        assert!(expected.starts_with(&found.records), "cut at {cut}");
        assert!(found.damage.is_empty(), "cut at {cut}: {:?}", found.damage);
        assert!(found.end.is_some(), "cut at {cut}");
    }
}

#[test]
fn records_around_flipped_bytes_are_found() {
    let (disk, expected, _) = sample();
    let mut with_damage = 0;
    for number in used_segments(&disk) {
        let bytes = contents(&disk, &segment(number));
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for place in (64..used).step_by(7) {
            let disk = copy(&disk);
            let mut changed = bytes.clone();
            changed[place] ^= 0x40;
            overwrite(&disk, &segment(number), &changed);
            let found = survey(&disk);
            let lost = expected.len() - found.records.len();
            // Each batch contains one record.
            assert!(lost <= 1, "segment {number}, byte {place}: {lost} lost");
            let kept = expected
                .iter()
                .filter(|record| found.records.contains(record));
            assert_eq!(kept.count(), found.records.len());
            with_damage += usize::from(!found.damage.is_empty());
        }
    }
    assert!(with_damage > 0);
}

#[test]
fn a_missing_or_unreadable_segment_is_damage() {
    let (disk, expected, _) = sample();
    let last = *used_segments(&disk).last().unwrap();
    assert!(last > 2);
    let missing = copy(&disk);
    missing.remove(&segment(2)).unwrap();
    let unreadable = copy(&disk);
    let mut bytes = contents(&unreadable, &segment(2));
    bytes[20] ^= 1;
    overwrite(&unreadable, &segment(2), &bytes);
    for disk in [missing, unreadable] {
        let found = survey(&disk);
        assert!(!found.damage.is_empty());
        assert!(!found.records.is_empty() && found.records.len() < expected.len());
        assert!(found.end.is_some());
    }
    let empty = memory();
    empty
        .create_directories(Path::new(segment(1).parent().unwrap()))
        .unwrap();
    assert_eq!(survey(&empty), Found::default());
}

#[test]
fn segments_that_are_not_part_of_the_log_are_named() {
    let (disk, expected, _) = sample();
    let bytes = contents(&disk, &segment(1));
    // As a recycled segment before its file is renamed.
    disk.create(&segment(90)).unwrap();
    overwrite(&disk, &segment(90), &bytes);
    disk.create(&segment(91)).unwrap();
    let found = survey(&disk);
    assert_eq!(found.records, expected);
    assert_eq!(found.unused.len(), 2, "{:?}", found.unused);
    assert!(found.damage.is_empty());
}
