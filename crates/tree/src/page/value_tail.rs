//! The description of the columns of values after their front.

use super::column_list::{COLUMNS_MAX, put_column, take_column};
use teak_base::bytes::{Malformed, Put, Take};
use teak_columns::Column;

/// A column of fixed width that a value lacks if a bit of its front is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalColumn {
    /// The column.
    pub column: Column,
    /// The number of the bit: eight times the byte, plus the bit's place in it, the lowest being 0.
    pub null_bit: u32,
}

/// The columns of values after the front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueTail {
    /// Columns of fixed width.
    pub optional: Vec<OptionalColumn>,
    /// Columns of byte strings, each with the bit that is set if a value lacks it; `None`: all values have
    /// the column.
    pub variable: Vec<Option<u32>>,
}

impl ValueTail {
    pub(super) fn is_empty(&self) -> bool {
        self.optional.is_empty() && self.variable.is_empty()
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.optional.len() as u64);
        for optional in &self.optional {
            out.put_varint(u64::from(optional.null_bit));
            put_column(optional.column, out);
        }
        out.put_varint(self.variable.len() as u64);
        for null_bit in &self.variable {
            out.put_varint(null_bit.map_or(0, |bit| u64::from(bit) + 1));
        }
    }

    /// Reads what [`ValueTail::put`] has written.
    pub(super) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut tail = Self::default();
        for _ in 0..take_count(take)? {
            let null_bit = u32::try_from(take.varint()?).map_err(|_| Malformed)?;
            let column = take_column(take)?;
            tail.optional.push(OptionalColumn { column, null_bit });
        }
        for _ in 0..take_count(take)? {
            let number = take.varint()?.checked_sub(1);
            let null_bit = number.map(u32::try_from).transpose();
            tail.variable.push(null_bit.map_err(|_| Malformed)?);
        }
        Ok(tail)
    }
}

fn take_count(take: &mut Take<'_>) -> Result<u64, Malformed> {
    let count = take.varint()?;
    if count > COLUMNS_MAX as u64 {
        return Err(Malformed);
    }
    Ok(count)
}
