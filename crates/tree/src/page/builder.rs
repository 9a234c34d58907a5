//! Builds the raw bytes of a page.

use super::columns::PageColumns;
use super::encoded_columns::put_columns;
use super::tail::SplitValues;
use super::zones::{PageZones, ZoneBuilder};
use super::{
    FLAG_KEY_COLUMNS, FLAG_KEY_PLANES, FLAG_KEYS_OF_ONE_LENGTH, FLAG_SETTLED_PUTS,
    FLAG_VALUE_COLUMNS, FLAG_VALUE_TAIL, FLAG_VALUES_OF_ONE_LENGTH, PAGE_HEADER_BYTES,
    SEPARATE_PUT,
};
use crate::{EncodedReference, ValueReference};
use teak_base::bytes::Put;
use teak_base::{Operation, WriteId};
use teak_columns::{Codec, planes};

/// Minimum entries for planes to be useful.
const PLANES_ENTRIES_MIN: usize = 8;

/// Builds the raw bytes of a sequence of pages in layout 3. Reuses its buffers.
#[derive(Debug, Default)]
pub struct PageBuilder {
    heads: Vec<Head>,
    keys: Vec<u8>,
    values: Vec<u8>,
    head_stream: Vec<u8>,
    plain: bool,
    keys_of_one_length: bool,
    values_of_one_length: bool,
    /// Leading bytes of values to store as planes, if all values have them.
    value_planes: u32,
    value_bytes_min: u32,
    /// The columns to encode by type, on pages where all entries have them.
    columns: PageColumns,
    codec: Codec,
    split: SplitValues,
    zone_builder: ZoneBuilder,
    /// Of the page that was finished last.
    zones: Option<PageZones>,
    /// One past the last byte, in the file, of the separate values.
    values_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    /// The number of the operation, or [`SEPARATE_PUT`].
    kind: u8,
    key_bytes: u32,
    value_bytes: u32,
    write_id: WriteId,
}

impl PageBuilder {
    /// Creates an empty page. The first `value_planes` bytes of values are
    /// stored as byte planes on pages where all values are at least that long.
    #[must_use]
    pub fn new(value_planes: u32) -> Self {
        Self {
            value_planes,
            ..Self::default()
        }
    }

    /// As [`PageBuilder::new`]. Pages where all keys have the length of the key columns, or all values the
    /// value columns, store them by column.
    #[must_use]
    pub fn with_columns(value_planes: u32, columns: PageColumns) -> Self {
        Self {
            columns,
            ..Self::new(value_planes)
        }
    }

    /// Sets whether planes of columns are compressed with zstd, each apart.
    pub(crate) fn set_packing(&mut self, packs: bool) {
        self.codec.set_packing(packs);
    }

    /// The columns of the next pages.
    pub(crate) fn set_columns(&mut self, columns: PageColumns) {
        self.columns = columns;
    }

    /// Appends an entry. The caller ensures the order of entries and the limits of
    /// `teak_base::limits`.
    ///
    /// # Panics
    /// When key or value exceed 4 GiB.
    pub fn push(&mut self, key: &[u8], write_id: WriteId, operation: Operation, value: &[u8]) {
        self.add(key, write_id, operation.number(), value);
    }

    /// Appends a put whose value is separate; otherwise as [`PageBuilder::push`].
    ///
    /// # Panics
    /// When the key exceeds 4 GiB.
    pub fn push_separate(&mut self, key: &[u8], write_id: WriteId, reference: &EncodedReference) {
        self.add(key, write_id, SEPARATE_PUT, reference);
        let address = ValueReference::decode(reference).address;
        self.values_end = self.values_end.max(address.end());
    }

    /// Moves the entries to other pages: to `page` as long as it has at most `bytes`, approximately.
    /// Calls `finish` with each page that is full, which must then be empty.
    ///
    /// # Errors
    /// Errors of `finish`.
    pub(crate) fn divide<E>(
        &self,
        bytes: usize,
        page: &mut Self,
        mut finish: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut keys, mut values) = (&self.keys[..], &self.values[..]);
        for head in &self.heads {
            let (key, rest_of_keys) = keys.split_at(head.key_bytes as usize);
            let (value, rest_of_values) = values.split_at(head.value_bytes as usize);
            if !page.is_empty() && page.raw_bytes() + key.len() + value.len() > bytes {
                finish(page)?;
            }
            match (head.kind, value.first_chunk()) {
                (SEPARATE_PUT, Some(reference)) => {
                    page.push_separate(key, head.write_id, reference);
                }
                _ => page.add(key, head.write_id, head.kind, value),
            }
            (keys, values) = (rest_of_keys, rest_of_values);
        }
        Ok(())
    }

    /// The key of the last entry; empty if there is none.
    pub(crate) fn last_key(&self) -> &[u8] {
        let bytes = self.heads.last().map_or(0, |head| head.key_bytes as usize);
        let (_, key) = self.keys.split_at(self.keys.len() - bytes);
        key
    }

    /// The key of the first entry; empty if there is none.
    pub(crate) fn first_key(&self) -> &[u8] {
        let bytes = self.heads.first().map_or(0, |head| head.key_bytes as usize);
        self.keys.get(..bytes).unwrap_or_default()
    }

    /// One past the last byte, in the file, of the separate values; 0 without them.
    pub(crate) fn values_end(&self) -> u64 {
        self.values_end
    }

    #[inline]
    fn add(&mut self, key: &[u8], write_id: WriteId, kind: u8, value: &[u8]) {
        let (Ok(key_bytes), Ok(value_bytes)) =
            (u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            unreachable!("keys and values are limited far below 4 GiB");
        };
        let head = Head {
            kind,
            key_bytes,
            value_bytes,
            write_id,
        };
        match self.heads.first() {
            None => {
                self.plain = true;
                self.keys_of_one_length = true;
                self.values_of_one_length = true;
                self.value_bytes_min = value_bytes;
            }
            Some(first) => {
                self.keys_of_one_length &= first.key_bytes == key_bytes;
                self.values_of_one_length &= first.value_bytes == value_bytes;
                self.value_bytes_min = self.value_bytes_min.min(value_bytes);
            }
        }
        self.plain &= kind == Operation::Put.number() && write_id.is_settled();
        self.heads.push(head);
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
    }

    /// Entries pushed so far.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.heads.len()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Estimated raw bytes of the page so far.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        let head_bytes = if self.plain { 2 } else { 8 };
        PAGE_HEADER_BYTES + self.keys.len() + self.values.len() + self.heads.len() * head_bytes
    }

    /// Writes the page over `out` and starts an empty one.
    ///
    /// # Panics
    /// When the page is empty.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let Some(first) = self.heads.first().copied() else {
            unreachable!("an empty page is never finished");
        };
        let write = self.one_put();
        self.zone_builder.clear();
        let mut flags = 0;
        if self.plain {
            flags |= FLAG_SETTLED_PUTS;
        }
        let entries = self.heads.len();
        let key_bytes = first.key_bytes as usize;
        if self.keys_of_one_length {
            flags |= FLAG_KEYS_OF_ONE_LENGTH;
            if self.columns.fit_keys(entries, key_bytes) {
                flags |= FLAG_KEY_COLUMNS;
            } else if key_bytes > 0 && entries >= PLANES_ENTRIES_MIN {
                flags |= FLAG_KEY_PLANES;
            }
        }
        let value_bytes_min = self.value_bytes_min as usize;
        let mut value_front = 0;
        if self.columns.fit_values(entries, value_bytes_min) {
            flags |= FLAG_VALUE_COLUMNS;
            value_front = self.columns.value_bytes();
            if self.split_values() {
                flags |= FLAG_VALUE_TAIL;
                self.values_of_one_length = false;
            }
        } else if entries >= PLANES_ENTRIES_MIN && self.value_bytes_min >= self.value_planes {
            value_front = self.value_planes as usize;
        }
        if self.values_of_one_length {
            flags |= FLAG_VALUES_OF_ONE_LENGTH;
        }
        self.write_heads(flags);
        out.reserve(
            PAGE_HEADER_BYTES + self.head_stream.len() + self.keys.len() + self.values.len(),
        );
        out.put_u8(flags);
        put_len(out, entries);
        let or_zero = |is_of_one_length: bool, bytes: u32| if is_of_one_length { bytes } else { 0 };
        out.put_u32(or_zero(self.keys_of_one_length, first.key_bytes));
        out.put_u32(or_zero(self.values_of_one_length, first.value_bytes));
        put_len(out, self.head_stream.len());
        put_len(out, self.keys.len());
        let key_stream_at = out.len();
        put_len(out, 0);
        put_len(out, self.values.len());
        put_len(out, value_front);
        out.extend_from_slice(&self.head_stream);
        let keys_at = out.len();
        if flags & FLAG_KEY_COLUMNS != 0 {
            let zones = &mut self.zone_builder;
            let mut note = |column, values: &[u8]| zones.add_key(column, values);
            let columns = self.columns.key();
            put_columns(columns, &self.keys, &mut self.codec, &mut note, out);
        } else if flags & FLAG_KEY_PLANES != 0 {
            planes::split(&self.keys, key_bytes, out);
        } else {
            out.extend_from_slice(&self.keys);
        }
        let key_stream_bytes = u32::try_from(out.len() - keys_at).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(key_stream_at..key_stream_at + 4) {
            place.copy_from_slice(&key_stream_bytes.to_le_bytes());
        }
        if flags & FLAG_VALUE_TAIL != 0 {
            let (codec, zones) = (&mut self.codec, &mut self.zone_builder);
            self.split.put(&self.columns, codec, zones, out);
        } else if value_front > 0 {
            self.write_values(value_front, flags & FLAG_VALUE_COLUMNS != 0, out);
        } else {
            out.extend_from_slice(&self.values);
        }
        let has_zones = flags & FLAG_VALUE_COLUMNS != 0;
        let write = write.filter(|_| has_zones);
        self.zones = write.map(|write| self.zone_builder.finish(&self.columns, write));
        self.heads.clear();
        self.keys.clear();
        self.values.clear();
        self.values_end = 0;
    }

    /// The write of all entries, if all are puts without separate values.
    fn one_put(&self) -> Option<WriteId> {
        let write = self.heads.first()?.write_id;
        let is_put = |head: &Head| head.kind == Operation::Put.number() && head.write_id == write;
        self.heads.iter().all(is_put).then_some(write)
    }

    /// The zones of the page that was finished last, if it is by column and all entries are puts of one write.
    pub(crate) fn take_zones(&mut self) -> Option<PageZones> {
        self.zones.take()
    }

    /// Writes the values' first `width` bytes, as columns or as planes, then the rest of every value.
    fn write_values(&mut self, width: usize, as_columns: bool, out: &mut Vec<u8>) {
        let ends = self.heads.iter().scan(0, |end, head| {
            *end += head.value_bytes as usize;
            Some((*end - head.value_bytes as usize, *end))
        });
        let mut fronts = Vec::with_capacity(width * self.heads.len());
        let mut rests = Vec::with_capacity(self.values.len());
        for (start, end) in ends {
            if let Some((front, rest)) = self
                .values
                .get(start..end)
                .and_then(|value| value.split_at_checked(width))
            {
                fronts.extend_from_slice(front);
                rests.extend_from_slice(rest);
            }
        }
        if as_columns {
            let zones = &mut self.zone_builder;
            let mut note = |column, values: &[u8]| zones.add_front(column, values);
            let columns = self.columns.value();
            put_columns(columns, &fronts, &mut self.codec, &mut note, out);
        } else {
            planes::split(&fronts, width, out);
        }
        out.extend_from_slice(&rests);
    }

    /// Splits the values by column. Returns `false` if that is not possible.
    fn split_values(&mut self) -> bool {
        let are_inline = |head: &Head| head.kind == Operation::Put.number();
        if self.columns.tail().is_empty() || !self.heads.iter().all(are_inline) {
            return false;
        }
        let mut rest = &self.values[..];
        let values = self.heads.iter().map(|head| {
            let (value, others) = rest.split_at(head.value_bytes as usize);
            rest = others;
            value
        });
        self.split.split(&self.columns, values)
    }

    fn write_heads(&mut self, flags: u8) {
        self.head_stream.clear();
        for head in &self.heads {
            if !self.plain {
                self.head_stream.put_u8(head.kind);
                self.head_stream.put_varint(head.write_id.0);
            }
            if !self.keys_of_one_length {
                self.head_stream.put_varint(u64::from(head.key_bytes));
            }
            if flags & (FLAG_VALUES_OF_ONE_LENGTH | FLAG_VALUE_TAIL) == 0 {
                self.head_stream.put_varint(u64::from(head.value_bytes));
            }
        }
    }
}

/// Appends a length. A page is at most as large as the page size and one entry of maximum size
/// together, which is below 4 GiB.
fn put_len(out: &mut Vec<u8>, len: usize) {
    let Ok(len) = u32::try_from(len) else {
        unreachable!("pages are limited far below 4 GiB");
    };
    out.put_u32(len);
}
