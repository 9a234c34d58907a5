//! Planes and other bytes that are made shorter apart from the others of a page.
//!
//! If all bytes of a page were compressed together, a common table of frequencies would fit none of
//! its parts. Bytes of which few values occur are stored in the bits that they need: this is often as short as a compressed
//! form, is decoded several times faster, and each byte can be read alone.

use crate::bits::{self, BITS_MAX};
use std::borrow::Cow;
use teak_base::Codec as Compression;
use teak_base::bytes::{Malformed, Put, Take};

/// Number of bytes from which they are compressed apart: fewer would not pay for a table of their own.
const PACKED_BYTES_MIN: usize = 256;

/// Number of bytes from which they are stored in bits.
const BITS_BYTES_MIN: usize = 64;

/// They must become shorter by this fraction.
const PACKED_FRACTION: usize = 6;

/// How bytes are stored. Any greater number is the length of compressed bytes, which are never that short.
mod form {
    /// As they are.
    pub(super) const PLAIN: u64 = 0;
    /// One byte which is repeated.
    pub(super) const REPEATED: u64 = 1;
    /// A byte, and the distances from it in bits.
    pub(super) const DISTANCES: u64 = 2;
    /// The distinct bytes, ascending, and their numbers in bits.
    pub(super) const ALPHABET: u64 = 3;
}

/// Which bytes occur.
struct Occurrences {
    is_found: [bool; 256],
    min: u8,
    max: u8,
    distinct: usize,
}

impl Occurrences {
    fn of(bytes: &[u8]) -> Self {
        let mut is_found = [false; 256];
        for byte in bytes {
            if let Some(found) = is_found.get_mut(usize::from(*byte)) {
                *found = true;
            }
        }
        let mut found = (0..=u8::MAX).zip(is_found).filter(|(_, found)| *found);
        let min = found.next().map_or(0, |(byte, _)| byte);
        let (max, more) = found.fold((min, 0), |(_, count), (byte, _)| (byte, count + 1));
        Self {
            is_found,
            min,
            max,
            distinct: more + 1,
        }
    }

    fn distance_bits(&self) -> u32 {
        bits::bits_of(self.max - self.min)
    }

    /// Bits of a number of the alphabet; more than those of any byte if it is too large for a list.
    fn alphabet_bits(&self) -> u32 {
        let last = u8::try_from(self.distinct.saturating_sub(1));
        last.map_or(u32::MAX, bits::bits_of)
    }

    /// The form in bits that is shorter, and its bytes after the number of the form. `None` if neither is shorter than
    /// `count` bytes.
    fn shortest(&self, count: usize) -> Option<(u64, usize)> {
        let of_distances = match self.distance_bits() {
            bits @ 1..=BITS_MAX => Some(2 + bits::packed_bytes(count, bits)),
            _ => None,
        };
        let of_alphabet = match self.alphabet_bits() {
            bits @ 1..=BITS_MAX => Some(1 + self.distinct + bits::packed_bytes(count, bits)),
            _ => None,
        };
        let distances = of_distances.map(|bytes| (form::DISTANCES, bytes));
        let alphabet = of_alphabet.map(|bytes| (form::ALPHABET, bytes));
        let forms = distances.into_iter().chain(alphabet);
        let shortest = forms.min_by_key(|(_, bytes)| *bytes);
        shortest.filter(|(_, bytes)| *bytes < count)
    }

    fn put(&self, bytes: &[u8], as_form: u64, out: &mut Vec<u8>) {
        out.put_varint(as_form);
        if as_form == form::DISTANCES {
            let bits = self.distance_bits();
            out.put_u8(self.min);
            out.put_u8(bits.to_le_bytes()[0]);
            let distances: Vec<u8> = bytes.iter().map(|byte| byte - self.min).collect();
            return bits::pack(&distances, bits, out);
        }
        out.put_u8(u8::try_from(self.distinct).unwrap_or(u8::MAX));
        let mut numbers = [0u8; 256];
        let mut next = 0;
        for (byte, (number, is_found)) in (0..=u8::MAX).zip(numbers.iter_mut().zip(self.is_found)) {
            if is_found {
                *number = next;
                next = next.saturating_add(1);
                out.put_u8(byte);
            }
        }
        let number_of = |byte: &u8| numbers.get(usize::from(*byte)).copied().unwrap_or(0);
        let numbers: Vec<u8> = bytes.iter().map(number_of).collect();
        bits::pack(&numbers, self.alphabet_bits(), out);
    }
}

/// Appends bytes; with `packs`, in a shorter form if there is one.
pub(crate) fn put_packed(bytes: &[u8], packs: bool, out: &mut Vec<u8>) {
    if let [first, rest @ ..] = bytes
        && rest.iter().all(|byte| byte == first)
    {
        out.put_varint(form::REPEATED);
        out.put_u8(*first);
        return;
    }
    let in_bits = if packs && bytes.len() >= BITS_BYTES_MIN {
        let occurrences = Occurrences::of(bytes);
        let shortest = occurrences.shortest(bytes.len());
        shortest.map(|(form, len)| (occurrences, form, len))
    } else {
        None
    };
    let shortest = in_bits.as_ref().map_or(bytes.len(), |(_, _, len)| *len);
    let mut packed = Vec::new();
    let is_packed = packs
        && bytes.len() >= PACKED_BYTES_MIN
        && Compression::Zstd.compress(bytes, &mut packed) == Compression::Zstd
        && packed.len() + packed.len() / PACKED_FRACTION < shortest;
    if is_packed {
        out.put_varint(packed.len() as u64);
        out.extend_from_slice(&packed);
    } else if let Some((occurrences, form, _)) = in_bits {
        occurrences.put(bytes, form, out);
    } else {
        out.put_varint(form::PLAIN);
        out.extend_from_slice(bytes);
    }
}

/// Bytes that [`put_packed`] has written, in their form.
enum Stored<'a> {
    Plain(&'a [u8]),
    Repeated(u8),
    Distances {
        from: u8,
        bits: u32,
        packed: &'a [u8],
    },
    Alphabet {
        bytes: &'a [u8],
        bits: u32,
        packed: &'a [u8],
    },
    Compressed(&'a [u8]),
}

impl<'a> Stored<'a> {
    /// Takes `count` bytes.
    fn take(count: usize, take: &mut Take<'a>) -> Result<Self, Malformed> {
        Ok(match take.varint()? {
            form::PLAIN => Self::Plain(take.take(count)?),
            form::REPEATED => Self::Repeated(take.u8()?),
            form::DISTANCES => {
                let (from, bits) = (take.u8()?, u32::from(take.u8()?));
                if !(1..=BITS_MAX).contains(&bits) {
                    return Err(Malformed);
                }
                let packed = take.take(bits::packed_bytes(count, bits))?;
                Self::Distances { from, bits, packed }
            }
            form::ALPHABET => {
                let last = take.u8()?.checked_sub(1).ok_or(Malformed)?;
                let bytes = take.take(usize::from(last) + 1)?;
                let bits = bits::bits_of(last);
                if !(1..=BITS_MAX).contains(&bits) {
                    return Err(Malformed);
                }
                let packed = take.take(bits::packed_bytes(count, bits))?;
                Self::Alphabet {
                    bytes,
                    bits,
                    packed,
                }
            }
            packed => {
                let packed = usize::try_from(packed).map_err(|_| Malformed)?;
                Self::Compressed(take.take(packed)?)
            }
        })
    }
}

/// Reads `count` bytes that [`put_packed`] has written.
pub(crate) fn take_packed<'a>(
    count: usize,
    take: &mut Take<'a>,
) -> Result<Cow<'a, [u8]>, Malformed> {
    match Stored::take(count, take)? {
        Stored::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
        Stored::Compressed(packed) => decompress(packed, count).map(Cow::Owned),
        stored => {
            let mut bytes = Vec::new();
            append(&stored, count, &mut bytes)?;
            Ok(Cow::Owned(bytes))
        }
    }
}

fn append(stored: &Stored<'_>, count: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match *stored {
        Stored::Plain(bytes) => out.extend_from_slice(bytes),
        Stored::Repeated(byte) => out.resize(out.len() + count, byte),
        Stored::Distances { from, bits, packed } => {
            let byte_of = |distance: u8| from.wrapping_add(distance);
            bits::unpack(packed, bits, count, out, byte_of)?;
        }
        Stored::Alphabet {
            bytes,
            bits,
            packed,
        } => {
            // With an element for each byte, no index needs a check.
            let mut alphabet = [0; 256];
            for (byte, stored) in alphabet.iter_mut().zip(bytes) {
                *byte = *stored;
            }
            let byte_of = |number: u8| alphabet.get(usize::from(number)).copied().unwrap_or(0);
            bits::unpack(packed, bits, count, out, byte_of)?;
        }
        Stored::Compressed(packed) => out.extend_from_slice(&decompress(packed, count)?),
    }
    Ok(())
}

fn decompress(packed: &[u8], count: usize) -> Result<Vec<u8>, Malformed> {
    let bytes = Compression::Zstd.decompress(packed, count);
    bytes.map_err(|_| Malformed)
}

/// Reads byte `number` of `count` bytes that [`put_packed`] has written.
pub(crate) fn take_one(count: usize, number: usize, take: &mut Take<'_>) -> Result<u8, Malformed> {
    if number >= count {
        return Err(Malformed);
    }
    match Stored::take(count, take)? {
        Stored::Plain(bytes) => bytes.get(number).copied().ok_or(Malformed),
        Stored::Repeated(byte) => Ok(byte),
        Stored::Distances { from, bits, packed } => {
            Ok(from.wrapping_add(bits::number_at(packed, bits, number)?))
        }
        Stored::Alphabet {
            bytes,
            bits,
            packed,
        } => {
            let number = bits::number_at(packed, bits, number)?;
            Ok(bytes.get(usize::from(number)).copied().unwrap_or(0))
        }
        Stored::Compressed(packed) => {
            let bytes = decompress(packed, count)?;
            bytes.get(number).copied().ok_or(Malformed)
        }
    }
}

/// Skips `count` bytes that [`put_packed`] has written.
pub(crate) fn skip_packed(count: usize, take: &mut Take<'_>) -> Result<(), Malformed> {
    Stored::take(count, take).map(|_| ())
}

/// Skips `planes` planes of `count` bytes each.
pub(crate) fn skip_planes(
    planes: usize,
    count: usize,
    take: &mut Take<'_>,
) -> Result<(), Malformed> {
    (0..planes).try_for_each(|_| skip_packed(count, take))
}

/// Reads `planes` planes of `count` bytes each, over `out`.
pub(crate) fn take_planes(
    planes: usize,
    count: usize,
    take: &mut Take<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    for _ in 0..planes {
        append(&Stored::take(count, take)?, count, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form_of(bytes: &[u8]) -> u64 {
        let mut out = Vec::new();
        put_packed(bytes, true, &mut out);
        Take::new(&out).varint().unwrap()
    }

    #[test]
    fn the_shortest_form_is_used() {
        // A generator of numbers without a pattern that a compressor finds.
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            ((state >> 16 ^ state) >> 3).to_le_bytes()[0]
        };
        assert_eq!(form_of(&[7; 1000]), form::REPEATED);
        let flags: Vec<u8> = (0..600)
            .map(|_| [b'F', b'O'][usize::from(next() % 2)])
            .collect();
        assert_eq!(form_of(&flags), form::ALPHABET);
        let small: Vec<u8> = (0..600).map(|_| 1 + next() % 50).collect();
        assert_eq!(form_of(&small), form::DISTANCES);
        let any: Vec<u8> = (0..600).map(|_| next()).collect();
        assert_eq!(form_of(&any), form::PLAIN);
        let runs: Vec<u8> = (0..1000u32)
            .map(|number| (number / 200).to_le_bytes()[0])
            .collect();
        assert!(form_of(&runs) > form::ALPHABET);
        let mut out = Vec::new();
        put_packed(&flags, true, &mut out);
        assert_eq!(out.len(), 1 + 1 + 2 + 75);
    }

    #[test]
    fn a_form_with_impossible_bits_is_malformed() {
        for bytes in [
            [2u8, 0, 0, 0, 0],
            [2, 0, 8, 0, 0],
            [3, 0, 1, 1, 1],
            [3, 1, 1, 1, 1],
        ] {
            take_packed(2, &mut Take::new(&bytes)).unwrap_err();
        }
        take_packed(2, &mut Take::new(&[3, 200])).unwrap_err();
    }

    proptest! {
        #[test]
        fn any_bytes_are_restored(
            drawn in proptest::collection::vec(any::<u8>(), 0..700), mask: u8, base: u8, packs: bool,
        ) {
            let bytes: Vec<u8> = drawn.iter().map(|byte| (byte & mask).wrapping_add(base)).collect();
            let mut out = Vec::new();
            put_packed(&bytes, packs, &mut out);
            out.push(9);
            let mut take = Take::new(&out);
            prop_assert_eq!(&*take_packed(bytes.len(), &mut take).unwrap(), &bytes);
            prop_assert_eq!(take.rest(), &[9]);
            let mut take = Take::new(&out);
            skip_packed(bytes.len(), &mut take).unwrap();
            prop_assert_eq!(take.rest(), &[9]);
            for (number, byte) in bytes.iter().enumerate() {
                let mut take = Take::new(&out);
                prop_assert_eq!(take_one(bytes.len(), number, &mut take).unwrap(), *byte);
                prop_assert_eq!(take.rest(), &[9]);
            }
        }

        #[test]
        fn any_input_is_bytes_or_malformed(input: Vec<u8>, count in 0usize..300, number in 0usize..300) {
            let taken = take_packed(count, &mut Take::new(&input)).map(|bytes| bytes.len());
            prop_assert!(taken.is_err() || taken == Ok(count));
            let _ = take_one(count, number, &mut Take::new(&input));
        }
    }
}
