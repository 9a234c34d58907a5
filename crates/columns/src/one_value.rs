//! Decodes one value of a column.
//!
//! A reader of one row need not put the integers of the other rows together from their planes, nor make values of
//! them. Only sums of differences need the values before.

use crate::packed::take_one;
use crate::{Codec, Column, scheme};
use teak_base::bytes::{Malformed, Take};

impl Codec {
    /// Decodes value `number` of a column of `count` values, and writes it over `out`, which has the width of the column.
    ///
    /// # Errors
    /// [`Malformed`]; also if there is no such value.
    pub fn decode_one(
        &mut self,
        column: Column,
        count: usize,
        number: usize,
        take: &mut Take<'_>,
        out: &mut [u8],
    ) -> Result<(), Malformed> {
        let width = column.width();
        if number >= count || out.len() != width {
            return Err(Malformed);
        }
        let integer = match take.u8()? {
            scheme::PLANES => {
                let planes = take.take(width.checked_mul(count).ok_or(Malformed)?)?;
                return copy_row(planes, count, number, out);
            }
            scheme::PACKED_PLANES => {
                for byte in out {
                    *byte = take_one(count, number, take)?;
                }
                return Ok(());
            }
            scheme::INTEGERS if column.is_numeric() => self.integer_at(count, number, take)?,
            scheme::DECIMAL_DIGITS => {
                let decimal = column.decimal().ok_or(Malformed)?;
                let mut digits = [self.integer_at(count, number, take)?];
                decimal.pack(&mut digits);
                let [packed] = digits;
                packed
            }
            // Exceptions among floats are found by their order.
            scheme => {
                self.decode_integers(scheme, column, count, take)?;
                *self.values.get(number).ok_or(Malformed)?
            }
        };
        column.store(&[integer], out, |_| 0);
        Ok(())
    }

    fn integer_at(
        &mut self,
        count: usize,
        number: usize,
        take: &mut Take<'_>,
    ) -> Result<u64, Malformed> {
        let values = &mut self.values;
        self.integers.decode_one(count, number, take, values)
    }
}

/// Copies a row of planes of `count` bytes each.
fn copy_row(planes: &[u8], count: usize, number: usize, out: &mut [u8]) -> Result<(), Malformed> {
    for (byte, plane) in out.iter_mut().zip(planes.chunks_exact(count)) {
        *byte = *plane.get(number).ok_or(Malformed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decimal, Kind};
    use proptest::prelude::*;

    fn columns() -> impl Strategy<Value = Column> {
        let column = |kind, width| Column::new(kind, width).unwrap();
        prop_oneof![
            (1u32..12).prop_map(move |width| column(Kind::Bytes, width)),
            (1u32..=8).prop_map(move |width| column(Kind::UnsignedLittle, width)),
            (1u32..=8).prop_map(move |width| column(Kind::SignedLittle, width)),
            (1u32..=8).prop_map(move |width| column(Kind::UnsignedBig, width)),
            Just(column(Kind::Float, 4)),
            Just(column(Kind::Float, 8)),
            Just(Column::of_decimals(Decimal::new(15, 2).unwrap())),
        ]
    }

    proptest! {
        #[test]
        fn each_value_is_that_of_the_whole_column(
            column in columns(),
            drawn in proptest::collection::vec((any::<u64>(), 0u32..64), 1..400),
            step in 0u64..1000, packs: bool, after: u8, dictionary: bool,
        ) {
            let width = column.width();
            let mut rows = Vec::new();
            for (position, (number, shift)) in (0u64..).zip(&drawn) {
                let number = if dictionary { (number % 3) << 40 } else { number >> shift };
                let number = number.wrapping_add(position.wrapping_mul(step));
                let mut bytes = vec![0; width.max(8)];
                match column.kind() {
                    Kind::Decimal => {
                        let mut packed = [(1 << 63) + number % 1_000_000_000_000];
                        column.decimal().unwrap().pack(&mut packed);
                        column.store(&packed, &mut bytes, |_| 0);
                    }
                    Kind::Float if width == 8 && *shift < 60 => {
                        bytes = ((number % 10_000) as f64 / 100.0).to_le_bytes().to_vec();
                    }
                    _ => bytes[..8].copy_from_slice(&number.to_le_bytes()),
                }
                rows.extend_from_slice(&bytes[..width]);
            }
            let mut codec = Codec::default();
            codec.set_packing(packs);
            let mut encoded = Vec::new();
            codec.encode(column, &rows, &mut encoded);
            encoded.push(after);
            for (number, value) in rows.chunks(width).enumerate() {
                let mut take = Take::new(&encoded);
                let mut found = vec![7; width];
                codec.decode_one(column, drawn.len(), number, &mut take, &mut found).unwrap();
                prop_assert_eq!(&found, value);
                prop_assert_eq!(take.rest(), &[after]);
            }
        }

        #[test]
        fn any_bytes_are_a_value_or_malformed(
            column in columns(), count in 0usize..300, number in 0usize..300, bytes: Vec<u8>,
        ) {
            let mut found = vec![0; column.width()];
            let mut take = Take::new(&bytes);
            let _ = Codec::default().decode_one(column, count, number, &mut take, &mut found);
        }
    }
}
