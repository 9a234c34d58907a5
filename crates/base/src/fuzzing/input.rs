//! Structure read from a fuzzer's bytes. Reading never fails: after the end
//! there are zeros, so every input means something.

/// Takes values from the front of an input.
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

    /// Whether everything has been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        front
    }

    /// A byte string of a length that one byte tells.
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

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u8) -> u8 {
        self.u8() % limit
    }

    /// Whether something that is rarely so is so.
    pub fn rarely(&mut self) -> bool {
        self.u8() >= 0xf0
    }
}
