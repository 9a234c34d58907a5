//! The k-way merge of sources, newest first, into one sequence.
//!
//! For each key, in order:
//! 1. The heap returns the newest source that is on the key.
//! 2. Range tombstones of newer sources that have not been applied to the key yet are applied
//!    first, as deletes of the key, unless the same write has deleted the key already.
//! 3. The source's versions of the key go to [`KeyMerge`], which writes the versions to retain.
//!    After a settled version, the older versions of the key are skipped, in this and in older
//!    sources.
//! 4. The next source on the same key follows, then the next key.
//!
//! A merge can stop at a key and continue at another level or into another
//! sink. So one pass over a memtable writes the runs of all children of the
//! root.

// Source numbers come from the heap, which was built from `sources`. Layer
// numbers are compared with the length first.
#![allow(clippy::indexing_slicing)]

use super::MergeLevel;
use super::heap::{Direction, KeyHeap};
use super::key_merge::KeyMerge;
use super::sink::MergeSink;
use super::status_cache::StatusCache;
use super::tombstones::{TombstoneLayer, retained_tombstones};
use crate::key_search::is_same_key;
use crate::{RangeTombstone, StoredValue, VersionCursor};
use std::collections::HashSet;
use teak_base::visibility::Horizon;
use teak_base::{Operation, StorageResult, WriteId};

/// A merge in progress.
pub(crate) struct Merger<'a, C> {
    sources: Vec<C>,
    heap: KeyHeap,
    statuses: StatusCache<'a>,
    layers: Vec<TombstoneLayer>,
    key: Vec<u8>,
    /// Scratch space of [`KeyMerge`].
    held_deletes: Vec<WriteId>,
    /// The writes that have deleted the current key. Empty if there are no range tombstones.
    deleted_by: HashSet<WriteId>,
    entries_read: u64,
}

impl<'a, C: VersionCursor> Merger<'a, C> {
    /// Creates a merge of `sources`, newest first. `tombstones[i]` are the range
    /// tombstones of source `i`; they delete entries of older sources. The merge
    /// has no position until `seek` is called.
    pub(crate) fn new(
        horizon: &'a dyn Horizon,
        sources: Vec<C>,
        tombstones: &[Vec<RangeTombstone>],
    ) -> Self {
        assert!(tombstones.len() <= sources.len());
        let mut statuses = StatusCache::new(horizon);
        let layers = tombstones
            .iter()
            .enumerate()
            .filter_map(|(source, list)| TombstoneLayer::new(source, list, &mut statuses))
            .collect();
        Self {
            sources,
            heap: KeyHeap::new(),
            statuses,
            layers,
            key: Vec::new(),
            held_deletes: Vec::new(),
            deleted_by: HashSet::new(),
            entries_read: 0,
        }
    }

    /// Moves every source to its first key at or above `lower`.
    pub(crate) fn seek(&mut self, lower: Option<&[u8]>) -> StorageResult<()> {
        for source in &mut self.sources {
            match lower {
                Some(lower) => source.seek(lower)?,
                None => source.seek_first()?,
            }
        }
        for layer in &mut self.layers {
            layer.rewind();
        }
        self.heap
            .rebuild(&self.sources, Direction::Forward, |_, source| {
                source.valid()
            });
        Ok(())
    }

    /// The current key.
    #[cfg(test)]
    pub(crate) fn next_key(&self) -> Option<&[u8]> {
        self.heap.top().map(|top| self.sources[top].key())
    }

    /// Entries read from the sources so far.
    pub(crate) fn entries_read(&self) -> u64 {
        self.entries_read
    }

    /// The range tombstones between the bounds that the merged run retains. None at the bottom
    /// level, because the merge has applied them to all older entries.
    pub(crate) fn retained_tombstones(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        level: MergeLevel,
    ) -> Vec<RangeTombstone> {
        match level {
            MergeLevel::Bottom => Vec::new(),
            MergeLevel::Upper => retained_tombstones(&self.layers, lower, upper),
        }
    }

    /// Merges all keys below `upper` into `sink`.
    pub(crate) fn merge_until<S: MergeSink>(
        &mut self,
        upper: Option<&[u8]>,
        level: MergeLevel,
        sink: &mut S,
    ) -> StorageResult<()> {
        self.merge_part(upper, u64::MAX, level, sink).map(|_| ())
    }

    /// Merges keys below `upper` into `sink` until about `entries` have been read. Returns whether
    /// there are more.
    pub(crate) fn merge_part<S: MergeSink>(
        &mut self,
        upper: Option<&[u8]>,
        entries: u64,
        level: MergeLevel,
        sink: &mut S,
    ) -> StorageResult<bool> {
        let end = self.entries_read.saturating_add(entries);
        while let Some(top) = self.heap.top() {
            let key = self.sources[top].key();
            if upper.is_some_and(|upper| key >= upper) {
                return Ok(false);
            }
            if self.entries_read >= end {
                return Ok(true);
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            self.merge_key(top, level, sink)?;
        }
        Ok(false)
    }

    #[inline]
    fn merge_key<S: MergeSink>(
        &mut self,
        mut top: usize,
        level: MergeLevel,
        sink: &mut S,
    ) -> StorageResult<()> {
        let mut merge = KeyMerge::new(level, sink, &self.key, &mut self.held_deletes);
        let has_layers = !self.layers.is_empty();
        if has_layers {
            self.deleted_by.clear();
        }
        let mut layer = 0;
        loop {
            if layer < self.layers.len() {
                let (layers, deleted_by) = (&mut self.layers, &mut self.deleted_by);
                let statuses = &mut self.statuses;
                apply_layers(layers, &mut layer, top, deleted_by, statuses, &mut merge)?;
            }
            let source = &mut self.sources[top];
            loop {
                self.entries_read += 1;
                if !merge.is_closed() {
                    let (id, operation) = (source.write_id(), source.operation());
                    if has_layers && operation == Operation::Delete {
                        self.deleted_by.insert(id);
                    }
                    merge.note_cached(source.is_cached());
                    merge.version(&mut self.statuses, id, operation, source.value())?;
                }
                source.next_version()?;
                if !source.valid() {
                    self.heap.remove_top(&self.sources);
                    break;
                }
                if !is_same_key(source.key(), &self.key) {
                    self.heap.top_moved(&self.sources);
                    break;
                }
            }
            match self.heap.top() {
                Some(next) if is_same_key(self.sources[next].key(), &self.key) => top = next,
                _ => return Ok(()),
            }
        }
    }
}

/// Applies the range tombstones of the sources newer than `source` to the key, starting with layer
/// number `layer`, the first that has not been applied yet.
///
/// A tombstone of a write in `deleted_by` is not applied again. An earlier merge has applied it to
/// older entries of the key, and has retained the tombstone, too. So its run has the delete above
/// these entries, and the tombstone below them.
#[cold]
fn apply_layers<S: MergeSink>(
    layers: &mut [TombstoneLayer],
    layer: &mut usize,
    source: usize,
    deleted_by: &mut HashSet<WriteId>,
    statuses: &mut StatusCache<'_>,
    merge: &mut KeyMerge<'_, S>,
) -> StorageResult<()> {
    while let Some(current) = layers.get_mut(*layer) {
        if current.source >= source || merge.is_closed() {
            return Ok(());
        }
        *layer += 1;
        let Some(cover) = current.cover(merge.key()) else {
            continue;
        };
        for &id in cover.ids {
            if deleted_by.insert(id) {
                merge.version(statuses, id, Operation::Delete, StoredValue::Inline(&[]))?;
            }
        }
        if cover.settled {
            merge.settled_range_tombstone();
        }
    }
    Ok(())
}
