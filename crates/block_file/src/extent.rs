//! A range of bytes of the file.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

impl Extent {
    pub const EMPTY: Self = Self {
        offset: 0,
        bytes: 0,
    };

    /// The range from `start` up to `end`.
    pub fn between(start: u64, end: u64) -> Self {
        Self {
            offset: start,
            bytes: end.saturating_sub(start),
        }
    }

    /// One past the last byte.
    pub fn end(self) -> u64 {
        self.offset + self.bytes
    }
}
