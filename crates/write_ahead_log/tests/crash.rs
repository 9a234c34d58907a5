//! Seeded histories of a log on a fault disk: after any number of failures, power
//! losses and restarts, the log that is read is a prefix of the appended records
//! and contains every acknowledged record.

use crate::common::*;
use std::sync::Arc;
use teak_base::{Lsn, StorageResult};
use teak_disk::Disk;
use teak_testing::{FaultDisk, Random, SyncFailure, WriteFailure};
use teak_write_ahead_log::{LogOptions, Record, SegmentCreation, WriteAheadLog};

/// The expected contents of the log.
#[derive(Default)]
struct Expected {
    /// All appended records that are not known to be lost.
    rows: Vec<(Lsn, String)>,
    /// The number of durable records among them.
    durable: usize,
    /// Trimming may have removed the records before this position.
    from: Lsn,
    appended: u64,
}

impl Expected {
    /// Compares with the records that a replay found, and removes the others.
    fn check(&mut self, found: &[String]) {
        let skipped = self.rows.iter().filter(|row| row.0 < self.from).count();
        let kept = skipped + found.len();
        assert!(kept >= self.durable, "acknowledged records are lost");
        assert!(kept <= self.rows.len(), "records came from nowhere");
        let expected = self.rows[skipped..kept].iter().map(|row| &row.1);
        assert!(expected.eq(found.iter()), "the log is not a prefix");
        self.rows.truncate(kept);
        self.durable = kept;
    }
}

fn plan_fault(disk: &FaultDisk, random: &mut Random) {
    let after = random.below(12);
    match random.below(8) {
        0 => disk.fail_write(after, WriteFailure::Partial),
        1 => disk.fail_write(after, WriteFailure::NoSpace),
        2 => disk.fail_sync(after, SyncFailure::Dropped),
        3 => disk.fail_sync(after, SyncFailure::Kept),
        4 => disk.fail_name_change(after),
        5 | 6 => disk.cut_power(after),
        _ => {}
    }
}

/// Appends, syncs and trims some times, or until the disk fails.
fn work(
    log: &WriteAheadLog,
    disk: &FaultDisk,
    expected: &mut Expected,
    random: &mut Random,
) -> StorageResult<()> {
    for _ in 0..random.below(60) {
        match random.below(10) {
            0..=4 => {
                expected.appended += 1;
                match try_append_row(log, expected.appended) {
                    Err(error) if error.is_no_space() => {}
                    row => expected.rows.push(row?),
                }
            }
            5 => match log.write_pending() {
                Err(error) if error.is_no_space() => {}
                written => drop(written?),
            },
            6 => {
                let lsn = log.end();
                let record = Record::Counter {
                    table_id: 1,
                    counter: 2,
                    value: random.below(1 << 40),
                };
                match append_durably(log, &record) {
                    // The log may contain a void record at that position.
                    Err(error) if error.is_no_space() => {
                        if log.end() > lsn {
                            let bytes = log.end().0 - lsn.0 - 5;
                            let void = format!("{lsn} Void bytes={bytes} bytes");
                            expected.rows.push((lsn, void));
                        }
                    }
                    Err(error) => {
                        expected.rows.push((lsn, format!("{lsn} {record}")));
                        return Err(error);
                    }
                    Ok(_) => {
                        expected.rows.push((lsn, format!("{lsn} {record}")));
                        expected.durable = expected.rows.len();
                    }
                }
            }
            7 | 8 => match log.sync(log.end()) {
                Err(error) if error.is_no_space() => {}
                synced => {
                    synced?;
                    expected.durable = expected.rows.len();
                }
            },
            _ if random.one_in(2) => match log.prepare_segments() {
                Err(error) if error.is_no_space() => {}
                prepared => drop(prepared?),
            },
            // Other files fill the disk, or free space.
            _ if random.one_in(3) => {
                let capacity = disk.used_bytes() + random.below(4000);
                disk.set_capacity((!random.one_in(3)).then_some(capacity));
            }
            _ => {
                let number = random.below(expected.durable as u64 + 1);
                let row = expected.rows.get(usize::try_from(number).unwrap());
                let before = match row {
                    Some(row) if number < expected.durable as u64 => row.0,
                    _ => log.durable(),
                };
                expected.from = expected.from.max(before);
                log.trim(expected.from)?;
            }
        }
    }
    Ok(())
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = FaultDisk::new(seed);
    disk.create_directories(&directory()).unwrap();
    let mut options = LogOptions::new(INSTANCE);
    options.segment_bytes = 200 + random.below(2000);
    options.pending_bytes = if random.one_in(2) { 500 } else { 1 << 20 };
    options.reads_ahead = random.one_in(4);
    options.segment_creation = match random.below(4) {
        0 | 1 => SegmentCreation::OnDemand,
        2 => SegmentCreation::Ahead,
        _ => SegmentCreation::AheadOrOnDemand,
    };
    let mut expected = Expected::default();
    for _ in 0..12 {
        while random.one_in(2) {
            plan_fault(&disk, &mut random);
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        if let Ok((log, found)) = open_listing(&shared, options.clone(), expected.from.0) {
            expected.check(&found);
            plan_fault(&disk, &mut random);
            let _ = work(&log, &disk, &mut expected, &mut random);
        }
        disk.clear_failures();
        if random.one_in(2) {
            disk.set_capacity(None);
        }
        // Restarts the process or the machine.
        if random.one_in(2) || shared.list(&directory()).is_err() {
            disk = disk.crash(random.next_u64());
        }
    }
    disk.set_capacity(None);
    let shared: Arc<dyn Disk> = Arc::new(disk.crash(seed));
    let (_, found) = open_listing(&shared, options.clone(), expected.from.0).unwrap();
    expected.check(&found);
}

#[test]
fn every_acknowledged_record_survives_faults_and_crashes() {
    for seed in 0..1500 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        if let Err(cause) = outcome {
            eprintln!("failed with seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

/// Every combination of a failing sync in one start and a power failure in the
/// next.
#[test]
fn failed_openings_and_a_power_loss_lose_nothing() {
    for (sync, cut, outcome) in (0..8u64)
        .flat_map(|sync| (0..12u64).map(move |cut| (sync, cut)))
        .flat_map(|(sync, cut)| (0..6u64).map(move |outcome| (sync, cut, outcome)))
    {
        let disk = FaultDisk::new(outcome);
        disk.create_directories(&directory()).unwrap();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = open(&shared, options());
        let (_, kept) = append_row(&log, 1);
        log.sync(log.end()).unwrap();
        drop(log);
        disk.fail_sync(sync, SyncFailure::Dropped);
        let _ = open_listing(&shared, options(), 0);
        disk.clear_failures();
        disk.cut_power(cut);
        let _ = open_listing(&shared, options(), 0);
        let disk = disk.crash(outcome);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (log, found) = open_listing(&shared, options(), 0).unwrap();
        assert_eq!(found, [kept], "sync {sync}, cut {cut}, outcome {outcome}");
        // The same with no records to replay, when only the last segment is
        // read.
        let end = log.end().0;
        log.trim(log.end()).unwrap();
        drop(log);
        disk.fail_sync(sync, SyncFailure::Dropped);
        let _ = open_listing(&shared, options(), end);
        disk.clear_failures();
        disk.cut_power(cut);
        let _ = open_listing(&shared, options(), end);
        let shared: Arc<dyn Disk> = Arc::new(disk.crash(outcome));
        let (log, found) = open_listing(&shared, options(), end).unwrap();
        assert!(found.is_empty());
        assert_eq!(
            log.end().0,
            end,
            "sync {sync}, cut {cut}, outcome {outcome}"
        );
    }
}

#[test]
fn records_are_durable_when_they_are_visited() {
    let disk = FaultDisk::new(1);
    disk.create_directories(&directory()).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = open(&shared, options());
    append_row(&log, 1);
    log.write_pending().unwrap();
    append_row(&log, 2);
    log.write_pending().unwrap();
    drop(log);
    assert!(disk.unsynced_bytes() > 0);
    let mut visited = 0;
    WriteAheadLog::open::<teak_base::StorageError>(
        &shared,
        &directory(),
        options(),
        Lsn(0),
        &mut |_, _| {
            assert_eq!(disk.unsynced_bytes(), 0);
            visited += 1;
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(visited, 2);
}
