//! How a reader of a run uses the page cache.

/// How a cursor uses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPattern {
    /// Any page, perhaps again soon: pages that are read enter the cache.
    Random,
    /// Each page once and in order, as in a merge: the cache is used, but pages
    /// that are read do not enter it.
    Sequential,
}
