//! Encodings of columns: vectors of values of one type and width in, bytes out. Knows neither pages nor
//! SQL.
//!
//! The encodings make the bytes of a column predictable, and store them as byte planes (the first bytes of all values, then
//! the second bytes, and so on). If the codec of the table compresses pages fast, planes are left to it. Otherwise each is
//! stored in the bits that it needs, or compressed, whatever is shorter (`packed`).
//!
//! 1. A value becomes an unsigned integer with the same order ([`Kind`]). A decimal number, or a float whose
//!    decimal form is short, becomes its digits (`decimal`, `floats`).
//! 2. The minimum is subtracted, and the differences are divided by their common divisor.
//! 3. The integers are stored as they are, as differences of neighbours, as differences of these, or as
//!    numbers in a dictionary (`integers`). An estimate of the entropy of their byte planes decides.
//! 4. Planes that are zero for all values are not stored. The others may be compressed, each apart.
//!
//! Strings of different lengths become a column of lengths and their bytes, or numbers in a dictionary
//! (`texts`).
//!
//! Byte format: `docs/design/format.md`, "Columns".

#[cfg(test)]
mod any_column;
mod bits;
mod cost;
mod decimal;
mod dictionary;
mod float_numbers;
mod floats;
mod integers;
mod kind;
mod numbers;
mod one_value;
mod packed;
pub mod planes;
mod texts;
mod vector;
mod zone;

pub use self::decimal::Decimal;
pub use self::float_numbers::{float_of, number_of_float};
pub use self::kind::{Column, Kind};
pub use self::texts::Texts;
pub use self::vector::{Vector, VectorValues};
pub use self::zone::Zone;

use self::packed::{put_packed, take_planes};
use teak_base::bytes::{Malformed, Put, Take};

/// Number of values from which a column is encoded by type. With fewer the header of an encoding costs
/// more than it saves.
const VALUES_MIN: usize = 16;

/// How the values of a column are stored. The numbers are part of the format.
mod scheme {
    /// The bytes of the values, as planes.
    pub(super) const PLANES: u8 = 0;
    /// Integers.
    pub(super) const INTEGERS: u8 = 1;
    /// Digits of floats, and the floats that have none.
    pub(super) const FLOAT_DIGITS: u8 = 2;
    /// Digits of decimals.
    pub(super) const DECIMAL_DIGITS: u8 = 3;
    /// The bytes of the values, as planes that may be packed.
    pub(super) const PACKED_PLANES: u8 = 4;
}

/// Encodes and decodes columns. Reuses its buffers.
#[derive(Debug, Default)]
pub struct Codec {
    values: Vec<u64>,
    integers: integers::Buffers,
    digits: Vec<u64>,
    planes: Vec<u8>,
    packs: bool,
}

impl Codec {
    /// Sets whether planes are made shorter, each apart: stored in bits, or compressed with zstd. By default they are not.
    pub fn set_packing(&mut self, packs: bool) {
        self.packs = packs;
    }

    /// Appends the encoded column. `values`: the bytes of all values, one after the other.
    ///
    /// # Panics
    /// When the bytes are not whole values.
    pub fn encode(&mut self, column: Column, values: &[u8], out: &mut Vec<u8>) {
        let width = column.width();
        assert!(values.len().is_multiple_of(width), "values are whole");
        let count = values.len() / width;
        if count < VALUES_MIN || !column.is_numeric() {
            self.put_planes(values, width, out);
            return;
        }
        column.load(values, &mut self.values);
        let start = out.len();
        let (values_of, digits) = (&self.values, &mut self.digits);
        let has_digits = match column.decimal() {
            Some(decimal) => {
                let is_loaded = decimal.load(values, digits);
                if is_loaded {
                    out.put_u8(scheme::DECIMAL_DIGITS);
                }
                is_loaded
            }
            None if column.kind() == Kind::Float => {
                let begin = &mut |out: &mut Vec<u8>| out.put_u8(scheme::FLOAT_DIGITS);
                floats::encode(column, values_of, digits, begin, out)
            }
            None => false,
        };
        let integers = if has_digits {
            &self.digits
        } else {
            out.put_u8(scheme::INTEGERS);
            &self.values
        };
        let plain_bits = cost::of_planes(&self.values, width);
        let bits = self.integers.encode(integers, self.packs, out);
        // The bytes themselves may be as good, for example random ones, and are decoded faster.
        if bits >= plain_bits {
            out.truncate(start);
            self.put_planes(values, width, out);
        }
    }

    /// Appends the bytes of values as planes.
    fn put_planes(&mut self, values: &[u8], width: usize, out: &mut Vec<u8>) {
        let (start, count) = (out.len(), values.len() / width);
        self.planes.clear();
        planes::split(values, width, &mut self.planes);
        out.put_u8(scheme::PACKED_PLANES);
        for plane in self.planes.chunks(count.max(1)) {
            put_packed(plane, self.packs, out);
        }
        if out.len() - start > values.len() {
            out.truncate(start);
            out.put_u8(scheme::PLANES);
            out.extend_from_slice(&self.planes);
        }
    }

    /// Decodes a column of `count` values, and writes each to its place in `rows`: value `n` begins at
    /// `place_of(n)`.
    ///
    /// # Errors
    /// [`Malformed`].
    ///
    /// # Panics
    /// When a place is not within `rows`.
    pub fn decode(
        &mut self,
        column: Column,
        count: usize,
        take: &mut Take<'_>,
        rows: &mut [u8],
        place_of: impl Fn(usize) -> usize,
    ) -> Result<(), Malformed> {
        match take.u8()? {
            scheme::PLANES => {
                let bytes = column.width().checked_mul(count).ok_or(Malformed)?;
                planes::join_at(take.take(bytes)?, column.width(), rows, place_of);
                return Ok(());
            }
            scheme::PACKED_PLANES => {
                let width = column.width();
                // A column without values has no planes.
                let planes = if count == 0 { 0 } else { width };
                take_planes(planes, count, take, &mut self.planes)?;
                planes::join_at(&self.planes, width, rows, place_of);
                return Ok(());
            }
            scheme => self.decode_integers(scheme, column, count, take)?,
        }
        column.store(&self.values, rows, place_of);
        Ok(())
    }

    /// Decodes values that are not stored as planes of their bytes, as integers that [`Column::store`] accepts.
    fn decode_integers(
        &mut self,
        scheme: u8,
        column: Column,
        count: usize,
        take: &mut Take<'_>,
    ) -> Result<(), Malformed> {
        match scheme {
            scheme::INTEGERS if column.is_numeric() => {
                self.integers.decode(count, take, &mut self.values)?;
            }
            scheme::DECIMAL_DIGITS => {
                let decimal = column.decimal().ok_or(Malformed)?;
                self.integers.decode(count, take, &mut self.values)?;
                decimal.pack(&mut self.values);
            }
            scheme::FLOAT_DIGITS if column.kind() == Kind::Float => {
                let header = floats::Header::decode(count, take)?;
                header.skip_exceptions(column, take)?;
                self.integers.decode(count, take, &mut self.values)?;
                header.restore(column, &mut self.values)?;
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// The name of the encoding of a column, whose encoded bytes these are.
    #[must_use]
    pub fn encoding_name(encoded: &[u8]) -> &'static str {
        match encoded {
            [scheme::PLANES, ..] => "byte planes",
            [scheme::PACKED_PLANES, ..] => "packed byte planes",
            [scheme::INTEGERS, rest @ ..] => integers::transform_name(rest),
            [scheme::DECIMAL_DIGITS, rest @ ..] => match integers::transform_name(rest) {
                integers::DELTA_NAME => "decimal digits, differences",
                integers::DICTIONARY_NAME => "decimal digits, dictionary",
                _ => "decimal digits",
            },
            [scheme::FLOAT_DIGITS, ..] => "digits of floats",
            _ => "unknown",
        }
    }

    /// Skips a column of `count` values without decoding them.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn skip(column: Column, count: usize, take: &mut Take<'_>) -> Result<(), Malformed> {
        match take.u8()? {
            scheme::PLANES => {
                let bytes = column.width().checked_mul(count).ok_or(Malformed)?;
                take.take(bytes).map(|_| ())
            }
            scheme::PACKED_PLANES => {
                let planes = if count == 0 { 0 } else { column.width() };
                packed::skip_planes(planes, count, take)
            }
            scheme::INTEGERS if column.is_numeric() => integers::skip(count, take),
            scheme::DECIMAL_DIGITS if column.decimal().is_some() => integers::skip(count, take),
            scheme::FLOAT_DIGITS if column.kind() == Kind::Float => {
                floats::Header::decode(count, take)?.skip_exceptions(column, take)?;
                integers::skip(count, take)
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_column::any_column;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_column_is_skipped_as_it_is_decoded(
            column in any_column(0..5),
            numbers in proptest::collection::vec((any::<u64>(), 0u32..64), 0..600),
            step in 0u64..1000, packs: bool, after: u8,
        ) {
            let mut rows = Vec::new();
            for (position, (number, shift)) in (0u64..).zip(&numbers) {
                let number = match column.kind() {
                    Kind::Float if *shift > 2 => ((number >> 50) as f64 / 100.0).to_bits(),
                    _ => (number >> shift).wrapping_add(position.wrapping_mul(step)),
                };
                let bytes = number.to_le_bytes();
                rows.extend(bytes.iter().cycle().take(column.width()));
            }
            let mut codec = Codec::default();
            codec.set_packing(packs);
            let mut encoded = Vec::new();
            codec.encode(column, &rows, &mut encoded);
            encoded.push(after);
            let mut decoded = vec![0; rows.len()];
            let width = column.width();
            let mut take = Take::new(&encoded);
            codec.decode(column, numbers.len(), &mut take, &mut decoded, |row| row * width).unwrap();
            prop_assert_eq!(&decoded, &rows);
            prop_assert_eq!(take.rest(), &[after]);
            let mut take = Take::new(&encoded);
            Codec::skip(column, numbers.len(), &mut take).unwrap();
            prop_assert_eq!(take.rest(), &[after]);
        }

        #[test]
        fn any_bytes_are_skipped_or_malformed(bytes: Vec<u8>, column in any_column(0..5), count in 0usize..50) {
            let _ = Codec::skip(column, count, &mut Take::new(&bytes));
            let _ = Codec::default().skip_texts(count, 1000, &mut Take::new(&bytes));
        }
    }
}
