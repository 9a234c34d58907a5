//! The ordered in-memory buffer that takes new entries of one index.

use crate::{RangeTombstone, VersionCursor, Visit};
use std::ops::Bound;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// An ordered multi-version map in append-only memory: many writers, readers
/// without locks.
///
/// Two writers must not insert the same key at the same time (nor one insert a
/// key while another deletes a range that covers it): the callers' locks see
/// to that, and the order of their calls is the order of the versions.
#[derive(Debug)]
pub struct Memtable {}

impl Memtable {
    /// An empty memtable; it allocates with the first insertion.
    #[must_use]
    pub fn new() -> Self {
        todo!()
    }

    /// Adds the newest version of a key.
    ///
    /// # Panics
    /// When the key or the value exceeds the limits of `teak_base::limits`.
    pub fn insert(&self, write_id: WriteId, operation: Operation, key: &[u8], value: &[u8]) {
        let _ = (write_id, operation, key, value);
        todo!()
    }

    /// Deletes all keys from `start` up to, and without, `end` (empty: no
    /// end). Costs time in the number of range deletions so far.
    pub fn delete_range(&self, write_id: WriteId, start: &[u8], end: &[u8]) {
        let _ = (write_id, start, end);
        todo!()
    }

    /// Memory used, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// Points inserted.
    #[must_use]
    pub fn entries(&self) -> u64 {
        todo!()
    }

    /// Whether there is neither a point nor a range tombstone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// All range tombstones, newest first: the base layer below the points
    /// that a [`MemtableCursor`] shows.
    #[must_use]
    pub fn range_tombstones(&self) -> Vec<RangeTombstone> {
        todo!()
    }

    /// The least and greatest id of unsettled writes, tombstones included;
    /// `None` when there is none.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        todo!()
    }

    /// Estimates the points in a range, without walking it.
    #[must_use]
    pub fn estimate(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> u64 {
        let _ = (lower, upper);
        todo!()
    }

    /// A cursor over points and, in front of older points they cover, range
    /// tombstones as deletes. It sees what was inserted before each of its
    /// moves.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        todo!()
    }

    /// Shows all versions of a key, newest first, each covering range
    /// tombstone as a delete in its place (those below all points too).
    pub fn visit(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, &[u8]) -> Visit,
    ) -> Visit {
        let _ = (key, visitor);
        todo!()
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

/// A cursor over a [`Memtable`].
#[derive(Debug)]
pub struct MemtableCursor {}

#[allow(unused_variables)]
impl VersionCursor for MemtableCursor {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        todo!()
    }
    fn seek_first(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn seek_last(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        todo!()
    }
    fn valid(&self) -> bool {
        todo!()
    }
    fn key(&self) -> &[u8] {
        todo!()
    }
    fn write_id(&self) -> WriteId {
        todo!()
    }
    fn operation(&self) -> Operation {
        todo!()
    }
    fn value(&self) -> &[u8] {
        todo!()
    }
    fn next_version(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn previous_key(&mut self) -> StorageResult<()> {
        todo!()
    }
}
