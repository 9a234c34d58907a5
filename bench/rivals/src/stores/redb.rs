//! redb, a copy-on-write B-tree.

use super::{Change, Failure, Store};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("t");

pub struct Redb(Database);

impl Redb {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Failure> {
        let mut builder = Database::builder();
        builder.set_cache_size(usize::try_from(cache_bytes)?);
        Ok(Self(builder.create(directory.join("data.redb"))?))
    }
}

impl Store for Redb {
    fn commit(&self, changes: &[Change]) -> Result<(), Failure> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for change in changes {
                match change {
                    Change::Put(key, value) => table.insert(key.as_slice(), value.as_slice())?,
                    Change::Delete(key) => table.remove(key.as_slice())?,
                };
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        // The copy that the other engines make, too.
        Ok(redb::ReadableTable::get(&table, key)?
            .map(|value| std::hint::black_box(value.value().to_vec()).len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut rows = 0;
        for row in table.range(from..)?.take(limit) {
            let (key, value) = row?;
            std::hint::black_box((key.value(), value.value()));
            rows += 1;
        }
        Ok(rows)
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }
}
