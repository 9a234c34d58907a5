//! Garbage collection of the versions of one key during a merge.
//!
//! Versions arrive newest first. Newer versions determine which snapshots see a version, so each is
//! retained or dropped immediately, except deletes at the bottom:
//! 1. Aborted versions are dropped. Active versions are retained and do not affect older versions.
//! 2. A committed version is retained if a snapshot sees it: a snapshot at or above its commit and
//!    below the commits of all newer versions. It is also retained if its commit is above all
//!    snapshots and below the commits of all newer versions, because later snapshots may see it.
//! 3. A version that every snapshot sees is settled: its id becomes zero and
//!    everything older is dropped.
//! 4. At the bottom a settled delete is dropped. A committed delete is held back until an older
//!    version is retained, and dropped if there is none: then no reader sees a value of the key
//!    with or without the delete. Writers do not need it either: a delete newer than a snapshot is
//!    a conflict only if the snapshot sees an older version.

use super::MergeLevel;
use super::sink::MergeSink;
use super::status_cache::{MergeStatus, StatusCache};
use crate::StoredValue;
use teak_base::{Operation, StorageResult, WriteId};

/// The merge of the versions of one key into a sink.
pub(super) struct KeyMerge<'a, S> {
    level: MergeLevel,
    sink: &'a mut S,
    key: &'a [u8],
    /// The ids of committed deletes that are written if an older version is retained, newest first.
    held_deletes: &'a mut Vec<WriteId>,
    /// Lowest commit sequence of the versions so far. Snapshots at or above it do not see older
    /// versions.
    hidden_from: u64,
    /// Whether every snapshot sees one of the versions so far.
    is_closed: bool,
    /// Whether an entry of the key has been written.
    has_written: bool,
}

impl<'a, S: MergeSink> KeyMerge<'a, S> {
    #[inline]
    pub(super) fn new(
        level: MergeLevel,
        sink: &'a mut S,
        key: &'a [u8],
        held_deletes: &'a mut Vec<WriteId>,
    ) -> Self {
        held_deletes.clear();
        Self {
            level,
            sink,
            key,
            held_deletes,
            hidden_from: u64::MAX,
            is_closed: false,
            has_written: false,
        }
    }

    /// The key.
    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Whether all older versions are dropped.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Called before a version is added: whether it is from a page that was in the page cache.
    #[inline]
    pub(super) fn note_cached(&mut self, is_cached: bool) {
        self.sink.note_cached(is_cached);
    }

    /// Adds the next older version of the key.
    #[inline]
    pub(super) fn version(
        &mut self,
        statuses: &mut StatusCache<'_>,
        id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
    ) -> StorageResult<()> {
        match statuses.class(id) {
            MergeStatus::Settled => {
                self.is_closed = true;
                if operation == Operation::Delete && self.level == MergeLevel::Bottom {
                    return Ok(());
                }
                self.write(WriteId::SETTLED, operation, value)
            }
            MergeStatus::Aborted => Ok(()),
            MergeStatus::Active => self.write(id, operation, value),
            MergeStatus::Committed(at) => {
                let is_needed = statuses.is_needed(at, self.hidden_from);
                self.hidden_from = self.hidden_from.min(at);
                if !is_needed {
                    return Ok(());
                }
                if operation == Operation::Delete && self.level == MergeLevel::Bottom {
                    self.held_deletes.push(id);
                    return Ok(());
                }
                self.write(id, operation, value)
            }
        }
    }

    /// Handles a settled range tombstone that covers the key: drops older versions. Writes no
    /// entry, because a merged upper run retains the tombstone, and below a bottom run there are no
    /// older versions.
    #[inline]
    pub(super) fn settled_range_tombstone(&mut self) {
        self.is_closed = true;
    }

    #[inline]
    fn write(
        &mut self,
        id: WriteId,
        operation: Operation,
        value: StoredValue<'_>,
    ) -> StorageResult<()> {
        for held in self.held_deletes.drain(..) {
            let (starts_key, empty) = (!self.has_written, StoredValue::Inline(&[]));
            self.has_written = true;
            self.sink
                .push(self.key, held, Operation::Delete, empty, starts_key)?;
        }
        let starts_key = !self.has_written;
        self.has_written = true;
        self.sink.push(self.key, id, operation, value, starts_key)
    }
}
