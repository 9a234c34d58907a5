//! Pages of which single rows are decoded, for look-ups that do not need the other rows.
//!
//! The keys are decoded, and of the columns the value of one row, as far as the encodings permit. This takes a fraction
//! of the time of decoding the page.

use super::column_list::{take_list, width_of};
use super::decode::{Heads, join_keys};
use super::projection::Projection;
use super::reader::{Ends, Writes};
use super::streams::Streams;
use super::tail::is_absent;
use super::value_tail::ValueTail;
use crate::key_search::key_order;
use std::ops::Range;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Operation, WriteId};
use teak_columns::{Codec, Column};

/// A page whose keys are decoded, and whose values are decoded one by one.
#[derive(Debug)]
pub(crate) struct RowPage {
    raw: Vec<u8>,
    /// Where the values begin in `raw`.
    values_start: usize,
    entries: usize,
    front_bytes: usize,
    value_bytes: usize,
    keys: Vec<u8>,
    ends: Ends,
    writes: Writes,
}

/// What a page is for a look-up.
#[derive(Debug)]
pub(crate) enum OpenedRows {
    /// Its rows can be decoded one by one.
    Rows(Box<RowPage>),
    /// It must be decoded wholly: its values are not stored by column, or not all of its entries are puts.
    Whole(Vec<u8>),
}

/// The columns that values have, and how their bytes are found.
struct Lists {
    front: Vec<Column>,
    tail: ValueTail,
    /// The number of columns at the front that are decoded for all rows, because they contain NULL bits.
    leads: usize,
    /// The bytes of these columns of each row, and of all rows.
    lead_bytes: usize,
    bytes: Vec<u8>,
}

impl Lists {
    fn lead_of(&self, row: usize) -> &[u8] {
        let start = row * self.lead_bytes;
        let lead = self.bytes.get(start..start + self.lead_bytes);
        lead.unwrap_or_default()
    }

    fn has(&self, row: usize, null_bit: Option<u32>) -> bool {
        null_bit.is_none_or(|bit| !is_absent(self.lead_of(row), bit))
    }

    fn count(&self, rows: Range<usize>, null_bit: Option<u32>) -> usize {
        match null_bit {
            None => rows.len(),
            Some(_) => rows.filter(|row| self.has(*row, null_bit)).count(),
        }
    }
}

impl RowPage {
    /// Decodes the keys of a page.
    pub(crate) fn open(raw: Vec<u8>) -> Result<OpenedRows, Malformed> {
        Ok(match Self::find(&raw)? {
            None => OpenedRows::Whole(raw),
            Some(mut page) => {
                page.raw = raw;
                OpenedRows::Rows(Box::new(page))
            }
        })
    }

    /// As [`RowPage::open`], but the page lacks its bytes.
    fn find(raw: &[u8]) -> Result<Option<Self>, Malformed> {
        let streams = Streams::of(raw)?;
        let header = &streams.header;
        if !header.value_tail {
            return Ok(None);
        }
        // Bounds the memory for the fronts: the number of entries alone may be damaged.
        streams.rest_bytes()?;
        let heads = Heads::decode(header, streams.heads, header.value_bytes)?;
        let writes = Writes::new(heads.writes);
        if !writes.are_inline_puts() {
            return Err(Malformed);
        }
        let mut keys = Vec::with_capacity(header.key_bytes);
        join_keys(header, streams.keys, &mut keys)?;
        if keys.len() != header.key_bytes {
            return Err(Malformed);
        }
        Ok(Some(Self {
            raw: Vec::new(),
            values_start: raw.len() - streams.values.rest().len(),
            entries: header.entries,
            front_bytes: header.value_front,
            value_bytes: header.value_bytes,
            keys,
            ends: heads.keys,
            writes,
        }))
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn key(&self, entry: usize) -> &[u8] {
        let (start, end) = self.ends.range(entry);
        self.keys.get(start..end).unwrap_or_default()
    }

    pub(crate) fn write(&self, entry: usize) -> (Operation, WriteId) {
        self.writes.of(entry)
    }

    /// The number of the first entry whose key is at or after `key`; the number of entries when there is none.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low.midpoint(high);
            if key_order(self.key(middle), key).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Writes the value of an entry to `out`, with the columns of a projection if it applies.
    pub(crate) fn value(
        &self,
        entry: usize,
        projection: Option<&Projection>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        out.clear();
        if self.put_value(entry, projection, out)? {
            return Ok(());
        }
        out.clear();
        self.put_value(entry, None, out).map(|_| ())
    }

    /// Returns `false` if the projection does not apply.
    fn put_value(
        &self,
        entry: usize,
        projection: Option<&Projection>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        if entry >= self.entries {
            return Err(Malformed);
        }
        let mut take = Take::new(self.raw.get(self.values_start..).ok_or(Malformed)?);
        let mut codec = Codec::default();
        let lists = self.take_lists(&mut take, &mut codec)?;
        let applies = |projection: &Projection| {
            projection.is_front(&lists.front)
                && projection.is_tail(&lists.tail)
                && projection.is_beginning(lists.lead_of(entry))
        };
        if projection.is_some_and(|projection| !applies(projection)) {
            return Ok(false);
        }
        out.extend_from_slice(lists.lead_of(entry));
        for (number, column) in lists.front.iter().enumerate().skip(lists.leads) {
            let is_wanted = projection.is_none_or(|projection| projection.has_front(number));
            let row = is_wanted.then_some(entry);
            put_column(*column, self.entries, row, &mut codec, &mut take, out)?;
        }
        ValueTail::take(&mut take)?;
        self.put_tail(entry, &lists, projection, &mut codec, &mut take, out)?;
        Ok(true)
    }

    /// Reads the lists of columns, and decodes the columns with NULL bits.
    fn take_lists(&self, take: &mut Take<'_>, codec: &mut Codec) -> Result<Lists, Malformed> {
        let front = take_list(take)?;
        if width_of(&front) != self.front_bytes {
            return Err(Malformed);
        }
        let mut ahead = *take;
        for column in &front {
            Codec::skip(*column, self.entries, &mut ahead)?;
        }
        let tail = ValueTail::take(&mut ahead)?;
        let bits = tail.optional.iter().map(|optional| optional.null_bit);
        let bits = bits.chain(tail.variable.iter().copied().flatten());
        let bytes_min = bits.max().map_or(1, |bit| bit as usize / 8 + 1);
        let (mut leads, mut lead_bytes) = (0, 0);
        for column in &front {
            if lead_bytes >= bytes_min {
                break;
            }
            lead_bytes += column.width();
            leads += 1;
        }
        let mut bytes = vec![0; lead_bytes.checked_mul(self.entries).ok_or(Malformed)?];
        let mut offset = 0;
        for column in front.iter().take(leads) {
            let place_of = |row| row * lead_bytes + offset;
            codec.decode(*column, self.entries, take, &mut bytes, place_of)?;
            offset += column.width();
        }
        Ok(Lists {
            front,
            tail,
            leads,
            lead_bytes,
            bytes,
        })
    }

    fn put_tail(
        &self,
        entry: usize,
        lists: &Lists,
        projection: Option<&Projection>,
        codec: &mut Codec,
        take: &mut Take<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let tail = &lists.tail;
        for (number, optional) in tail.optional.iter().enumerate() {
            let (column, null_bit) = (optional.column, Some(optional.null_bit));
            let count = lists.count(0..self.entries, null_bit);
            let is_wanted = projection.is_none_or(|projection| projection.has_optional(number));
            if !lists.has(entry, null_bit) {
                Codec::skip(column, count, take)?;
                continue;
            }
            let rank = is_wanted.then(|| lists.count(0..entry, null_bit));
            put_column(column, count, rank, codec, take, out)?;
        }
        let is_wanted =
            |number| projection.is_none_or(|projection| projection.has_variable(number));
        // What follows the last column that is needed is not read.
        let end = (0..tail.variable.len()).rfind(|number| is_wanted(*number));
        let end = end.map_or(0, |last| last + 1);
        let mut texts = Vec::with_capacity(end);
        for (number, null_bit) in tail.variable.iter().take(end).enumerate() {
            let count = lists.count(0..self.entries, *null_bit);
            let bytes_max = self.value_bytes;
            if is_wanted(number) && lists.has(entry, *null_bit) {
                let rank = lists.count(0..entry, *null_bit);
                texts.push(Some((codec.decode_texts(count, bytes_max, take)?, rank)));
            } else {
                codec.skip_texts(count, bytes_max, take)?;
                texts.push(None);
            }
        }
        texts.resize_with(tail.variable.len(), || None);
        let stored = tail.variable.iter().zip(&texts);
        for (null_bit, text) in stored {
            if lists.has(entry, *null_bit) {
                let text = text.as_ref();
                out.put_varint(text.map_or(0, |(texts, rank)| texts.get(*rank).len() as u64));
            }
        }
        for (texts, rank) in texts.iter().flatten() {
            out.extend_from_slice(texts.get(*rank));
        }
        Ok(())
    }
}

/// Appends the value of one row of a column of `count` rows; zeros if no row is wanted.
fn put_column(
    column: Column,
    count: usize,
    row: Option<usize>,
    codec: &mut Codec,
    take: &mut Take<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let start = out.len();
    out.resize(start + column.width(), 0);
    let Some(row) = row else {
        return Codec::skip(column, count, take);
    };
    let value = out.get_mut(start..).ok_or(Malformed)?;
    codec.decode_one(column, count, row, take, value)
}

#[cfg(test)]
mod tests {
    use super::super::{
        FLAG_KEYS_OF_ONE_LENGTH, FLAG_SETTLED_PUTS, FLAG_VALUE_COLUMNS, FLAG_VALUE_TAIL,
    };
    use super::RowPage;
    use teak_base::bytes::Put;

    #[test]
    fn a_damaged_number_of_entries_allocates_nothing() {
        let flags =
            FLAG_SETTLED_PUTS | FLAG_KEYS_OF_ONE_LENGTH | FLAG_VALUE_COLUMNS | FLAG_VALUE_TAIL;
        let mut raw = vec![flags];
        for number in [u32::MAX, 0, 0, 0, 0, 0, 10, 9] {
            raw.put_u32(number);
        }
        RowPage::open(raw).unwrap_err();
    }
}
