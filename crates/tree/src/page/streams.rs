//! The header of an encoded page, and its streams.

use super::{
    FLAG_KEY_COLUMNS, FLAG_KEY_PLANES, FLAG_KEYS_OF_ONE_LENGTH, FLAG_SETTLED_PUTS,
    FLAG_VALUE_COLUMNS, FLAG_VALUE_TAIL, FLAG_VALUES_OF_ONE_LENGTH, FLAGS_KNOWN,
};
use teak_base::bytes::{Malformed, Take};

/// Maximum bytes of the keys, or the values, of a page. With columns, they are not bounded by the bytes
/// that are stored.
const STREAM_BYTES_MAX: usize = 64 << 20;

/// The decoded header of a page.
pub(super) struct Header {
    /// Whether every entry is a settled put.
    pub(super) settled_puts: bool,
    pub(super) keys_of_one_length: bool,
    pub(super) values_of_one_length: bool,
    pub(super) key_planes: bool,
    pub(super) key_columns: bool,
    pub(super) value_columns: bool,
    /// Whether values are stored wholly as columns.
    pub(super) value_tail: bool,
    pub(super) entries: usize,
    pub(super) key_len: usize,
    pub(super) value_len: usize,
    pub(super) head_bytes: usize,
    /// Bytes of all keys, and of the stream that contains them.
    pub(super) key_bytes: usize,
    pub(super) key_stream_bytes: usize,
    /// Bytes of all values.
    pub(super) value_bytes: usize,
    /// Leading bytes of each value that are stored as planes or columns.
    pub(super) value_front: usize,
}

impl Header {
    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let flags = take.u8()?;
        let header = Self {
            settled_puts: flags & FLAG_SETTLED_PUTS != 0,
            keys_of_one_length: flags & FLAG_KEYS_OF_ONE_LENGTH != 0,
            values_of_one_length: flags & FLAG_VALUES_OF_ONE_LENGTH != 0,
            key_planes: flags & FLAG_KEY_PLANES != 0,
            key_columns: flags & FLAG_KEY_COLUMNS != 0,
            value_columns: flags & FLAG_VALUE_COLUMNS != 0,
            value_tail: flags & FLAG_VALUE_TAIL != 0,
            entries: take.u32()? as usize,
            key_len: take.u32()? as usize,
            value_len: take.u32()? as usize,
            head_bytes: take.u32()? as usize,
            key_bytes: take.u32()? as usize,
            key_stream_bytes: take.u32()? as usize,
            value_bytes: take.u32()? as usize,
            value_front: take.u32()? as usize,
        };
        if flags & !FLAGS_KNOWN != 0 || header.entries == 0 {
            return Err(Malformed);
        }
        Ok(header)
    }

    /// Whether the heads are empty, because the flags and the header imply all their parts.
    pub(super) fn heads_are_empty(&self) -> bool {
        self.settled_puts && self.keys_of_one_length && !self.heads_have_value_lengths()
    }

    pub(super) fn heads_have_value_lengths(&self) -> bool {
        !self.values_of_one_length && !self.value_tail
    }

    /// Checks the lengths against the streams. Each part of a head takes at least one byte, which
    /// bounds the number of entries. If entries take no bytes at all, the page must have exactly
    /// one entry.
    pub(super) fn check(&self, value_stream_bytes: usize) -> Result<(), Malformed> {
        let fits = |len: usize, bytes: usize| len.checked_mul(self.entries) == Some(bytes);
        let head_bytes_min = 2 * usize::from(!self.settled_puts)
            + usize::from(!self.keys_of_one_length)
            + usize::from(self.heads_have_value_lengths());
        let no_bytes =
            self.heads_are_empty() && self.key_len == 0 && self.value_len == 0 && !self.value_tail;
        if self.keys_of_one_length && !fits(self.key_len, self.key_bytes)
            || self.values_of_one_length && !fits(self.value_len, self.value_bytes)
            || no_bytes && self.entries > 1
            || head_bytes_min > 0 && self.entries > self.head_bytes / head_bytes_min
            || (self.key_planes || self.key_columns)
                && (!self.keys_of_one_length || self.key_len == 0)
            || self.key_planes && self.key_columns
            || self.value_columns && self.value_front == 0
            || self.value_tail && (!self.value_columns || self.values_of_one_length)
            || !self.key_columns && self.key_stream_bytes != self.key_bytes
            || !self.value_columns && value_stream_bytes != self.value_bytes
            || self.key_bytes.max(self.value_bytes) > STREAM_BYTES_MAX
        {
            return Err(Malformed);
        }
        Ok(())
    }
}

/// The header and the streams of a page.
pub(super) struct Streams<'a> {
    pub(super) header: Header,
    pub(super) heads: Take<'a>,
    pub(super) keys: &'a [u8],
    pub(super) values: Take<'a>,
}

impl<'a> Streams<'a> {
    /// Reads and checks the header.
    pub(super) fn of(raw: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(raw);
        let header = Header::decode(&mut take)?;
        let heads = Take::new(take.take(header.head_bytes)?);
        let keys = take.take(header.key_stream_bytes)?;
        header.check(take.rest().len())?;
        Ok(Self {
            header,
            heads,
            keys,
            values: take,
        })
    }

    /// The bytes of values without their front. An error if they are too short for it.
    pub(super) fn rest_bytes(&self) -> Result<usize, Malformed> {
        let header = &self.header;
        let front_bytes = header.value_front.checked_mul(header.entries);
        let rest_bytes = header
            .value_bytes
            .checked_sub(front_bytes.ok_or(Malformed)?);
        rest_bytes.ok_or(Malformed)
    }
}
