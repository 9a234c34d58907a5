//! Sizes and offsets of the file format.

/// Blocks begin at multiples of this many bytes, and their space is rounded up to such a multiple.
pub const BLOCK_UNIT_BYTES: u64 = 128;

/// The first byte that blocks may use; the superblocks are before it.
pub const BLOCKS_START: u64 = 8192;

/// Length of a block header.
pub const BLOCK_HEADER_BYTES: usize = 36;

/// Rounds up to whole allocation units.
pub(crate) fn whole_units(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_UNIT_BYTES)
}
