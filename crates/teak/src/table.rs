//! Open tables.

use crate::error::Result;
use crate::scan::Bounds;
use crate::table_state::TableState;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use teak_engine::{EngineError, IndexNumber, IndexStatistics};

/// An open table. Clones are cheap, and threads may share it.
///
/// A [`Transaction`](crate::Transaction) reads and writes it, a [`Snapshot`](crate::Snapshot) reads
/// it. Its own [`get`](Table::get), [`insert`](Table::insert), [`upsert`](Table::upsert),
/// [`update`](Table::update) and [`delete`](Table::delete) are transactions of one call.
///
/// ```
/// # fn main() -> teak::Result<()> {
/// # let db = teak::Database::in_memory()?;
/// let table = db.table("colours")?;
/// table.insert("plum", "blue")?;
/// table.upsert("plum", "purple")?;
/// assert_eq!(table.get("plum")?, Some(b"purple".to_vec()));
/// assert!(table.delete("plum")?);
/// assert!(!table.delete("plum")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Table {
    pub(crate) state: Arc<TableState>,
}

impl Table {
    /// The table's name, without a leading `./`.
    #[must_use]
    pub fn name(&self) -> String {
        self.state.handle.name().to_string()
    }

    /// The names of the secondary indexes.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        let indexes = &self.state.schema.indexes;
        indexes.iter().map(|index| index.name.as_str())
    }

    /// Sizes of the row index.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) after the database was closed.
    pub fn statistics(&self) -> Result<IndexStatistics> {
        Ok(self.state.handle.index_statistics(IndexNumber::ROWS)?)
    }

    /// Sizes of a secondary index.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](crate::Error::NoSuchIndex).
    pub fn index_statistics(&self, index: &str) -> Result<IndexStatistics> {
        let (number, _) = self.state.index(index)?;
        Ok(self.state.handle.index_statistics(number)?)
    }

    /// Estimated number of rows in a range of primary keys. A small number is usually exact.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn estimate_rows<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        let Bounds { lower, upper } = Bounds::of(&range);
        let handle = &self.state.handle;
        Ok(handle.records_in_range(IndexNumber::ROWS, lower.as_deref(), upper.as_deref())?)
    }

    /// Reads and checks every block of every index. Returns one sentence for each problem found.
    ///
    /// # Errors
    /// Errors of the disk that are not damage.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        let checked = self.state.handle.verify(&mut || true, &mut |text: &str| {
            findings.push(text.to_owned());
        });
        match checked {
            Err(EngineError::Storage(error)) if !error.is_corrupt() => Err(error.into()),
            Err(error) if findings.is_empty() => Err(error.into()),
            _ => Ok(findings),
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.name()).finish()
    }
}
