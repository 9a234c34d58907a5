//! Counts of the pages that a thread has used. A statement runs on one thread, so the difference of
//! two readings is the statement's page use.

use std::cell::Cell;

/// Pages, index blocks and separate values that a thread has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageCounts {
    /// Requested, cached or not.
    pub accessed: u64,
    /// Read from disk.
    pub read: u64,
}

thread_local! {
    static COUNTS: Cell<PageCounts> = const { Cell::new(PageCounts { accessed: 0, read: 0 }) };
}

impl PageCounts {
    /// Returns the counts of the calling thread.
    #[must_use]
    pub fn of_thread() -> Self {
        COUNTS.get()
    }
}

#[inline]
pub(crate) fn count_access() {
    let mut counts = COUNTS.get();
    counts.accessed += 1;
    COUNTS.set(counts);
}

pub(crate) fn count_read() {
    let mut counts = COUNTS.get();
    counts.read += 1;
    COUNTS.set(counts);
}
