//! A decoded page: access to its entries by number.
//!
//! `decode` has checked the bounds that indexing relies on: the ends of keys
//! and values ascend, there is one for each entry, and the last ones are the
//! lengths of the streams.
#![allow(clippy::indexing_slicing)]

use crate::block_memory::BlockCharge;
use crate::key_search::KeySearch;
use crate::{EncodedReference, ValueReference};
use teak_base::{Operation, WriteId};

/// A decoded, validated page: entries by number, keys ascending, the versions
/// of a key newest first.
#[derive(Debug)]
pub struct Page {
    /// Keys, then values, one after the other.
    pub(super) bytes: Vec<u8>,
    pub(super) keys: Ends,
    pub(super) values: Ends,
    /// Where the values start in `bytes`.
    pub(super) values_start: usize,
    pub(super) entries: usize,
    pub(super) search: KeySearch,
    /// One for each entry; empty when all are settled puts without separate values.
    pub(super) writes: Vec<Write>,
    /// Whether an entry has a separate value.
    pub(super) has_separate: bool,
    /// Counts the page's memory.
    pub(super) charge: Option<BlockCharge>,
}

/// The write of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) operation: Operation,
    /// Whether the value is a reference to a separate value.
    pub(super) is_separate: bool,
    pub(super) id: WriteId,
}

const _: () = assert!(size_of::<Write>() == 16);

/// The ends of the strings of a stream.
#[derive(Debug)]
pub(super) enum Ends {
    OfOneLength(usize),
    At(Vec<u32>),
}

impl Ends {
    #[inline]
    pub(super) fn range(&self, entry: usize) -> (usize, usize) {
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

impl Page {
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
            + self.writes.len() * size_of::<Write>()
            + size_of::<Self>()
    }

    /// Counts the memory of the page as long as it exists.
    pub(crate) fn charge(&mut self, charge: BlockCharge) {
        self.charge = Some(charge);
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

    /// The value of an entry. A separate value is represented by its reference.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn value(&self, entry: usize) -> &[u8] {
        let (start, end) = self.values.range(entry);
        &self.bytes[self.values_start + start..self.values_start + end]
    }

    /// Whether the value of an entry is separate.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn is_separate(&self, entry: usize) -> bool {
        self.has_separate && self.writes[entry].is_separate
    }

    /// The reference of an entry with a separate value; `None` for other entries.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn reference(&self, entry: usize) -> Option<&EncodedReference> {
        if !self.is_separate(entry) {
            return None;
        }
        // `decode` has checked the length.
        self.value(entry)
            .first_chunk::<{ ValueReference::ENCODED_BYTES }>()
    }

    /// The entries with separate values, with their references.
    pub(crate) fn references(&self) -> impl Iterator<Item = (usize, ValueReference)> {
        let entries = match self.has_separate {
            true => self.entries,
            false => 0,
        };
        (0..entries).filter_map(|entry| {
            let encoded = self.reference(entry)?;
            Some((entry, ValueReference::decode(encoded)))
        })
    }

    /// Whether every entry is a settled put with its value in the page.
    #[inline]
    pub(crate) fn has_only_settled_puts(&self) -> bool {
        self.writes.is_empty()
    }

    /// The operation and the write id of an entry.
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
            let write = &self.writes[entry];
            (write.operation, write.id)
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
        let documented = crate::test_support::documented_bytes("## Page, layout 2");
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
