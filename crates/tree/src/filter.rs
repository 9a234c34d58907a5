//! Filters that rule out that a key is on a page: split-block Bloom filters (as specified for
//! Apache Parquet; Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"). A
//! key sets one bit in each of the eight 32-bit words of one 32-byte block, so a check reads one
//! cache line, or two if the block crosses their border. With about 10 bits per key, about one
//! absent key in a hundred passes.

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
}

const BLOCK_BYTES: usize = 32;
const BITS_PER_KEY: usize = 10;

/// Odd multipliers that spread one 32-bit hash over the eight words.
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

#[inline]
fn block_of(hash: u64, blocks: usize) -> usize {
    // The high half selects the block, by multiplication instead of division.
    // The product is below `blocks`, so it fits.
    let product = (hash >> 32) * blocks as u64;
    usize::try_from(product >> 32).unwrap_or(0)
}

#[inline]
fn mask(hash: u64, word: usize) -> u32 {
    let low = (hash & 0xffff_ffff) as u32;
    let salt = SALTS.get(word).copied().unwrap_or(1);
    1 << (low.wrapping_mul(salt) >> 27)
}

/// Appends the filter of the keys with these hashes.
pub(crate) fn build(hashes: &[u64], out: &mut Vec<u8>) {
    let blocks = (hashes.len() * BITS_PER_KEY)
        .div_ceil(BLOCK_BYTES * 8)
        .max(1);
    let start = out.len();
    out.resize(start + blocks * BLOCK_BYTES, 0);
    let Some(filter) = out.get_mut(start..) else {
        return;
    };
    for hash in hashes {
        let block = block_of(*hash, blocks) * BLOCK_BYTES;
        let Some(block) = filter.get_mut(block..block + BLOCK_BYTES) else {
            continue;
        };
        let (words, _) = block.as_chunks_mut::<4>();
        for (number, word) in words.iter_mut().enumerate() {
            *word = (u32::from_le_bytes(*word) | mask(*hash, number)).to_le_bytes();
        }
    }
}

/// Whether a key with this hash may be in the filter. An empty filter may contain every key.
#[inline]
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let blocks = filter.len() / BLOCK_BYTES;
    if blocks == 0 {
        return true;
    }
    let block = block_of(hash, blocks) * BLOCK_BYTES;
    let Some(block) = filter.get(block..block + BLOCK_BYTES) else {
        return true;
    };
    let (words, _) = block.as_chunks::<4>();
    words
        .iter()
        .enumerate()
        .all(|(number, word)| u32::from_le_bytes(*word) & mask(hash, number) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_pass_and_nearly_all_others_do_not() {
        let hashes: Vec<u64> = (0..5000u32).map(|n| hash_key(&n.to_be_bytes())).collect();
        let mut filter = Vec::new();
        build(&hashes, &mut filter);
        assert!(hashes.iter().all(|hash| may_contain(&filter, *hash)));
        let passed = (5000..25_000u32)
            .filter(|n| may_contain(&filter, hash_key(&n.to_be_bytes())))
            .count();
        assert!(passed < 20_000 * 3 / 100, "{passed} of 20000 passed");
    }

    #[test]
    fn an_empty_filter_excludes_nothing() {
        assert!(may_contain(&[], 7));
    }
}
