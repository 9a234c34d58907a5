//! A decoded page: access to its entries by number.
//!
//! `decode` has checked the bounds that indexing relies on: the ends of keys
//! and values ascend, there is one for each entry, and the last ones are the
//! lengths of the streams.
#![allow(clippy::indexing_slicing)]

use super::projection::Projection;
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
    pub(super) writes: Writes,
    /// Whether every entry is a put with its value in the page, and all have different keys.
    pub(super) has_only_rows: bool,
    /// Bytes of all entries with all columns.
    pub(super) entry_bytes: usize,
    /// If not all columns of the values were decoded: those that were.
    pub(super) projection: Option<Projection>,
    /// Counts the page's memory.
    pub(super) charge: Option<BlockCharge>,
}

/// The writes of the entries of a page.
#[derive(Debug)]
pub(super) struct Writes {
    /// One for each entry; empty if all entries have the common one.
    each: Vec<Write>,
    common: Write,
    /// Whether an entry has a separate value.
    has_separate: bool,
}

impl Writes {
    pub(super) fn memory_bytes(&self) -> usize {
        self.each.len() * size_of::<Write>()
    }

    /// `writes`: one for each entry, or for all; empty if all are settled puts without separate values.
    pub(super) fn new(mut writes: Vec<Write>) -> Self {
        let settled = Write {
            operation: Operation::Put,
            is_separate: false,
            id: WriteId::SETTLED,
        };
        let common = writes.first().copied().unwrap_or(settled);
        let has_separate = writes.iter().any(|write| write.is_separate);
        // All rows of a load have the same write.
        if !has_separate && writes.iter().all(|write| *write == common) {
            writes = Vec::new();
        }
        Self {
            each: writes,
            common,
            has_separate,
        }
    }

    /// Whether every entry is a put with its value in the page.
    pub(super) fn are_inline_puts(&self) -> bool {
        let is_put = |write: &Write| write.operation == Operation::Put;
        !self.has_separate && is_put(&self.common) && self.each.iter().all(is_put)
    }

    /// If every entry is a put with its value in the page, and all have one write id, that id.
    pub(super) fn one_put(&self) -> Option<WriteId> {
        (self.each.is_empty() && self.are_inline_puts()).then_some(self.common.id)
    }

    /// The operation and the write id of an entry.
    pub(super) fn of(&self, entry: usize) -> (Operation, WriteId) {
        let write = self.get(entry);
        (write.operation, write.id)
    }

    #[inline]
    fn get(&self, entry: usize) -> Write {
        if self.each.is_empty() {
            self.common
        } else {
            self.each[entry]
        }
    }
}

/// The write of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    pub(super) fn memory_bytes(&self) -> usize {
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
            + self.writes.memory_bytes()
            + size_of::<Self>()
    }

    /// Bytes of the keys and values of all entries, as if all columns had been decoded.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// Counts the memory of the page as long as it exists.
    pub(crate) fn charge(&mut self, charge: BlockCharge) {
        self.charge = Some(charge);
    }

    /// Whether the values have the columns of a projection; `None`: all columns.
    #[inline]
    pub(crate) fn has_columns(&self, projection: Option<&Projection>) -> bool {
        match (&self.projection, projection) {
            (None, _) => true,
            (Some(own), Some(wanted)) => own.covers(wanted),
            (Some(_), None) => false,
        }
    }

    /// The columns that a page needs to replace this one for a reader of these columns: its own ones, too, so that
    /// readers of different columns do not replace each other's pages. `None`: all columns.
    pub(crate) fn columns_with(&self, projection: Option<&Projection>) -> Option<Projection> {
        self.projection.as_ref()?.union(projection?)
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
        self.writes.has_separate && self.writes.get(entry).is_separate
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
        let entries = match self.writes.has_separate {
            true => self.entries,
            false => 0,
        };
        (0..entries).filter_map(|entry| {
            let encoded = self.reference(entry)?;
            Some((entry, ValueReference::decode(encoded)))
        })
    }

    /// If every entry is a put with its value in the page and has another key, and all have one write
    /// id, returns the id: that in the page, or `SETTLED` if the run is settled.
    #[inline]
    pub(crate) fn one_write(&self, is_run_settled: bool) -> Option<WriteId> {
        if !self.has_only_rows {
            return None;
        }
        let writes = &self.writes;
        match is_run_settled {
            true => Some(WriteId::SETTLED),
            false => writes.each.is_empty().then_some(writes.common.id),
        }
    }

    /// The operation and the write id of an entry.
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    #[must_use]
    pub fn write(&self, entry: usize) -> (Operation, WriteId) {
        assert!(entry < self.entries, "no such entry");
        self.writes.of(entry)
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
    use super::super::{
        FLAG_VALUE_TAIL, OpenedRows, OptionalColumn, PageBuilder, PageColumns, Projection, RowPage,
        ValueTail,
    };
    use super::*;
    use crate::{Column, ColumnKind};
    use proptest::prelude::*;
    use teak_base::bytes::{Put, Take};

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

    /// The columns of a value that are wanted, in the form of `put_tail` if it `is_split`; otherwise the columns of
    /// the front, and the rest. Panics if the value does not have this form.
    fn parts(value: &[u8], wanted: u64, is_split: bool) -> Vec<Vec<u8>> {
        let mut take = Take::new(value);
        let absent = value[0];
        let mut parts = Vec::new();
        let mut add = |number: u32, bytes: &[u8]| {
            if number == 0 || wanted >> number & 1 == 1 {
                parts.push(bytes.to_vec());
            }
        };
        for (number, width) in [(0, 1), (1, 8), (2, 4)] {
            add(number, take.take(width).unwrap());
        }
        if !is_split {
            add(0, take.rest());
            return parts;
        }
        for (number, bit, width) in [(3, 1, 2), (4, 2, 9)] {
            if absent & bit == 0 {
                add(number, take.take(width).unwrap());
            }
        }
        let mut lengths = Vec::new();
        for (number, bit) in [(5, 4), (6, 0)] {
            if absent & bit == 0 {
                lengths.push((number, take.varint().unwrap()));
            }
        }
        for (number, length) in lengths {
            add(number, take.take(usize::try_from(length).unwrap()).unwrap());
        }
        assert!(take.is_empty());
        parts
    }

    /// Appends what a value has after its front.
    fn put_tail(absent: u8, bytes: usize, position: u64, value: &mut Vec<u8>) {
        if absent & 1 == 0 {
            value.extend_from_slice(&position.to_le_bytes()[..2]);
        }
        if absent & 2 == 0 {
            value.extend_from_slice(&[absent; 9]);
        }
        let texts = [
            (absent & 4 == 0).then(|| vec![b'a' + absent % 4; 5]),
            Some(vec![absent; bytes * 20]),
        ];
        for text in texts.iter().flatten() {
            value.put_varint(text.len() as u64);
        }
        for text in texts.iter().flatten() {
            value.extend_from_slice(text);
        }
    }

    /// Compares the rows of a page with its entries, and with the page that was decoded for the projection.
    fn check_rows(
        rows: &RowPage,
        entries: &[Entry],
        page: &Page,
        projection: &Projection,
        columns: &PageColumns,
    ) {
        assert_eq!(rows.entries(), entries.len());
        let mut found = Vec::new();
        for (entry, (key, id, _, value)) in entries.iter().enumerate() {
            assert_eq!(rows.key(entry), key.as_slice());
            assert_eq!(rows.write(entry), (Operation::Put, WriteId(*id)));
            assert_eq!(rows.lower_bound(key), page.lower_bound(key));
            rows.value(entry, None, &mut found).unwrap();
            assert_eq!(&found, value);
            rows.value(entry, Some(projection), &mut found).unwrap();
            assert_eq!(found.as_slice(), page.value(entry));
            let other = Projection::new(columns.clone(), [8], [0]);
            rows.value(entry, Some(&other), &mut found).unwrap();
            assert!(found == *value || value.first() == Some(&8));
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
        let documented = crate::test_support::documented_bytes("## Page, layout 3");
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
    fn a_page_with_two_versions_of_a_key_is_not_one_of_rows() {
        let entry = |key: &[u8], id| (key.to_vec(), id, 1, b"v".to_vec());
        let rows = Page::decode(build(&[entry(b"a", 7), entry(b"b", 7)])).unwrap();
        assert_eq!(rows.one_write(false), Some(WriteId(7)));
        assert_eq!(rows.one_write(true), Some(WriteId::SETTLED));
        let versions = Page::decode(build(&[entry(b"a", 8), entry(b"a", 7)])).unwrap();
        assert_eq!(versions.one_write(false), None);
        // The run may be settled although it has older versions.
        assert_eq!(versions.one_write(true), None);
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
        fn entries_with_columns_round_trip(
            numbers in proptest::collection::btree_set(any::<u64>(), 1..200),
            step in 1u64..1000, rest_bytes_max in 0usize..40, settled: bool, has_tail: bool, fits: bool,
            change in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
            wanted in 0u64..128,
        ) {
            let column = |kind, width| Column::new(kind, width).unwrap();
            let tail = ValueTail {
                optional: vec![
                    OptionalColumn { column: column(ColumnKind::SignedLittle, 2), null_bit: 0 },
                    OptionalColumn { column: column(ColumnKind::Bytes, 9), null_bit: 1 },
                ],
                variable: vec![Some(2), None],
            };
            let columns = PageColumns::with_tail(
                vec![column(ColumnKind::UnsignedBig, 8), column(ColumnKind::Bytes, 3)],
                vec![column(ColumnKind::Bytes, 1), column(ColumnKind::Float, 8), column(ColumnKind::SignedLittle, 4)],
                if has_tail { tail } else { ValueTail::default() },
            );
            let mut builder = PageBuilder::with_columns(0, columns.clone());
            let mut entries: Vec<Entry> = Vec::new();
            for (position, number) in (0u64..).zip(&numbers) {
                let mut key = (number / step).to_be_bytes().to_vec();
                key.extend_from_slice(&[1, 2, position.to_le_bytes()[0] % 3]);
                let absent = if fits { number.to_le_bytes()[1] } else { 7 };
                let mut value = vec![absent];
                value.extend_from_slice(&(*number as f64 / 100.0).to_le_bytes());
                value.extend_from_slice(&((number >> 40) as i32).to_le_bytes());
                let rest_bytes = rest_bytes_max * (usize::from(number.to_le_bytes()[0]) % 5) / 5;
                if fits {
                    put_tail(absent, rest_bytes, position, &mut value);
                } else {
                    value.resize(13 + rest_bytes, position.to_le_bytes()[0]);
                }
                entries.push((key, if settled { 0 } else { number % 100 }, 1, value));
            }
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            for (key, id, _, value) in &entries {
                builder.push(key, WriteId(*id), Operation::Put, value);
            }
            let mut raw = Vec::new();
            builder.finish(&mut raw);
            if let Some((place, byte)) = change {
                // Damaged bytes are malformed, or other entries.
                let place = place.index(raw.len());
                raw[place] = byte;
                if let Ok(OpenedRows::Rows(page)) = RowPage::open(raw.clone()) {
                    let mut found = Vec::new();
                    for entry in 0..page.entries() {
                        let _ = (page.key(entry), page.value(entry, None, &mut found), page.write(entry));
                    }
                }
                if let Ok(page) = Page::decode(raw) {
                    for entry in 0..page.entries() {
                        let _ = (page.key(entry), page.value(entry), page.write(entry));
                    }
                }
            } else {
                let is_split = raw[0] & FLAG_VALUE_TAIL != 0;
                prop_assert!(is_split || !(has_tail && fits && entries.len() >= 32));
                let page = Page::decode(raw.clone()).unwrap();
                prop_assert_eq!(page.entries(), entries.len());
                for (entry, (key, id, _, value)) in entries.iter().enumerate() {
                    prop_assert_eq!(page.key(entry), key.as_slice());
                    prop_assert_eq!(page.value(entry), value.as_slice());
                    prop_assert_eq!(page.write(entry).1, WriteId(*id));
                }
                let beginning = if fits { vec![] } else { vec![7] };
                let projection = Projection::new(columns.clone(), beginning, vec![wanted]);
                let page = Page::decode_for(raw.clone(), Some(&projection)).unwrap();
                for (entry, (key, id, _, value)) in entries.iter().enumerate() {
                    prop_assert_eq!(page.key(entry), key.as_slice());
                    prop_assert_eq!(page.write(entry).1, WriteId(*id));
                    let found = page.value(entry);
                    prop_assert_eq!(parts(found, wanted, is_split), parts(value, wanted, is_split));
                }
                match RowPage::open(raw.clone()).unwrap() {
                    OpenedRows::Whole(_) => prop_assert!(!is_split),
                    OpenedRows::Rows(rows) => check_rows(&rows, &entries, &page, &projection, &columns),
                }
                // Values that begin otherwise, and other columns, are decoded wholly.
                let other = PageColumns::with_tail(vec![], columns.value()[..2].to_vec(), ValueTail::default());
                for (columns, beginning) in [(columns, vec![8]), (other, vec![])] {
                    if entries.iter().any(|entry| !entry.3.starts_with(&beginning)) || beginning.is_empty() {
                        let projection = Projection::new(columns, beginning, vec![wanted]);
                        let page = Page::decode_for(raw.clone(), Some(&projection)).unwrap();
                        prop_assert!(page.has_columns(None));
                        for (entry, (.., value)) in entries.iter().enumerate() {
                            prop_assert_eq!(page.value(entry), value.as_slice());
                        }
                    }
                }
            }
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
