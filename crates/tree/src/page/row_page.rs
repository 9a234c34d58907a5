//! Pages of which single rows are decoded, for look-ups that do not need the other rows.
//!
//! The keys are decoded, and of the columns the value of one row, as far as the encodings permit. This takes a fraction
//! of the time of decoding the page, and the encoded page a fraction of its memory.

use super::column_list::{take_list, width_of};
use super::decode::{Heads, join_keys};
use super::projection::Projection;
use super::reader::{Ends, Writes};
use super::streams::Streams;
use super::tail::is_absent;
use super::value_tail::ValueTail;
use crate::block_memory::BlockCharge;
use crate::key_search::key_order;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::{Operation, WriteId};
use teak_columns::{Codec, Column};

/// A page whose keys are decoded, and whose values are decoded one by one.
#[derive(Debug)]
pub(crate) struct RowPage {
    raw: Vec<u8>,
    entries: usize,
    value_bytes: usize,
    keys: Vec<u8>,
    ends: Ends,
    writes: Writes,
    lists: Lists,
    /// The number of times that [`RowPage::count_use`] was called.
    uses: AtomicU32,
    charge: Option<BlockCharge>,
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
#[derive(Debug, Default)]
struct Lists {
    front: Vec<Column>,
    tail: ValueTail,
    /// Where the columns at the front, the optional columns, and all variable ones begin in the page.
    front_starts: Vec<usize>,
    optional_starts: Vec<usize>,
    variable_start: usize,
    /// The number of columns at the front that are decoded for all rows, because they contain NULL bits.
    leads: usize,
    /// The bytes of these columns of each row, and of all rows.
    lead_bytes: usize,
    bytes: Vec<u8>,
}

impl Lists {
    /// Finds the columns of `entries` values, with which the raw page ends. Decodes those with NULL bits.
    fn find(
        raw: &[u8],
        mut take: Take<'_>,
        entries: usize,
        front_bytes: usize,
    ) -> Result<Self, Malformed> {
        let place = |take: &Take<'_>| raw.len() - take.rest().len();
        let front = take_list(&mut take)?;
        if width_of(&front) != front_bytes {
            return Err(Malformed);
        }
        let mut leads_of = take;
        let mut lists = Self::default();
        for column in &front {
            lists.front_starts.push(place(&take));
            Codec::skip(*column, entries, &mut take)?;
        }
        lists.front = front;
        lists.tail = ValueTail::take(&mut take)?;
        lists.decode_leads(entries, &mut leads_of)?;
        for column in &lists.tail.optional {
            lists.optional_starts.push(place(&take));
            let count = lists.count(0..entries, Some(column.null_bit));
            Codec::skip(column.column, count, &mut take)?;
        }
        lists.variable_start = place(&take);
        Ok(lists)
    }

    fn decode_leads(&mut self, entries: usize, take: &mut Take<'_>) -> Result<(), Malformed> {
        let bits = self.tail.optional.iter().map(|optional| optional.null_bit);
        let bits = bits.chain(self.tail.variable.iter().copied().flatten());
        let bytes_min = bits.max().map_or(1, |bit| bit as usize / 8 + 1);
        for column in &self.front {
            if self.lead_bytes >= bytes_min {
                break;
            }
            self.lead_bytes += column.width();
            self.leads += 1;
        }
        let width = self.lead_bytes;
        self.bytes = vec![0; width.checked_mul(entries).ok_or(Malformed)?];
        let (mut codec, mut offset) = (Codec::default(), 0);
        for column in self.front.iter().take(self.leads) {
            let place_of = |row| row * width + offset;
            codec.decode(*column, entries, take, &mut self.bytes, place_of)?;
            offset += column.width();
        }
        Ok(())
    }

    fn is_of(&self, projection: &Projection) -> bool {
        projection.is_front(&self.front) && projection.is_tail(&self.tail)
    }

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
        let (entries, front_bytes) = (header.entries, header.value_front);
        Ok(Some(Self {
            raw: Vec::new(),
            entries,
            value_bytes: header.value_bytes,
            keys,
            ends: heads.keys,
            writes,
            lists: Lists::find(raw, streams.values, entries, front_bytes)?,
            uses: AtomicU32::new(0),
            charge: None,
        }))
    }

    /// The encoded page.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Memory that the page takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = &self.lists;
        self.raw.capacity()
            + self.keys.capacity()
            + self.ends.memory_bytes()
            + self.writes.memory_bytes()
            + lists.bytes.capacity()
            + lists.front.capacity() * size_of::<Column>()
            + lists.front_starts.capacity() * size_of::<usize>()
            + lists.optional_starts.capacity() * size_of::<usize>()
            + size_of::<Self>()
    }

    /// Bytes of the keys and values of all entries, as if they had been decoded.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.keys.len() + self.value_bytes
    }

    /// Counts the memory of the page as long as it exists.
    pub(crate) fn charge(&mut self, charge: BlockCharge) {
        self.charge = Some(charge);
    }

    /// Counts a use. Returns the number of earlier ones.
    pub(crate) fn count_use(&self) -> u32 {
        self.uses.fetch_add(1, Ordering::Relaxed)
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
        let lists = &self.lists;
        let lead = lists.lead_of(entry);
        let applies =
            |projection: &Projection| lists.is_of(projection) && projection.is_beginning(lead);
        if projection.is_some_and(|projection| !applies(projection)) {
            return Ok(false);
        }
        let mut codec = Codec::default();
        out.extend_from_slice(lead);
        let front = lists.front.iter().zip(&lists.front_starts);
        for (number, (column, start)) in front.enumerate().skip(lists.leads) {
            let is_wanted = projection.is_none_or(|projection| projection.has_front(number));
            let wanted = is_wanted.then_some((*start, self.entries, entry));
            self.put_column(*column, wanted, &mut codec, out)?;
        }
        let optional = lists.tail.optional.iter().zip(&lists.optional_starts);
        for (number, (optional, start)) in optional.enumerate() {
            let null_bit = Some(optional.null_bit);
            if !lists.has(entry, null_bit) {
                continue;
            }
            let is_wanted = projection.is_none_or(|projection| projection.has_optional(number));
            let wanted = is_wanted.then(|| {
                let count = lists.count(0..self.entries, null_bit);
                (*start, count, lists.count(0..entry, null_bit))
            });
            self.put_column(optional.column, wanted, &mut codec, out)?;
        }
        self.put_variable(entry, projection, &mut codec, out)?;
        Ok(true)
    }

    /// Appends a value of a column of fixed width; zeros if it is not wanted. `wanted`: where the column begins, its number
    /// of values, and the number of the value.
    fn put_column(
        &self,
        column: Column,
        wanted: Option<(usize, usize, usize)>,
        codec: &mut Codec,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let start = out.len();
        out.resize(start + column.width(), 0);
        let Some((place, count, number)) = wanted else {
            return Ok(());
        };
        let value = out.get_mut(start..).ok_or(Malformed)?;
        codec.decode_one(column, count, number, &mut self.from(place)?, value)
    }

    fn from(&self, place: usize) -> Result<Take<'_>, Malformed> {
        self.raw.get(place..).map(Take::new).ok_or(Malformed)
    }

    /// Appends the lengths and the bytes of the variable columns.
    fn put_variable(
        &self,
        entry: usize,
        projection: Option<&Projection>,
        codec: &mut Codec,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let lists = &self.lists;
        let is_wanted =
            |number| projection.is_none_or(|projection| projection.has_variable(number));
        let null_bits = &lists.tail.variable;
        let end = Projection::variable_columns_read(projection, null_bits.len());
        let mut take = self.from(lists.variable_start)?;
        let (mut text, mut texts) = (Vec::new(), Vec::new());
        for (number, null_bit) in null_bits.iter().enumerate() {
            let has_value = lists.has(entry, *null_bit);
            text.clear();
            if number < end {
                let count = lists.count(0..self.entries, *null_bit);
                if is_wanted(number) && has_value {
                    let rank = lists.count(0..entry, *null_bit);
                    codec.decode_text(count, self.value_bytes, rank, &mut take, &mut text)?;
                } else {
                    codec.skip_texts(count, self.value_bytes, &mut take)?;
                }
            }
            if has_value {
                out.put_varint(text.len() as u64);
                texts.extend_from_slice(&text);
            }
        }
        out.extend_from_slice(&texts);
        Ok(())
    }
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
