//! Addresses of blocks, as other blocks and the superblock refer to them.

use crate::extents::Extent;
use crate::layout::{BLOCK_HEADER_BYTES, BLOCK_UNIT_BYTES, BLOCKS_START, whole_units};
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;

/// The address of one block in its file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockAddress {
    /// Offset of the block header from the start of the file, in bytes.
    pub offset: u64,
    /// Header and stored payload, without padding, in bytes.
    pub bytes: u32,
}

impl BlockAddress {
    /// Length of the encoded form, in bytes.
    pub const ENCODED_BYTES: usize = 12;

    /// The encoded form of "no block".
    pub(crate) const NONE: Self = Self {
        offset: 0,
        bytes: 0,
    };

    /// Appends the encoded form: offset u64, bytes u32.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.offset);
        out.put_u32(self.bytes);
    }

    /// Decodes an address. Does not check that it is inside the file; reading or freeing the block
    /// does.
    ///
    /// # Errors
    /// [`Malformed`] when bytes are missing.
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            offset: take.u64()?,
            bytes: take.u32()?,
        })
    }

    /// One past the last byte of the space that the block owns.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset
            .saturating_add(whole_units(u64::from(self.bytes)))
    }

    /// The space that the block owns; `None` for an address that no block can
    /// have.
    pub(crate) fn extent(self) -> Option<Extent> {
        let stored = (self.bytes as usize).checked_sub(BLOCK_HEADER_BYTES)?;
        if stored > BLOCK_RAW_BYTES_MAX + ENVELOPE_BYTES
            || self.offset < BLOCKS_START
            || !self.offset.is_multiple_of(BLOCK_UNIT_BYTES)
        {
            return None;
        }
        let bytes = whole_units(u64::from(self.bytes));
        self.offset.checked_add(bytes)?;
        Some(Extent {
            offset: self.offset,
            bytes,
        })
    }
}
