//! The limit of lock memory, and the memory of range locks, row ranges and lists of write ids (see
//! `Transaction::id_list_bytes`). The row lock table counts the memory of row locks.

use crate::lock_types::Resized;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct LockMemory {
    bytes_max: AtomicU64,
    range_bytes: AtomicU64,
    /// When lock memory reaches this size, the largest lock holder is looked up
    /// again.
    next_check_bytes: AtomicU64,
}

impl Default for LockMemory {
    fn default() -> Self {
        Self {
            bytes_max: AtomicU64::new(u64::MAX),
            range_bytes: AtomicU64::new(0),
            next_check_bytes: AtomicU64::new(0),
        }
    }
}

impl LockMemory {
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// The memory at which escalation begins.
    pub(crate) fn bytes_soft(&self) -> u64 {
        let bytes_max = self.bytes_max();
        bytes_max - bytes_max / 8
    }

    pub(crate) fn range_bytes(&self) -> u64 {
        self.range_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn subtract_ranges(&self, bytes: u64) {
        if bytes != 0 {
            self.range_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn resize_ranges(&self, resized: Resized) {
        if resized.after >= resized.before {
            let more = resized.after - resized.before;
            self.range_bytes.fetch_add(more, Ordering::Relaxed);
        } else {
            self.subtract_ranges(resized.before - resized.after);
        }
    }

    /// Whether to look up the largest lock holder now: lock memory has grown by 1/64 of the limit
    /// since the last time, or is smaller than then.
    pub(crate) fn is_check_due(&self, used: u64) -> bool {
        let step = self.bytes_max() / 64;
        let next = self.next_check_bytes.load(Ordering::Relaxed);
        if used < next && next <= used.saturating_add(step) {
            return false;
        }
        let next = used.saturating_add(step);
        self.next_check_bytes.store(next, Ordering::Relaxed);
        true
    }
}
