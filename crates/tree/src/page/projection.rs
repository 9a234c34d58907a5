//! The columns of values that a reader needs.
//!
//! A reader of few columns need not decode the others. In the values of a page that was decoded for such a reader
//! the other columns have wrong contents: those of fixed width have any bytes, and variable ones are empty. So
//! such a value has the form of a row, and the columns that it needs are where a reader expects them.
//!
//! Columns of a page are identified by their numbers. So the projection applies only to pages with exactly the
//! same list of columns, all of whose values have the same beginning, with which the caller states the form of its
//! rows. Other pages are decoded wholly.

use super::columns::PageColumns;
use super::value_tail::ValueTail;
use std::ops::Range;
use std::sync::Arc;
use teak_columns::Column;

/// The columns of values that a reader needs. Clones share their memory: each statement has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection(Arc<Needed>);

#[derive(Debug, PartialEq, Eq)]
struct Needed {
    columns: PageColumns,
    /// How values begin.
    beginning: Box<[u8]>,
    /// A bit for each column of the front, then the optional ones, then the variable ones.
    bits: Box<[u64]>,
}

impl Projection {
    /// `columns`: those of the tree. `beginning`: that of all values of this form, within the first column.
    /// `bits`: a bit for each column of the front, then the optional ones, then the variable ones; the lowest bit
    /// of the first number is that of the first column, which is always decoded.
    #[must_use]
    pub fn new(columns: PageColumns, beginning: impl AsRef<[u8]>, bits: impl AsRef<[u64]>) -> Self {
        Self(Arc::new(Needed {
            columns,
            beginning: beginning.as_ref().into(),
            bits: bits.as_ref().into(),
        }))
    }

    /// The bits of column `64 * number` and the following ones.
    fn word(&self, number: usize) -> u64 {
        self.0.bits.get(number).copied().unwrap_or(0)
    }

    fn words(&self, other: &Self) -> Range<usize> {
        0..self.0.bits.len().max(other.0.bits.len())
    }

    fn is_of_same_form(&self, other: &Self) -> bool {
        self.0.beginning == other.0.beginning && self.0.columns == other.0.columns
    }

    fn has(&self, number: usize) -> bool {
        self.word(number / 64) >> (number % 64) & 1 == 1
    }

    /// Whether a column of the front is needed.
    pub(super) fn has_front(&self, number: usize) -> bool {
        number == 0 || self.has(number)
    }

    pub(super) fn has_optional(&self, number: usize) -> bool {
        self.has(self.0.columns.value().len() + number)
    }

    pub(super) fn has_variable(&self, number: usize) -> bool {
        let columns = &self.0.columns;
        self.has(columns.value().len() + columns.tail().optional.len() + number)
    }

    /// The number of variable columns, of `count`, that a reader reads. What follows the last one that it needs is not read.
    pub(super) fn variable_columns_read(projection: Option<&Self>, count: usize) -> usize {
        let is_wanted = |number: &usize| projection.is_none_or(|of| of.has_variable(*number));
        (0..count).rfind(is_wanted).map_or(0, |last| last + 1)
    }

    /// The bytes after the fronts of values without the columns that are not needed, if these are all columns of the
    /// tail, and no value lacks one: each is then an empty string, of which only the length is left.
    pub(super) fn empty_tail_bytes(&self) -> Option<usize> {
        let tail = self.0.columns.tail();
        let is_empty = |number: usize, null_bit: &Option<u32>| {
            null_bit.is_none() && !self.has_variable(number)
        };
        let mut variable = tail.variable.iter().enumerate();
        let are_empty = tail.optional.is_empty() && variable.all(|(n, bit)| is_empty(n, bit));
        are_empty.then_some(tail.variable.len())
    }

    pub(crate) fn columns(&self) -> &PageColumns {
        &self.0.columns
    }

    pub(super) fn is_front(&self, columns: &[Column]) -> bool {
        self.0.columns.value() == columns
    }

    pub(super) fn is_tail(&self, tail: &ValueTail) -> bool {
        self.0.columns.tail() == tail
    }

    pub(crate) fn is_beginning(&self, value: &[u8]) -> bool {
        value.starts_with(&self.0.beginning)
    }

    /// The columns of both projections; `None` if they are not of the same form of rows.
    pub(crate) fn union(&self, other: &Self) -> Option<Self> {
        let bits = self.words(other).map(|n| self.word(n) | other.word(n));
        self.is_of_same_form(other).then(|| {
            let bits: Vec<u64> = bits.collect();
            Self::new(self.0.columns.clone(), &self.0.beginning, bits)
        })
    }

    /// Whether what was decoded for this projection suffices for another one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let mut words = self.words(other);
        words.all(|n| other.word(n) & !self.word(n) == 0) && self.is_of_same_form(other)
    }
}
