//! The ordered in-memory buffer for new entries of one index: a B-link tree over entries in an
//! arena, and a short list of range tombstones. All unsafe code of the memtable is in
//! [`blink_tree`], [`blink_node`], [`entry`], [`arena`] and the cursor.
//!
//! Each insertion has a sequence number, which orders the entries and range tombstones of one
//! memtable. A reader sees a tombstone as a delete in front of each older entry that it covers.
//! All tombstones of the memtable ([`Memtable::range_tombstones`]) also delete keys in older
//! memtables and runs.

mod arena;
mod blink_node;
mod blink_tree;
mod cursor;
mod entry;
mod sync;

pub use cursor::MemtableCursor;

use crate::memory::{Charge, Phase};
use crate::{RangeTombstone, Visit};
use blink_tree::BlinkTree;
use entry::Version;
use std::ops::Bound;
use std::sync::Arc;
use sync::RwLock;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{Operation, WriteId};

/// A range tombstone and its sequence number.
#[derive(Clone, Debug)]
struct SequencedTombstone {
    sequence: u32,
    tombstone: RangeTombstone,
}

/// An ordered multi-version map in append-only memory, for concurrent writers and readers. Readers
/// of entries take no lock; they wait while a node that they read is being changed. If there are
/// range tombstones, readers take the read lock of their list.
///
/// Two threads must not insert the same key at the same time, and a key must not be inserted while
/// a range that covers it is deleted. The locks of the callers prevent this. The versions of a key
/// are in the order of the calls.
#[derive(Debug)]
pub struct Memtable {
    tree: BlinkTree,
    /// The sequence number of the next insertion.
    sequence: AtomicU32,
    /// Number of delete entries.
    deletes: AtomicU32,
    /// Number of insertions whose key was already in the memtable.
    repeats: AtomicU32,
    /// The number of keys minus [`Memtable::rows`]. A key whose newest entry is a delete adds no
    /// row. A key whose oldest entry is a delete is assumed to have a row in an older memtable or
    /// run, which is removed.
    rows_lacking: AtomicI64,
    /// Minimum and maximum unsettled write id; initially `u64::MAX` and 0.
    write_id_min: AtomicU64,
    write_id_max: AtomicU64,
    /// Whether a settled entry was inserted.
    any_settled: AtomicBool,
    /// Whether `tombstones` is not empty, so that readers need not lock it.
    has_tombstones: AtomicBool,
    /// Newest first. The list is replaced as a whole.
    tombstones: RwLock<Arc<Vec<SequencedTombstone>>>,
    tombstone_bytes: AtomicU64,
}

impl Memtable {
    /// Creates an empty memtable. Memory is allocated with the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self::charged(Charge::detached())
    }

    /// Creates an empty memtable whose memory is charged to a tree.
    pub(crate) fn charged(charge: Charge) -> Self {
        Self {
            tree: BlinkTree::new(charge),
            sequence: AtomicU32::new(0),
            deletes: AtomicU32::new(0),
            repeats: AtomicU32::new(0),
            rows_lacking: AtomicI64::new(0),
            write_id_min: AtomicU64::new(u64::MAX),
            write_id_max: AtomicU64::new(0),
            any_settled: AtomicBool::new(false),
            has_tombstones: AtomicBool::new(false),
            tombstones: RwLock::new(Arc::default()),
            tombstone_bytes: AtomicU64::new(0),
        }
    }

    /// Adds the newest version of a key.
    ///
    /// # Panics
    /// When the key or the value exceeds the limits of `teak_base::limits`.
    #[inline]
    pub fn insert(&self, write_id: WriteId, operation: Operation, key: &[u8], value: &[u8]) {
        assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX);
        self.note_write_id(write_id);
        if operation == Operation::Delete {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
        let sequence = self.next_sequence();
        let version = Version {
            sequence,
            write_id,
            operation,
            value,
        };
        let older = self.tree.insert(key, version);
        if older.is_some() {
            self.repeats.fetch_add(1, Ordering::Relaxed);
        }
        let is_delete = |operation| operation == Operation::Delete;
        let lacking = match (older.map(is_delete), is_delete(operation)) {
            (None, true) => 2,
            (Some(false), true) => 1,
            (Some(true), false) => -1,
            (None | Some(false), false) | (Some(true), true) => return,
        };
        self.rows_lacking.fetch_add(lacking, Ordering::Relaxed);
    }

    /// Deletes all keys from `start` (inclusive) to `end` (exclusive; empty: no end). Takes time
    /// proportional to the number of range tombstones in the memtable.
    ///
    /// # Panics
    /// When a key exceeds the limit of `teak_base::limits`.
    pub fn delete_range(&self, write_id: WriteId, start: &[u8], end: &[u8]) {
        assert!(start.len() <= KEY_BYTES_MAX && end.len() <= KEY_BYTES_MAX);
        self.note_write_id(write_id);
        let bytes = size_of::<SequencedTombstone>() + start.len() + end.len();
        self.tombstone_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        let mut tombstones = self.tombstones.write();
        let newest = SequencedTombstone {
            sequence: self.next_sequence(),
            tombstone: RangeTombstone {
                start: start.to_vec(),
                end: end.to_vec(),
                write_id,
            },
        };
        *tombstones = Arc::new(
            [newest]
                .into_iter()
                .chain(tombstones.iter().cloned())
                .collect(),
        );
        // Release, paired with the readers' Acquire: a reader that sees an
        // entry newer than this tombstone sees the tombstone, too.
        self.has_tombstones.store(true, Ordering::Release);
    }

    /// Relaxed is enough: the callers' locks order insertions of the same key, and atomic additions
    /// to one variable have a total order.
    #[inline]
    fn next_sequence(&self) -> u32 {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        assert!(sequence < u32::MAX, "a memtable holds too many entries");
        sequence
    }

    /// Includes a write id in the range. The loads avoid atomic writes if the id is in the range
    /// already, as for most entries of a statement.
    #[inline]
    fn note_write_id(&self, write_id: WriteId) {
        if write_id.is_settled() {
            self.any_settled.store(true, Ordering::Relaxed);
            return;
        }
        if write_id.0 < self.write_id_min.load(Ordering::Relaxed) {
            self.write_id_min.fetch_min(write_id.0, Ordering::Relaxed);
        }
        if write_id.0 > self.write_id_max.load(Ordering::Relaxed) {
            self.write_id_max.fetch_max(write_id.0, Ordering::Relaxed);
        }
    }

    /// Changes the state of the memtable in the sums of memory.
    pub(crate) fn enter(&self, phase: Phase) {
        self.tree.charge().enter(phase);
    }

    /// Bytes of this memtable in [`MemtableMemory`](crate::MemtableMemory).
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.tree.charge().bytes()
    }

    /// Memory used, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tree.bytes() + self.tombstone_bytes.load(Ordering::Relaxed)
    }

    /// Number of delete entries inserted.
    #[must_use]
    pub fn deletes(&self) -> u64 {
        u64::from(self.deletes.load(Ordering::Relaxed))
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let tombstones = match self.covering() {
            Some(tombstones) => tombstones.len() as u64,
            None => 0,
        };
        u64::from(self.sequence.load(Ordering::Relaxed)).saturating_sub(tombstones)
    }

    /// Number of distinct keys of the entries.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.entries()
            .saturating_sub(u64::from(self.repeats.load(Ordering::Relaxed)))
    }

    /// The number of rows that this memtable adds to a table, negative if it removes more. Assumes
    /// that a key whose oldest entry in this memtable is a put is a new row.
    #[must_use]
    pub fn rows(&self) -> i64 {
        i64::try_from(self.keys())
            .unwrap_or(i64::MAX)
            .saturating_sub(self.rows_lacking.load(Ordering::Relaxed))
    }

    /// Number of entries and range tombstones inserted. A reader that sees an insertion also sees
    /// the change of this number.
    #[inline]
    #[must_use]
    pub fn insertions(&self) -> u32 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Whether there are no entries and no range tombstones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequence.load(Ordering::Relaxed) == 0
    }

    /// Number of range tombstones.
    pub(crate) fn tombstone_count(&self) -> usize {
        self.covering().map_or(0, |tombstones| tombstones.len())
    }

    /// All range tombstones, newest first. A [`MemtableCursor`] applies them to the entries of
    /// this memtable; its caller applies them to older memtables and runs.
    #[must_use]
    pub fn range_tombstones(&self) -> Vec<RangeTombstone> {
        match self.covering() {
            Some(tombstones) => tombstones
                .iter()
                .map(|covering| covering.tombstone.clone())
                .collect(),
            None => Vec::new(),
        }
    }

    /// The minimum and maximum id of unsettled writes, tombstones included;
    /// `None` when there is none.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        let min = self.write_id_min.load(Ordering::Relaxed);
        let max = self.write_id_max.load(Ordering::Relaxed);
        (min <= max).then_some((WriteId(min), WriteId(max)))
    }

    /// The range of all write ids; `None` when some entry is settled, or the
    /// memtable is empty.
    #[must_use]
    pub fn only_write_ids(&self) -> Option<(WriteId, WriteId)> {
        let settled = self.any_settled.load(Ordering::Relaxed);
        self.write_id_range().filter(|_| !settled)
    }

    /// Estimates the number of keys in a range, without scanning it.
    #[must_use]
    pub fn estimate(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> u64 {
        // Excluded and included bounds differ by one key, which an estimate
        // ignores.
        let key = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        if let (None, None) = (key(lower), key(upper)) {
            return self.keys();
        }
        self.tree.estimate(key(lower), key(upper), self.keys())
    }

    /// Calls `visitor` for all versions of a key, newest first. Range tombstones that cover the key
    /// appear as deletes at their position, even if they are older than all entries of the key.
    pub fn visit(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, &[u8]) -> Visit,
    ) -> Visit {
        let mut entry = self.tree.get(key);
        // Loaded after the search, so that the list has all tombstones older than the entry that
        // was found.
        let tombstones = self.covering();
        let mut covering = tombstones
            .iter()
            .flat_map(|tombstones| tombstones.iter())
            .filter(|covering| covering.tombstone.covers(key))
            .peekable();
        while let Some(version) = entry {
            while let Some(newer) = covering.next_if(|c| c.sequence > version.sequence()) {
                if visitor(newer.tombstone.write_id, Operation::Delete, &[]) == Visit::Stop {
                    return Visit::Stop;
                }
            }
            if visitor(version.write_id(), version.operation(), version.value()) == Visit::Stop {
                return Visit::Stop;
            }
            entry = version.older();
        }
        for older in covering {
            if visitor(older.tombstone.write_id, Operation::Delete, &[]) == Visit::Stop {
                return Visit::Stop;
            }
        }
        Visit::Continue
    }

    /// Whether there are range tombstones. If this is called after an entry was found, it takes all
    /// tombstones older than the entry into account.
    #[inline]
    fn has_tombstones(&self) -> bool {
        self.has_tombstones.load(Ordering::Acquire)
    }

    /// The range tombstones, newest first, if there are any.
    #[inline]
    fn covering(&self) -> Option<Arc<Vec<SequencedTombstone>>> {
        self.has_tombstones()
            .then(|| Arc::clone(&self.tombstones.read()))
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
pub(crate) mod tests;
