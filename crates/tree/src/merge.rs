//! Merges combine several sources (memtables or runs), newest first, and drop
//! the versions that no snapshot can see.
//!
//! A merge reads and writes through traits and does not depend on files.

pub(crate) mod heap;
mod key_merge;
mod merger;
mod sink;
mod status_cache;
#[cfg(test)]
mod tests;
mod tombstones;
#[cfg(test)]
pub(crate) mod vec_cursor;

pub(crate) use merger::Merger;
pub(crate) use sink::MergeSink;

/// The level for which a merge writes its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeLevel {
    /// Older runs may hold older versions of its keys.
    Upper,
    /// There are no older versions of its keys.
    Bottom,
}
