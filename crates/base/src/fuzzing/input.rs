//! Structured values read from a fuzzer's bytes. Reading never fails: past the
//! end, integers are zero and byte strings are shorter, so every input is valid.

use crate::Codec;

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

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        front
    }

    /// A byte string after its length, which is stored in one byte.
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

    /// One of the values, of which there must be at least one.
    ///
    /// # Panics
    /// Without values.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let number = usize::from(self.u8()) % values.len();
        values
            .get(number)
            .copied()
            .expect("a remainder is in bounds")
    }

    /// Any codec except LZMA, which is slow for small inputs and has other fuzz targets.
    pub fn quick_codec(&mut self) -> Codec {
        let is_quick = |codec: &Codec| *codec != Codec::Lzma;
        let quick: Vec<Codec> = Codec::ALL.into_iter().filter(is_quick).collect();
        self.one_of(&quick)
    }

    /// True for one input byte in sixteen.
    pub fn rarely(&mut self) -> bool {
        self.u8() >= 0xf0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_chooses_each_value_and_each_quick_codec() {
        let bytes: Vec<u8> = (0..6).collect();
        let mut input = Input::new(&bytes);
        let chosen = [(); 6].map(|()| input.one_of(&['a', 'b', 'c', 'd', 'e']));
        assert_eq!(chosen, ['a', 'b', 'c', 'd', 'e', 'a']);
        let mut input = Input::new(&bytes);
        let chosen = [(); 6].map(|()| input.quick_codec());
        let [quick @ .., slow] = Codec::ALL;
        assert_eq!(slow, Codec::Lzma);
        assert_eq!(chosen, [&quick[..], &[Codec::None]].concat()[..]);
    }
}
