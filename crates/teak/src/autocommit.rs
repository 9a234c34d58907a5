//! Calls on a table that run in a transaction of their own.

use crate::error::Result;
use crate::session::Isolation;
use crate::table::Table;
use crate::transaction::Transaction;

impl Table {
    /// Runs one call in a transaction of its own. The transaction takes no snapshot before it
    /// writes, so it cannot fail with a conflict.
    fn autocommit<R>(&self, call: impl FnOnce(&Transaction) -> Result<R>) -> Result<R> {
        let transaction = Transaction::new(&self.state.engine, Isolation::Snapshot);
        let result = call(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// The value of the row with this primary key.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.autocommit(|transaction| transaction.get(self, key))
    }

    /// Inserts a row and commits.
    ///
    /// # Errors
    /// Errors of [`Transaction::insert`] and [`Transaction::commit`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.autocommit(|transaction| transaction.insert(self, key, value))
    }

    /// Inserts a row or replaces its value, and commits.
    ///
    /// # Errors
    /// Errors of [`Transaction::upsert`] and [`Transaction::commit`].
    pub fn upsert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.autocommit(|transaction| transaction.upsert(self, key, value))
    }

    /// Replaces the value of a row and commits. `false` when there is no such row.
    ///
    /// # Errors
    /// Errors of [`Transaction::update`] and [`Transaction::commit`].
    pub fn update(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.autocommit(|transaction| transaction.update(self, key, value))
    }

    /// Deletes a row and commits. `false` when there is no such row.
    ///
    /// # Errors
    /// Errors of [`Transaction::delete`] and [`Transaction::commit`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.autocommit(|transaction| transaction.delete(self, key))
    }
}
