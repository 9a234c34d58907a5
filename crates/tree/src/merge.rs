//! Merges: several ordered containers, newest first, become one, and versions
//! that no snapshot can see are dropped.
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

/// The level of the result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeLevel {
    /// Older containers may hold older versions of its keys.
    Upper,
    /// Nothing older exists.
    Bottom,
}
