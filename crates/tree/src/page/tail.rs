//! Pages whose values are stored wholly by column.
//!
//! A value then consists of its front, the columns that every value has; the optional columns that it has;
//! the lengths of its variable columns, as varints; and the bytes of these. A page stores the front by
//! column, then each optional column of those values that have it, then each variable column.

use super::columns::PageColumns;
use super::encoded_columns::{put_columns, take_some_columns};
use super::projection::Projection;
use super::reader::Ends;
use super::value_tail::{OptionalColumn, ValueTail};
use super::zones::ZoneBuilder;
use std::hint::black_box;
use teak_base::bytes::{Malformed, Put, Take};
use teak_columns::{Codec, Texts};

/// Whether the bit of a column that a value may lack is set.
#[inline]
pub(super) fn is_absent(front: &[u8], null_bit: u32) -> bool {
    let byte = front.get(null_bit as usize / 8).copied().unwrap_or(0);
    byte >> (null_bit % 8) & 1 == 1
}

#[inline]
pub(super) fn is_variable_absent(front: &[u8], null_bit: Option<u32>) -> bool {
    null_bit.is_some_and(|bit| is_absent(front, bit))
}

/// Bytes of a varint.
fn varint_bytes(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

/// The values of a page by column.
#[derive(Debug, Default)]
pub(super) struct SplitValues {
    fronts: Vec<u8>,
    optional: Vec<Vec<u8>>,
    lengths: Vec<Vec<u32>>,
    texts: Vec<Vec<u8>>,
}

fn clear<T>(lists: &mut Vec<Vec<T>>, count: usize) {
    lists.resize_with(count, Vec::new);
    for list in lists {
        list.clear();
    }
}

impl SplitValues {
    /// Splits values. Returns `false` if one of them does not consist of exactly these columns.
    pub(super) fn split<'a>(
        &mut self,
        columns: &PageColumns,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        self.fronts.clear();
        clear(&mut self.optional, columns.tail().optional.len());
        clear(&mut self.lengths, columns.tail().variable.len());
        clear(&mut self.texts, columns.tail().variable.len());
        let (tail, front_bytes) = (columns.tail(), columns.value_bytes());
        let mut values = values;
        values.all(|value| self.split_value(tail, front_bytes, value).is_some())
    }

    fn split_value(&mut self, tail: &ValueTail, front_bytes: usize, value: &[u8]) -> Option<()> {
        let (front, mut rest) = value.split_at_checked(front_bytes)?;
        self.fronts.extend_from_slice(front);
        for (of, values) in tail.optional.iter().zip(&mut self.optional) {
            if !is_absent(front, of.null_bit) {
                let (value, others) = rest.split_at_checked(of.column.width())?;
                values.extend_from_slice(value);
                rest = others;
            }
        }
        let mut take = Take::new(rest);
        for (null_bit, lengths) in tail.variable.iter().zip(&mut self.lengths) {
            if !is_variable_absent(front, *null_bit) {
                let before = take.rest().len();
                let length = take.varint().ok()?;
                // The same bytes must be restored.
                if before - take.rest().len() != varint_bytes(length) {
                    return None;
                }
                lengths.push(u32::try_from(length).ok()?);
            }
        }
        rest = take.rest();
        let columns = tail.variable.iter().zip(&self.lengths).zip(&mut self.texts);
        for ((null_bit, lengths), texts) in columns {
            if !is_variable_absent(front, *null_bit) {
                let (text, others) = rest.split_at_checked(*lengths.last()? as usize)?;
                texts.extend_from_slice(text);
                rest = others;
            }
        }
        rest.is_empty().then_some(())
    }

    /// Appends the columns of the values that were split.
    pub(super) fn put(
        &self,
        columns: &PageColumns,
        codec: &mut Codec,
        zones: &mut ZoneBuilder,
        out: &mut Vec<u8>,
    ) {
        let entries = self.fronts.len() / columns.value_bytes().max(1);
        let mut note = |column, values: &[u8]| zones.add_front(column, values);
        put_columns(columns.value(), &self.fronts, codec, &mut note, out);
        columns.tail().put(out);
        for (of, values) in columns.tail().optional.iter().zip(&self.optional) {
            codec.encode(of.column, values, out);
            zones.add_optional(of.column, values, entries);
        }
        for (lengths, texts) in self.lengths.iter().zip(&self.texts) {
            codec.encode_texts(lengths, texts, out);
            zones.add_variable(lengths.len(), entries);
        }
    }
}

/// An optional column of a page.
struct OptionalValues {
    width: usize,
    null_bit: u32,
    bytes: Vec<u8>,
    /// Where the next value begins.
    next: usize,
}

/// A variable column of a page.
struct VariableValues {
    null_bit: Option<u32>,
    /// `None`: they were not decoded, and are empty instead.
    texts: Option<Texts>,
    /// The number of the next string.
    next: usize,
}

/// Decodes values that are stored by column, and appends them to `out`. `value_bytes`: those of all
/// values; `front_bytes`: those of a front. Returns their ends; `None` if the projection does not apply to them.
pub(super) fn take_values(
    take: &mut Take<'_>,
    entries: usize,
    front_bytes: usize,
    value_bytes: usize,
    projection: Option<&Projection>,
    out: &mut Vec<u8>,
) -> Result<Option<Ends>, Malformed> {
    let fronts_bytes = front_bytes.checked_mul(entries).ok_or(Malformed)?;
    // What the columns so far leave for the others. It bounds what damaged columns allocate.
    let mut left = value_bytes.checked_sub(fronts_bytes).ok_or(Malformed)?;
    if let Some(projection) = projection
        && let Some(tail_bytes) = projection.empty_tail_bytes()
    {
        return take_fronts(
            take,
            entries,
            (front_bytes, tail_bytes),
            left,
            projection,
            out,
        );
    }
    let mut fronts = Vec::with_capacity(fronts_bytes);
    // Zeroed memory of this size would be new pages of the system, which takes longer than writing zeros.
    fronts.resize(fronts_bytes, black_box(0));
    let place_of = |row| row * front_bytes;
    let is_taken = take_some_columns(
        take,
        entries,
        front_bytes,
        &mut fronts,
        place_of,
        projection,
    )?;
    if !is_taken {
        return Ok(None);
    }
    let tail = ValueTail::take(take)?;
    if projection.is_some_and(|projection| !projection.is_tail(&tail)) {
        return Ok(None);
    }
    let mut codec = Codec::default();
    let rows = || fronts.chunks_exact(front_bytes);
    let mut optional = Vec::with_capacity(tail.optional.len());
    for (number, OptionalColumn { column, null_bit }) in tail.optional.into_iter().enumerate() {
        let count = rows().filter(|front| !is_absent(front, null_bit)).count();
        let width = column.width();
        let bytes = width.checked_mul(count).ok_or(Malformed)?;
        left = left.checked_sub(bytes).ok_or(Malformed)?;
        let mut bytes = vec![0; width * count];
        match projection.is_none_or(|projection| projection.has_optional(number)) {
            true => codec.decode(column, count, take, &mut bytes, |row| row * width)?,
            false => Codec::skip(column, count, take)?,
        }
        optional.push(OptionalValues {
            width,
            null_bit,
            bytes,
            next: 0,
        });
    }
    let mut variable = take_variable(
        take,
        &fronts,
        front_bytes,
        &tail.variable,
        &mut left,
        projection,
    )?;
    let start = out.len();
    // At most this much is left for the bytes that were not decoded.
    out.reserve(value_bytes - left);
    let ends = join(rows(), &mut optional, &mut variable, out)?;
    let bytes = out.len() - start;
    if bytes > value_bytes || (projection.is_none() && bytes < value_bytes) {
        return Err(Malformed);
    }
    Ok(Some(ends))
}

/// Decodes the variable columns of values with these fronts. `left`: the bytes that the values have for them, from which
/// what they use is subtracted.
fn take_variable(
    take: &mut Take<'_>,
    fronts: &[u8],
    front_bytes: usize,
    null_bits: &[Option<u32>],
    left: &mut usize,
    projection: Option<&Projection>,
) -> Result<Vec<VariableValues>, Malformed> {
    let is_wanted = |number| projection.is_none_or(|projection| projection.has_variable(number));
    let end = Projection::variable_columns_read(projection, null_bits.len());
    let mut codec = Codec::default();
    let mut variable = Vec::with_capacity(null_bits.len());
    for (number, null_bit) in null_bits.iter().copied().enumerate() {
        let fronts = fronts.chunks_exact(front_bytes);
        let count = match null_bit {
            None => fronts.len(),
            Some(_) => fronts
                .filter(|front| !is_variable_absent(front, null_bit))
                .count(),
        };
        // A length of each.
        *left = left.checked_sub(count).ok_or(Malformed)?;
        let texts = if is_wanted(number) {
            let texts = codec.decode_texts(count, *left, take)?;
            *left = left.checked_sub(texts.total_bytes()).ok_or(Malformed)?;
            Some(texts)
        } else {
            if number < end {
                codec.skip_texts(count, *left, take)?;
            }
            None
        };
        variable.push(VariableValues {
            null_bit,
            texts,
            next: 0,
        });
    }
    Ok(variable)
}

/// As [`take_values`], for a projection with an [empty tail](Projection::empty_tail_bytes). All values have one length.
fn take_fronts(
    take: &mut Take<'_>,
    entries: usize,
    (front_bytes, tail_bytes): (usize, usize),
    left: usize,
    projection: &Projection,
    out: &mut Vec<u8>,
) -> Result<Option<Ends>, Malformed> {
    let (start, width) = (out.len(), front_bytes + tail_bytes);
    // Each value has a length for each column of the tail.
    let bytes = width.checked_mul(entries).ok_or(Malformed)?;
    let lengths = tail_bytes.checked_mul(entries).ok_or(Malformed)?;
    left.checked_sub(lengths).ok_or(Malformed)?;
    out.reserve_exact(bytes);
    out.resize(start + bytes, black_box(0));
    let values = out.get_mut(start..).ok_or(Malformed)?;
    let place_of = |row| row * width;
    let wanted = Some(projection);
    if !take_some_columns(take, entries, front_bytes, values, place_of, wanted)?
        || !projection.is_tail(&ValueTail::take(take)?)
    {
        return Ok(None);
    }
    Ok(Some(Ends::OfOneLength(width)))
}

/// Appends the values. Returns their ends.
fn join<'a>(
    fronts: impl ExactSizeIterator<Item = &'a [u8]>,
    optional: &mut [OptionalValues],
    variable: &mut [VariableValues],
    out: &mut Vec<u8>,
) -> Result<Ends, Malformed> {
    let start = out.len();
    let mut ends = Vec::with_capacity(fronts.len());
    for front in fronts {
        out.extend_from_slice(front);
        for column in &mut *optional {
            if !is_absent(front, column.null_bit) {
                let value = column.bytes.get(column.next..column.next + column.width);
                out.extend_from_slice(value.ok_or(Malformed)?);
                column.next += column.width;
            }
        }
        for column in &*variable {
            if !is_variable_absent(front, column.null_bit) {
                let texts = column.texts.as_ref();
                out.put_varint(texts.map_or(0, |texts| texts.get(column.next).len() as u64));
            }
        }
        for column in &mut *variable {
            if !is_variable_absent(front, column.null_bit)
                && let Some(texts) = &column.texts
            {
                out.extend_from_slice(texts.get(column.next));
                column.next += 1;
            }
        }
        ends.push(u32::try_from(out.len() - start).map_err(|_| Malformed)?);
    }
    Ok(of_one_length(&ends).map_or(Ends::At(ends), Ends::OfOneLength))
}

/// The length of all strings with these ends, if they have one.
fn of_one_length(ends: &[u32]) -> Option<usize> {
    let first = *ends.first()?;
    let mut numbered = (1u64..).zip(ends);
    let is_same = numbered.all(|(number, end)| u64::from(first) * number == u64::from(*end));
    is_same.then_some(first as usize)
}
