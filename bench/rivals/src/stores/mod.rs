//! The engines, behind one trait.

mod fjall;
mod lmdb;
mod redb;
mod rocksdb;
mod teak;

use crate::data::{Key, Value};
use std::path::Path;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub enum Change {
    /// Writes the row, whether it exists or not.
    Put(Key, Value),
    Delete(Key),
}

pub trait Store {
    /// Makes the changes as one transaction or batch, which is durable on return.
    fn commit(&self, changes: &[Change]) -> Result<(), Failure>;

    /// The length of the value of the key.
    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure>;

    /// Reads at most `limit` rows from the key on; returns their number.
    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure>;

    /// Begins to write what is only in memory and in the log to the tables, if the engine has such a call.
    fn flush(&self) -> Result<(), Failure>;
}

/// Opens a store in an empty directory. `cache_bytes` is for all memory that the engine manages: where it has separate
/// limits, a quarter is for memtables. LMDB uses the kernel's cache only.
pub fn open(
    engine: &str,
    directory: &Path,
    cache_bytes: u64,
    rows: u64,
) -> Result<Box<dyn Store>, Failure> {
    Ok(match engine {
        "teak" => Box::new(teak::Teak::open(directory, cache_bytes)?),
        "rocksdb" => Box::new(rocksdb::RocksDb::open(directory, cache_bytes)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(directory, rows)?),
        "redb" => Box::new(redb::Redb::open(directory, cache_bytes)?),
        "fjall" => Box::new(fjall::Fjall::open(directory, cache_bytes)?),
        _ => return Err(format!("There is no engine {engine}.").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Order, key, value};

    #[test]
    fn every_engine_writes_reads_scans_and_deletes() {
        for engine in ["teak", "rocksdb", "lmdb", "redb", "fjall"] {
            let directory =
                std::env::temp_dir().join(format!("teak-rivals-{engine}-{}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            let store = open(engine, &directory, 32 << 20, 1000).unwrap();
            let puts: Vec<Change> = (0..1000)
                .map(|n| Change::Put(key(Order::Ascending, n), value(n, 0)))
                .collect();
            store.commit(&puts).unwrap();
            store
                .commit(&[
                    Change::Delete(key(Order::Ascending, 5)),
                    Change::Put(key(Order::Ascending, 6), value(6, 1)),
                ])
                .unwrap();
            store.flush().unwrap();
            assert_eq!(
                store.get(&key(Order::Ascending, 4)).unwrap(),
                Some(100),
                "{engine}"
            );
            assert_eq!(
                store.get(&key(Order::Ascending, 5)).unwrap(),
                None,
                "{engine}"
            );
            assert_eq!(
                store.get(&key(Order::Ascending, 1000)).unwrap(),
                None,
                "{engine}"
            );
            assert_eq!(store.scan(&[], usize::MAX).unwrap(), 999, "{engine}");
            assert_eq!(
                store.scan(&key(Order::Ascending, 990), usize::MAX).unwrap(),
                10,
                "{engine}"
            );
            assert_eq!(
                store.scan(&key(Order::Ascending, 100), 100).unwrap(),
                100,
                "{engine}"
            );
            drop(store);
            std::fs::remove_dir_all(&directory).unwrap();
        }
    }
}
