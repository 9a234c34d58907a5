//! Packed decimal numbers, as MariaDB stores the columns of type DECIMAL.
//!
//! Each group of nine digits takes four bytes, big-endian, counted from the decimal point in both
//! directions; the digits that are left at either end take one to four bytes. All bytes of a negative
//! number are inverted; then the highest bit of the first byte is inverted, so that numbers order like
//! their bytes. As an integer, a number is all of its digits.
//!
//! The groups of a number are within its bytes.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

/// Maximum number of digits: they fit into an integer of 64 bits, and the number into 8 bytes.
const DIGITS_MAX: u8 = 18;

/// Bytes of a number of digits that fill no group of nine.
const BYTES: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Numbers that are packed at a time.
const BATCH: usize = 64;

/// Added to signed integers, so that they order like unsigned ones.
const SIGN: u64 = 1 << 63;

/// The number of digits of all values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u8,
    fraction: u8,
}

/// A group of digits, with its number of bytes.
#[derive(Clone, Copy, Default)]
struct Group {
    bytes: u8,
    digits: u8,
}

impl Decimal {
    /// Numbers with this number of digits, `fraction` of them after the decimal point. `None` for more than
    /// 18 digits.
    #[must_use]
    pub fn new(digits: u8, fraction: u8) -> Option<Self> {
        let is_possible = (1..=DIGITS_MAX).contains(&digits) && fraction <= digits;
        let decimal = Self { digits, fraction };
        (is_possible && decimal.width() <= 8).then_some(decimal)
    }

    /// Number of digits.
    #[must_use]
    pub fn digits(self) -> u8 {
        self.digits
    }

    /// Number of digits after the decimal point.
    #[must_use]
    pub fn fraction(self) -> u8 {
        self.fraction
    }

    /// Bytes of a number.
    #[must_use]
    pub fn width(self) -> usize {
        self.groups()
            .iter()
            .map(|group| usize::from(group.bytes))
            .sum()
    }

    /// The groups in the order of their bytes; some may be empty.
    fn groups(self) -> [Group; 6] {
        let group = |digits: u8| Group {
            bytes: BYTES[usize::from(digits)],
            digits,
        };
        let whole = |present: bool| group(if present { 9 } else { 0 });
        let (integer, fraction) = (self.digits - self.fraction, self.fraction);
        [
            group(integer % 9),
            whole(integer >= 9),
            whole(integer >= 18),
            whole(fraction >= 9),
            whole(fraction >= 18),
            group(fraction % 9),
        ]
    }

    /// Reads numbers as integers. Returns whether all are as a server writes them; only such ones can be
    /// written again.
    pub(crate) fn load(self, bytes: &[u8], values: &mut Vec<u64>) -> bool {
        values.clear();
        let (width, groups) = (self.width(), self.groups());
        for number in bytes.chunks_exact(width) {
            match self.digits_of(&groups, number) {
                // The negative zero is not restored.
                Some((true, 0)) | None => return false,
                Some((is_negative, digits)) => {
                    let signed = with_sign(is_negative, digits);
                    values.push((signed as u64).wrapping_add(SIGN));
                }
            }
        }
        true
    }

    /// All digits of a number with their sign. `None` if no server writes it.
    pub(crate) fn number_of(self, number: &[u8]) -> Option<i64> {
        let (is_negative, digits) = self.digits_of(&self.groups(), number)?;
        Some(with_sign(is_negative, digits))
    }

    /// Whether a number is negative, and its digits.
    #[inline]
    fn digits_of(self, groups: &[Group], number: &[u8]) -> Option<(bool, u64)> {
        let width = self.width();
        let mut word = [0; 8];
        word[8 - width..].copy_from_slice(number);
        let top = 1u64 << (width * 8 - 1);
        let all = u64::MAX >> (64 - width * 8);
        let mut packed = u64::from_be_bytes(word) ^ top;
        let is_negative = packed & top != 0;
        if is_negative {
            packed ^= all;
        }
        let (mut digits, mut bits) = (0u64, width * 8);
        for group in groups.iter().filter(|group| group.digits > 0) {
            bits -= usize::from(group.bytes) * 8;
            let mask = u64::MAX >> (64 - u32::from(group.bytes) * 8);
            let part = packed >> bits & mask;
            let limit = power_of_ten(group.digits);
            if part >= limit {
                return None;
            }
            digits = digits * limit + part;
        }
        Some((is_negative, digits))
    }

    /// Replaces integers by the bytes of numbers, as big-endian integers.
    pub(crate) fn pack(self, values: &mut [u64]) {
        let (width, groups) = (self.width(), self.groups());
        let top = 1u64 << (width * 8 - 1);
        let (mut digits, mut packed) = ([0; BATCH], [0; BATCH]);
        for values in values.chunks_mut(BATCH) {
            let (digits, packed) = (&mut digits[..values.len()], &mut packed[..values.len()]);
            for (digits, value) in digits.iter_mut().zip(&*values) {
                *digits = (value.wrapping_sub(SIGN) as i64).unsigned_abs();
            }
            packed.fill(0);
            let mut bits = 0;
            for group in groups.iter().rev().filter(|group| group.digits > 0) {
                move_group(group.digits, bits, digits, packed);
                bits += u32::from(group.bytes) * 8;
            }
            for (value, packed) in values.iter_mut().zip(&*packed) {
                let is_negative = (value.wrapping_sub(SIGN) as i64) < 0;
                *value = if is_negative { !packed } else { *packed } ^ top;
            }
        }
    }
}

/// Moves the lowest decimal digits of each number to a place in the packed numbers.
fn move_group(group: u8, bits: u32, digits: &mut [u64], packed: &mut [u64]) {
    match group {
        1 => move_digits::<10>(bits, digits, packed),
        2 => move_digits::<100>(bits, digits, packed),
        3 => move_digits::<1000>(bits, digits, packed),
        4 => move_digits::<10_000>(bits, digits, packed),
        5 => move_digits::<100_000>(bits, digits, packed),
        6 => move_digits::<1_000_000>(bits, digits, packed),
        7 => move_digits::<10_000_000>(bits, digits, packed),
        8 => move_digits::<100_000_000>(bits, digits, packed),
        _ => move_digits::<1_000_000_000>(bits, digits, packed),
    }
}

/// The limit is a constant because divisions by constants are fast.
fn move_digits<const LIMIT: u64>(bits: u32, digits: &mut [u64], packed: &mut [u64]) {
    for (digits, packed) in digits.iter_mut().zip(packed) {
        *packed |= (*digits % LIMIT) << bits;
        *digits /= LIMIT;
    }
}

fn with_sign(is_negative: bool, digits: u64) -> i64 {
    match is_negative {
        true => -(digits as i64),
        false => digits as i64,
    }
}

fn power_of_ten(digits: u8) -> u64 {
    10u64.pow(u32::from(digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(decimal: Decimal, values: &[u64]) -> Vec<u8> {
        let mut values = values.to_vec();
        decimal.pack(&mut values);
        let bytes_of = |value: u64| value.to_be_bytes()[8 - decimal.width()..].to_vec();
        values.into_iter().flat_map(bytes_of).collect()
    }

    #[test]
    fn numbers_are_packed_as_the_server_does() {
        // DECIMAL(6,3): 12.345 and -12.345.
        let decimal = Decimal::new(6, 3).unwrap();
        let bytes = [0x80, 0x0c, 0x01, 0x59, 0x7f, 0xf3, 0xfe, 0xa6];
        let mut values = Vec::new();
        assert!(decimal.load(&bytes, &mut values));
        assert_eq!(values, [SIGN + 12_345, SIGN - 12_345]);
        assert_eq!(stored(decimal, &values), bytes);
        // Not as the server writes them: a group of three digits above 999, and a negative zero.
        assert!(!decimal.load(&[0x84, 0x00, 0x00, 0x00], &mut values));
        assert!(!decimal.load(&[0x7f, 0xff, 0xff, 0xff], &mut values));
    }

    #[test]
    fn numbers_of_more_than_eight_bytes_are_refused() {
        assert!(Decimal::new(18, 9).is_some());
        assert!(Decimal::new(18, 0).is_some());
        assert!(Decimal::new(19, 0).is_none());
        assert!(Decimal::new(5, 6).is_none());
        assert!(Decimal::new(0, 0).is_none());
        let widths =
            (1..=18).flat_map(|digits| (0..=digits).map(move |fraction| (digits, fraction)));
        for decimal in widths.filter_map(|(digits, fraction)| Decimal::new(digits, fraction)) {
            assert!((1..=8).contains(&decimal.width()), "{decimal:?}");
        }
    }

    proptest! {
        #[test]
        fn any_number_is_restored(digits in 1u8..=18, fraction in 0u8..=18, numbers: Vec<i64>) {
            prop_assume!(fraction <= digits);
            let Some(decimal) = Decimal::new(digits, fraction) else {
                return Ok(());
            };
            let limit = power_of_ten(digits) as i64;
            let values: Vec<u64> = numbers.iter().map(|n| ((n % limit) as u64).wrapping_add(SIGN)).collect();
            let width = decimal.width();
            let bytes = stored(decimal, &values);
            let mut loaded = Vec::new();
            prop_assert!(decimal.load(&bytes, &mut loaded));
            prop_assert_eq!(&loaded, &values);
            // They order like their bytes.
            let mut pairs: Vec<(&[u8], u64)> = bytes.chunks_exact(width).zip(values).collect();
            pairs.sort_unstable();
            prop_assert!(pairs.is_sorted_by_key(|(_, value)| *value));
        }

        #[test]
        fn any_bytes_are_restored_or_refused(digits in 1u8..=18, fraction in 0u8..=18, bytes: Vec<u8>) {
            prop_assume!(fraction <= digits);
            let Some(decimal) = Decimal::new(digits, fraction) else {
                return Ok(());
            };
            let width = decimal.width();
            let bytes = &bytes[..bytes.len() / width * width];
            let mut values = Vec::new();
            if decimal.load(bytes, &mut values) {
                prop_assert_eq!(stored(decimal, &values), bytes);
            }
        }
    }
}
