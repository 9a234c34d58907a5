//! Decoding and checking the bytes of a page.
//!
//! 1. The header is read and checked, so that a damaged count cannot cause an allocation that is
//!    many times larger than the page.
//! 2. One pass over the heads collects operations, write ids, and the ends of
//!    keys and values, and checks that they fit their streams.
//! 3. Streams that are stored as byte planes are joined.
//! 4. The order of the keys is checked, because merges and cursors rely on it.

use super::reader::{Ends, Page, Write};
use super::{
    FLAG_KEY_PLANES, FLAG_KEYS_OF_ONE_LENGTH, FLAG_SETTLED_PUTS, FLAG_VALUES_OF_ONE_LENGTH,
    FLAGS_KNOWN, PAGE_HEADER_BYTES, SEPARATE_PUT, planes,
};
use crate::ValueReference;
use crate::key_search::KeySearch;
use teak_base::bytes::{Malformed, Take};
use teak_base::{Operation, WriteId};

/// The search index of a page contains one of every `SEARCH_STEP` keys.
const SEARCH_STEP: usize = 16;

/// The decoded header of a page.
struct Header {
    /// Whether every entry is a settled put.
    settled_puts: bool,
    keys_of_one_length: bool,
    values_of_one_length: bool,
    key_planes: bool,
    entries: usize,
    key_len: usize,
    value_len: usize,
    head_bytes: usize,
    key_bytes: usize,
    /// Leading bytes of each value that are stored as planes.
    value_planes: usize,
}

impl Header {
    fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let flags = take.u8()?;
        let header = Self {
            settled_puts: flags & FLAG_SETTLED_PUTS != 0,
            keys_of_one_length: flags & FLAG_KEYS_OF_ONE_LENGTH != 0,
            values_of_one_length: flags & FLAG_VALUES_OF_ONE_LENGTH != 0,
            key_planes: flags & FLAG_KEY_PLANES != 0,
            entries: take.u32()? as usize,
            key_len: take.u32()? as usize,
            value_len: take.u32()? as usize,
            head_bytes: take.u32()? as usize,
            key_bytes: take.u32()? as usize,
            value_planes: take.u32()? as usize,
        };
        if flags & !FLAGS_KNOWN != 0 || header.entries == 0 {
            return Err(Malformed);
        }
        Ok(header)
    }

    /// Whether the heads are empty, because the flags and the header imply all their parts.
    fn heads_are_empty(&self) -> bool {
        self.settled_puts && self.keys_of_one_length && self.values_of_one_length
    }

    /// Checks the lengths against the streams. Each part of a head takes at least one byte, which
    /// bounds the number of entries. If entries take no bytes at all, the page must have exactly
    /// one entry.
    fn check(&self, value_bytes: usize) -> Result<(), Malformed> {
        let fits = |len: usize, bytes: usize| len.checked_mul(self.entries) == Some(bytes);
        let head_bytes_min = 2 * usize::from(!self.settled_puts)
            + usize::from(!self.keys_of_one_length)
            + usize::from(!self.values_of_one_length);
        let no_bytes = self.heads_are_empty() && self.key_len == 0 && self.value_len == 0;
        if self.keys_of_one_length && !fits(self.key_len, self.key_bytes)
            || self.values_of_one_length && !fits(self.value_len, value_bytes)
            || no_bytes && self.entries > 1
            || head_bytes_min > 0 && self.entries > self.head_bytes / head_bytes_min
            || self.key_planes && (!self.keys_of_one_length || self.key_len == 0)
        {
            return Err(Malformed);
        }
        Ok(())
    }
}

/// The heads of a page.
struct Heads {
    keys: Ends,
    values: Ends,
    /// Empty when every entry is a settled put.
    writes: Vec<Write>,
}

impl Heads {
    fn decode(header: &Header, mut heads: Take<'_>, value_bytes: usize) -> Result<Self, Malformed> {
        let entries_if = |wanted: bool| if wanted { header.entries } else { 0 };
        let mut keys = Adder::new(entries_if(!header.keys_of_one_length), header.key_bytes)?;
        let mut values = Adder::new(entries_if(!header.values_of_one_length), value_bytes)?;
        let mut writes = Vec::with_capacity(entries_if(!header.settled_puts));
        for _ in 0..entries_if(!header.heads_are_empty()) {
            if !header.settled_puts {
                let kind = heads.u8()?;
                let is_separate = kind == SEPARATE_PUT;
                let operation = match is_separate {
                    true => Operation::Put,
                    false => Operation::from_number(kind).ok_or(Malformed)?,
                };
                writes.push(Write {
                    operation,
                    is_separate,
                    id: WriteId(heads.varint()?),
                });
            }
            if !header.keys_of_one_length {
                keys.add(&mut heads)?;
            }
            if !header.values_of_one_length {
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
            values: match header.values_of_one_length {
                true => Ends::OfOneLength(header.value_len),
                false => Ends::At(values.finish()?),
            },
            writes,
        })
    }
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
        let mut take = Take::new(&raw);
        let header = Header::decode(&mut take)?;
        let heads = Take::new(take.take(header.head_bytes)?);
        let key_stream = take.take(header.key_bytes)?;
        let value_bytes = take.rest().len();
        header.check(value_bytes)?;
        let heads = Heads::decode(&header, heads, value_bytes)?;
        heads.check_references()?;
        let bytes = if header.key_planes || header.value_planes > 0 {
            join_streams(&header, key_stream, take, &heads.values)?
        } else {
            let mut bytes = raw;
            bytes.drain(..PAGE_HEADER_BYTES + header.head_bytes);
            bytes
        };
        let entries = header.entries;
        let mut page = Self {
            bytes,
            keys: heads.keys,
            values: heads.values,
            values_start: header.key_bytes,
            entries,
            search: KeySearch::default(),
            has_separate: heads.writes.iter().any(|write| write.is_separate),
            writes: heads.writes,
            charge: None,
        };
        if !(1..entries).all(|entry| are_in_order(page.key(entry - 1), page.key(entry))) {
            return Err(Malformed);
        }
        page.search = KeySearch::new(entries, SEARCH_STEP, |entry| page.key(entry));
        Ok(page)
    }
}

/// Returns the keys, then the values, without byte planes.
fn join_streams(
    header: &Header,
    key_stream: &[u8],
    value_stream: Take<'_>,
    values: &Ends,
) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::with_capacity(header.key_bytes + value_stream.rest().len());
    if header.key_planes {
        planes::join(key_stream, header.key_len, &mut bytes);
    } else {
        bytes.extend_from_slice(key_stream);
    }
    if header.value_planes > 0 {
        let (width, entries) = (header.value_planes, header.entries);
        join_values(value_stream, width, entries, values, &mut bytes)?;
    } else {
        bytes.extend_from_slice(value_stream.rest());
    }
    Ok(bytes)
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
    let mut rests = stream.rest();
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
    for entry in 0..entries {
        let (start, end) = values.range(entry);
        let bytes = (end - start).checked_sub(width).ok_or(Malformed)?;
        let place = out.get_mut(start + width..).ok_or(Malformed)?;
        rests = copy_first(rests, bytes, place)?;
    }
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

/// Whether a key is at or before the next one. Calls no function if they differ in a whole word.
#[inline]
fn are_in_order(mut key: &[u8], mut next: &[u8]) -> bool {
    while let (Some((a, rest)), Some((b, rest_of_next))) =
        (key.split_first_chunk::<8>(), next.split_first_chunk::<8>())
    {
        if a != b {
            return u64::from_be_bytes(*a) < u64::from_be_bytes(*b);
        }
        (key, next) = (rest, rest_of_next);
    }
    key <= next
}
