//! The positions of one write in the queues of range locks.

use crate::range_locks::RangeLocks;
use smallvec::SmallVec;
use std::sync::Arc;
use teak_base::TransactionId;

/// The indexes whose range queues contain one write. Drop this after the write is done or
/// cancelled: it removes the write from the queues.
#[derive(Debug, Default)]
pub struct RangeQueuePositions {
    indexes: SmallVec<[(Arc<RangeLocks>, TransactionId); 1]>,
}

impl RangeQueuePositions {
    pub(crate) fn add(&mut self, ranges: &Arc<RangeLocks>, transaction: TransactionId) {
        let mut indexes = self.indexes.iter();
        if !indexes.any(|(of, _)| Arc::ptr_eq(of, ranges)) {
            self.indexes.push((Arc::clone(ranges), transaction));
        }
    }
}

impl Drop for RangeQueuePositions {
    fn drop(&mut self) {
        for (ranges, transaction) in &self.indexes {
            ranges.dequeue_writes(*transaction);
        }
    }
}
