//! The number of an index in its table.

use std::fmt;

/// The position of an index in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexNumber(pub u32);

impl IndexNumber {
    /// The index that contains the rows.
    pub const ROWS: Self = Self(0);

    /// Whether this is the index that contains the rows.
    #[must_use]
    pub fn is_rows(self) -> bool {
        self == Self::ROWS
    }

    /// The index `places` positions after this one.
    pub(crate) fn plus(self, places: u32) -> Self {
        Self(self.0.saturating_add(places))
    }

    /// This index's element in a list with one element for each index.
    pub(crate) fn of<T>(self, list: &[T]) -> Option<&T> {
        usize::try_from(self.0)
            .ok()
            .and_then(|number| list.get(number))
    }

    /// As [`IndexNumber::of`], to be changed.
    pub(crate) fn of_mut<T>(self, list: &mut [T]) -> Option<&mut T> {
        usize::try_from(self.0)
            .ok()
            .and_then(|number| list.get_mut(number))
    }
}

impl fmt::Display for IndexNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
