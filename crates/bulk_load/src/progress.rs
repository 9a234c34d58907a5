//! How far a sort is.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of entries. A sort without spill files passes each entry twice (added, merged); each
/// pass over spill files adds to `spilled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortProgress {
    /// Entries added, without those of the buffer that the caller fills.
    pub added: u64,
    /// Entries written to spill files. An entry that is merged from several spill files into
    /// another one counts again.
    pub spilled: u64,
    /// Entries that the last merge has returned, in whole batches.
    pub merged: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SortCounts {
    pub(crate) added: AtomicU64,
    pub(crate) spilled: AtomicU64,
    pub(crate) merged: AtomicU64,
}

impl SortCounts {
    pub(crate) fn read(&self) -> SortProgress {
        SortProgress {
            added: self.added.load(Ordering::Relaxed),
            spilled: self.spilled.load(Ordering::Relaxed),
            merged: self.merged.load(Ordering::Relaxed),
        }
    }
}
