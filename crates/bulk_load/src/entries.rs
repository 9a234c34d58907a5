//! A sequence of entries in memory: the key and the value of each, each after its length.

use std::ops::Range;
use teak_base::bytes::{Malformed, Put, Take};

/// Appends an entry.
#[inline]
pub(crate) fn put_entry(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    bytes.put_bytes(key);
    bytes.put_bytes(value);
}

/// Takes an entry.
#[inline]
pub(crate) fn take_entry<'a>(take: &mut Take<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    Ok((take.bytes()?, take.bytes()?))
}

/// Size of an entry, in bytes, at most.
pub(crate) fn entry_bytes_max(key: &[u8], value: &[u8]) -> usize {
    // Two varints.
    key.len().saturating_add(value.len()).saturating_add(20)
}

/// Position in a sequence of entries. It does not contain the sequence.
#[derive(Debug, Default)]
pub(crate) struct EntryPosition {
    /// Where the entry after the current one begins.
    next: usize,
    /// Where the key and the value of the current entry are.
    current: Option<(Range<usize>, Range<usize>)>,
}

impl EntryPosition {
    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    pub(crate) fn entry<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = self.current.clone()?;
        Some((bytes.get(key)?, bytes.get(value)?))
    }

    /// Moves to the next entry. Returns whether there is one.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<bool, Malformed> {
        self.current = None;
        let rest = bytes.get(self.next..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let mut take = Take::new(rest);
        let mut field = || {
            let length = take.bytes()?.len();
            let end = bytes.len() - take.rest().len();
            Ok(end - length..end)
        };
        let (key, value) = (field()?, field()?);
        self.next = value.end;
        self.current = Some((key, value));
        Ok(true)
    }
}

/// Reads entries from the first to the last.
#[derive(Debug, Default)]
pub(crate) struct EntryReader {
    bytes: Vec<u8>,
    position: EntryPosition,
}

impl EntryReader {
    /// A reader before the first entry.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            position: EntryPosition::default(),
        }
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.position.entry(&self.bytes)
    }

    /// Moves to the next entry. Returns whether there is one.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, Malformed> {
        self.position.advance(&self.bytes)
    }

    /// The memory of the entries, empty.
    pub(crate) fn into_empty(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }
}
