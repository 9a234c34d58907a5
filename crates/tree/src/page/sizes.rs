//! What the parts of an encoded page take.

use super::PAGE_HEADER_BYTES;
use super::column_list::{take_list, width_of};
use super::columns::PageColumns;
use super::encoded_columns::take_columns;
use super::streams::Streams;
use super::tail::{is_absent, is_variable_absent};
use super::value_tail::ValueTail;
use teak_base::bytes::{Malformed, Take};
use teak_columns::{Codec, Column, Kind};

/// A part of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PagePart {
    /// The header and the heads of entries.
    Heads,
    /// Keys that are not stored by column.
    Keys,
    /// A column of the keys, by its number.
    KeyColumn(usize),
    /// A column at the front of all values, by its number.
    FrontColumn(usize),
    /// A column of fixed width that a value may lack.
    OptionalColumn(usize),
    /// A column of byte strings.
    VariableColumn(usize),
    /// Values, or parts of them, that are not stored by column.
    Values,
}

/// What a part of a page takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// The part.
    pub part: PagePart,
    /// The kind of the values and the bytes of each, of columns of fixed width.
    pub column: Option<(Kind, usize)>,
    /// How it is encoded.
    pub encoding: &'static str,
    /// The number of values.
    pub values: u64,
    /// Bytes of the values.
    pub raw_bytes: u64,
    /// Bytes in the page, before the codec of the table has compressed the page.
    pub encoded_bytes: u64,
}

/// Calls `add` for each part of an encoded page.
pub(crate) fn part_sizes(raw: &[u8], add: &mut dyn FnMut(PartSize)) -> Result<(), Malformed> {
    let streams = Streams::of(raw)?;
    let (header, mut keys) = (&streams.header, Take::new(streams.keys));
    let entries = header.entries;
    let mut whole = |part, is_planes, raw_bytes: usize, encoded_bytes: usize| {
        add(PartSize {
            part,
            column: None,
            encoding: if is_planes { "byte planes" } else { "plain" },
            values: entries as u64,
            raw_bytes: raw_bytes as u64,
            encoded_bytes: encoded_bytes as u64,
        });
    };
    let head_bytes = PAGE_HEADER_BYTES + header.head_bytes;
    whole(PagePart::Heads, false, head_bytes, head_bytes);
    if !header.key_columns {
        let (raw_bytes, stored) = (header.key_bytes, keys.rest().len());
        whole(PagePart::Keys, header.key_planes, raw_bytes, stored);
    }
    if !header.value_columns {
        let (raw_bytes, stored) = (header.value_bytes, streams.values.rest().len());
        whole(PagePart::Values, header.value_front > 0, raw_bytes, stored);
    } else if !header.value_tail {
        let rest = streams.rest_bytes()?;
        whole(PagePart::Values, false, rest, rest);
    }
    if header.key_columns {
        list_sizes(&mut keys, entries, PagePart::KeyColumn, add)?;
    }
    if header.value_columns {
        let (mut take, mut fronts) = (streams.values, streams.values);
        list_sizes(&mut take, entries, PagePart::FrontColumn, add)?;
        if header.value_tail {
            let width = header.value_front;
            let mut bytes = vec![0; width.checked_mul(entries).ok_or(Malformed)?];
            take_columns(&mut fronts, entries, width, &mut bytes, |row| row * width)?;
            tail_sizes(&mut take, &bytes, width, header.value_bytes, add)?;
        }
    }
    Ok(())
}

/// The sizes of a list of columns of fixed width.
fn list_sizes(
    take: &mut Take<'_>,
    entries: usize,
    part: impl Fn(usize) -> PagePart,
    add: &mut dyn FnMut(PartSize),
) -> Result<(), Malformed> {
    let columns = take_list(take)?;
    if width_of(&columns) == 0 {
        return Err(Malformed);
    }
    for (number, column) in columns.into_iter().enumerate() {
        add(column_size(part(number), column, entries, take)?);
    }
    Ok(())
}

fn column_size(
    part: PagePart,
    column: Column,
    count: usize,
    take: &mut Take<'_>,
) -> Result<PartSize, Malformed> {
    let before = take.rest();
    Codec::skip(column, count, take)?;
    Ok(PartSize {
        part,
        column: Some((column.kind(), column.width())),
        encoding: Codec::encoding_name(before),
        values: count as u64,
        raw_bytes: (count * column.width()) as u64,
        encoded_bytes: (before.len() - take.rest().len()) as u64,
    })
}

/// The sizes of the columns after the front of values.
fn tail_sizes(
    take: &mut Take<'_>,
    fronts: &[u8],
    front_bytes: usize,
    value_bytes: usize,
    add: &mut dyn FnMut(PartSize),
) -> Result<(), Malformed> {
    let rows = || fronts.chunks_exact(front_bytes);
    let tail = ValueTail::take(take)?;
    for (number, optional) in tail.optional.into_iter().enumerate() {
        let has = |front: &&[u8]| !is_absent(front, optional.null_bit);
        let part = PagePart::OptionalColumn(number);
        let count = rows().filter(has).count();
        add(column_size(part, optional.column, count, take)?);
    }
    let mut codec = Codec::default();
    for (number, null_bit) in tail.variable.into_iter().enumerate() {
        let has = |front: &&[u8]| !is_variable_absent(front, null_bit);
        let count = rows().filter(has).count();
        let before = take.rest();
        let texts = codec.decode_texts(count, value_bytes, take)?;
        add(PartSize {
            part: PagePart::VariableColumn(number),
            column: None,
            encoding: Codec::texts_encoding_name(before),
            values: count as u64,
            raw_bytes: texts.total_bytes() as u64,
            encoded_bytes: (before.len() - take.rest().len()) as u64,
        });
    }
    Ok(())
}

/// The columns that a page describes: none of keys or values that it does not store by column.
pub(crate) fn page_columns(raw: &[u8]) -> Result<PageColumns, Malformed> {
    let streams = Streams::of(raw)?;
    let (header, mut take) = (&streams.header, streams.values);
    let key = match header.key_columns {
        true => take_list(&mut Take::new(streams.keys))?,
        false => Vec::new(),
    };
    let mut tail = ValueTail::default();
    let mut value = Vec::new();
    if header.value_columns {
        value = take_list(&mut take)?;
        for column in &value {
            Codec::skip(*column, header.entries, &mut take)?;
        }
        if header.value_tail {
            tail = ValueTail::take(&mut take)?;
        }
    }
    Ok(PageColumns::with_tail(key, value, tail))
}
