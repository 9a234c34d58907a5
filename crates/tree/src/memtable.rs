//! The ordered in-memory buffer that takes new entries of one index: a tree of
//! cache-friendly nodes over entries in an arena ([`blink_tree`], [`blink_node`],
//! [`entry`], [`arena`] hold all unsafe code but the cursor's), and a short
//! list of range tombstones beside it.
//!
//! A sequence number per insertion orders points and range tombstones of one
//! memtable. Readers see a tombstone as deletes in front of the older points
//! it covers; for everything below the memtable, all its tombstones together
//! are the base layer ([`Memtable::range_tombstones`]).

mod arena;
mod blink_node;
mod blink_tree;
mod cursor;
mod entry;
mod sync;

pub use cursor::MemtableCursor;

use crate::{RangeTombstone, Visit};
use blink_tree::BlinkTree;
use entry::Version;
use std::ops::Bound;
use std::sync::Arc;
use sync::RwLock;
use sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use teak_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use teak_base::{Operation, WriteId};

/// A range tombstone and its age.
#[derive(Clone, Debug)]
struct SequencedTombstone {
    sequence: u32,
    tombstone: RangeTombstone,
}

/// An ordered multi-version map in append-only memory: many writers, readers
/// without locks.
///
/// Two writers must not insert the same key at the same time (nor one insert a
/// key while another deletes a range that covers it): the callers' locks see
/// to that, and the order of their calls is the order of the versions.
#[derive(Debug)]
pub struct Memtable {
    tree: BlinkTree,
    /// The number of the next insertion.
    sequence: AtomicU32,
    /// Point deletes among the insertions.
    deletes: AtomicU32,
    /// Insertions of a key that was there already.
    repeats: AtomicU32,
    /// By how much rows are fewer than keys: a key that was deleted after a put
    /// is no row, and one that came as a delete takes a row away from below.
    rows_lacking: AtomicI64,
    /// Least and greatest unsettled write id; `u64::MAX` and 0 at first.
    write_id_min: AtomicU64,
    write_id_max: AtomicU64,
    /// Whether something settled was inserted.
    any_settled: AtomicBool,
    /// Whether `tombstones` has any, so that readers need not lock it.
    has_tombstones: AtomicBool,
    /// Newest first; replaced as a whole.
    tombstones: RwLock<Arc<Vec<SequencedTombstone>>>,
    tombstone_bytes: AtomicU64,
}

impl Memtable {
    /// An empty memtable; entries' memory is allocated with the first one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tree: BlinkTree::new(),
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

    /// Deletes all keys from `start` up to, and without, `end` (empty: no
    /// end). Costs time in the number of range deletions so far.
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
        // Release and the readers' Acquire: an insertion that a reader sees
        // and that knew of this tombstone brings the tombstone along.
        self.has_tombstones.store(true, Ordering::Release);
    }

    /// Relaxed suffices: the callers' locks order insertions that concern the
    /// same key, and additions to one variable are ordered.
    #[inline]
    fn next_sequence(&self) -> u32 {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        assert!(sequence < u32::MAX, "a memtable holds too many entries");
        sequence
    }

    /// Write ids mostly ascend, so most entries read two words only.
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

    /// Memory used, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tree.bytes() + self.tombstone_bytes.load(Ordering::Relaxed)
    }

    /// Point deletes inserted.
    #[must_use]
    pub fn deletes(&self) -> u64 {
        u64::from(self.deletes.load(Ordering::Relaxed))
    }

    /// Points inserted.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let tombstones = match self.covering() {
            Some(tombstones) => tombstones.len() as u64,
            None => 0,
        };
        u64::from(self.sequence.load(Ordering::Relaxed)).saturating_sub(tombstones)
    }

    /// Keys among the points.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.entries()
            .saturating_sub(u64::from(self.repeats.load(Ordering::Relaxed)))
    }

    /// By how many rows a table is larger with this memtable, when each key
    /// whose first point here is a put was no row before.
    #[must_use]
    pub fn rows(&self) -> i64 {
        i64::try_from(self.keys())
            .unwrap_or(i64::MAX)
            .saturating_sub(self.rows_lacking.load(Ordering::Relaxed))
    }

    /// Points and range tombstones inserted: it changes with every insertion,
    /// at the latest when that can be seen.
    #[inline]
    #[must_use]
    pub fn insertions(&self) -> u32 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Whether there is neither a point nor a range tombstone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequence.load(Ordering::Relaxed) == 0
    }

    /// All range tombstones, newest first: the base layer below the points
    /// that a [`MemtableCursor`] shows.
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

    /// The least and greatest id of unsettled writes, tombstones included;
    /// `None` when there is none.
    #[must_use]
    pub fn write_id_range(&self) -> Option<(WriteId, WriteId)> {
        let min = self.write_id_min.load(Ordering::Relaxed);
        let max = self.write_id_max.load(Ordering::Relaxed);
        (min <= max).then_some((WriteId(min), WriteId(max)))
    }

    /// The range of the ids of all that was inserted; `None` when something is
    /// settled, or nothing was inserted.
    #[must_use]
    pub fn only_write_ids(&self) -> Option<(WriteId, WriteId)> {
        let settled = self.any_settled.load(Ordering::Relaxed);
        self.write_id_range().filter(|_| !settled)
    }

    /// Estimates the keys in a range, without walking it.
    #[must_use]
    pub fn estimate(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> u64 {
        // One key more or less does not matter to an estimate.
        let key = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        if let (None, None) = (key(lower), key(upper)) {
            return self.keys();
        }
        self.tree.estimate(key(lower), key(upper), self.keys())
    }

    /// Shows all versions of a key, newest first, each covering range
    /// tombstone as a delete in its place (those below all points too).
    pub fn visit(
        &self,
        key: &[u8],
        visitor: &mut dyn FnMut(WriteId, Operation, &[u8]) -> Visit,
    ) -> Visit {
        let mut entry = self.tree.get(key);
        // After the search: a tombstone that a seen entry lies above is there.
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

    /// Whether there are range tombstones. Asked after an entry was found: the
    /// tombstones that its writer knew of are seen then.
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
