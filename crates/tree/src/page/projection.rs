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
use std::sync::Arc;
use teak_columns::Column;

/// The columns of values that a reader needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    wanted: Arc<Wanted>,
}

#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    columns: PageColumns,
    /// How values begin.
    beginning: Vec<u8>,
    /// A bit for each column of the front, then the optional ones, then the variable ones.
    bits: Vec<u64>,
}

impl Projection {
    /// `columns`: those of the tree. `beginning`: that of all values of this form, within the first column.
    /// `bits`: a bit for each column of the front, then the optional ones, then the variable ones; the lowest bit
    /// of the first number is that of the first column, which is always decoded.
    #[must_use]
    pub fn new(columns: PageColumns, beginning: Vec<u8>, bits: Vec<u64>) -> Self {
        let wanted = Wanted {
            columns,
            beginning,
            bits,
        };
        Self {
            wanted: Arc::new(wanted),
        }
    }

    fn has(&self, number: usize) -> bool {
        let bits = self.wanted.bits.get(number / 64).copied().unwrap_or(0);
        bits >> (number % 64) & 1 == 1
    }

    /// Whether a column of the front is needed.
    pub(super) fn has_front(&self, number: usize) -> bool {
        number == 0 || self.has(number)
    }

    pub(super) fn has_optional(&self, number: usize) -> bool {
        self.has(self.wanted.columns.value().len() + number)
    }

    pub(super) fn has_variable(&self, number: usize) -> bool {
        let columns = &self.wanted.columns;
        self.has(columns.value().len() + columns.tail().optional.len() + number)
    }

    /// The bytes after the fronts of values without the columns that are not needed, if these are all columns of the
    /// tail, and no value lacks one: each is then an empty string, of which only the length is left.
    pub(super) fn empty_tail_bytes(&self) -> Option<usize> {
        let tail = self.wanted.columns.tail();
        let is_empty = |number: usize, null_bit: &Option<u32>| {
            null_bit.is_none() && !self.has_variable(number)
        };
        let mut variable = tail.variable.iter().enumerate();
        let are_empty = tail.optional.is_empty() && variable.all(|(n, bit)| is_empty(n, bit));
        are_empty.then_some(tail.variable.len())
    }

    pub(super) fn columns(&self) -> &PageColumns {
        &self.wanted.columns
    }

    pub(super) fn is_front(&self, columns: &[Column]) -> bool {
        self.wanted.columns.value() == columns
    }

    pub(super) fn is_tail(&self, tail: &ValueTail) -> bool {
        self.wanted.columns.tail() == tail
    }

    pub(super) fn is_beginning(&self, value: &[u8]) -> bool {
        value.starts_with(&self.wanted.beginning)
    }

    /// The columns of both projections; `None` if they are not of the same form of rows.
    pub(crate) fn union(&self, other: &Self) -> Option<Self> {
        let (own, others) = (&self.wanted, &other.wanted);
        if own.beginning != others.beginning || own.columns != others.columns {
            return None;
        }
        let word = |bits: &[u64], number: usize| bits.get(number).copied().unwrap_or(0);
        let count = own.bits.len().max(others.bits.len());
        let bits = (0..count).map(|n| word(&own.bits, n) | word(&others.bits, n));
        let (columns, beginning) = (own.columns.clone(), own.beginning.clone());
        Some(Self::new(columns, beginning, bits.collect()))
    }

    /// Whether what was decoded for this projection suffices for another one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.wanted, &other.wanted) {
            return true;
        }
        let (own, others) = (&self.wanted, &other.wanted);
        let count = own.bits.len().max(others.bits.len());
        let word = |bits: &[u64], number: usize| bits.get(number).copied().unwrap_or(0);
        own.beginning == others.beginning
            && own.columns == others.columns
            && (0..count).all(|n| word(&others.bits, n) & !word(&own.bits, n) == 0)
    }
}
