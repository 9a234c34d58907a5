//! Pages of which only columns are decoded, for calculations.
//!
//! The keys are not decoded unless [`ColumnPage::has_new_keys`] is called. The page must be one version of different rows: all
//! entries have the same write, and the run has one version of each key, or the keys are different. A write may have several
//! versions of a key in a run that was written while it was active.

use super::column_choice::{ChosenColumn, ColumnChoice, ColumnPlace, column_in_key};
use super::column_list::take_list;
use super::decode::{Heads, join_keys};
use super::reader::Writes;
use super::streams::Streams;
use super::tail::{is_absent, is_variable_absent};
use super::value_tail::ValueTail;
use teak_base::WriteId;
use teak_base::bytes::{Malformed, Take};
use teak_columns::{Codec, Column, Texts, Vector};

/// The columns of the rows of a page.
#[derive(Debug)]
pub struct ColumnPage {
    raw: Vec<u8>,
    entries: usize,
    write: WriteId,
    /// The first column of the front of each value.
    firsts: Vec<u8>,
    first_bytes: usize,
    columns: Vec<StoredColumn>,
    /// What the values take without their front.
    rest_bytes: usize,
    codec: Codec,
}

#[derive(Clone, Copy, Debug)]
struct StoredColumn {
    of: ChosenColumn,
    /// Where it begins in the page.
    start: usize,
    /// The bit that is set if a value lacks it.
    null_bit: Option<u32>,
}

/// What a page is for a calculation.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Its columns can be read.
    Columns(Box<ColumnPage>),
    /// Its rows must be read: it is not stored by these columns, or has several writes or other values than puts.
    Rows(Vec<u8>),
}

impl ColumnPage {
    /// Reads what precedes the columns.
    pub(crate) fn open(raw: Vec<u8>, choice: &ColumnChoice) -> Result<Opened, Malformed> {
        match Self::find(&raw, choice)? {
            None => Ok(Opened::Rows(raw)),
            Some(mut page) => {
                page.raw = raw;
                Ok(Opened::Columns(Box::new(page)))
            }
        }
    }

    /// As [`ColumnPage::open`], but the page lacks its bytes. `None`: its rows must be read.
    fn find(raw: &[u8], choice: &ColumnChoice) -> Result<Option<Self>, Malformed> {
        let streams = Streams::of(raw)?;
        let rest_bytes = streams.rest_bytes()?;
        let header = &streams.header;
        let has_tail = header.value_tail;
        if !(has_tail || header.value_columns && rest_bytes == 0) {
            return Ok(None);
        }
        let heads = Heads::decode(header, streams.heads, header.value_bytes)?;
        let Some(write) = Writes::new(heads.writes).one_put() else {
            return Ok(None);
        };
        let keys_end = raw.len() - streams.values.rest().len();
        let mut take = streams.values;
        let columns = take_list(&mut take)?;
        let (projection, entries) = (choice.projection(), header.entries);
        let Some(first) = columns.first().filter(|_| projection.is_front(&columns)) else {
            return Ok(None);
        };
        if projection.columns().value_bytes() != header.value_front {
            return Err(Malformed);
        }
        let mut page = Self {
            raw: Vec::new(),
            entries,
            write,
            firsts: vec![0; first.width().checked_mul(entries).ok_or(Malformed)?],
            first_bytes: first.width(),
            columns: Vec::with_capacity(choice.chosen().len()),
            rest_bytes,
            codec: Codec::default(),
        };
        let (width, firsts) = (page.first_bytes, &mut page.firsts);
        page.codec
            .decode(*first, entries, &mut take, firsts, |row| row * width)?;
        if !page.firsts().all(|first| projection.is_beginning(first)) {
            return Ok(None);
        }
        let mut finder = Finder {
            raw,
            chosen: choice.chosen(),
            left: choice.chosen().len(),
            page: &mut page,
        };
        if choice.has_key_columns() {
            let of_tree = projection.columns().key();
            if !header.key_columns || !finder.find_keys(of_tree, streams.keys, keys_end)? {
                return Ok(None);
            }
        }
        for (number, column) in columns.iter().enumerate().skip(1) {
            finder.note(ColumnPlace::Front(number), None, &take);
            Codec::skip(*column, entries, &mut take)?;
        }
        if finder.left > 0 && has_tail {
            let tail = ValueTail::take(&mut take)?;
            if !projection.is_tail(&tail) {
                return Ok(None);
            }
            finder.find_tail(&tail, &mut take)?;
        }
        // A page without a tail has no optional and variable columns.
        let is_complete = finder.left == 0;
        Ok(is_complete.then_some(page))
    }

    fn firsts(&self) -> impl Iterator<Item = &[u8]> {
        self.firsts.chunks_exact(self.first_bytes)
    }

    /// The bytes of the page.
    pub(crate) fn into_raw(self) -> Vec<u8> {
        self.raw
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.entries
    }

    /// The id of the write of all rows.
    pub(crate) fn write(&self) -> WriteId {
        self.write
    }

    /// Whether the rows have different keys, all greater than this one.
    pub(crate) fn has_new_keys(&self, before: &[u8]) -> Result<bool, Malformed> {
        let streams = Streams::of(&self.raw)?;
        let header = &streams.header;
        let heads = Heads::decode(header, streams.heads, header.value_bytes)?;
        let mut keys = Vec::new();
        join_keys(header, streams.keys, &mut keys)?;
        let mut last = before;
        for entry in 0..self.entries {
            let (start, end) = heads.keys.range(entry);
            let key = keys.get(start..end).ok_or(Malformed)?;
            if key <= last {
                return Ok(false);
            }
            last = key;
        }
        Ok(true)
    }

    /// The values of a column, counted as in the choice of columns.
    ///
    /// # Errors
    /// [`Malformed`]; also if there is no such column.
    pub fn vector(&mut self, number: usize) -> Result<Vector, Malformed> {
        let StoredColumn {
            of,
            start,
            null_bit,
        } = *self.columns.get(number).ok_or(Malformed)?;
        let mut take = Take::new(self.raw.get(start..).ok_or(Malformed)?);
        let nulls: Vec<bool> = match null_bit {
            Some(bit) => self.firsts().map(|first| is_absent(first, bit)).collect(),
            None => Vec::new(),
        };
        let count = self.entries - nulls.iter().filter(|is_null| **is_null).count();
        let (codec, take) = (&mut self.codec, &mut take);
        let vector = match of.column {
            Some(value) if matches!(of.place, ColumnPlace::Key(_)) => {
                let column = column_in_key(value).ok_or(Malformed)?;
                let mut numbers = Vec::with_capacity(count);
                codec.decode_numbers(column, count, take, &mut numbers)?;
                for number in &mut numbers {
                    *number = value.number_in_key(*number).ok_or(Malformed)?;
                }
                Vector::of_numbers(numbers)
            }
            Some(column) if column.has_numbers() => {
                let mut numbers = Vec::with_capacity(count);
                codec.decode_numbers(column, count, take, &mut numbers)?;
                Vector::of_numbers(numbers)
            }
            Some(column) => {
                let width = column.width();
                let mut bytes = vec![0; width.checked_mul(count).ok_or(Malformed)?];
                codec.decode(column, count, take, &mut bytes, |row| row * width)?;
                Vector::of_texts(Texts::of_width(bytes, width).ok_or(Malformed)?)
            }
            None => Vector::of_texts(codec.decode_texts(count, self.rest_bytes, take)?),
        };
        match null_bit {
            Some(_) => vector.spread(nulls).ok_or(Malformed),
            None => Ok(vector),
        }
    }
}

/// Finds where the chosen columns begin.
struct Finder<'a> {
    raw: &'a [u8],
    chosen: &'a [ChosenColumn],
    /// The number of chosen columns that have not been found.
    left: usize,
    page: &'a mut ColumnPage,
}

impl Finder<'_> {
    fn note(&mut self, place: ColumnPlace, null_bit: Option<u32>, take: &Take<'_>) {
        self.note_at(place, null_bit, self.raw.len() - take.rest().len());
    }

    fn note_at(&mut self, place: ColumnPlace, null_bit: Option<u32>, start: usize) {
        for number in 0..self.chosen.len() {
            let Some(of) = self.chosen.get(number).filter(|of| of.place == place) else {
                continue;
            };
            let found = StoredColumn {
                of: *of,
                start,
                null_bit,
            };
            let columns = &mut self.page.columns;
            if columns.len() <= number {
                columns.resize(number + 1, found);
            }
            if let Some(column) = columns.get_mut(number) {
                *column = found;
            }
            self.left -= 1;
        }
    }

    /// Finds columns of keys. `of_tree`: those of the tree. `stream`: the encoded keys, which end at `end` in the page.
    /// Returns `false` if the page has others.
    fn find_keys(
        &mut self,
        of_tree: &[Column],
        stream: &[u8],
        end: usize,
    ) -> Result<bool, Malformed> {
        let mut take = Take::new(stream);
        if take_list(&mut take)? != of_tree {
            return Ok(false);
        }
        for (number, column) in of_tree.iter().enumerate() {
            self.note_at(ColumnPlace::Key(number), None, end - take.rest().len());
            Codec::skip(*column, self.page.entries, &mut take)?;
        }
        Ok(true)
    }

    fn find_tail(&mut self, tail: &ValueTail, take: &mut Take<'_>) -> Result<(), Malformed> {
        for (number, of) in tail.optional.iter().enumerate() {
            self.note(ColumnPlace::Optional(number), Some(of.null_bit), take);
            if self.left == 0 {
                return Ok(());
            }
            let firsts = self.page.firsts();
            let count = firsts
                .filter(|first| !is_absent(first, of.null_bit))
                .count();
            Codec::skip(of.column, count, take)?;
        }
        for (number, null_bit) in tail.variable.iter().enumerate() {
            self.note(ColumnPlace::Variable(number), *null_bit, take);
            if self.left == 0 {
                return Ok(());
            }
            let firsts = self.page.firsts();
            let has = |first: &&[u8]| !is_variable_absent(first, *null_bit);
            let count = firsts.filter(has).count();
            let bytes_max = self.page.rest_bytes;
            self.page.codec.skip_texts(count, bytes_max, take)?;
        }
        Ok(())
    }
}
