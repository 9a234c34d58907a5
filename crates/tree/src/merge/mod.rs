//! Merging: several ordered containers, newest first, become one, and the
//! versions that nobody can see any more are left behind on the way.
//!
//! It reads and writes through traits alone; it knows no files.

mod collector;
mod fates;
pub(crate) mod heap;
mod merger;
mod sink;
#[cfg(test)]
mod tests;
mod tombstones;
#[cfg(test)]
pub(crate) mod vec_cursor;

pub(crate) use merger::Merger;
pub(crate) use sink::MergeSink;

use crate::visibility::UpdateFunctions;
use std::path::Path;
use teak_base::visibility::Horizon;

/// Where the result of a merge will lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeLevel {
    /// Older containers may hold older versions of its keys.
    Upper,
    /// Nothing older exists.
    Bottom,
}

/// What a merge needs to know of the world.
#[derive(Clone, Copy)]
pub(crate) struct MergeContext<'a> {
    pub(crate) horizon: &'a dyn Horizon,
    pub(crate) updates: &'a dyn UpdateFunctions,
    /// The file concerned, for error values.
    pub(crate) path: &'a Path,
}
