//! Columns as numbers, which calculations need instead of bytes.
//!
//! The number of a value has the same order as the value. That of an integer is the integer, less 2^63 if it is
//! unsigned and has eight bytes; that of a decimal is all of its digits; that of a time is its bytes.

use crate::kind::{Column, Kind};
use crate::packed::take_planes;
use crate::{Codec, planes, scheme};
use teak_base::bytes::{Malformed, Take};

/// Subtracted from integers of 64 bits that order like unsigned ones.
const SIGN: u64 = 1 << 63;

impl Column {
    /// Whether the values are numbers: not floats, and not any bytes.
    #[must_use]
    pub fn has_numbers(self) -> bool {
        !matches!(self.kind(), Kind::Bytes | Kind::Float)
    }

    /// The number of a value of a column that has numbers. `None` if the value is not as long as the column's, or
    /// is a decimal that no server writes.
    #[must_use]
    #[inline]
    pub fn number_of(self, value: &[u8]) -> Option<i64> {
        if !self.has_numbers() || value.len() != self.width() {
            return None;
        }
        match self.decimal() {
            Some(decimal) => decimal.number_of(value),
            None => Some(self.as_number(self.integer_of(value))),
        }
    }

    /// The number of the value with this integer, as [`Column::number_of`].
    pub(crate) fn number_of_integer(self, integer: u64) -> Option<i64> {
        if !self.has_numbers() {
            return None;
        }
        let Some(decimal) = self.decimal() else {
            return Some(self.as_number(integer));
        };
        let bytes = integer.to_be_bytes();
        decimal.number_of(bytes.get(bytes.len().checked_sub(self.width())?..)?)
    }

    /// The number of a value that a key contains as a column of kind [`Kind::UnsignedBig`] with the same width, whose
    /// bytes order like the value: the sign of a signed integer is inverted. `in_key`: the number of that column.
    /// `None` as for [`Column::number_of`].
    #[must_use]
    #[inline]
    pub fn number_in_key(self, in_key: i64) -> Option<i64> {
        let bias = if self.width() == 8 { SIGN } else { 0 };
        self.number_of_integer(in_key.cast_unsigned().wrapping_add(bias))
    }

    /// Appends the value with a number, which must be that of a value of the column.
    pub fn put_value(self, number: i64, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.width(), 0);
        let mut integer = [number.cast_unsigned().wrapping_add(self.bias())];
        if let Some(decimal) = self.decimal() {
            integer = [number.cast_unsigned().wrapping_add(SIGN)];
            decimal.pack(&mut integer);
        }
        self.store(&integer, out, |_| start);
    }

    /// Whether the number of a value is the integer less 2^63.
    #[must_use]
    pub fn is_unsigned_long(self) -> bool {
        self.has_numbers()
            && self.kind() != Kind::Decimal
            && self.bias() == SIGN
            && self.flip() == 0
    }

    /// The number of a value from its integer.
    #[inline]
    fn as_number(self, integer: u64) -> i64 {
        integer.wrapping_sub(self.bias()).cast_signed()
    }

    /// What the integer of a value has more than its number.
    fn bias(self) -> u64 {
        match self.kind() {
            Kind::SignedLittle => self.flip(),
            _ if self.width() == 8 => SIGN,
            _ => 0,
        }
    }
}

impl Codec {
    /// Decodes a column of `count` values that has numbers, and appends their numbers.
    ///
    /// # Errors
    /// [`Malformed`]; also for an integer that has more bytes, and a decimal that no server writes.
    pub fn decode_numbers(
        &mut self,
        column: Column,
        count: usize,
        take: &mut Take<'_>,
        numbers: &mut Vec<i64>,
    ) -> Result<(), Malformed> {
        if !column.has_numbers() {
            return Err(Malformed);
        }
        let width = column.width();
        match take.u8()? {
            scheme::INTEGERS => {
                self.integers.decode(count, take, &mut self.values)?;
                let all_bits = self.values.iter().fold(0, |bits, value| bits | value);
                if width < 8 && all_bits >> (8 * width) != 0 {
                    return Err(Malformed);
                }
                if column.decimal().is_none() {
                    numbers.extend(self.values.iter().map(|value| column.as_number(*value)));
                    return Ok(());
                }
                self.planes.clear();
                self.planes.resize(width * self.values.len(), 0);
                column.store(&self.values, &mut self.planes, |row| row * width);
            }
            scheme::DECIMAL_DIGITS if column.decimal().is_some() => {
                self.integers.decode(count, take, &mut self.values)?;
                let digits = self.values.iter();
                numbers.extend(digits.map(|value| value.wrapping_sub(SIGN).cast_signed()));
                return Ok(());
            }
            scheme::PLANES => {
                let bytes = width.checked_mul(count).ok_or(Malformed)?;
                let stored = take.take(bytes)?;
                self.planes.clear();
                planes::join(stored, width, &mut self.planes);
            }
            scheme::PACKED_PLANES => {
                let planes = if count == 0 { 0 } else { width };
                let mut stored = Vec::new();
                take_planes(planes, count, take, &mut stored)?;
                self.planes.clear();
                planes::join(&stored, width, &mut self.planes);
            }
            _ => return Err(Malformed),
        }
        for value in self.planes.chunks_exact(width) {
            numbers.push(column.number_of(value).ok_or(Malformed)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decimal;
    use crate::any_column::any_column;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_the_values() {
        let column = |kind, width| Column::new(kind, width).unwrap();
        let signed = column(Kind::SignedLittle, 3);
        assert_eq!(signed.number_of(&[0xff, 0xff, 0xff]), Some(-1));
        assert_eq!(signed.number_of(&[0xff, 0xff]), None);
        let unsigned = column(Kind::UnsignedLittle, 2);
        assert_eq!(unsigned.number_of(&[0, 0x80]), Some(32768));
        let long = column(Kind::UnsignedLittle, 8);
        assert_eq!(long.number_of(&[0; 8]), Some(i64::MIN));
        assert!(long.is_unsigned_long() && !unsigned.is_unsigned_long());
        assert!(!column(Kind::SignedLittle, 8).is_unsigned_long());
        let big = column(Kind::UnsignedBig, 3);
        assert_eq!(big.number_of(&[1, 2, 3]), Some(0x01_02_03));
        // DECIMAL(6,3): -12.345.
        let decimal = Column::of_decimals(Decimal::new(6, 3).unwrap());
        assert_eq!(decimal.number_of(&[0x7f, 0xf3, 0xfe, 0xa6]), Some(-12_345));
        assert_eq!(decimal.number_of(&[0x84, 0, 0, 0]), None);
        for kind in [Kind::Float, Kind::Bytes] {
            assert_eq!(column(kind, 8).number_of(&[0; 8]), None);
        }
    }

    #[test]
    fn numbers_in_keys_are_those_of_the_values() {
        let column = |kind, width| Column::new(kind, width).unwrap();
        let in_key = |bytes: &[u8]| {
            let of_key = column(Kind::UnsignedBig, u32::try_from(bytes.len()).unwrap());
            of_key.number_of(bytes).unwrap()
        };
        let signed = column(Kind::SignedLittle, 2);
        assert_eq!(signed.number_in_key(in_key(&[0x7f, 0xff])), Some(-1));
        assert_eq!(signed.number_in_key(in_key(&[0x80, 0x07])), Some(7));
        let long = column(Kind::SignedLittle, 8);
        assert_eq!(long.number_in_key(in_key(&[0; 8])), Some(i64::MIN));
        assert_eq!(long.number_in_key(in_key(&[0xff; 8])), Some(i64::MAX));
        let unsigned = column(Kind::UnsignedLittle, 3);
        assert_eq!(unsigned.number_in_key(in_key(&[1, 2, 3])), Some(0x01_02_03));
        let unsigned_long = column(Kind::UnsignedLittle, 8);
        let bytes = 5u64.to_be_bytes();
        let number = unsigned_long.number_of(&5u64.to_le_bytes());
        assert_eq!(unsigned_long.number_in_key(in_key(&bytes)), number);
        let time = column(Kind::UnsignedBig, 5);
        assert_eq!(time.number_in_key(in_key(&[9; 5])), time.number_of(&[9; 5]));
        // DECIMAL(6,3): -12.345.
        let decimal = Column::of_decimals(Decimal::new(6, 3).unwrap());
        let bytes = [0x7f, 0xf3, 0xfe, 0xa6];
        assert_eq!(decimal.number_in_key(in_key(&bytes)), Some(-12_345));
        assert_eq!(decimal.number_in_key(in_key(&[0x84, 0, 0, 0])), None);
        assert_eq!(column(Kind::Float, 8).number_in_key(0), None);
    }

    proptest! {
        #[test]
        fn a_decoded_column_has_the_numbers_of_its_values(
            column in any_column(1..4),
            drawn in proptest::collection::vec((any::<u64>(), 0u32..64), 0..600),
            step in 0u64..1000, packs: bool, after: u8,
        ) {
            let width = column.width();
            let mut rows = Vec::new();
            for (position, (number, shift)) in (0u64..).zip(&drawn) {
                let number = (number >> shift).wrapping_add(position.wrapping_mul(step));
                if let Some(decimal) = column.decimal() {
                    let digits = number % 1_000_000_000_000;
                    let start = rows.len();
                    rows.resize(start + width, 0);
                    let signed = if *shift % 2 == 0 { SIGN + digits } else { SIGN - digits };
                    let mut packed = [signed];
                    decimal.pack(&mut packed);
                    column.store(&packed, &mut rows[start..], |_| 0);
                } else {
                    rows.extend_from_slice(&number.to_le_bytes()[..width]);
                }
            }
            let mut codec = Codec::default();
            codec.set_packing(packs);
            let mut encoded = Vec::new();
            codec.encode(column, &rows, &mut encoded);
            encoded.push(after);
            let mut numbers = vec![7];
            let mut take = Take::new(&encoded);
            codec.decode_numbers(column, drawn.len(), &mut take, &mut numbers).unwrap();
            prop_assert_eq!(take.rest(), &[after]);
            let expected = rows.chunks_exact(width).map(|value| column.number_of(value).unwrap());
            prop_assert_eq!(&numbers[1..], expected.collect::<Vec<_>>());
            let mut values = Vec::new();
            numbers[1..].iter().for_each(|number| column.put_value(*number, &mut values));
            prop_assert!(column.decimal().is_some() || values == rows);
            let again = values.chunks_exact(width).map(|value| column.number_of(value).unwrap());
            prop_assert_eq!(&numbers[1..], again.collect::<Vec<_>>());
            // They have the order of the values.
            let mut values: Vec<(i64, u64)> = Vec::new();
            let mut integers = Vec::new();
            column.load(&rows, &mut integers);
            values.extend(numbers[1..].iter().copied().zip(integers));
            values.sort_unstable();
            prop_assert!(values.is_sorted_by_key(|(_, integer)| *integer));
        }

        #[test]
        fn any_bytes_have_numbers_or_are_malformed(bytes: Vec<u8>, column in any_column(1..4), count in 0usize..50) {
            let mut numbers = Vec::new();
            let _ = Codec::default().decode_numbers(column, count, &mut Take::new(&bytes), &mut numbers);
            prop_assert!(numbers.len() <= count);
        }
    }
}
