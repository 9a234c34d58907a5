//! Filters that rule out that a key is on the pages of an index block: blocked Bloom filters
//! (Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"). All bits of a key
//! are in one block of 64 bytes, so a check reads one cache line, or two if the block crosses their
//! border.

use crate::FilterKeys;
use teak_base::checksum::hash_key;

/// A key to look up in several runs, hashed once.
#[derive(Clone, Copy, Debug)]
pub struct LookupKey<'a> {
    bytes: &'a [u8],
    hash: u64,
}

impl<'a> LookupKey<'a> {
    /// Hashes the key.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            hash: hash_key(bytes),
        }
    }

    /// The key.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The key's hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The hash by which filters with these parts of keys have the key.
    #[inline]
    pub(crate) fn hash_for(&self, keys: FilterKeys) -> u64 {
        match keys {
            FilterKeys::None | FilterKeys::Whole => self.hash,
            FilterKeys::WithoutSuffix(_) => keys.hash(self.bytes),
        }
    }
}

const BLOCK_BYTES: usize = 64;

/// The number of bits of a filter for each of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterSize {
    /// For upper runs: 12 bits, and 0.4 % of absent keys pass. A look-up checks several of them.
    Upper,
    /// For bottom runs, which have most keys: 8 bits, and 2.3 % of absent keys pass.
    Bottom,
}

impl FilterSize {
    fn bits_per_key(self) -> usize {
        match self {
            Self::Upper => 12,
            Self::Bottom => 8,
        }
    }

    /// Bits that each key sets, which gives the fewest false positives for this size.
    pub(crate) fn bits_set(self) -> u8 {
        match self {
            Self::Upper => 7,
            Self::Bottom => 5,
        }
    }

    /// Bytes of the filter of this number of keys.
    pub(crate) fn bytes(self, keys: usize) -> usize {
        (keys * self.bits_per_key()).div_ceil(BLOCK_BYTES * 8) * BLOCK_BYTES
    }
}

/// The maximum number of bits that a key of a valid filter sets.
const BITS_SET_MAX: u8 = 16;

/// Whether bytes on disk can be a filter whose keys set this number of bits.
pub(crate) fn is_valid(bytes: usize, bits_set: u8) -> bool {
    bytes.is_multiple_of(BLOCK_BYTES)
        && match bytes {
            0 => bits_set == 0,
            _ => (1..=BITS_SET_MAX).contains(&bits_set),
        }
}

#[inline]
fn block_of(hash: u64, blocks: usize) -> usize {
    // The high half selects the block, by multiplication instead of division.
    // The product is below `blocks`, so it fits.
    let product = (hash >> 32) * blocks as u64;
    usize::try_from(product >> 32).unwrap_or(0)
}

/// The bits that a key has in its block: bytes and masks.
#[inline]
fn bits(hash: u64, count: u8) -> impl Iterator<Item = (usize, u8)> {
    let mut state = (hash & 0xffff_ffff) as u32;
    (0..count).map(move |_| {
        let bit = state >> 23;
        state = state.wrapping_mul(0x9e37_79b9);
        (bit as usize / 8, 1 << (bit % 8))
    })
}

/// Appends the filter of the keys with these hashes.
pub(crate) fn build(hashes: &[u64], size: FilterSize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + size.bytes(hashes.len()), 0);
    let (blocks, _) = out.split_at_mut(start).1.as_chunks_mut::<BLOCK_BYTES>();
    let count = blocks.len();
    for hash in hashes {
        let Some(block) = blocks.get_mut(block_of(*hash, count)) else {
            continue;
        };
        for (byte, mask) in bits(*hash, size.bits_set()) {
            if let Some(byte) = block.get_mut(byte) {
                *byte |= mask;
            }
        }
    }
}

/// Whether a key with this hash may be in the filter, whose keys set `bits_set` bits. An empty
/// filter may contain every key.
#[inline]
pub(crate) fn may_contain(filter: &[u8], bits_set: u8, hash: u64) -> bool {
    let (blocks, _) = filter.as_chunks::<BLOCK_BYTES>();
    let Some(block) = blocks.get(block_of(hash, blocks.len())) else {
        return true;
    };
    bits(hash, bits_set).all(|(byte, mask)| block.get(byte).is_none_or(|byte| byte & mask != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(numbers: std::ops::Range<u32>) -> Vec<u64> {
        numbers.map(|n| hash_key(&n.to_be_bytes())).collect()
    }

    #[test]
    fn keys_pass_and_nearly_all_others_do_not() {
        let (keys, others) = (hashes(0..5000), hashes(5000..25_000));
        for (size, passed_max) in [(FilterSize::Upper, 160), (FilterSize::Bottom, 800)] {
            let mut filter = vec![1];
            build(&keys, size, &mut filter);
            let filter = &filter[1..];
            assert!(is_valid(filter.len(), size.bits_set()));
            let passes = |hash: &&u64| may_contain(filter, size.bits_set(), **hash);
            assert_eq!(keys.iter().filter(passes).count(), keys.len());
            let passed = others.iter().filter(passes).count();
            assert!(passed < passed_max, "{passed} of 20000 passed");
        }
    }

    #[test]
    fn an_empty_filter_excludes_nothing() {
        assert!(may_contain(&[], 0, 7));
        assert!(is_valid(0, 0) && !is_valid(0, 1) && !is_valid(64, 0) && !is_valid(65, 5));
    }

    #[test]
    fn the_documented_example_holds() {
        let mut filter = Vec::new();
        build(&[hash_key(b"k1")], FilterSize::Bottom, &mut filter);
        let documented = crate::test_support::documented_bytes("### Filter");
        assert_eq!(filter, documented, "{filter:02x?}");
    }
}
