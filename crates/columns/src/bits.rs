//! Numbers below 128, stored in as many bits as the largest needs.
//!
//! Eight numbers take as many bytes as one has bits, the first number in the lowest bits of the little-endian bytes. The
//! last group has only the bytes that it needs.

use teak_base::bytes::Malformed;

/// Numbers in a group.
const GROUP: usize = 8;

/// Bits that a number can have. More would not make a byte shorter.
pub(crate) const BITS_MAX: u32 = 7;

/// Bytes of `count` numbers.
pub(crate) fn packed_bytes(count: usize, bits: u32) -> usize {
    let rest = (count % GROUP * bits as usize).div_ceil(8);
    (count / GROUP) * bits as usize + rest
}

/// Bits of the numbers up to `max`.
pub(crate) fn bits_of(max: u8) -> u32 {
    u8::BITS - max.leading_zeros()
}

/// Appends numbers of at most `bits` bits.
pub(crate) fn pack(numbers: &[u8], bits: u32, out: &mut Vec<u8>) {
    for group in numbers.chunks(GROUP) {
        let mut word = 0u64;
        for (number, shift) in group.iter().zip((0..).step_by(bits as usize)) {
            word |= u64::from(*number) << shift;
        }
        let bytes = word.to_le_bytes();
        out.extend(bytes.iter().take(packed_bytes(group.len(), bits)));
    }
}

/// Appends `count` numbers, each as `map` translates it.
#[inline]
pub(crate) fn unpack(
    packed: &[u8],
    bits: u32,
    count: usize,
    out: &mut Vec<u8>,
    map: impl Fn(u8) -> u8,
) -> Result<(), Malformed> {
    if packed.len() != packed_bytes(count, bits) {
        return Err(Malformed);
    }
    let start = out.len();
    out.resize(start + count.next_multiple_of(GROUP), 0);
    let (groups, _) = out.split_at_mut(start).1.as_chunks_mut::<GROUP>();
    // With a constant number of bits, a group is unpacked without a loop.
    match bits {
        1 => unpack_groups::<1>(packed, groups, map),
        2 => unpack_groups::<2>(packed, groups, map),
        3 => unpack_groups::<3>(packed, groups, map),
        4 => unpack_groups::<4>(packed, groups, map),
        5 => unpack_groups::<5>(packed, groups, map),
        6 => unpack_groups::<6>(packed, groups, map),
        BITS_MAX => unpack_groups::<7>(packed, groups, map),
        _ => return Err(Malformed),
    }
    out.truncate(start + count);
    Ok(())
}

#[inline]
fn unpack_groups<const BITS: usize>(
    packed: &[u8],
    groups: &mut [[u8; GROUP]],
    map: impl Fn(u8) -> u8,
) {
    let mask = (1u64 << BITS) - 1;
    let mut rest = packed;
    for group in groups {
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => first_word(rest),
        };
        rest = rest.get(BITS..).unwrap_or(&[]);
        for (place, number) in group.iter_mut().enumerate() {
            *number = map((word >> (place * BITS) & mask).to_le_bytes()[0]);
        }
    }
}

/// The number at a place.
pub(crate) fn number_at(packed: &[u8], bits: u32, place: usize) -> Result<u8, Malformed> {
    let group = packed.get(place / GROUP * bits as usize..);
    let word = first_word(group.ok_or(Malformed)?) >> (place % GROUP * bits as usize);
    Ok((word & ((1 << bits) - 1)).to_le_bytes()[0])
}

/// The first eight bytes, or all if there are fewer, as a little-endian integer.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (byte, stored) in word.iter_mut().zip(bytes) {
        *byte = *stored;
    }
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_packed_from_the_lowest() {
        let mut packed = Vec::new();
        pack(&[1, 0, 1, 1, 0, 0, 0, 1, 1], 1, &mut packed);
        assert_eq!(packed, [0b1000_1101, 1]);
        packed.clear();
        pack(&[5, 6], 3, &mut packed);
        assert_eq!(packed, [0b11_0101]);
        assert_eq!([0, 1, 2, 127, 128].map(bits_of), [0, 1, 2, 7, 8]);
    }

    proptest! {
        #[test]
        fn any_numbers_are_restored(numbers: Vec<u8>, bits in 1u32..=BITS_MAX) {
            let mask = (1u8 << bits) - 1;
            let numbers: Vec<u8> = numbers.iter().map(|number| number & mask).collect();
            let mut packed = Vec::new();
            pack(&numbers, bits, &mut packed);
            prop_assert_eq!(packed.len(), packed_bytes(numbers.len(), bits));
            let mut found = vec![9];
            unpack(&packed, bits, numbers.len(), &mut found, |number| number).unwrap();
            prop_assert_eq!(&found[1..], &numbers);
            for (place, number) in numbers.iter().enumerate() {
                prop_assert_eq!(number_at(&packed, bits, place).unwrap(), *number);
            }
        }
    }
}
