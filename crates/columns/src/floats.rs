//! Floats whose decimal form is short, as their digits.
//!
//! With an exponent *e*, the digits of a float are the integer nearest to its product with 10^e. The float
//! is restored as the digits divided by 10^e, which is the float nearest to the decimal number, because
//! both operands are exact. Floats that are not restored bit by bit (with more digits, infinite ones, NaN,
//! the negative zero) are *exceptions*, stored with their positions. So the encoding is exact.
//!
//! Source: A. Afroozeh, L. Kuffo, P. Boncz, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD
//! 2023. There the digits are multiplied by 10^-e, which is faster and needs a second exponent.
//!
//! Integers are converted to floats and back only if that is exact, which is checked.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

use crate::kind::Column;
use teak_base::bytes::{Malformed, Put, Take};

/// Powers of ten that floats of 64 bits represent exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Largest exponent that is tried. Floats with more digits are not short.
const EXPONENT_MAX: usize = 16;

/// Integers up to this one are floats.
const DIGITS_MAX: f64 = 9_007_199_254_740_992.0;

/// Values with which exponents are tried.
const TRIED: usize = 48;

/// The column is encoded as digits if at most one of this number of values is an exception.
const EXCEPTIONS_SHARE: usize = 10;

/// Digits are signed: this is added, so that integers order like the floats.
const SIGN: u64 = 1 << 63;

/// The bits of a float as a value of 64 bits.
fn to_float(bits: u64, is_single: bool) -> f64 {
    match is_single {
        true => f64::from(f32::from_bits(bits as u32)),
        false => f64::from_bits(bits),
    }
}

fn to_bits(value: f64, is_single: bool) -> u64 {
    match is_single {
        true => u64::from((value as f32).to_bits()),
        false => value.to_bits(),
    }
}

fn is_single(column: Column) -> bool {
    column.width() == 4
}

/// The digits of a float, if it is restored from them.
fn digits_of(bits: u64, power: f64, is_single: bool) -> Option<i64> {
    let scaled = (to_float(bits, is_single) * power).round();
    if scaled.is_nan() || scaled.abs() > DIGITS_MAX {
        return None;
    }
    let digits = scaled as i64;
    (to_bits(digits as f64 / power, is_single) == bits).then_some(digits)
}

/// The smallest exponent with which most of some values have digits.
fn exponent_of(values: &[u64], is_single: bool) -> Option<usize> {
    let distance = (values.len() / TRIED).max(1);
    // At changing places of a period that the values may have.
    let tried = || (0..TRIED).filter_map(|part| values.get(part * distance + part % distance));
    let misses_max = tried().count() / EXCEPTIONS_SHARE;
    (0..=EXPONENT_MAX).find(|exponent| {
        let Some(power) = POWERS.get(*exponent) else {
            return false;
        };
        let mut misses = tried().filter(|bits| digits_of(**bits, *power, is_single).is_none());
        misses.nth(misses_max).is_none()
    })
}

/// Writes the digits of a column over `digits`, and the header of the encoding to `out`, after what `begin`
/// writes. Returns whether the column has digits; otherwise writes nothing.
pub(crate) fn encode(
    column: Column,
    values: &[u64],
    digits: &mut Vec<u64>,
    begin: &mut dyn FnMut(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> bool {
    let is_single = is_single(column);
    let Some(exponent) = exponent_of(values, is_single) else {
        return false;
    };
    let Some(power) = POWERS.get(exponent) else {
        return false;
    };
    let mut exceptions = Vec::new();
    digits.clear();
    let mut last = SIGN;
    for (position, bits) in values.iter().enumerate() {
        match digits_of(*bits, *power, is_single) {
            Some(found) => last = (found as u64).wrapping_add(SIGN),
            None => exceptions.push((position, *bits)),
        }
        // An exception repeats the value before it, which costs little.
        digits.push(last);
    }
    if exceptions.len() > values.len() / EXCEPTIONS_SHARE {
        return false;
    }
    begin(out);
    out.put_u8(exponent as u8);
    out.put_varint(exceptions.len() as u64);
    let mut next = 0;
    for (position, _) in &exceptions {
        out.put_varint((position - next) as u64);
        next = position + 1;
    }
    for (_, bits) in &exceptions {
        match is_single {
            true => out.put_u32(*bits as u32),
            false => out.put_u64(*bits),
        }
    }
    true
}

/// The header of encoded floats. The digits follow it.
pub(crate) struct Header<'a> {
    power: f64,
    /// Distances of the positions of the exceptions, then their bits.
    exceptions: usize,
    positions: Take<'a>,
    bits: Take<'a>,
}

impl<'a> Header<'a> {
    pub(crate) fn decode(count: usize, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let power = POWERS.get(usize::from(take.u8()?)).ok_or(Malformed)?;
        let exceptions = usize::try_from(take.varint()?).map_err(|_| Malformed)?;
        if exceptions > count {
            return Err(Malformed);
        }
        let positions = *take;
        for _ in 0..exceptions {
            take.varint()?;
        }
        Ok(Self {
            power: *power,
            exceptions,
            positions,
            bits: *take,
        })
    }

    /// The bytes of the bits of the exceptions.
    pub(crate) fn skip_exceptions(
        &self,
        column: Column,
        take: &mut Take<'a>,
    ) -> Result<(), Malformed> {
        take.take(self.exceptions * column.width()).map(|_| ())
    }

    /// Replaces the digits by the bits of the floats.
    pub(crate) fn restore(mut self, column: Column, values: &mut [u64]) -> Result<(), Malformed> {
        let (power, is_single) = (self.power, is_single(column));
        if is_single {
            for value in values.iter_mut() {
                let digits = value.wrapping_sub(SIGN) as i64;
                *value = u64::from(((digits as f64 / power) as f32).to_bits());
            }
        } else {
            for value in values.iter_mut() {
                let digits = value.wrapping_sub(SIGN) as i64;
                *value = (digits as f64 / power).to_bits();
            }
        }
        let mut next = 0usize;
        for _ in 0..self.exceptions {
            let distance = usize::try_from(self.positions.varint()?).map_err(|_| Malformed)?;
            let position = next.checked_add(distance).ok_or(Malformed)?;
            let value = values.get_mut(position).ok_or(Malformed)?;
            *value = match is_single {
                true => u64::from(self.bits.u32()?),
                false => self.bits.u64()?,
            };
            next = position + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use proptest::prelude::*;

    fn column(width: u32) -> Column {
        Column::new(Kind::Float, width).unwrap()
    }

    /// Encodes and decodes the header; returns the exponent and the number of exceptions, or `None` if
    /// the column has no digits.
    fn round_trip(width: u32, values: &[u64]) -> Option<(u8, u64)> {
        let (mut digits, mut out) = (Vec::new(), Vec::new());
        if !encode(column(width), values, &mut digits, &mut |_| {}, &mut out) {
            assert!(out.is_empty());
            return None;
        }
        let mut take = Take::new(&out);
        let header = Header::decode(values.len(), &mut take).unwrap();
        header.skip_exceptions(column(width), &mut take).unwrap();
        assert!(take.is_empty());
        header.restore(column(width), &mut digits).unwrap();
        assert_eq!(digits, values);
        Some((out[0], u64::from(out[1])))
    }

    #[test]
    fn decimals_have_their_number_of_digits() {
        let values = |text: fn(i64) -> String| -> Vec<u64> {
            (-100..100)
                .map(|n| text(n).parse::<f64>().unwrap().to_bits())
                .collect()
        };
        assert_eq!(
            round_trip(8, &values(|n| format!("{n}.{:02}", n.abs() % 100))),
            Some((2, 0))
        );
        assert_eq!(round_trip(8, &values(|n| format!("{n}000"))), Some((0, 0)));
        assert_eq!(
            round_trip(8, &values(|n| format!("{}e-7", n * 3))),
            Some((7, 0))
        );
        let single: Vec<u64> = (0..200)
            .map(|n| u64::from((n as f32 / 8.0 - 3.0).to_bits()))
            .collect();
        assert_eq!(round_trip(4, &single), Some((3, 0)));
    }

    #[test]
    fn what_has_no_digits_is_an_exception() {
        let special = [
            f64::NAN,
            f64::INFINITY,
            -0.0,
            f64::MIN_POSITIVE / 4.0,
            1e300,
            0.1 + 0.2,
        ];
        let mut values: Vec<u64> = (0..200).map(|n| (f64::from(n) / 10.0).to_bits()).collect();
        for (position, value) in special.iter().enumerate() {
            values[position * 7 + 5] = value.to_bits();
        }
        values[199] = 0x7ff8_0000_dead_beef;
        let (exponent, exceptions) = round_trip(8, &values).unwrap();
        assert_eq!((exponent, exceptions), (1, 7));
        let random: Vec<u64> = (1..200u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        assert_eq!(round_trip(8, &random), None);
    }

    proptest! {
        #[test]
        fn any_floats_are_restored(bits in proptest::collection::vec(any::<u64>(), 1..100)) {
            round_trip(8, &bits);
            let single: Vec<u64> = bits.iter().map(|bits| bits & 0xffff_ffff).collect();
            round_trip(4, &single);
        }

        #[test]
        fn decimals_are_restored(
            numbers in proptest::collection::vec((-1_000_000_000i64..1_000_000_000, 0u32..6), 1..100),
        ) {
            let values: Vec<u64> = numbers
                .iter()
                .map(|(digits, decimals)| (*digits as f64 / 10f64.powi(*decimals as i32)).to_bits())
                .collect();
            round_trip(8, &values);
        }
    }
}
