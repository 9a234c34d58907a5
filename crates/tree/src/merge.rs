//! Merging: several ordered containers, newest first, become one, and the
//! versions that nobody can see any more are left behind on the way.
//!
//! It reads and writes through traits alone; it knows no files.

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

/// Where the result of a merge will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeLevel {
    /// Older containers may hold older versions of its keys.
    Upper,
    /// Nothing older exists.
    Bottom,
}
