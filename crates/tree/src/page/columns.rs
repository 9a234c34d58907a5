//! The columns of keys and values.

use super::column_list::{put_list, take_list, width_of};
use super::value_tail::ValueTail;
use std::fmt;
use std::sync::Arc;
use teak_base::bytes::{Malformed, Take};
use teak_base::checksum::checksum;
use teak_columns::Column;

/// Number of entries from which a page stores columns.
const ENTRIES_MIN: usize = 32;

/// The columns that keys and values consist of.
#[derive(Clone, PartialEq, Eq)]
pub struct PageColumns {
    columns: Arc<Lists>,
}

#[derive(PartialEq, Eq)]
struct Lists {
    key: Vec<Column>,
    value: Vec<Column>,
    key_bytes: usize,
    value_bytes: usize,
    tail: ValueTail,
    fingerprint: u64,
}

impl Default for PageColumns {
    /// No columns.
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl fmt::Debug for PageColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = (self.columns.key.len(), self.columns.value.len());
        f.debug_tuple("PageColumns").field(&counts).finish()
    }
}

impl PageColumns {
    /// `key`: the columns of all keys, or none, if keys have different lengths. `value`: the columns at the
    /// front of all values. Nothing is known about the bytes after them.
    #[must_use]
    pub fn new(key: Vec<Column>, value: Vec<Column>) -> Self {
        Self::with_tail(key, value, ValueTail::default())
    }

    /// As [`PageColumns::new`]. `tail`: the columns after the front of values. Values that do not consist of
    /// these columns are stored, too, but take more space.
    #[must_use]
    pub fn with_tail(key: Vec<Column>, value: Vec<Column>, tail: ValueTail) -> Self {
        let (key_bytes, value_bytes) = (width_of(&key), width_of(&value));
        let mut lists = Vec::new();
        put_lists(&key, &value, &tail, &mut lists);
        let columns = Lists {
            key,
            value,
            key_bytes,
            value_bytes,
            tail,
            fingerprint: checksum(&lists),
        };
        Self {
            columns: Arc::new(columns),
        }
    }

    /// A hash of the columns, by which index blocks say to which columns their zones belong.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.columns.fingerprint
    }

    /// The columns of keys.
    #[must_use]
    pub fn key(&self) -> &[Column] {
        &self.columns.key
    }

    /// The columns of values.
    #[must_use]
    pub fn value(&self) -> &[Column] {
        &self.columns.value
    }

    /// The columns after the front of values.
    #[must_use]
    pub fn tail(&self) -> &ValueTail {
        &self.columns.tail
    }

    /// Whether a page with these entries stores its keys by column.
    pub(super) fn fit_keys(&self, entries: usize, bytes: usize) -> bool {
        entries >= ENTRIES_MIN && bytes > 0 && bytes == self.columns.key_bytes
    }

    /// Whether a page with these entries stores its values by column; `bytes_min`: of the shortest value.
    pub(super) fn fit_values(&self, entries: usize, bytes_min: usize) -> bool {
        let bytes = self.columns.value_bytes;
        entries >= ENTRIES_MIN && bytes > 0 && bytes <= bytes_min
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.columns.value_bytes
    }
}

fn put_lists(key: &[Column], value: &[Column], tail: &ValueTail, out: &mut Vec<u8>) {
    put_list(key, out);
    put_list(value, out);
    tail.put(out);
}

impl PageColumns {
    /// Appends the lists of columns, for the catalogue.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_lists(self.key(), self.value(), self.tail(), out);
    }

    /// Reads what [`PageColumns::put`] has written.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (key, value) = (take_list(take)?, take_list(take)?);
        Ok(Self::with_tail(key, value, ValueTail::take(take)?))
    }
}
