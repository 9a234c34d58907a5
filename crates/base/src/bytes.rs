//! Byte codecs: little-endian fixed-width integers, LEB128 varints and byte strings, and the
//! successors of keys. Reading past the end is an error. Errors only report that the bytes are
//! malformed; the caller adds the file.

/// The bytes are truncated or not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends integers and byte strings to a buffer.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends a little-endian u16.
    fn put_u16(&mut self, value: u16);
    /// Appends a little-endian u32.
    fn put_u32(&mut self, value: u32);
    /// Appends a little-endian u64.
    fn put_u64(&mut self, value: u64);
    /// Appends an LEB128 varint of 1 to 10 bytes.
    fn put_varint(&mut self, value: u64);
    /// Appends a varint length and the bytes.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.push((value & 0x7f) as u8);
    }
    fn put_bytes(&mut self, value: &[u8]) {
        self.put_varint(value.len() as u64);
        self.extend_from_slice(value);
    }
}

/// Reads integers and byte strings from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*front)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian u16.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian u32.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian u64.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads an LEB128 varint.
    ///
    /// # Errors
    /// [`Malformed`] at the end or when the value does not fit 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            [low, high, rest @ ..] if *high < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift >= 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err(Malformed);
            }
        }
    }

    /// Reads a varint length of at most `limit`.
    ///
    /// # Errors
    /// [`Malformed`] when the varint is malformed or above the limit.
    #[inline]
    pub fn length(&mut self, limit: usize) -> Result<usize, Malformed> {
        let value = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        if value > limit {
            return Err(Malformed);
        }
        Ok(value)
    }

    /// Reads a varint length and that many bytes.
    ///
    /// # Errors
    /// [`Malformed`] when the length is malformed or fewer bytes are left.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.length(self.rest.len())?;
        self.take(len)
    }
}

/// The first key after `key`: `key` with a zero byte appended.
#[must_use]
pub fn key_successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The first key after all keys that begin with `prefix`; `None` when no key
/// is greater.
#[must_use]
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = None;
    set_prefix_successor(&mut next, prefix);
    next
}

/// Sets `next` to [`prefix_successor`]. Reuses its memory.
pub fn set_prefix_successor(next: &mut Option<Vec<u8>>, prefix: &[u8]) {
    let keep = prefix.iter().rposition(|byte| *byte != 0xff);
    set_bytes(next, keep.and_then(|keep| prefix.get(..=keep)));
    if let Some(last) = next.as_mut().and_then(|next| next.last_mut()) {
        *last += 1;
    }
}

/// Sets `bytes` to a copy of `new`. Reuses its memory.
pub fn set_bytes(bytes: &mut Option<Vec<u8>>, new: Option<&[u8]>) {
    match (bytes.as_mut(), new) {
        (Some(bytes), Some(new)) => {
            bytes.clear();
            bytes.extend_from_slice(new);
        }
        (_, new) => *bytes = new.map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varint_round_trips(value: u64) {
            let mut buffer = Vec::new();
            buffer.put_varint(value);
            let mut take = Take::new(&buffer);
            prop_assert_eq!(take.varint(), Ok(value));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn reader_never_panics_on_any_bytes(bytes: Vec<u8>) {
            let mut take = Take::new(&bytes);
            while take.varint().is_ok() && take.bytes().is_ok() && take.u64().is_ok() {}
        }
    }

    #[test]
    fn varint_beyond_64_bits_is_malformed() {
        let mut take = Take::new(&[0xff; 11]);
        assert_eq!(take.varint(), Err(Malformed));
        let mut take = Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]);
        assert_eq!(take.varint(), Err(Malformed));
    }

    #[test]
    fn prefix_successor_skips_every_extension() {
        assert_eq!(prefix_successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_successor(b"\xff"), None);
        assert_eq!(prefix_successor(b""), None);
        let mut next = Some(b"xyz".to_vec());
        for prefix in [b"ab".as_slice(), b"\xff", b"a\xff"] {
            set_prefix_successor(&mut next, prefix);
            assert_eq!(next, prefix_successor(prefix));
        }
    }
}
