//! The output of a merge.

use crate::StoredValue;
use teak_base::{Operation, StorageResult, WriteId};

/// Receives entries in key order, newest first within a key.
pub(crate) trait MergeSink {
    /// Called before the entries of a version: whether the version is from a page that was in the
    /// page cache.
    fn note_cached(&mut self, _is_cached: bool) {}

    /// Takes one entry. `starts_key`: this is the first (newest) entry of its
    /// key, so the sink may start a new run with it.
    fn push(
        &mut self,
        key: &[u8],
        id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
        starts_key: bool,
    ) -> StorageResult<()>;
}
