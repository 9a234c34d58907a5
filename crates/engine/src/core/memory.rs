//! Measures the memory of an engine.

use super::budget::Budget;
use super::memory_use::MemoryUse;
use crate::options::Heap;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use teak_transactions::TransactionSystem;
use teak_tree::PageCache;
use teak_write_ahead_log::WriteAheadLog;

/// Time between two measurements of the heap.
const HEAP_PERIOD: Duration = Duration::from_millis(100);

/// The last measurement of the heap: the allocated bytes that are neither in the page cache nor in
/// memtables.
#[derive(Default)]
pub(crate) struct HeapMeter(Mutex<Option<(Instant, u64)>>);

impl HeapMeter {
    /// The last measurement, or the result of `measure`. Measured at most once per `HEAP_PERIOD`,
    /// because a measurement takes long compared with the work of most callers. The difference is
    /// kept, not the allocated bytes: otherwise what the page cache takes in the meantime would
    /// seem to be free.
    fn others(&self, measure: impl FnOnce() -> u64) -> u64 {
        let mut last = self.0.lock();
        let now = Instant::now();
        match *last {
            Some((at, bytes)) if now.saturating_duration_since(at) < HEAP_PERIOD => bytes,
            _ => {
                let bytes = measure();
                *last = Some((now, bytes));
                bytes
            }
        }
    }
}

/// The parts of an engine that use memory.
#[derive(Clone, Copy)]
pub(crate) struct MemoryContext<'a> {
    pub cache: &'a PageCache,
    pub transactions: &'a TransactionSystem,
    pub log: &'a WriteAheadLog,
    pub budget: &'a Budget,
    pub heap: Option<&'a dyn Heap>,
    pub meter: &'a HeapMeter,
}

impl MemoryContext<'_> {
    /// The memory in use now.
    pub(crate) fn measure(&self) -> MemoryUse {
        let memtables = self.cache.memtables();
        let used = memtables.used();
        let seen = self.budget.without_unflushable(used);
        let page_cache = self.cache.held_bytes();
        let measured = self.heap.map(|heap| {
            self.meter.others(|| {
                let allocated = heap.allocated_bytes() + memtables.mapped_bytes();
                allocated.saturating_sub(page_cache + used.total() + memtables.spare_bytes())
            })
        });
        MemoryUse {
            page_cache,
            uncached_blocks: self.cache.uncached_bytes(),
            memtables_live: seen.live(),
            memtables_retired: seen.retired,
            memtables_spare: memtables.spare_bytes(),
            nodes: self.cache.blocks_in_memory().node_bytes(),
            locks: self.transactions.lock_bytes(),
            write_ids: self.transactions.ids().memory_bytes(),
            log: self.log.buffer_bytes(),
            sorts: self.budget.sort_bytes(),
            callers: self.budget.caller_bytes(),
            measured,
        }
    }
}
