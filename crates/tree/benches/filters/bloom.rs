//! Bloom filters that set all bits of a key in one block.

/// A filter of one block of `BLOCK_BYTES` for each key.
pub trait Blocks {
    const BLOCK_BYTES: usize;

    fn set(block: &mut [u8], hash: u32);
    fn has(block: &[u8], hash: u32) -> bool;
}

/// One bit in each of eight 32-bit words: the "split-block Bloom filter" of Apache Parquet.
pub struct SplitBlock;

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

impl Blocks for SplitBlock {
    const BLOCK_BYTES: usize = 32;

    fn set(block: &mut [u8], hash: u32) {
        let (words, _) = block.as_chunks_mut::<4>();
        for (word, salt) in words.iter_mut().zip(SALTS) {
            let mask = 1 << (hash.wrapping_mul(salt) >> 27);
            *word = (u32::from_le_bytes(*word) | mask).to_le_bytes();
        }
    }

    fn has(block: &[u8], hash: u32) -> bool {
        let (words, _) = block.as_chunks::<4>();
        words.iter().zip(SALTS).all(|(word, salt)| {
            u32::from_le_bytes(*word) & (1 << (hash.wrapping_mul(salt) >> 27)) != 0
        })
    }
}

/// `PROBES` bits anywhere in 64 bytes, as RocksDB's "fast local Bloom filter" places them.
pub struct CacheLine<const PROBES: usize>;

fn probes<const PROBES: usize>(hash: u32) -> impl Iterator<Item = (usize, u8)> {
    let mut hash = hash;
    (0..PROBES).map(move |_| {
        let bit = (hash >> 23) as usize;
        hash = hash.wrapping_mul(0x9e37_79b9);
        (bit / 8, 1 << (bit % 8))
    })
}

impl<const PROBES: usize> Blocks for CacheLine<PROBES> {
    const BLOCK_BYTES: usize = 64;

    fn set(block: &mut [u8], hash: u32) {
        for (byte, mask) in probes::<PROBES>(hash) {
            block[byte] |= mask;
        }
    }

    fn has(block: &[u8], hash: u32) -> bool {
        probes::<PROBES>(hash).all(|(byte, mask)| block[byte] & mask != 0)
    }
}

fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

/// Builds a filter with `tenths` tenths of a bit for each key.
pub fn build<B: Blocks>(hashes: &[u64], tenths: usize) -> Vec<u8> {
    let blocks = (hashes.len() * tenths).div_ceil(80 * B::BLOCK_BYTES).max(1);
    let mut filter = vec![0; blocks * B::BLOCK_BYTES];
    for hash in hashes {
        let start = block_of(*hash, blocks) * B::BLOCK_BYTES;
        B::set(&mut filter[start..start + B::BLOCK_BYTES], *hash as u32);
    }
    filter
}

pub fn may_contain<B: Blocks>(filter: &[u8], hash: u64) -> bool {
    let start = block_of(hash, filter.len() / B::BLOCK_BYTES) * B::BLOCK_BYTES;
    B::has(&filter[start..start + B::BLOCK_BYTES], hash as u32)
}
