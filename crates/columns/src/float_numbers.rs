//! Floats in the bytes of columns, and as numbers that conditions compare.

/// The float with these bytes: a little-endian IEEE 754 number of 4 or 8 bytes.
#[must_use]
#[inline]
pub fn float_of(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(*bytes.first_chunk()?))),
        _ => Some(f64::from_le_bytes(*bytes.first_chunk()?)),
    }
}

/// The number of a float, which has the same order; -0.0 has that of 0.0. Adjacent floats have adjacent numbers.
#[must_use]
#[inline]
pub fn number_of_float(float: f64) -> i64 {
    // This makes -0.0 positive.
    let bits = (float + 0.0).to_bits().cast_signed();
    // The bits of negative floats without their sign ascend while the floats descend.
    match bits < 0 {
        true => i64::MIN.wrapping_sub(bits),
        false => bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_order_like_the_floats(first: f64, second: f64) {
            let numbers = (number_of_float(first), number_of_float(second));
            prop_assert_eq!(first.partial_cmp(&second).unwrap(), numbers.0.cmp(&numbers.1));
        }
    }

    #[test]
    fn adjacent_floats_have_adjacent_numbers() {
        let floats = [-f64::MAX, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 1e-320, 7.0];
        for float in floats {
            assert_eq!(number_of_float(float.next_up()), number_of_float(float) + 1);
        }
        assert_eq!(number_of_float(-0.0), 0);
        assert_eq!(
            number_of_float(f64::INFINITY),
            f64::INFINITY.to_bits().cast_signed()
        );
    }
}
