//! How a reader of a run uses the page cache and the file.

/// How a cursor uses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPattern {
    /// Random access: pages that are read enter the cache.
    Random,
    /// Sequential access, as in a merge: cached pages are used, but pages that
    /// are read do not enter the cache.
    Sequential,
}

/// Where a lookup finds blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockSource {
    /// In memory, otherwise in the file.
    File,
    /// In memory. The lookup ends at a block that is not there.
    Memory,
}
