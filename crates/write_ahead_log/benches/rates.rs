//! Prints the times of appends and commits: `cargo bench -p teak-write-ahead-log --bench rates [--
//! directory]`. Appends rows of five indexes (about 300 bytes) while a log thread writes them to
//! the file, then commits from several threads.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use teak_base::{FileId, Lsn, Operation, StorageError, WriteId};
use teak_disk::{Disk, RealDisk};
use teak_write_ahead_log::{LogOptions, Record, WriteAheadLog, WriteOperation};

const ROWS: u64 = 2_000_000;

fn append(log: &WriteAheadLog, n: u64) -> Lsn {
    let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut row = [0u8; 180];
    for (i, chunk) in row.chunks_mut(8).enumerate() {
        let word = (n >> (i % 8)).to_le_bytes();
        chunk.copy_from_slice(word.get(..chunk.len()).unwrap());
    }
    let operation = |file, value| WriteOperation {
        file: FileId(file),
        operation: Operation::Put,
        key: &key,
        value,
    };
    let operations = [
        operation(1, &row[..]),
        operation(2, &row[..8]),
        operation(3, &row[..8]),
        operation(4, &row[..8]),
        operation(5, &row[..8]),
    ];
    log.append(&Record::Write {
        write_id: WriteId(n),
        operations: (&operations).into(),
    })
    .unwrap()
}

fn open(disk: &Arc<dyn Disk>, directory: &Path, from: Lsn, records: &mut u64) -> WriteAheadLog {
    WriteAheadLog::open::<StorageError>(disk, directory, LogOptions::new(1), from, &mut |_, _| {
        *records += 1;
        Ok(())
    })
    .unwrap()
}

/// Measures only the copy into the pending buffer, into which all records fit.
fn appends(log: &WriteAheadLog) {
    let batch = 20_000;
    let mut best = Duration::MAX;
    for round in 0..20 {
        let started = Instant::now();
        for n in 0..batch {
            append(log, round * batch + n);
        }
        best = best.min(started.elapsed());
        log.write_pending().unwrap();
    }
    println!("append alone: {} ns", best.as_nanos() / u128::from(batch));
}

fn appends_with_log_thread(log: &WriteAheadLog, threads: u64) {
    let stop = AtomicBool::new(false);
    let before = log.statistics();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                log.wait_for_pending(Duration::from_millis(10));
                log.write_pending().unwrap();
            }
        });
        let appenders: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    for n in 0..ROWS / threads {
                        append(log, n);
                    }
                })
            })
            .collect();
        for appender in appenders {
            appender.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        log.wake();
        writer.join().unwrap();
    });
    let after = log.statistics();
    println!(
        "append with log thread, {threads} appenders: {} ns per row, {} raw bytes, {} written",
        started.elapsed().as_nanos() / u128::from(ROWS),
        (after.raw_bytes - before.raw_bytes) / ROWS,
        (after.written_bytes - before.written_bytes) / ROWS,
    );
    log.trim(log.end()).unwrap();
}

fn commits(log: &WriteAheadLog, threads: u64) {
    let before = log.statistics();
    let started = Instant::now();
    let commits = 200 * threads;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for n in 0..commits / threads {
                    let lsn = append(log, n);
                    log.sync(lsn).unwrap();
                }
            });
        }
    });
    let after = log.statistics();
    println!(
        "{threads} committers: {} us per commit, {} commits in {} syncs",
        started.elapsed().as_micros() / u128::from(commits),
        after.sync_calls - before.sync_calls,
        after.syncs - before.syncs,
    );
}

fn main() {
    // Cargo adds the argument `--bench`.
    let argument = std::env::args().skip(1).find(|text| !text.starts_with('-'));
    let directory = argument.map_or_else(
        || std::env::temp_dir().join(format!("teak-log-rates-{}", std::process::id())),
        PathBuf::from,
    );
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_directories(&directory).unwrap();
    let log = open(&disk, &directory, Lsn(0), &mut 0);
    appends(&log);
    for threads in [1, 2, 4] {
        appends_with_log_thread(&log, threads);
    }
    // The position up to which the log is trimmed.
    let from = log.end();
    for threads in [1, 8, 32] {
        commits(&log, threads);
    }
    drop(log);
    let started = Instant::now();
    let mut records = 0;
    drop(open(&disk, &directory, from, &mut records));
    println!("replayed {records} records in {:?}", started.elapsed());
    std::fs::remove_dir_all(&directory).unwrap();
}
