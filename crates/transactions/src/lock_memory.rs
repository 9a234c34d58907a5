//! The limit of lock memory, and the memory of range locks, row ranges and lists of write ids (see
//! `Transaction::id_list_bytes`). The row lock table counts the memory of row locks.

use crate::lock_types::Resized;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct LockMemory {
    bytes_max: AtomicU64,
    range_bytes: AtomicU64,
    /// When lock memory reaches this size, the largest lock holder is looked up again.
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
        self.next_check_bytes.store(0, Ordering::Relaxed);
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
    /// since the last time or, if calls have seen less memory since then, from the minimum that they
    /// have seen. A smaller use alone is no reason, because transactions that end and others that begin
    /// would cause a look-up at almost every request.
    pub(crate) fn is_check_due(&self, used: u64) -> bool {
        let next = self.next_check_bytes.load(Ordering::Relaxed);
        let after_step = used.saturating_add(self.bytes_max() / 64);
        if used < next {
            if after_step < next {
                self.next_check_bytes.store(after_step, Ordering::Relaxed);
            }
            return false;
        }
        self.next_check_bytes.store(after_step, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_after_growth_and_not_after_a_shrink() {
        let memory = LockMemory::default();
        memory.set_bytes_max(6400);
        assert!(memory.is_check_due(6000));
        assert!(!memory.is_check_due(6099));
        for used in [5900, 5950, 5850, 5800, 5899] {
            assert!(!memory.is_check_due(used), "{used}");
        }
        assert!(memory.is_check_due(5900));
        assert!(!memory.is_check_due(5999));
        assert!(memory.is_check_due(6000));
    }

    #[test]
    fn a_check_is_due_after_the_limit_was_lowered() {
        let memory = LockMemory::default();
        memory.set_bytes_max(6400);
        assert!(memory.is_check_due(6000));
        memory.set_bytes_max(640);
        assert!(memory.is_check_due(600));
    }
}
