//! Filters that answer "this key is not on this page".

use teak_base::checksum::hash_key;

/// A key to look up in many runs, hashed once.
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

    /// Its hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
