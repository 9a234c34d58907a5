//! The key of latches and row locks: a 128-bit hash of index and key.
//!
//! The hash is long enough to identify the row: a transaction that has locked one row may write
//! another one without a look at the lock table. With 64 bits, two of a billion locked rows share a
//! hash with a probability of 3 %.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use teak_base::FileId;
use teak_base::checksum::hash_key_128;

/// Identifies a row (index file and key) in latches and lock tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId {
    /// The part that selects a latch, a shard and a bucket.
    hash: u64,
    rest: u64,
}

impl LockId {
    /// The lock of `key` in the index `file`.
    #[must_use]
    pub fn new(file: FileId, key: &[u8]) -> Self {
        let (low, high) = hash_key_128(key);
        let mixed = low ^ file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            hash: mixed.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29),
            rest: high ^ file.0,
        }
    }

    /// The lock of a table's counter. Uses a file id that no index file has.
    #[must_use]
    pub fn of_counter(table: u64, counter: u8) -> Self {
        Self::new(FileId(!table), &[counter])
    }

    pub(crate) fn hash(self) -> u64 {
        self.hash
    }
}

impl Hash for LockId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher for keys that are hashes already: returns the value unchanged.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

pub(crate) type IdentityBuild = BuildHasherDefault<IdentityHasher>;
