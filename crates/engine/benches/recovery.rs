//! Time of crash recovery. Writes a log of some GiB, ends the process without a
//! checkpoint, and opens the directory: without threads, and with threads. Run
//! with `cargo bench -p teak-engine --bench recovery -- DIRECTORY [GIB] [INDEXES]`;
//! the default is 1 GiB of log and three indexes. The directory is removed.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use teak_disk::RealDisk;
use teak_engine::{Codec, Engine, EngineOptions, IndexNumber, Isolation, RowEntry, TableHandle};

const TABLE: &str = "./bench/t";
const GIB: u64 = 1 << 30;
const BATCH: u64 = 100;

fn options(directory: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(directory);
    options.log_bytes_max = 1024 * GIB;
    options.checkpoint_period = Duration::from_secs(1 << 30);
    options.commit_sync = false;
    options
}

/// Inserts rows of 100 bytes in random order until the log has `bytes`.
fn fill(engine: &Engine, table: &TableHandle, indexes: u32, bytes: u64) {
    let mut n = 0u64;
    let value = [7u8; 92];
    while engine.statistics().log_bytes_appended < bytes {
        let mut transaction = engine.begin(Isolation::RepeatableRead);
        for _ in 0..BATCH {
            n += 1;
            let keys: Vec<[u8; 16]> = (0..u64::from(indexes))
                .map(|number| {
                    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * number);
                    let mut key = [0; 16];
                    let (front, back) = key.split_at_mut(8);
                    front.copy_from_slice(&mixed.rotate_left(32).to_be_bytes());
                    back.copy_from_slice(&n.to_be_bytes());
                    key
                })
                .collect();
            let entries: Vec<RowEntry<'_>> = (0u32..)
                .zip(&keys)
                .map(|(number, key)| RowEntry {
                    index: IndexNumber(number),
                    unique: false,
                    key,
                    value: if number == 0 { &value } else { &[] },
                })
                .collect();
            transaction.insert(table, &entries).unwrap();
        }
        transaction.commit().unwrap();
    }
    engine.flush_log().unwrap();
}

/// Fills a directory and ends the process as a crash does.
fn crash(directory: &Path, indexes: u32, bytes: u64) -> ! {
    let engine = Engine::open(Arc::new(RealDisk), options(directory)).unwrap();
    let definition = support::definition(TABLE, Codec::Lz4, indexes);
    engine.create_table(&definition).unwrap();
    let table = engine.open_table(TABLE).unwrap();
    fill(&engine, &table, indexes, bytes);
    std::process::exit(0)
}

fn recover(directory: &Path, threads: Option<usize>) {
    let mut options = options(directory);
    if let Some(threads) = threads {
        options.background_threads = threads;
    }
    let threads = options.background_threads;
    let started = Instant::now();
    let engine = Engine::open(Arc::new(RealDisk), options).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let records = engine.statistics().recovered_records;
    println!("recovery with {threads} threads: {records} records in {seconds:.1} s");
    // As a crash does: the next opening replays the same log.
    std::mem::forget(engine);
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| !it.starts_with("--"))
        .collect();
    let Some(directory) = arguments.first() else {
        println!("usage: recovery DIRECTORY [GIB] [INDEXES]");
        return;
    };
    let directory = Path::new(directory);
    let number = |at: usize, otherwise: u64| {
        arguments
            .get(at)
            .map_or(otherwise, |text| text.parse().unwrap())
    };
    let (gib, indexes) = (number(1, 1), u32::try_from(number(2, 3)).unwrap());
    match arguments.get(3).map(String::as_str) {
        Some("fill") => crash(directory, indexes, gib * GIB),
        Some("serial") => return recover(directory, Some(0)),
        Some("parallel") => return recover(directory, None),
        _ => {}
    }
    for step in ["fill", "serial", "fill", "parallel"] {
        if step == "fill" && directory.exists() {
            std::fs::remove_dir_all(directory).unwrap();
        }
        let started = Instant::now();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--", arguments.first().unwrap()])
            .args([gib.to_string(), indexes.to_string(), step.to_owned()])
            .status()
            .unwrap();
        assert!(status.success());
        if step == "fill" {
            let seconds = started.elapsed().as_secs_f64();
            println!("wrote {gib} GiB of log in {seconds:.1} s");
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}
