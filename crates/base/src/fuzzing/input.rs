//! Structured values read from a fuzzer's bytes. Reading never fails: past the
//! end it returns zeros, so every input is valid.

/// Reads values from the front of an input.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        front
    }

    /// A byte string with a length of one byte.
    pub fn short_bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8());
        self.bytes(len)
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A little-endian u16.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A little-endian u32.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A little-endian u64.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u8) -> u8 {
        self.u8() % limit
    }

    /// True for one input byte in sixteen.
    pub fn rarely(&mut self) -> bool {
        self.u8() >= 0xf0
    }
}
