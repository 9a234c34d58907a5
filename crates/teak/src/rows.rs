//! Iterators over rows.

use crate::error::Result;
use crate::scan::{End, Pair, Scan};

/// A row: its primary key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The primary key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// An iterator over rows in the order of their primary keys. It can be read from either end.
///
/// It ends after an error. It also returns rows that the same transaction writes ahead of its
/// position during the iteration.
///
/// ```
/// # fn main() -> teak::Result<()> {
/// # let db = teak::Database::in_memory()?;
/// let table = db.table("numbers")?;
/// for number in 0..10u8 {
///     table.insert([number], [number * number])?;
/// }
/// let snapshot = db.snapshot();
/// let last = snapshot.iter(&table).next_back().transpose()?;
/// assert_eq!(last.map(|row| row.value), Some(vec![81]));
/// let newest: Vec<u8> = snapshot
///     .range(&table, [2u8]..=[5u8])
///     .rev()
///     .map(|row| Ok(row?.key[0]))
///     .collect::<teak::Result<_>>()?;
/// assert_eq!(newest, [5, 4, 3, 2]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Rows<'t> {
    scan: Scan<'t>,
}

impl<'t> Rows<'t> {
    pub(crate) fn new(scan: Scan<'t>) -> Self {
        Self { scan }
    }
}

fn row(found: Result<Pair>) -> Result<Row> {
    found.map(|(key, value)| Row { key, value })
}

impl Iterator for Rows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.scan.step(End::Front).map(row)
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.scan.step(End::Back).map(row)
    }
}

impl std::iter::FusedIterator for Rows<'_> {}
