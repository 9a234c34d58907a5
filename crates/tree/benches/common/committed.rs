//! Trees without transactions: all writes are committed.

use teak_base::{CommitSequence, WriteId};
use teak_tree::{Horizon, Visibility, WriteStatus};

/// All writes are committed, and one snapshot sees them.
pub struct AllCommitted([CommitSequence; 1]);

impl AllCommitted {
    pub fn new() -> Self {
        Self([CommitSequence(1)])
    }
}

impl Horizon for AllCommitted {
    fn status(&self, _id: WriteId) -> WriteStatus {
        WriteStatus::Committed(CommitSequence(1))
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.0
    }
}

/// Sees all writes.
pub struct SeesAll;

impl Visibility for SeesAll {
    fn is_visible(&self, _id: WriteId) -> bool {
        true
    }
}

/// A distinct number for each number, in scattered order.
pub fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
