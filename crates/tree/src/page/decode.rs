//! Decoding and checking the bytes of a page.
//!
//! 1. The header is read and checked, so that a damaged count cannot cause an allocation that is
//!    many times larger than the page.
//! 2. One pass over the heads collects operations, write ids, and the ends of
//!    keys and values, and checks that they fit their streams.
//! 3. Streams that are stored as byte planes are joined, and columns decoded.
//! 4. The order of the keys is checked, because merges and cursors rely on it.

use super::encoded_columns::{take_columns, take_some_columns};
use super::projection::Projection;
use super::reader::{Ends, Page, Write, Writes};
use super::streams::{Header, Streams};
use super::tail::take_values;
use super::{PAGE_HEADER_BYTES, SEPARATE_PUT};
use crate::ValueReference;
use crate::key_search::KeySearch;
use std::cmp::Ordering;
use teak_base::bytes::{Malformed, Take};
use teak_base::{Operation, WriteId};
use teak_columns::planes;

/// The search index of a page contains one of every `SEARCH_STEP` keys.
const SEARCH_STEP: usize = 16;

/// The heads of a page.
pub(super) struct Heads {
    pub(super) keys: Ends,
    values: Ends,
    /// Empty when every entry is a settled put, one if all entries have the same write, otherwise one for each.
    pub(super) writes: Vec<Write>,
}

impl Heads {
    pub(super) fn decode(
        header: &Header,
        mut heads: Take<'_>,
        value_bytes: usize,
    ) -> Result<Self, Malformed> {
        if header.keys_of_one_length
            && !header.heads_have_value_lengths()
            && let Some(write) = one_write(heads.rest(), header.entries)?
        {
            return Ok(Self {
                keys: Ends::OfOneLength(header.key_len),
                values: Ends::OfOneLength(header.value_len),
                writes: vec![write],
            });
        }
        let entries_if = |wanted: bool| if wanted { header.entries } else { 0 };
        let mut keys = Adder::new(entries_if(!header.keys_of_one_length), header.key_bytes)?;
        let has_lengths = header.heads_have_value_lengths();
        let mut values = Adder::new(entries_if(has_lengths), value_bytes)?;
        let mut writes = Vec::with_capacity(entries_if(!header.settled_puts));
        for _ in 0..entries_if(!header.heads_are_empty()) {
            if !header.settled_puts {
                writes.push(take_write(&mut heads)?);
            }
            if !header.keys_of_one_length {
                keys.add(&mut heads)?;
            }
            if has_lengths {
                values.add(&mut heads)?;
            }
        }
        if !heads.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            keys: match header.keys_of_one_length {
                true => Ends::OfOneLength(header.key_len),
                false => Ends::At(keys.finish()?),
            },
            values: match has_lengths {
                // Those of values that are stored wholly as columns follow from the columns.
                false => Ends::OfOneLength(header.value_len),
                true => Ends::At(values.finish()?),
            },
            writes,
        })
    }
}

fn take_write(heads: &mut Take<'_>) -> Result<Write, Malformed> {
    let kind = heads.u8()?;
    let is_separate = kind == SEPARATE_PUT;
    let operation = match is_separate {
        true => Operation::Put,
        false => Operation::from_number(kind).ok_or(Malformed)?,
    };
    Ok(Write {
        operation,
        is_separate,
        id: WriteId(heads.varint()?),
    })
}

/// The write of all entries, if heads consist of writes, and all are equal, and no value is separate. All rows of a
/// load have the same write.
fn one_write(heads: &[u8], entries: usize) -> Result<Option<Write>, Malformed> {
    if heads.is_empty() {
        return Ok(None);
    }
    let mut take = Take::new(heads);
    let write = take_write(&mut take)?;
    let rest = take.rest();
    let bytes = heads.len() - rest.len();
    let is_repeated = heads.len() == bytes * entries && heads.starts_with(rest);
    Ok((is_repeated && !write.is_separate).then_some(write))
}

impl Heads {
    /// Checks the lengths of the references to separate values.
    fn check_references(&self) -> Result<(), Malformed> {
        let mut separate = (0..self.writes.len()).zip(&self.writes);
        let all_fit = separate.all(|(entry, write)| {
            !write.is_separate || {
                let (start, end) = self.values.range(entry);
                end - start == ValueReference::ENCODED_BYTES
            }
        });
        if all_fit { Ok(()) } else { Err(Malformed) }
    }

    /// Checks that every entry is a put with its value in the page.
    fn check_inline_puts(&self) -> Result<(), Malformed> {
        let is_inline = |write: &Write| write.operation == Operation::Put && !write.is_separate;
        if self.writes.iter().all(is_inline) {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// Adds up lengths from heads. Returns an error for sums above `limit`.
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

    /// The ends of the strings. Fails unless the lengths add up to the limit.
    fn finish(self) -> Result<Vec<u32>, Malformed> {
        if self.sum == self.limit {
            Ok(self.ends)
        } else {
            Err(Malformed)
        }
    }
}

impl Page {
    /// Decodes and checks the raw bytes of a page, including the order of the keys.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(raw: Vec<u8>) -> Result<Self, Malformed> {
        Self::decode_for(raw, None)
    }

    /// As [`Page::decode`], but only the columns of the projection, if there is one that applies to the page.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode_for(raw: Vec<u8>, projection: Option<&Projection>) -> Result<Self, Malformed> {
        let Streams {
            header,
            heads,
            keys,
            values: value_stream,
        } = Streams::of(&raw)?;
        let mut heads = Heads::decode(&header, heads, header.value_bytes)?;
        if header.value_tail {
            heads.check_inline_puts()?;
        } else {
            heads.check_references()?;
        }
        let is_apart = header.key_planes || header.key_columns || header.value_front > 0;
        let mut projection = projection.filter(|_| header.value_tail || header.value_columns);
        let bytes = if is_apart {
            let values = &mut heads.values;
            match join_streams(&header, keys, value_stream, projection, values)? {
                Some(bytes) => bytes,
                None => {
                    projection = None;
                    join_streams(&header, keys, value_stream, None, values)?.ok_or(Malformed)?
                }
            }
        } else {
            let mut bytes = raw;
            bytes.drain(..PAGE_HEADER_BYTES + header.head_bytes);
            bytes
        };
        let entries = header.entries;
        let writes = Writes::new(heads.writes);
        let mut page = Self {
            bytes,
            keys: heads.keys,
            values: heads.values,
            values_start: header.key_bytes,
            entries,
            search: KeySearch::default(),
            has_only_rows: writes.are_inline_puts(),
            writes,
            entry_bytes: header.key_bytes + header.value_bytes,
            projection: projection.cloned(),
            charge: None,
        };
        let mut are_distinct = true;
        for entry in 1..entries {
            match order_of_neighbours(page.key(entry - 1), page.key(entry)) {
                Ordering::Less => {}
                Ordering::Equal => are_distinct = false,
                Ordering::Greater => return Err(Malformed),
            }
        }
        page.has_only_rows &= are_distinct;
        page.search = KeySearch::new(entries, SEARCH_STEP, |entry| page.key(entry));
        Ok(page)
    }
}

/// Returns the keys, then the values, without byte planes and columns. Sets the ends of values that are
/// stored wholly as columns. Returns `None` if the projection does not apply to the page.
fn join_streams(
    header: &Header,
    key_stream: &[u8],
    mut value_stream: Take<'_>,
    projection: Option<&Projection>,
    values: &mut Ends,
) -> Result<Option<Vec<u8>>, Malformed> {
    let value_bytes = match projection {
        Some(projection) if header.value_tail => {
            let tail_bytes = projection.empty_tail_bytes();
            let width = tail_bytes.map_or(0, |bytes| header.value_front + bytes);
            width.saturating_mul(header.entries).min(header.value_bytes)
        }
        _ => header.value_bytes,
    };
    let mut bytes = Vec::with_capacity(header.key_bytes + value_bytes);
    join_keys(header, key_stream, &mut bytes)?;
    if header.value_tail {
        let (entries, front) = (header.entries, header.value_front);
        let stream = &mut value_stream;
        let value_bytes = header.value_bytes;
        match take_values(stream, entries, front, value_bytes, projection, &mut bytes)? {
            Some(ends) => *values = ends,
            None => return Ok(None),
        }
        // What a reader of some columns does not need is not read.
        if projection.is_none() && !stream.is_empty() {
            return Err(Malformed);
        }
    } else if header.value_columns {
        if !join_value_columns(header, value_stream, projection, values, &mut bytes)? {
            return Ok(None);
        }
    } else if header.value_front > 0 {
        let (width, entries) = (header.value_front, header.entries);
        join_values(value_stream, width, entries, values, &mut bytes)?;
    } else {
        bytes.extend_from_slice(value_stream.rest());
    }
    Ok(Some(bytes))
}

/// Appends the keys, without byte planes and columns.
pub(super) fn join_keys(
    header: &Header,
    key_stream: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    if header.key_planes {
        planes::join(key_stream, header.key_len, out);
    } else if header.key_columns {
        let (width, mut take) = (header.key_len, Take::new(key_stream));
        let start = out.len();
        out.resize(start + header.key_bytes, 0);
        let out = out.get_mut(start..).ok_or(Malformed)?;
        take_columns(&mut take, header.entries, width, out, |row| row * width)?;
        if !take.is_empty() {
            return Err(Malformed);
        }
    } else {
        out.extend_from_slice(key_stream);
    }
    Ok(())
}

/// Appends values whose first bytes are stored as columns. Returns `false` if the projection does not apply to them.
fn join_value_columns(
    header: &Header,
    stream: Take<'_>,
    projection: Option<&Projection>,
    values: &Ends,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let (start, width, entries) = (out.len(), header.value_front, header.entries);
    let front_bytes = width.checked_mul(entries).ok_or(Malformed)?;
    let rest_bytes = header.value_bytes.checked_sub(front_bytes);
    let stored = stream.rest();
    let column_bytes = stored.len().checked_sub(rest_bytes.ok_or(Malformed)?);
    let (columns, rests) = stored.split_at(column_bytes.ok_or(Malformed)?);
    out.resize(start + header.value_bytes, 0);
    let out = out.get_mut(start..).ok_or(Malformed)?;
    copy_rests(rests, width, entries, values, out)?;
    let mut columns = Take::new(columns);
    let place_of = |row| values.range(row).0;
    let is_taken = take_some_columns(&mut columns, entries, width, out, place_of, projection)?;
    if is_taken && !columns.is_empty() {
        return Err(Malformed);
    }
    Ok(is_taken)
}

/// Copies what follows the first `width` bytes of each value to its place. May change the bytes after it.
fn copy_rests(
    mut rests: &[u8],
    width: usize,
    entries: usize,
    values: &Ends,
    out: &mut [u8],
) -> Result<(), Malformed> {
    for entry in 0..entries {
        let (start, end) = values.range(entry);
        let bytes = (end - start).checked_sub(width).ok_or(Malformed)?;
        let place = out.get_mut(start + width..).ok_or(Malformed)?;
        rests = copy_first(rests, bytes, place)?;
    }
    if rests.is_empty() {
        Ok(())
    } else {
        Err(Malformed)
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
    let rests = stream.rest();
    if rests.is_empty() {
        // Otherwise a value is shorter.
        if !(0..entries).all(|entry| values.range(entry).0 == entry * width) {
            return Err(Malformed);
        }
        planes::join(stored, width, out);
        return Ok(());
    }
    let start = out.len();
    out.resize(start + stored.len() + rests.len(), 0);
    let out = out.get_mut(start..).ok_or(Malformed)?;
    copy_rests(rests, width, entries, values, out)?;
    planes::join_at(stored, width, out, |row| values.range(row).0);
    Ok(())
}

/// Bytes that are copied at a time, without a call of a function.
const COPY_BYTES: usize = 32;

/// Copies the first `bytes` bytes to the start of `out`, and returns the others. May change the
/// following bytes of `out`, too.
#[inline]
fn copy_first<'a>(from: &'a [u8], bytes: usize, out: &mut [u8]) -> Result<&'a [u8], Malformed> {
    if bytes <= COPY_BYTES
        && let Some(chunk) = from.first_chunk::<COPY_BYTES>()
        && let Some(out) = out.first_chunk_mut::<COPY_BYTES>()
    {
        *out = *chunk;
    } else {
        let (bytes, out) = (from.get(..bytes), out.get_mut(..bytes));
        out.ok_or(Malformed)?
            .copy_from_slice(bytes.ok_or(Malformed)?);
    }
    from.get(bytes..).ok_or(Malformed)
}

/// The order of a key and the next one. Calls no function if they differ in a whole word.
#[inline]
fn order_of_neighbours(mut key: &[u8], mut next: &[u8]) -> Ordering {
    while let (Some((a, rest)), Some((b, rest_of_next))) =
        (key.split_first_chunk::<8>(), next.split_first_chunk::<8>())
    {
        if a != b {
            return u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
        }
        (key, next) = (rest, rest_of_next);
    }
    key.cmp(next)
}
