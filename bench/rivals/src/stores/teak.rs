//! Teak, embedded.

use super::{Change, Failure, Store};
use std::path::Path;
use teak::{Database, Table};

pub struct Teak {
    // Before the database, so that it is dropped first.
    table: Table,
    database: Database,
}

impl Teak {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Failure> {
        let database = Database::builder(directory)
            .cache_bytes(cache_bytes)
            .open()?;
        Ok(Self {
            table: database.table("t")?,
            database,
        })
    }
}

impl Store for Teak {
    fn commit(&self, changes: &[Change]) -> Result<(), Failure> {
        let transaction = self.database.begin();
        for change in changes {
            match change {
                Change::Put(key, value) => transaction.upsert(&self.table, key, value)?,
                Change::Delete(key) => {
                    transaction.delete(&self.table, key)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.table.get(key)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure> {
        let snapshot = self.database.snapshot();
        let mut rows = 0;
        for row in snapshot.range(&self.table, from..).take(limit) {
            std::hint::black_box(row?);
            rows += 1;
        }
        Ok(rows)
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(self.database.checkpoint()?)
    }
}
