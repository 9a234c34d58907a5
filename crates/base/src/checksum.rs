//! The checksum of all formats: 64-bit XXH3 (Collet, xxHash specification). It
//! detects bit rot and misplaced writes, not deliberate changes.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// Checksum of one byte string.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Checksum of the concatenation of several byte strings.
#[must_use]
pub fn checksum_parts(parts: &[&[u8]]) -> u64 {
    let mut state = Xxh3::new();
    for part in parts {
        state.update(part);
    }
    state.digest()
}

/// Hash of a key for filters.
#[must_use]
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The lower and the upper half of a 128-bit hash of a key, for lock tables.
#[must_use]
pub fn hash_key_128(key: &[u8]) -> (u64, u64) {
    let hash = xxh3_128(key);
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
    (half(hash), half(hash >> 64))
}
