//! The range of a column's values in some rows.

use crate::float_numbers::{float_of, number_of_float};
use crate::kind::{Column, Kind};

/// What is known of the values of a column in some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// No value has a smaller number. Meaningless without values.
    pub min: i64,
    /// No value has a larger number. Meaningless without values.
    pub max: i64,
    /// Whether a row may have a value.
    pub has_values: bool,
    /// Whether a row may have NULL.
    pub has_nulls: bool,
}

impl Zone {
    /// That of a column whose values have no numbers.
    #[must_use]
    pub fn of_any_values(has_values: bool, has_nulls: bool) -> Self {
        Self {
            min: i64::MIN,
            max: i64::MAX,
            has_values,
            has_nulls,
        }
    }

    /// Whether the zone says nothing.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        self == Self::of_any_values(true, true)
    }

    /// That of the rows of both zones.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let (min, max) = match (self.has_values, other.has_values) {
            (true, true) => (self.min.min(other.min), self.max.max(other.max)),
            (false, true) => (other.min, other.max),
            _ => (self.min, self.max),
        };
        Self {
            min,
            max,
            has_values: self.has_values || other.has_values,
            has_nulls: self.has_nulls || other.has_nulls,
        }
    }
}

impl Column {
    /// The minimum and the maximum of the numbers of values: those that [`Column::number_of`] returns, of floats those
    /// of [`number_of_float`]. `None` if there are none: without values, of other kinds, and if one of both is a decimal
    /// that no server writes. `values`: the bytes of all values, one after the other.
    #[must_use]
    pub fn range_of(self, values: &[u8]) -> Option<(i64, i64)> {
        let (min, max) = match self.width() {
            _ if self.kind() == Kind::Float => return self.range_of_floats(values),
            1 => self.integers_between::<1>(values),
            2 => self.integers_between::<2>(values),
            3 => self.integers_between::<3>(values),
            4 => self.integers_between::<4>(values),
            5 => self.integers_between::<5>(values),
            6 => self.integers_between::<6>(values),
            7 => self.integers_between::<7>(values),
            8 => self.integers_between::<8>(values),
            _ => None,
        }?;
        // Values order like their integers.
        Some((self.number_of_integer(min)?, self.number_of_integer(max)?))
    }

    fn integers_between<const WIDTH: usize>(self, values: &[u8]) -> Option<(u64, u64)> {
        let (values, []) = values.as_chunks::<WIDTH>() else {
            return None;
        };
        let integers = values.iter().map(|value| self.integer_of(value));
        let range = integers.fold((u64::MAX, 0), |(min, max), integer| {
            (min.min(integer), max.max(integer))
        });
        (!values.is_empty()).then_some(range)
    }

    fn range_of_floats(self, values: &[u8]) -> Option<(i64, i64)> {
        let floats = values.chunks_exact(self.width());
        let mut numbers = floats.filter_map(|bytes| float_of(bytes).map(number_of_float));
        let first = numbers.next()?;
        Some(numbers.fold((first, first), |(min, max), number| {
            (min.min(number), max.max(number))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decimal;
    use crate::any_column::any_column;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_has_the_smallest_and_the_largest_number(
            column in any_column(1..5),
            drawn in proptest::collection::vec((-999_999_999i64..1_000_000_000, 0u32..60), 0..100),
        ) {
            let mut values = Vec::new();
            for (number, shift) in &drawn {
                let wide = number.wrapping_shl(*shift);
                match column.kind() {
                    Kind::Decimal => column.put_value(*number, &mut values),
                    Kind::Float if column.width() == 4 => {
                        values.extend_from_slice(&(wide as f32 / 8.0).to_le_bytes());
                    }
                    Kind::Float => values.extend_from_slice(&(wide as f64 / 8.0).to_le_bytes()),
                    _ => values.extend_from_slice(&wide.to_le_bytes()[..column.width()]),
                }
            }
            let numbers: Vec<i64> = values
                .chunks_exact(column.width())
                .map(|value| match column.kind() {
                    Kind::Float => number_of_float(float_of(value).unwrap()),
                    _ => column.number_of(value).unwrap(),
                })
                .collect();
            let expected = numbers.iter().min().copied().zip(numbers.iter().max().copied());
            prop_assert_eq!(column.range_of(&values), expected);
        }
    }

    #[test]
    fn values_without_numbers_have_no_range() {
        let bytes = Column::new(Kind::Bytes, 4).unwrap();
        assert_eq!(bytes.range_of(b"abcdefgh"), None);
        let integers = Column::new(Kind::SignedLittle, 4).unwrap();
        assert_eq!(integers.range_of(&[]), None);
        assert_eq!(integers.range_of(&[1, 2, 3, 4, 5]), None);
        let decimal = Column::of_decimals(Decimal::new(6, 3).unwrap());
        assert_eq!(decimal.range_of(&[0x84, 0, 0, 0]), None);
    }

    #[test]
    fn a_union_has_the_rows_of_both() {
        let zone = |min, max| Zone {
            min,
            max,
            has_values: true,
            has_nulls: false,
        };
        assert_eq!(zone(3, 5).union(zone(-1, 4)), zone(-1, 5));
        let nulls = Zone {
            has_values: false,
            has_nulls: true,
            ..zone(0, 0)
        };
        let both = Zone {
            has_nulls: true,
            ..zone(3, 5)
        };
        assert_eq!(zone(3, 5).union(nulls), both);
        assert_eq!(nulls.union(zone(3, 5)), both);
        assert!(Zone::of_any_values(true, true).is_unknown() && !both.is_unknown());
    }
}
