//! Encodings of columns of byte strings of different lengths.
//!
//! The encoder has checked that lengths and bytes belong together; numbers of a dictionary are less than
//! its length.
#![allow(clippy::indexing_slicing)]

use crate::packed::{put_packed, skip_packed, take_packed};
use crate::{Codec, Column, Kind};
use std::collections::HashMap;
use teak_base::bytes::{Malformed, Put, Take};

/// Maximum number of distinct strings in a dictionary: a number has one byte.
const ENTRIES_MAX: usize = 256;

/// A dictionary is used if each of its strings occurs so often, on average.
const OCCURRENCES_MIN: usize = 8;

/// How the strings are stored. The numbers are part of the format.
mod scheme {
    /// The lengths, then the bytes.
    pub(super) const PLAIN: u8 = 0;
    /// The distinct strings, and for each string its number.
    pub(super) const DICTIONARY: u8 = 1;
}

/// A decoded column of strings.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    /// Start and length of each string.
    places: Vec<(u32, u32)>,
}

impl Texts {
    /// Bytes of all strings together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        let lengths = self.places.iter().map(|(_, length)| *length as usize);
        lengths.fold(0, usize::saturating_add)
    }

    /// Strings of one length, one after the other. `None` if the bytes are not whole strings, or more than 4 GiB.
    #[must_use]
    pub fn of_width(bytes: Vec<u8>, width: usize) -> Option<Self> {
        let length = u32::try_from(width).ok()?;
        let end = u32::try_from(bytes.len()).ok()?;
        if length == 0 || !end.is_multiple_of(length) {
            return None;
        }
        let places = (0..end / length).map(|number| (number * length, length));
        Some(Self {
            places: places.collect(),
            bytes,
        })
    }

    /// The number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Removes all strings.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Appends a string.
    ///
    /// # Panics
    /// When all strings together have more than 4 GiB.
    pub fn push(&mut self, text: &[u8]) {
        let place = u32::try_from(self.bytes.len())
            .ok()
            .zip(u32::try_from(text.len()).ok());
        assert!(place.is_some(), "at most 4 GiB");
        self.places.extend(place);
        self.bytes.extend_from_slice(text);
    }

    /// Inserts an empty string for each row that is `true`.
    pub(crate) fn spread(&mut self, is_empty: &[bool]) {
        let mut places = std::mem::take(&mut self.places).into_iter();
        let next = |is_empty: &bool| match is_empty {
            true => (0, 0),
            false => places.next().unwrap_or((0, 0)),
        };
        self.places = is_empty.iter().map(next).collect();
    }

    /// The bytes of a string.
    ///
    /// # Panics
    /// When there is no such string.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> &[u8] {
        let (start, len) = self.places[number];
        &self.bytes[start as usize..][..len as usize]
    }
}

/// The bytes of strings that follow each other.
fn bytes_of(places: &[(u32, u32)]) -> usize {
    places
        .last()
        .map_or(0, |(start, len)| (start + len) as usize)
}

/// The column of lengths.
fn lengths_column() -> Column {
    Column::of_integers(Kind::UnsignedLittle, 4)
}

/// The column of numbers in a dictionary.
fn numbers_column() -> Column {
    Column::of_integers(Kind::UnsignedLittle, 1)
}

/// The distinct strings in the order of their first occurrence, and the number of each string.
struct Dictionary<'a> {
    entries: Vec<&'a [u8]>,
    numbers: Vec<u8>,
}

impl<'a> Dictionary<'a> {
    /// `None` if there are too many distinct strings for their number.
    fn of(lengths: &[u32], mut bytes: &'a [u8]) -> Option<Self> {
        let entries_max = ENTRIES_MAX.min(lengths.len() / OCCURRENCES_MIN);
        let mut found: HashMap<&[u8], u8> = HashMap::new();
        let mut dictionary = Self {
            entries: Vec::new(),
            numbers: Vec::with_capacity(lengths.len()),
        };
        for length in lengths {
            let (text, rest) = bytes.split_at(*length as usize);
            bytes = rest;
            let number = match found.get(text) {
                Some(number) => *number,
                None if dictionary.entries.len() == entries_max => return None,
                None => {
                    let number = u8::try_from(dictionary.entries.len()).ok()?;
                    found.insert(text, number);
                    dictionary.entries.push(text);
                    number
                }
            };
            dictionary.numbers.push(number);
        }
        Some(dictionary)
    }
}

impl Codec {
    /// Appends an encoded column of strings. `bytes`: those of all strings, one after the other.
    ///
    /// # Panics
    /// When the lengths do not add up to the bytes.
    pub fn encode_texts(&mut self, lengths: &[u32], bytes: &[u8], out: &mut Vec<u8>) {
        let total: usize = lengths.iter().map(|length| *length as usize).sum();
        assert_eq!(total, bytes.len(), "lengths and bytes belong together");
        if let Some(dictionary) = Dictionary::of(lengths, bytes) {
            out.put_u8(scheme::DICTIONARY);
            out.put_varint(dictionary.entries.len() as u64);
            for entry in &dictionary.entries {
                out.put_bytes(entry);
            }
            self.encode(numbers_column(), &dictionary.numbers, out);
            return;
        }
        out.put_u8(scheme::PLAIN);
        let encoded: Vec<u8> = lengths.iter().flat_map(|len| len.to_le_bytes()).collect();
        self.encode(lengths_column(), &encoded, out);
        put_packed(bytes, self.packs, out);
    }

    /// Decodes a column of `count` strings with at most `bytes_max` bytes together.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode_texts(
        &mut self,
        count: usize,
        bytes_max: usize,
        take: &mut Take<'_>,
    ) -> Result<Texts, Malformed> {
        match take.u8()? {
            scheme::PLAIN => self.take_plain(count, bytes_max, take),
            scheme::DICTIONARY => self.take_dictionary(count, take),
            _ => Err(Malformed),
        }
    }

    /// Decodes string `number` of a column of `count` strings with at most `bytes_max` bytes together, over `out`.
    ///
    /// # Errors
    /// [`Malformed`]; also if there is no such string.
    pub fn decode_text(
        &mut self,
        count: usize,
        bytes_max: usize,
        number: usize,
        take: &mut Take<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        if number >= count {
            return Err(Malformed);
        }
        out.clear();
        match take.u8()? {
            scheme::PLAIN => {
                let texts = self.take_plain(count, bytes_max, take)?;
                out.extend_from_slice(texts.get(number));
            }
            scheme::DICTIONARY => {
                let entries = usize::try_from(take.varint()?).map_err(|_| Malformed)?;
                if entries > ENTRIES_MAX {
                    return Err(Malformed);
                }
                let mut after = *take;
                for _ in 0..entries {
                    after.bytes()?;
                }
                let mut entry = [0];
                self.decode_one(numbers_column(), count, number, &mut after, &mut entry)?;
                let entry = usize::from(entry[0]);
                if entry >= entries {
                    return Err(Malformed);
                }
                for _ in 0..entry {
                    take.bytes()?;
                }
                out.extend_from_slice(take.bytes()?);
                *take = after;
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// The name of the encoding of a column of strings, whose encoded bytes these are.
    #[must_use]
    pub fn texts_encoding_name(encoded: &[u8]) -> &'static str {
        match encoded {
            [scheme::PLAIN, ..] => "lengths and bytes",
            [scheme::DICTIONARY, ..] => "dictionary",
            _ => "unknown",
        }
    }

    /// Skips a column of `count` strings. Decodes no more than their lengths.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn skip_texts(
        &mut self,
        count: usize,
        bytes_max: usize,
        take: &mut Take<'_>,
    ) -> Result<(), Malformed> {
        match take.u8()? {
            scheme::PLAIN => {
                let places = self.take_lengths(count, bytes_max, take)?;
                skip_packed(bytes_of(&places), take)
            }
            scheme::DICTIONARY => {
                for _ in 0..take.varint()? {
                    take.bytes()?;
                }
                Self::skip(numbers_column(), count, take)
            }
            _ => Err(Malformed),
        }
    }

    /// Returns the starts and the lengths of `count` strings.
    fn take_lengths(
        &mut self,
        count: usize,
        bytes_max: usize,
        take: &mut Take<'_>,
    ) -> Result<Vec<(u32, u32)>, Malformed> {
        let mut encoded = vec![0; count.checked_mul(4).ok_or(Malformed)?];
        self.decode(lengths_column(), count, take, &mut encoded, |row| row * 4)?;
        let mut places = Vec::with_capacity(count);
        let mut start = 0u32;
        for length in encoded.chunks_exact(4) {
            let length = u32::from_le_bytes(length.try_into().map_err(|_| Malformed)?);
            places.push((start, length));
            start = start.checked_add(length).ok_or(Malformed)?;
        }
        match start as usize <= bytes_max {
            true => Ok(places),
            false => Err(Malformed),
        }
    }

    fn take_plain(
        &mut self,
        count: usize,
        bytes_max: usize,
        take: &mut Take<'_>,
    ) -> Result<Texts, Malformed> {
        let places = self.take_lengths(count, bytes_max, take)?;
        let bytes = take_packed(bytes_of(&places), take)?.into_owned();
        Ok(Texts { bytes, places })
    }

    fn take_dictionary(&mut self, count: usize, take: &mut Take<'_>) -> Result<Texts, Malformed> {
        let entries = usize::try_from(take.varint()?).map_err(|_| Malformed)?;
        if entries > ENTRIES_MAX {
            return Err(Malformed);
        }
        let mut bytes = Vec::new();
        let mut distinct = Vec::with_capacity(entries);
        for _ in 0..entries {
            let entry = take.bytes()?;
            let start = u32::try_from(bytes.len()).map_err(|_| Malformed)?;
            distinct.push((start, u32::try_from(entry.len()).map_err(|_| Malformed)?));
            bytes.extend_from_slice(entry);
        }
        let mut numbers = vec![0; count];
        self.decode(numbers_column(), count, take, &mut numbers, |row| row)?;
        let place_of = |number: &u8| distinct.get(usize::from(*number)).copied();
        let places: Option<Vec<_>> = numbers.iter().map(place_of).collect();
        let places = places.ok_or(Malformed)?;
        Ok(Texts { bytes, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(texts: &[Vec<u8>], packs: bool) -> Vec<u8> {
        let lengths = texts.iter().map(|text| u32::try_from(text.len()).unwrap());
        let lengths: Vec<u32> = lengths.collect();
        let mut codec = Codec::default();
        codec.set_packing(packs);
        let mut out = Vec::new();
        codec.encode_texts(&lengths, &texts.concat(), &mut out);
        out
    }

    /// Returns the encoded bytes.
    fn round_trip(texts: &[Vec<u8>]) -> Vec<u8> {
        let total = texts.concat().len();
        let [plain, packed] = [false, true].map(|packs| {
            let encoded = encode(texts, packs);
            let mut take = Take::new(&encoded);
            let decoded = Codec::default().decode_texts(texts.len(), total, &mut take);
            let decoded = decoded.unwrap();
            assert!(take.is_empty());
            let mut take = Take::new(&encoded);
            let mut codec = Codec::default();
            codec.skip_texts(texts.len(), total, &mut take).unwrap();
            assert!(take.is_empty());
            for (number, text) in texts.iter().enumerate() {
                assert_eq!(decoded.get(number), text);
                let (mut take, mut found) = (Take::new(&encoded), vec![7]);
                let mut codec = Codec::default();
                let one = codec.decode_text(texts.len(), total, number, &mut take, &mut found);
                assert_eq!((one, &found), (Ok(()), text));
                assert!(take.is_empty());
            }
            encoded
        });
        assert!(packed.len() <= plain.len());
        plain
    }

    #[test]
    fn few_distinct_strings_are_numbered() {
        let modes = ["REG AIR", "", "RAIL", "SHIP"];
        let texts: Vec<Vec<u8>> = (0..400)
            .map(|n: usize| modes[n * n / 3 % 4].as_bytes().to_vec())
            .collect();
        let encoded = round_trip(&texts);
        assert_eq!(encoded[0], scheme::DICTIONARY);
        assert!(encoded.len() < 430);
        let distinct: Vec<Vec<u8>> = (0..400).map(|n| format!("{n}").into_bytes()).collect();
        assert_eq!(round_trip(&distinct)[0], scheme::PLAIN);
        round_trip(&[]);
    }

    #[test]
    fn more_bytes_than_the_limit_are_malformed() {
        let texts = vec![b"abc".to_vec(), b"de".to_vec()];
        let encoded = encode(&texts, false);
        let decode =
            |bytes_max| Codec::default().decode_texts(2, bytes_max, &mut Take::new(&encoded));
        assert!(decode(5).is_ok());
        assert!(decode(4).is_err());
    }

    proptest! {
        #[test]
        fn any_strings_round_trip(
            texts in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..12), 0..200),
            many in proptest::collection::vec(any::<Vec<u8>>(), 0..40),
        ) {
            round_trip(&texts);
            round_trip(&many);
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(bytes: Vec<u8>, count in 0usize..50, scheme in 0u8..3) {
            let bytes = [&[scheme], bytes.as_slice()].concat();
            let decoded = Codec::default().decode_texts(count, 1000, &mut Take::new(&bytes));
            if let Ok(texts) = decoded {
                for number in 0..count {
                    let _ = texts.get(number);
                }
            }
        }
    }
}
