//! The checksum of all formats: 64-bit XXH3 (Collet, xxHash specification). It
//! detects bit rot and misplaced writes, not deliberate changes.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

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

/// Hash of a key for filters and lock tables.
#[must_use]
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}
