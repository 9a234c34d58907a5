//! Encrypted logs.

use crate::common::*;
use std::sync::Arc;
use teak_base::{Encryption, KeyId, Lsn, StorageError};
use teak_disk::Disk;
use teak_testing::{Random, TestKeys};
use teak_write_ahead_log::{LogOptions, LogPart, survey_log};

fn encrypted(keys: &Arc<TestKeys>) -> LogOptions {
    let mut options = small_segments();
    options.encryption = keys.encryption(1);
    options
}

/// Whether a key of a row is in any file.
fn is_readable(disk: &Arc<dyn Disk>) -> bool {
    let files = disk.list(&directory()).unwrap();
    files.iter().any(|path| {
        let bytes = contents(disk, path);
        bytes.windows(6).any(|window| window == b"key-00")
    })
}

#[test]
fn records_are_replayed_and_not_in_the_files() {
    let keys = Arc::<TestKeys>::default();
    let key = KeyId::new(1).unwrap();
    let disk = memory();
    let mut random = Random::new(5);
    let mut rows = Vec::new();
    // The log is read with and without reading ahead, and with a key that changes.
    for round in 0..8u64 {
        let mut options = encrypted(&keys);
        options.reads_ahead = round % 2 == 1;
        let (log, found) = open_listing(&disk, options, 0).unwrap();
        assert_eq!(found, rows);
        for number in 0..random.below(40) {
            let (lsn, text) = append_row(&log, round * 100 + number);
            if random.one_in(4) {
                log.sync(lsn).unwrap();
            }
            rows.push(text);
        }
        log.sync(log.end()).unwrap();
        let mut again = Vec::new();
        log.read_again::<StorageError>(Lsn(0), &mut |lsn, record| {
            again.push(format!("{lsn} {record}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(again, rows);
        keys.rotate(key);
    }
    assert!(!is_readable(&disk));
    assert!(rows.len() > 50);
}

#[test]
fn encryption_begins_and_ends_with_an_opening() {
    let keys = Arc::<TestKeys>::default();
    let disk = memory();
    let mut rows = vec![append_to(&open(&disk, small_segments()), 0)];
    assert!(is_readable(&disk));
    rows.push(append_to(
        &open_listing(&disk, encrypted(&keys), 0).unwrap().0,
        1,
    ));
    // The keys are still needed to read the log.
    let refused = open_listing(&disk, small_segments(), 0).map(|_| ());
    assert!(
        matches!(refused, Err(StorageError::Key { .. })),
        "{refused:?}"
    );
    let mut options = small_segments();
    options.encryption = Encryption {
        key: None,
        ..keys.encryption(1)
    };
    let (log, found) = open_listing(&disk, options, 0).unwrap();
    assert_eq!(found, rows);
    rows.push(append_to(&log, 2));
    assert_eq!(open_listing(&disk, encrypted(&keys), 0).unwrap().1, rows);
}

fn append_to(log: &teak_write_ahead_log::WriteAheadLog, number: u64) -> String {
    let (lsn, text) = append_row(log, number);
    log.sync(lsn).unwrap();
    text
}

#[test]
fn a_log_is_not_opened_without_its_keys_and_not_changed() {
    let keys = Arc::<TestKeys>::default();
    let disk = memory();
    let log = open(&disk, encrypted(&keys));
    let row = append_to(&log, 7);
    drop(log);
    let wrong = encrypted(&TestKeys::other());
    let refused = open_listing(&disk, wrong, 0).map(|_| ());
    assert!(
        matches!(refused, Err(StorageError::Key { .. })),
        "{refused:?}"
    );
    assert_eq!(open_listing(&disk, encrypted(&keys), 0).unwrap().1, [row]);
}

#[test]
fn a_lost_key_management_does_not_stop_an_open_log() {
    let keys = Arc::<TestKeys>::default();
    let disk = memory();
    let log = open(&disk, encrypted(&keys));
    keys.set_lost(true);
    let rows: Vec<String> = (0..40).map(|number| append_to(&log, number)).collect();
    assert!(
        disk.list(&directory()).unwrap().len() > 2,
        "several segments"
    );
    drop(log);
    keys.set_lost(false);
    assert_eq!(open_listing(&disk, encrypted(&keys), 0).unwrap().1, rows);
}

#[test]
fn a_copy_is_encrypted_and_a_survey_names_the_key() {
    let keys = Arc::<TestKeys>::default();
    let disk = memory();
    let log = open(&disk, encrypted(&keys));
    let rows: Vec<String> = (0..30).map(|number| append_to(&log, number)).collect();
    let target = memory();
    let range = (Lsn(0), log.end());
    log.copy_between(range, &*target, &directory(), &mut |_| Ok(()))
        .unwrap();
    assert!(!is_readable(&target));
    let survey = |encryption: &Encryption| {
        let (mut records, mut locked, mut other) = (0, 0, 0);
        survey_log::<StorageError>(&*target, &directory(), encryption, &mut |part| {
            match part {
                LogPart::Record { .. } => records += 1,
                LogPart::Encrypted(StorageError::Key { .. }) => locked += 1,
                LogPart::Segment { .. } | LogPart::End { .. } => {}
                _ => other += 1,
            }
            Ok(())
        })
        .unwrap();
        (records, locked, other)
    };
    assert_eq!(survey(&keys.encryption(1)), (30, 0, 0));
    let (records, locked, other) = survey(&Encryption::default());
    assert!(records == 0 && locked > 0 && other == 0);
    assert_eq!(open_listing(&target, encrypted(&keys), 0).unwrap().1, rows);
}
