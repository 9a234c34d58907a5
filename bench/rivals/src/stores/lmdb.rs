//! LMDB, a copy-on-write B-tree in a memory map.
#![allow(unsafe_code)]

use super::{Change, Failure, Store};
use crate::data::{KEY_BYTES, VALUE_BYTES};
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};
use std::ops::Bound;
use std::path::Path;

/// Pages of a tree with random keys are about two thirds full; old pages remain in use until the next commit.
const MAP_BYTES_A_ROW: usize = (KEY_BYTES + VALUE_BYTES) * 6;
const MAP_BYTES_MIN: usize = 1 << 30;

pub struct Lmdb {
    environment: Env,
    table: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub fn open(directory: &Path, rows: u64) -> Result<Self, Failure> {
        let map_bytes = (usize::try_from(rows)? * MAP_BYTES_A_ROW)
            .next_multiple_of(1 << 20)
            .max(MAP_BYTES_MIN);
        // SAFETY: only this process uses the directory, and it opens it once.
        let environment = unsafe { EnvOpenOptions::new().map_size(map_bytes).open(directory)? };
        let mut transaction = environment.write_txn()?;
        let table = environment.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Self { environment, table })
    }
}

impl Store for Lmdb {
    fn commit(&self, changes: &[Change]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        for change in changes {
            match change {
                Change::Put(key, value) => self.table.put(&mut transaction, key, value)?,
                Change::Delete(key) => {
                    self.table.delete(&mut transaction, key)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let transaction = self.environment.read_txn()?;
        // The copy that the other engines make, too.
        Ok(self
            .table
            .get(&transaction, key)?
            .map(|value| std::hint::black_box(value.to_vec()).len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure> {
        let transaction = self.environment.read_txn()?;
        let mut rows = 0;
        // LMDB has no empty keys.
        let first = if from.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Included(from)
        };
        let range = (first, Bound::Unbounded);
        for row in self.table.range(&transaction, &range)?.take(limit) {
            std::hint::black_box(row?);
            rows += 1;
        }
        Ok(rows)
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }
}
