//! The key of latches and row locks: a 64-bit hash of index and key.
//!
//! Two rows with the same hash share one lock. A transaction may then wait
//! unnecessarily, but two transactions never hold conflicting locks of one row.
//! A holder counts its acquisitions, so releasing one of two such rows leaves the
//! other locked.

use std::hash::{BuildHasherDefault, Hasher};
use teak_base::FileId;
use teak_base::checksum::hash_key;

/// Identifies a row (index file and key) in latches and lock tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId(pub u64);

impl LockId {
    /// The lock of `key` in the index `file`.
    #[must_use]
    pub fn new(file: FileId, key: &[u8]) -> Self {
        let mixed = hash_key(key) ^ file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29))
    }

    /// The lock of a table's counter. Uses a file id that no index file has.
    #[must_use]
    pub fn of_counter(table: u64, counter: u8) -> Self {
        Self::new(FileId(!table), &[counter])
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
