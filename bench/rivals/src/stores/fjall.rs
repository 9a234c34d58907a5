//! fjall, an LSM tree.

use super::{Change, Failure, Store};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

pub struct Fjall {
    table: Keyspace,
    database: Database,
}

impl Fjall {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Failure> {
        let database = Database::builder(directory)
            .cache_size(cache_bytes / 4 * 3)
            .open()?;
        Ok(Self {
            table: database.keyspace("t", || {
                KeyspaceCreateOptions::default().max_memtable_size(cache_bytes / 4)
            })?,
            database,
        })
    }
}

impl Store for Fjall {
    fn commit(&self, changes: &[Change]) -> Result<(), Failure> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    batch.insert(&self.table, key.as_slice(), value.as_slice())
                }
                Change::Delete(key) => batch.remove(&self.table, key.as_slice()),
            }
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.table.get(key)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure> {
        let mut rows = 0;
        for row in self.table.range(from..).take(limit) {
            std::hint::black_box(row.into_inner()?);
            rows += 1;
        }
        Ok(rows)
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(self.table.rotate_memtable_and_wait()?)
    }
}
