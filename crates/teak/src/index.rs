//! Reading rows through a secondary index.

use crate::error::{Error, Result};
use crate::index_key::{after, at, prefix, split};
use crate::scan::{Bounds, End, Pair, Scan};
use crate::session::Session;
use crate::table_state::TableState;
use crate::writes;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use teak_engine::{IndexNumber, ReadMode};

/// A row found through a secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The key in the index.
    pub index_key: Vec<u8>,
    /// The primary key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// A secondary index, as a transaction or a snapshot sees it. See
/// [`TableSchema`](crate::TableSchema) for an example.
pub struct Index<'t> {
    session: &'t Session,
    table: Arc<TableState>,
    number: IndexNumber,
    unique: bool,
}

impl<'t> Index<'t> {
    pub(crate) fn new(session: &'t Session, table: &Arc<TableState>, name: &str) -> Result<Self> {
        let (number, unique) = table.index(name)?;
        Ok(Self {
            session,
            table: Arc::clone(table),
            number,
            unique,
        })
    }

    /// The first row with this key. In a unique index no other row has it.
    ///
    /// # Errors
    /// Errors of [`Transaction::get`](crate::Transaction::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<IndexRow>> {
        self.equal(key).next().transpose()
    }

    /// The rows with this key, in the order of their primary keys.
    pub fn equal(&self, key: impl AsRef<[u8]>) -> IndexRows<'t> {
        let key = key.as_ref();
        self.rows(Bounds {
            lower: Some(at(self.unique, key)),
            upper: Some(after(self.unique, key)),
        })
    }

    /// The rows of all entries, in the order of the index. A row with several entries is returned
    /// for each of them.
    pub fn iter(&self) -> IndexRows<'t> {
        self.rows(Bounds::default())
    }

    /// The rows of the entries whose index key is in the range, in the order of the index.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> IndexRows<'t> {
        let at = |key: &K| Some(at(self.unique, key.as_ref()));
        let after = |key: &K| Some(after(self.unique, key.as_ref()));
        self.rows(Bounds {
            lower: match range.start_bound() {
                Bound::Included(key) => at(key),
                Bound::Excluded(key) => after(key),
                Bound::Unbounded => None,
            },
            upper: match range.end_bound() {
                Bound::Included(key) => after(key),
                Bound::Excluded(key) => at(key),
                Bound::Unbounded => None,
            },
        })
    }

    /// The rows of the entries whose index key begins with the prefix, in the order of the index.
    pub fn prefix(&self, key: impl AsRef<[u8]>) -> IndexRows<'t> {
        let (lower, upper) = prefix(self.unique, key.as_ref());
        self.rows(Bounds {
            lower: Some(lower),
            upper,
        })
    }

    fn rows(&self, bounds: Bounds) -> IndexRows<'t> {
        let mode = self.session.begin_read();
        IndexRows {
            session: self.session,
            table: Arc::clone(&self.table),
            number: self.number,
            unique: self.unique,
            mode: mode.clone(),
            scan: Scan::new(self.session, &self.table, self.number, mode, bounds),
        }
    }
}

/// An iterator over rows in the order of a secondary index. It can be read from either end, and ends
/// after an error.
#[must_use]
pub struct IndexRows<'t> {
    session: &'t Session,
    table: Arc<TableState>,
    number: IndexNumber,
    unique: bool,
    mode: Result<ReadMode>,
    scan: Scan<'t>,
}

impl IndexRows<'_> {
    fn step(&mut self, end: End) -> Option<Result<IndexRow>> {
        loop {
            match self.scan.step(end)?.and_then(|found| self.row(found)) {
                Ok(None) => {}
                Ok(Some(row)) => return Some(Ok(row)),
                Err(error) => {
                    self.scan.end();
                    return Some(Err(error));
                }
            }
        }
    }

    /// The row of an entry. `None` when another transaction changed it between
    /// the read of the entry and the lock of the row.
    fn row(&self, (key, value): Pair) -> Result<Option<IndexRow>> {
        let Some((index_key, key)) = split(self.unique, key, value) else {
            let name = &self.table.schema.name;
            return Err(Error::Corrupt(format!(
                "table {name} has a malformed index entry"
            )));
        };
        let mode = self.mode.clone()?;
        let Some(value) = writes::get(self.session, &self.table, &key, mode)? else {
            return Ok(None);
        };
        let schema = &self.table.schema;
        if mode != ReadMode::Snapshot && !schema.has_key(self.number, &index_key, &key, &value) {
            return Ok(None);
        }
        Ok(Some(IndexRow {
            index_key,
            key,
            value,
        }))
    }
}

impl Iterator for IndexRows<'_> {
    type Item = Result<IndexRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for IndexRows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

impl std::iter::FusedIterator for IndexRows<'_> {}
