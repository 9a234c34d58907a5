//! Snapshots.

use crate::error::Result;
use crate::index::Index;
use crate::rows::Rows;
use crate::table::Table;
use crate::transaction::Transaction;
use std::fmt;
use std::ops::RangeBounds;
use teak_engine::Engine;

/// A consistent view of the rows that were committed at one moment. Reads take no locks and never
/// wait for writers.
///
/// As long as it exists, merges retain the versions that it sees.
///
/// ```
/// # fn main() -> teak::Result<()> {
/// # let db = teak::Database::in_memory()?;
/// let table = db.table("t")?;
/// table.insert("key", "old")?;
/// let snapshot = db.snapshot();
/// table.update("key", "new")?;
/// assert_eq!(snapshot.get(&table, "key")?, Some(b"old".to_vec()));
/// assert_eq!(table.get("key")?, Some(b"new".to_vec()));
/// # Ok(())
/// # }
/// ```
pub struct Snapshot {
    transaction: Transaction,
}

impl Snapshot {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self {
            transaction: Transaction::with_snapshot(engine),
        }
    }

    /// The value of the row with this primary key.
    ///
    /// # Errors
    /// Errors of the disk; [`Error::TableChanged`](crate::Error::TableChanged) when the table was
    /// created or truncated after the snapshot. The iterators that the other calls create also
    /// return these errors.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.transaction.get(table, key)
    }

    /// All rows in the order of their primary keys.
    pub fn iter(&self, table: &Table) -> Rows<'_> {
        self.transaction.iter(table)
    }

    /// The rows whose primary key is in the range, in the order of the keys.
    pub fn range<K: AsRef<[u8]>>(&self, table: &Table, range: impl RangeBounds<K>) -> Rows<'_> {
        self.transaction.range(table, range)
    }

    /// The rows whose primary key begins with the prefix, in the order of the keys.
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Rows<'_> {
        self.transaction.prefix(table, prefix)
    }

    /// A secondary index of a table.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](crate::Error::NoSuchIndex).
    pub fn index(&self, table: &Table, name: &str) -> Result<Index<'_>> {
        self.transaction.index(table, name)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
