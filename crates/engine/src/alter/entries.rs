//! A sequence of entries in memory: the key and the value of each, each after its length.

use crate::error::EngineError;
use std::ops::Range;
use teak_base::bytes::{Malformed, Put, Take};

/// Appends an entry.
pub(super) fn put_entry(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    bytes.put_bytes(key);
    bytes.put_bytes(value);
}

/// Takes an entry.
pub(super) fn take_entry<'a>(take: &mut Take<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    Ok((take.bytes()?, take.bytes()?))
}

/// Reads entries from the first to the last.
#[derive(Default)]
pub(super) struct EntryReader {
    bytes: Vec<u8>,
    /// Where the entry after the current one begins.
    next: usize,
    /// Where the key and the value of the current entry are.
    current: Option<(Range<usize>, Range<usize>)>,
}

impl EntryReader {
    /// A reader before the first entry.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            next: 0,
            current: None,
        }
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    pub(super) fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.current.clone()?;
        Some((self.bytes.get(key)?, self.bytes.get(value)?))
    }

    /// Moves to the next entry. Returns whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool, Malformed> {
        self.current = None;
        let rest = self.bytes.get(self.next..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let mut take = Take::new(rest);
        let mut field = || {
            let length = take.bytes()?.len();
            let end = self.bytes.len() - take.rest().len();
            Ok(end - length..end)
        };
        let (key, value) = (field()?, field()?);
        self.next = value.end;
        self.current = Some((key, value));
        Ok(true)
    }

    /// The memory of the entries, empty.
    pub(super) fn into_empty(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }
}

/// The error for entries in memory that nothing else could have changed.
pub(super) fn malformed(Malformed: Malformed) -> EngineError {
    EngineError::Internal("an entry in memory is malformed".into())
}
