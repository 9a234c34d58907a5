//! A decoded page.
//!
//! Decoding walks all heads once, checks every bound, and keeps where each
//! key and value ends; after that access is by index, within bounds that the
//! walk has proven: `key_ends` and `value_ends` ascend, have one element per
//! entry, and their last elements are the lengths of their streams.
#![allow(clippy::indexing_slicing)]

use super::{
    FLAG_KEY_PLANES, FLAG_KEYS_OF_ONE_LENGTH, FLAG_SETTLED_PUTS, FLAG_VALUES_OF_ONE_LENGTH,
    FLAGS_KNOWN, PAGE_HEADER_BYTES, planes,
};
use crate::key_search::KeySearch;
use teak_base::bytes::{Malformed, Take};
use teak_base::{Operation, WriteId};

/// One key of so many is kept for searches.
const SEARCH_STEP: usize = 16;

/// A decoded, validated page: entries by number, keys ascending, the versions
/// of a key newest first.
#[derive(Debug)]
pub struct Page {
    /// Keys, then values, one after the other.
    bytes: Vec<u8>,
    keys: Ends,
    values: Ends,
    /// Where the values start in `bytes`.
    values_start: usize,
    entries: usize,
    search: KeySearch,
    /// Operation and write id per entry; empty when all are settled puts.
    writes: Vec<(Operation, WriteId)>,
}

/// Where the strings of a stream end.
#[derive(Debug)]
enum Ends {
    OfOneLength(usize),
    At(Vec<u32>),
}

impl Ends {
    #[inline]
    fn range(&self, entry: usize) -> (usize, usize) {
        match self {
            Self::OfOneLength(len) => (entry * len, (entry + 1) * len),
            Self::At(ends) => {
                let start = if entry == 0 {
                    0
                } else {
                    ends[entry - 1] as usize
                };
                (start, ends[entry] as usize)
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::OfOneLength(_) => 0,
            Self::At(ends) => ends.len() * 4,
        }
    }
}

/// Adds up lengths read from a head, refusing sums beyond `limit`.
struct Adder {
    ends: Vec<u32>,
    sum: u32,
    limit: u32,
}

impl Adder {
    fn new(entries: usize, limit: usize) -> Result<Self, Malformed> {
        Ok(Self {
            ends: Vec::with_capacity(entries),
            sum: 0,
            limit: u32::try_from(limit).map_err(|_| Malformed)?,
        })
    }

    fn add(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        let len = u32::try_from(take.varint()?).map_err(|_| Malformed)?;
        self.sum = self.sum.checked_add(len).ok_or(Malformed)?;
        if self.sum > self.limit {
            return Err(Malformed);
        }
        self.ends.push(self.sum);
        Ok(())
    }
}

impl Page {
    /// Decodes and checks the raw bytes of a page, the order of the keys too.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(raw: Vec<u8>) -> Result<Self, Malformed> {
        let mut take = Take::new(&raw);
        let flags = take.u8()?;
        let entries = take.u32()? as usize;
        let key_len = take.u32()? as usize;
        let value_len = take.u32()? as usize;
        let head_bytes = take.u32()? as usize;
        let key_bytes = take.u32()? as usize;
        let value_planes = take.u32()? as usize;
        let mut heads = Take::new(take.take(head_bytes)?);
        let key_stream = take.take(key_bytes)?;
        let value_bytes = take.rest().len();
        if flags & !FLAGS_KNOWN != 0 || entries == 0 {
            return Err(Malformed);
        }
        let plain = flags & FLAG_SETTLED_PUTS != 0;
        let one_key_len = flags & FLAG_KEYS_OF_ONE_LENGTH != 0;
        let one_value_len = flags & FLAG_VALUES_OF_ONE_LENGTH != 0;
        let exact = |len: usize, bytes: usize| len.checked_mul(entries) == Some(bytes);
        if one_key_len && !exact(key_len, key_bytes)
            || one_value_len && !exact(value_len, value_bytes)
        {
            return Err(Malformed);
        }
        // What heads do not leave out takes a byte or more each, so a corrupt
        // count cannot ask for much memory. A page of nothing but implied
        // empty keys and values is bounded here.
        let implied = plain && one_key_len && one_value_len;
        let head_bytes_min =
            2 * usize::from(!plain) + usize::from(!one_key_len) + usize::from(!one_value_len);
        if implied && key_len == 0 && value_len == 0 && entries > 1
            || head_bytes_min > 0 && entries > head_bytes / head_bytes_min
        {
            return Err(Malformed);
        }
        let mut key_ends = Adder::new(if one_key_len { 0 } else { entries }, key_bytes)?;
        let mut value_ends = Adder::new(if one_value_len { 0 } else { entries }, value_bytes)?;
        let mut writes = Vec::with_capacity(if plain { 0 } else { entries });
        if !implied {
            for _ in 0..entries {
                if !plain {
                    let operation = Operation::from_number(heads.u8()?).ok_or(Malformed)?;
                    writes.push((operation, WriteId(heads.varint()?)));
                }
                if !one_key_len {
                    key_ends.add(&mut heads)?;
                }
                if !one_value_len {
                    value_ends.add(&mut heads)?;
                }
            }
        }
        if !heads.is_empty()
            || !one_key_len && key_ends.sum as usize != key_bytes
            || !one_value_len && value_ends.sum as usize != value_bytes
        {
            return Err(Malformed);
        }
        let keys = if one_key_len {
            Ends::OfOneLength(key_len)
        } else {
            Ends::At(key_ends.ends)
        };
        let values = if one_value_len {
            Ends::OfOneLength(value_len)
        } else {
            Ends::At(value_ends.ends)
        };
        let key_planes = flags & FLAG_KEY_PLANES != 0;
        if key_planes && (!one_key_len || key_len == 0) {
            return Err(Malformed);
        }
        let bytes = if key_planes || value_planes > 0 {
            let mut bytes = Vec::with_capacity(key_bytes + value_bytes);
            if key_planes {
                planes::join(key_stream, key_len, &mut bytes);
            } else {
                bytes.extend_from_slice(key_stream);
            }
            if value_planes > 0 {
                join_values(take, value_planes, entries, &values, &mut bytes)?;
            } else {
                bytes.extend_from_slice(take.rest());
            }
            bytes
        } else {
            let mut bytes = raw;
            bytes.drain(..PAGE_HEADER_BYTES + head_bytes);
            bytes
        };
        let mut page = Self {
            bytes,
            keys,
            values,
            values_start: key_bytes,
            entries,
            search: KeySearch::default(),
            writes,
        };
        // Merges and cursors rely on the order.
        if !(1..entries).all(|entry| page.key(entry - 1) <= page.key(entry)) {
            return Err(Malformed);
        }
        page.search = KeySearch::new(entries, SEARCH_STEP, |entry| page.key(entry));
        Ok(page)
    }

    /// Entries of the page, at least one.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Memory that the page takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.keys.memory_bytes()
            + self.values.memory_bytes()
            + self.search.memory_bytes()
            + self.writes.len() * size_of::<(Operation, WriteId)>()
            + size_of::<Self>()
    }

    /// The key of an entry.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn key(&self, entry: usize) -> &[u8] {
        let (start, end) = self.keys.range(entry);
        &self.bytes[start..end]
    }

    /// The value of an entry.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn value(&self, entry: usize) -> &[u8] {
        let (start, end) = self.values.range(entry);
        &self.bytes[self.values_start + start..self.values_start + end]
    }

    /// What an entry does, and the write that made it.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn write(&self, entry: usize) -> (Operation, WriteId) {
        if self.writes.is_empty() {
            assert!(entry < self.entries, "no such entry");
            (Operation::Put, WriteId::SETTLED)
        } else {
            self.writes[entry]
        }
    }

    /// The number of the first entry whose key is at or after `key`; the
    /// number of entries when there is none.
    #[must_use]
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.search.lower_bound(key, |entry| self.key(entry))
    }
}

/// Appends values whose first `width` bytes are stored as planes.
///
/// # Errors
/// [`Malformed`] when a value is shorter.
fn join_values(
    mut stream: Take<'_>,
    width: usize,
    entries: usize,
    values: &Ends,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let stored = stream.take(width.checked_mul(entries).ok_or(Malformed)?)?;
    let mut fronts = Vec::with_capacity(stored.len());
    planes::join(stored, width, &mut fronts);
    for (entry, front) in fronts.chunks_exact(width).enumerate() {
        let (start, end) = values.range(entry);
        let rest = (end - start).checked_sub(width).ok_or(Malformed)?;
        out.extend_from_slice(front);
        out.extend_from_slice(stream.take(rest)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::PageBuilder;
    use super::*;
    use proptest::prelude::*;

    type Entry = (Vec<u8>, u64, u8, Vec<u8>);

    fn build(entries: &[Entry]) -> Vec<u8> {
        let shortest = entries.iter().map(|entry| entry.3.len()).min().unwrap();
        let mut builder = PageBuilder::new(u32::try_from(shortest.min(3)).unwrap());
        for (key, id, operation, value) in entries {
            builder.push(
                key,
                WriteId(*id),
                Operation::from_number(*operation).unwrap(),
                value,
            );
        }
        let mut raw = Vec::new();
        builder.finish(&mut raw);
        raw
    }

    fn check(entries: &[Entry]) {
        let page = Page::decode(build(entries)).unwrap();
        assert_eq!(page.entries(), entries.len());
        for (number, (key, id, operation, value)) in entries.iter().enumerate() {
            assert_eq!(page.key(number), key.as_slice());
            assert_eq!(page.value(number), value.as_slice());
            let (found, found_id) = page.write(number);
            assert_eq!((found.number(), found_id.0), (*operation, *id));
            let bound = page.lower_bound(key);
            assert_eq!(page.key(bound), key.as_slice());
            assert!(bound == 0 || page.key(bound - 1) < key.as_slice());
        }
    }

    #[test]
    fn the_documented_example_holds() {
        let mut builder = PageBuilder::new(2);
        builder.push(b"k0", WriteId(300), Operation::Put, b"\x00\x09blue");
        builder.push(b"k0", WriteId(0), Operation::Put, b"\x00\x08red");
        for number in 1..7u8 {
            let key = [b'k', b'0' + number];
            builder.push(&key, WriteId(0), Operation::Put, &[0, number]);
        }
        let mut raw = Vec::new();
        builder.finish(&mut raw);
        let documented = crate::test_support::documented_bytes("## Page, layout 1");
        assert_eq!(raw, documented, "{raw:02x?}");
        let page = Page::decode(documented).unwrap();
        assert_eq!(page.entries(), 8);
        assert_eq!(
            (page.key(1), page.value(1)),
            (b"k0".as_slice(), b"\x00\x08red".as_slice())
        );
        assert_eq!(page.write(0), (Operation::Put, WriteId(300)));
    }

    #[test]
    fn keys_out_of_order_are_malformed() {
        let entry = |key: &[u8]| (key.to_vec(), 0, 1, b"v".to_vec());
        assert!(Page::decode(build(&[entry(b"a"), entry(b"a"), entry(b"b")])).is_ok());
        assert!(Page::decode(build(&[entry(b"a"), entry(b"c"), entry(b"b")])).is_err());
    }

    proptest! {
        #[test]
        fn any_entries_round_trip(
            mut entries in proptest::collection::vec(
                (proptest::collection::vec(0u8..4, 0..6), 0u64..300, 1u8..=2, any::<Vec<u8>>()),
                1..40,
            )
        ) {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            check(&entries);
        }

        #[test]
        fn settled_keys_of_one_length_round_trip(
            mut keys in proptest::collection::vec(any::<[u8; 5]>(), 1..40),
            value_len in 0usize..3,
        ) {
            keys.sort_unstable();
            let entries: Vec<Entry> = keys
                .iter()
                .map(|key| (key.to_vec(), 0, 1, key[..value_len].to_vec()))
                .collect();
            check(&entries);
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(raw: Vec<u8>) {
            let _ = Page::decode(raw);
        }

        #[test]
        fn a_changed_page_decodes_in_bounds_or_is_malformed(
            mut keys in proptest::collection::vec(any::<[u8; 5]>(), 1..40),
            place: prop::sample::Index,
            byte: u8,
            id in 0u64..3,
        ) {
            keys.sort_unstable();
            let entries: Vec<Entry> = keys
                .iter()
                .map(|key| (key[..usize::from(key[0] % 6)].to_vec(), id, 1, key.to_vec()))
                .collect();
            let mut raw = build(&entries);
            let place = place.index(raw.len());
            raw[place] = byte;
            if let Ok(page) = Page::decode(raw) {
                for entry in 0..page.entries() {
                    let _ = (page.key(entry), page.value(entry), page.write(entry));
                }
            }
        }
    }
}
