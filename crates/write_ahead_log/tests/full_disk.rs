//! On a full disk only appends fail, because accepted records have reserved
//! space. The log continues when there is space again.

use crate::common::*;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult, WriteId, WriteIdRange};
use teak_disk::Disk;
use teak_testing::{FaultDisk, WriteFailure};
use teak_write_ahead_log::{IdParts, LogOptions, Record, WriteAheadLog};

fn disk() -> (FaultDisk, Arc<dyn Disk>) {
    let disk = FaultDisk::new(1);
    disk.create_directories(&directory()).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    (disk, shared)
}

fn small() -> LogOptions {
    let mut options = options();
    options.pending_bytes = 4 << 10;
    options
}

fn fill(disk: &FaultDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

/// Appends rows until the disk is full. Returns them in printed form.
fn append_until_full(log: &WriteAheadLog) -> Vec<String> {
    let mut kept = Vec::new();
    for n in 0..100_000 {
        match try_append_row(log, n) {
            Ok((_, row)) => kept.push(row),
            Err(StorageError::NoSpace { .. }) => return kept,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk is never full");
}

fn is_full<T>(result: &StorageResult<T>) -> bool {
    matches!(result, Err(StorageError::NoSpace { .. }))
}

const DROP: Record<'static> = Record::TableDropped { table_id: 9 };

#[test]
fn all_records_accepted_before_the_disk_was_full_become_durable() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    fill(&disk);
    let mut kept = append_until_full(&log);
    assert!(!kept.is_empty());
    // No write fails: the space was reserved when the rows were accepted.
    log.sync(log.end()).unwrap();
    // Tries the largest row, because a smaller row than the refused one may still fit.
    assert!(is_full(&try_append_row(&log, 89)));
    disk.set_capacity(None);
    kept.push(append_row(&log, 7).1);
    log.sync(log.end()).unwrap();
    drop(log);
    assert_eq!(list(&shared).unwrap(), kept);
}

#[test]
fn commits_and_drops_find_space_on_a_full_disk() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    fill(&disk);
    append_until_full(&log);
    for id in 0..20 {
        let ids = [WriteIdRange::one(WriteId(id + 1))];
        append_durably(
            &log,
            &Record::Commit {
                transaction: 0,
                parts: IdParts::default(),
                write_ids: ids.as_slice().into(),
            },
        )
        .unwrap();
        append_durably(&log, &DROP).unwrap();
    }
    assert!(is_full(&try_append_row(&log, 0)));
}

#[test]
fn a_record_that_found_no_space_is_revoked() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    let before = append_row(&log, 1).1;
    log.sync(log.end()).unwrap();
    disk.fail_write(0, WriteFailure::NoSpace);
    let at = log.end();
    assert!(is_full(&append_durably(&log, &DROP)));
    let after = append_row(&log, 2).1;
    log.sync(log.end()).unwrap();
    drop(log);
    let void = format!("{at} Void bytes=1 bytes");
    assert_eq!(list(&shared).unwrap(), [before, void, after]);
}

#[test]
fn a_batch_that_found_no_space_is_written_later_in_order() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    let mut kept = vec![append_row(&log, 0).1];
    log.sync(log.end()).unwrap();
    kept.push(append_row(&log, 1).1);
    for n in 2..6 {
        disk.fail_write(0, WriteFailure::NoSpace);
        assert!(is_full(&log.sync(log.end())));
        kept.push(append_row(&log, n).1);
    }
    assert!(log.write_pending().unwrap());
    log.sync(log.end()).unwrap();
    assert!(!log.write_pending().unwrap());
    drop(log);
    assert_eq!(list(&shared).unwrap(), kept);
}

#[test]
fn batches_are_written_without_zeros_ahead_when_those_find_no_space() {
    let (disk, shared) = disk();
    let log = open(&shared, options());
    let mut kept = Vec::new();
    disk.fail_write(0, WriteFailure::NoSpace);
    for n in 0..9 {
        kept.push(append_row(&log, n).1);
        log.sync(log.end()).unwrap();
    }
    drop(log);
    assert_eq!(list(&shared).unwrap(), kept);
}

#[test]
fn a_segment_that_finds_no_space_leaves_the_log_in_the_old_one() {
    let (disk, shared) = disk();
    let mut options = small();
    options.segment_bytes = 2000;
    let log = open(&shared, options.clone());
    let mut kept: Vec<String> = (0..40).map(|n| append_row(&log, n).1).collect();
    log.sync(log.end()).unwrap();
    fill(&disk);
    let begun = log.statistics().segments;
    for n in 0..40 {
        kept.push(append_row(&log, n).1);
        log.sync(log.end()).unwrap();
    }
    assert_eq!(log.statistics().segments, begun);
    disk.set_capacity(None);
    kept.push(append_row(&log, 1).1);
    log.sync(log.end()).unwrap();
    assert_eq!(log.statistics().segments, begun + 1);
    drop(log);
    let shared: Arc<dyn Disk> = Arc::new(disk.crash(3));
    let (_, found) = open_listing(&shared, options, 0).unwrap();
    assert_eq!(found, kept);
}

#[test]
fn a_log_opens_on_a_disk_that_it_filled() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    fill(&disk);
    let kept = append_until_full(&log);
    log.sync(log.end()).unwrap();
    drop(log);
    for seed in 0..4 {
        let shared: Arc<dyn Disk> = Arc::new(disk.crash(seed));
        let (log, found) = open_listing(&shared, small(), 0).unwrap();
        assert_eq!(found, kept);
        append_durably(&log, &DROP).unwrap();
    }
}

#[test]
fn a_full_disk_during_a_sync_poisons_the_log() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    append_row(&log, 1);
    disk.fail_sync(0, teak_testing::SyncFailure::NoSpace);
    // Not `NoSpace`, after which the log would continue.
    for _ in 0..2 {
        assert!(matches!(
            log.sync(log.end()),
            Err(StorageError::Poisoned { .. })
        ));
    }
    assert!(matches!(
        try_append_row(&log, 2),
        Err(StorageError::Poisoned { .. })
    ));
}

/// The sync fails after the batch before the record was written, so the record is still in the
/// pending buffer and could be revoked.
#[test]
fn a_record_is_not_reported_as_revoked_after_a_failed_sync() {
    let (disk, shared) = disk();
    let log = open(&shared, small());
    append_row(&log, 1);
    log.sync(log.end()).unwrap();
    append_row(&log, 2);
    disk.fail_write(0, WriteFailure::NoSpace);
    assert!(is_full(&log.sync(log.end())));
    let lsn = log.append(&DROP).unwrap();
    disk.fail_sync(0, teak_testing::SyncFailure::NoSpace);
    assert!(matches!(
        log.sync_or_revoke(lsn),
        Err(StorageError::Poisoned { .. })
    ));
}
