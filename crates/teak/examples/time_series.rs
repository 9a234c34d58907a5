//! Measurements of many sensors: keys that contain sensor and time, range reads, deletion of old
//! rows.
//!
//! `cargo run --release -p teak --example time_series [DIRECTORY]`

use std::time::{Duration, Instant};
use teak::{Codec, Database, Durability, Error, Result, Table, TableSchema};

const SENSORS: u32 = 100;
const SECONDS: u64 = 1000;

/// Big-endian encodings sort in numeric order.
fn key(sensor: u32, second: u64) -> Vec<u8> {
    [&sensor.to_be_bytes()[..], &second.to_be_bytes()[..]].concat()
}

fn fill(db: &Database, readings: &Table) -> Result<()> {
    for second in 0..SECONDS {
        // One transaction for each second, with one reading of each sensor.
        db.transact(|transaction| {
            for sensor in 0..SENSORS {
                let value = (u64::from(sensor) * 7 + second / 10).to_be_bytes();
                transaction.insert(readings, key(sensor, second), value)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("teak-time-series-{}", std::process::id())),
        std::path::PathBuf::from,
    );
    let db = Database::builder(&directory)
        .cache_bytes(64 << 20)
        // Commits do not wait for the disk. A crash may lose the commits of the last tenth of a
        // second.
        .durability(Durability::Within(Duration::from_millis(100)))
        .open()?;
    let readings = db.table(TableSchema::new("readings").codec(Codec::Zstd))?;

    let started = Instant::now();
    fill(&db, &readings)?;
    let rows = u64::from(SENSORS) * SECONDS;
    println!("wrote {rows} readings in {:?}", started.elapsed());

    let snapshot = db.snapshot();
    let minute = key(42, 600)..key(42, 660);
    println!(
        "one minute of one sensor: {} readings",
        snapshot.range(&readings, minute).count()
    );
    let newest = snapshot
        .range(&readings, key(42, 0)..key(43, 0))
        .next_back();
    if let Some(row) = newest.transpose()? {
        println!("the newest reading of sensor 42: {:?}", row.value);
    }
    drop(snapshot);

    // Delete old readings, one sensor at a time.
    for sensor in 0..SENSORS {
        db.transact(|transaction| {
            for row in transaction.range(&readings, key(sensor, 0)..key(sensor, SECONDS / 2)) {
                transaction.delete(&readings, row?.key)?;
            }
            Ok::<_, Error>(())
        })?;
    }
    db.checkpoint()?;
    let sizes = readings.statistics()?;
    println!(
        "about {} readings are left; {} bytes of data in a file of {} bytes",
        sizes.entries, sizes.raw_bytes, sizes.disk_bytes
    );
    Ok(())
}
