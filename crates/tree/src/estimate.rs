//! Estimates from what is in memory and from index blocks, without reading
//! data pages.

use crate::tree::Tree;
use std::ops::Bound;
use teak_base::StorageResult;

impl Tree {
    /// Rows in the tree, about.
    #[must_use]
    pub fn estimate_entries(&self) -> u64 {
        let version = self.load_version();
        let memtables: u64 = version.memtables().map(|s| s.memtable.entries()).sum();
        memtables.saturating_add_signed(version.root.summary.rows.max(0))
    }

    /// Entries in a range, about. Reads index blocks, at most.
    ///
    /// # Errors
    /// Those of reading blocks.
    pub fn estimate_range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
        let version = self.load_version();
        let memtables = version.memtables();
        Ok(memtables.map(|s| s.memtable.estimate(lower, upper)).sum())
    }
}
