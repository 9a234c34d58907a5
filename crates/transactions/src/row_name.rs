//! The row that a lock request names.

use crate::lock_id::LockId;
use crate::range_locks::RangeLocks;
use std::sync::Arc;

/// A row, as the lock tables identify it.
#[derive(Clone, Copy, Debug)]
pub struct RowName<'a> {
    /// The id of its lock.
    pub lock: LockId,
    /// The range locks of its index.
    pub index: &'a Arc<RangeLocks>,
    /// Its key.
    pub key: &'a [u8],
}

impl<'a> RowName<'a> {
    /// The row with `key` in an index.
    #[must_use]
    pub fn new(index: &'a Arc<RangeLocks>, key: &'a [u8]) -> Self {
        Self {
            lock: LockId::new(index.file(), key),
            index,
            key,
        }
    }
}
