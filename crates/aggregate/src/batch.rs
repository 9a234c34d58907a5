//! Rows that are added together, by column.

use teak_columns::Vector;

/// Columns of the rows of a batch.
pub trait Columns {
    /// Why a column cannot be read.
    type Error;

    /// The number of rows, at most 2^32.
    fn rows(&self) -> usize;

    /// Reads a column: as many values as there are rows.
    ///
    /// # Errors
    /// Those of reading.
    fn vector(&mut self, column: usize) -> Result<Vector, Self::Error>;
}

/// A batch, of which each column is read once.
pub(crate) struct Batch<'a, C> {
    columns: &'a mut C,
    vectors: Vec<Option<Vector>>,
    /// In place of a column that the query does not have.
    missing: Vector,
}

impl<'a, C: Columns> Batch<'a, C> {
    /// `count`: the number of columns of the query.
    pub(crate) fn new(columns: &'a mut C, count: usize) -> Self {
        Self {
            columns,
            vectors: (0..count).map(|_| None).collect(),
            missing: Vector::new(true),
        }
    }

    pub(crate) fn vector(&mut self, column: usize) -> Result<&Vector, C::Error> {
        let Some(slot) = self.vectors.get_mut(column) else {
            return Ok(&self.missing);
        };
        match slot {
            Some(vector) => Ok(vector),
            None => Ok(slot.insert(self.columns.vector(column)?)),
        }
    }

    /// A column that was read.
    pub(crate) fn loaded(&self, column: usize) -> Option<&Vector> {
        self.vectors.get(column)?.as_ref()
    }
}
