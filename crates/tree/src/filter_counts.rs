//! The filters of one file: those in memory, and what checks have found.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::stripes::{Stripe, Striped};

/// Numbers of checks of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterChecks {
    /// Checks.
    pub checks: u64,
    /// Checks that ruled out the key.
    pub negatives: u64,
}

impl FilterChecks {
    pub(crate) fn add(&mut self, other: &Self) {
        self.checks += other.checks;
        self.negatives += other.negatives;
    }

    /// The checks since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            checks: self.checks.saturating_sub(earlier.checks),
            negatives: self.negatives.saturating_sub(earlier.negatives),
        }
    }
}

/// The filters of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterStatistics {
    /// Bytes of the filters in memory.
    pub bytes: u64,
    /// Entries of the index blocks with these filters.
    pub entries: u64,
    /// The checks of filters.
    pub checks: FilterChecks,
}

/// The filter of an index block in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterInMemory {
    pub(crate) bytes: u32,
    /// Entries of the index block.
    pub(crate) entries: u32,
}

/// Counters of the filters of a file.
#[derive(Debug, Default)]
pub(crate) struct FileFilters {
    bytes: AtomicU64,
    entries: AtomicU64,
    /// Striped, because every check changes these counts. Allocated by the first check.
    checks: OnceLock<Box<Striped<CheckCounts>>>,
}

/// Counts of checks by some of the threads.
#[derive(Debug, Default)]
struct CheckCounts {
    positives: AtomicU64,
    negatives: AtomicU64,
}

#[inline]
fn count_in(counts: &Striped<CheckCounts>, negative: bool) {
    let counts = counts.get(Stripe::current());
    let counter = match negative {
        true => &counts.negatives,
        false => &counts.positives,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

impl FileFilters {
    /// Counts a check. Returns `false` if it is the first one, which is not counted.
    #[inline]
    pub(crate) fn count(&self, negative: bool) -> bool {
        match self.checks.get() {
            Some(counts) => {
                count_in(counts, negative);
                true
            }
            None => false,
        }
    }

    /// Counts the first check. Returns the bytes that were allocated.
    #[cold]
    pub(crate) fn count_first(&self, negative: bool) -> u64 {
        let mut allocated = 0;
        let counts = self.checks.get_or_init(|| {
            allocated = size_of::<Striped<CheckCounts>>() as u64;
            Box::default()
        });
        count_in(counts, negative);
        allocated
    }

    /// Bytes that were allocated to count checks.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let counts = self.checks.get();
        counts.map_or(0, |counts| size_of_val(&**counts) as u64)
    }

    pub(crate) fn add(&self, filter: FilterInMemory) {
        self.bytes
            .fetch_add(u64::from(filter.bytes), Ordering::Relaxed);
        self.entries
            .fetch_add(u64::from(filter.entries), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, filter: FilterInMemory) {
        self.bytes
            .fetch_sub(u64::from(filter.bytes), Ordering::Relaxed);
        self.entries
            .fetch_sub(u64::from(filter.entries), Ordering::Relaxed);
    }

    pub(crate) fn checks(&self) -> FilterChecks {
        let mut sum = FilterChecks::default();
        for counts in self
            .checks
            .get()
            .into_iter()
            .flat_map(|counts| counts.iter())
        {
            let negatives = counts.negatives.load(Ordering::Relaxed);
            let checks = negatives + counts.positives.load(Ordering::Relaxed);
            sum.add(&FilterChecks { checks, negatives });
        }
        sum
    }

    pub(crate) fn statistics(&self) -> FilterStatistics {
        FilterStatistics {
            bytes: self.bytes.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
            checks: self.checks(),
        }
    }
}
