//! Types of columns, and their values as integers.
//!
//! The loops over values have bounds that the caller has checked.
#![allow(clippy::indexing_slicing)]

use crate::decimal::Decimal;

/// What the bytes of a value mean. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Any bytes.
    Bytes = 0,
    /// An unsigned little-endian integer.
    UnsignedLittle = 1,
    /// A little-endian integer in two's complement.
    SignedLittle = 2,
    /// An unsigned big-endian integer, or bytes that order like one: packed times, decimals.
    UnsignedBig = 3,
    /// A little-endian IEEE 754 number.
    Float = 4,
    /// A [`Decimal`].
    Decimal = 5,
}

impl Kind {
    /// The kind with a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Bytes,
            1 => Self::UnsignedLittle,
            2 => Self::SignedLittle,
            3 => Self::UnsignedBig,
            4 => Self::Float,
            5 => Self::Decimal,
            _ => return None,
        })
    }

    /// The number of the kind.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A column: what its values mean, and how many bytes each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    kind: Kind,
    width: u32,
    /// Of kind `Decimal`.
    decimal: Option<Decimal>,
}

impl Column {
    /// `None` unless values of this width can have the kind: any width but 0 for bytes, 1 to 8 for
    /// integers, 4 and 8 for floats. For decimals see [`Column::of_decimals`].
    #[must_use]
    pub fn new(kind: Kind, width: u32) -> Option<Self> {
        let is_possible = match kind {
            Kind::Bytes => width > 0,
            Kind::UnsignedLittle | Kind::SignedLittle | Kind::UnsignedBig => {
                (1..=8).contains(&width)
            }
            Kind::Float => width == 4 || width == 8,
            Kind::Decimal => false,
        };
        is_possible.then_some(Self {
            kind,
            width,
            decimal: None,
        })
    }

    /// A column of integers of this crate, which have 1 to 8 bytes.
    pub(crate) fn of_integers(kind: Kind, width: u32) -> Self {
        Self {
            kind,
            width,
            decimal: None,
        }
    }

    /// A column of decimals.
    #[must_use]
    pub fn of_decimals(decimal: Decimal) -> Self {
        Self {
            kind: Kind::Decimal,
            width: u32::try_from(decimal.width()).unwrap_or(u32::MAX),
            decimal: Some(decimal),
        }
    }

    /// The form of the decimals, of kind [`Kind::Decimal`].
    #[must_use]
    pub fn decimal(self) -> Option<Decimal> {
        self.decimal
    }

    /// What the values mean.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// Bytes of a value.
    #[must_use]
    pub fn width(self) -> usize {
        self.width as usize
    }

    pub(crate) fn is_numeric(self) -> bool {
        self.kind != Kind::Bytes
    }

    /// Whether the values are big-endian. Decimals order like their bytes.
    fn is_big(self) -> bool {
        matches!(self.kind, Kind::UnsignedBig | Kind::Decimal)
    }

    /// What is exclusive-ored with the bits of a value, so that integers order like the values.
    pub(crate) fn flip(self) -> u64 {
        match self.kind {
            Kind::SignedLittle => 1 << (self.width * 8 - 1),
            _ => 0,
        }
    }

    /// Reads values as integers.
    pub(crate) fn load(self, bytes: &[u8], values: &mut Vec<u64>) {
        values.clear();
        let values_of = bytes.chunks_exact(self.width());
        values.extend(values_of.map(|value| self.integer_of(value)));
    }

    /// A value of the column's width as an integer.
    #[inline]
    pub(crate) fn integer_of(self, value: &[u8]) -> u64 {
        let (width, mut word) = (self.width(), [0; 8]);
        if self.is_big() {
            word[8 - width..].copy_from_slice(value);
            u64::from_be_bytes(word)
        } else {
            word[..width].copy_from_slice(value);
            u64::from_le_bytes(word) ^ self.flip()
        }
    }

    /// Writes integers as values, each to its place.
    pub(crate) fn store(self, values: &[u64], rows: &mut [u8], place_of: impl Fn(usize) -> usize) {
        match self.width {
            1 => self.store_width::<1>(values, rows, place_of),
            2 => self.store_width::<2>(values, rows, place_of),
            3 => self.store_width::<3>(values, rows, place_of),
            4 => self.store_width::<4>(values, rows, place_of),
            5 => self.store_width::<5>(values, rows, place_of),
            6 => self.store_width::<6>(values, rows, place_of),
            7 => self.store_width::<7>(values, rows, place_of),
            _ => self.store_width::<8>(values, rows, place_of),
        }
    }

    fn store_width<const WIDTH: usize>(
        self,
        values: &[u64],
        rows: &mut [u8],
        place_of: impl Fn(usize) -> usize,
    ) {
        let flip = self.flip();
        if self.is_big() {
            for (row, value) in values.iter().enumerate() {
                let bytes = value.to_be_bytes();
                rows[place_of(row)..][..WIDTH].copy_from_slice(&bytes[8 - WIDTH..]);
            }
        } else {
            for (row, value) in values.iter().enumerate() {
                let bytes = (value ^ flip).to_le_bytes();
                rows[place_of(row)..][..WIDTH].copy_from_slice(&bytes[..WIDTH]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_order_like_the_values() {
        let mut loaded = Vec::new();
        let column = Column::new(Kind::SignedLittle, 2).unwrap();
        let bytes: Vec<u8> = [-300i16, -1, 0, 5, 300]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        column.load(&bytes, &mut loaded);
        assert!(loaded.is_sorted());
        let mut stored = vec![0; bytes.len()];
        column.store(&loaded, &mut stored, |row| row * 2);
        assert_eq!(stored, bytes);
        let column = Column::new(Kind::UnsignedBig, 3).unwrap();
        column.load(&[0, 0, 1, 0, 1, 0, 1, 0, 0], &mut loaded);
        assert_eq!(loaded, [1, 256, 65536]);
    }

    #[test]
    fn widths_that_a_kind_cannot_have_are_refused() {
        assert_eq!(Column::new(Kind::Bytes, 0), None);
        assert_eq!(Column::new(Kind::UnsignedBig, 9), None);
        assert_eq!(Column::new(Kind::Float, 5), None);
        for number in 0..=255u8 {
            assert!(Kind::from_number(number).is_none_or(|kind| kind.number() == number));
        }
    }
}
