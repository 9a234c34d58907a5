//! Cursors: a merged, filtered view of one version of the tree, in key order,
//! either way.
//!
//! 1. A seek loads the current version, opens the memtables and the runs on
//!    the path to the leaf of the key, and moves each to the key.
//! 2. A heap orders the sources that stand inside the leaf's range.
//! 3. The first key's versions are read, newest source first, down to the one
//!    that is visible; range tombstones of newer sources count as deletes.
//! 4. A step moves the sources that stand on the key past it. When no source
//!    is left in the leaf's range, the next leaf's path is opened.
//!
//! A cursor on a put does not copy: key and value are those of the source.

mod open;
mod step;

use crate::key_search::key_order;
use crate::merge::heap::{Direction, KeyHeap};
use crate::node::KeyRange;
use crate::source::Source;
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use crate::{RangeTombstone, VersionCursor};
use std::sync::Arc;
use teak_base::visibility::Visibility;
use teak_base::{StorageResult, WriteId};

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere: new, or after an error.
    Nowhere,
    /// Before the first key.
    BeforeFirst,
    /// After the last key.
    AfterLast,
    /// On the current version of a source.
    Source(usize),
}

/// A cursor over the keys that a reader sees.
///
/// It sees what its visibility allows of everything inserted before each of
/// its moves (see [`TreeCursor::follow_inserts`]). It holds memory and disk
/// space of the version that it reads until it moves to another leaf or is
/// dropped.
pub struct TreeCursor<V> {
    tree: Arc<Tree>,
    visibility: V,
    /// The last unsettled write asked about, and the answer.
    last_answer: (WriteId, bool),
    follow: bool,

    version: Option<Arc<TreeVersion>>,
    generation: u64,
    /// Insertions into the active memtable when its source was last moved.
    active_insertions: u32,
    /// Newest first: memtables, then the runs on the path.
    sources: Vec<Source>,
    /// The memtables among the sources.
    memtables: Vec<Arc<MemtableSlot>>,
    /// Whether memtables or runs were left out, for the visibility hides all
    /// that they hold.
    left_out: bool,
    /// Range tombstones by source.
    layers: Vec<(usize, Vec<RangeTombstone>)>,
    /// The leaf's range.
    range: KeyRange,
    /// Whether some source may have keys beyond the leaf's range.
    bounded: Vec<bool>,

    heap: KeyHeap,
    direction: Direction,
    place: Place,
    /// The key of the group being read or stepped over.
    key: Vec<u8>,
    /// Entries passed in vain, so that the reader is asked in between whether
    /// to stop.
    passed: u32,
    /// No write of a key below, or not below, is asked about.
    limits: (Option<Vec<u8>>, Option<Vec<u8>>),
}

impl<V> std::fmt::Debug for TreeCursor<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeCursor")
            .field("path", &self.tree.path())
            .field("place", &self.place)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// A cursor that sees what `visibility` allows. It stands nowhere.
    pub fn cursor<V: Visibility>(self: &Arc<Self>, visibility: V) -> TreeCursor<V> {
        TreeCursor {
            tree: Arc::clone(self),
            visibility,
            last_answer: (WriteId::SETTLED, true),
            follow: true,
            version: None,
            generation: 0,
            active_insertions: 0,
            sources: Vec::new(),
            memtables: Vec::new(),
            left_out: false,
            layers: Vec::new(),
            range: KeyRange::all(),
            bounded: Vec::new(),
            heap: KeyHeap::new(),
            direction: Direction::Forward,
            place: Place::Nowhere,
            key: Vec::new(),
            passed: 0,
            limits: (None, None),
        }
    }
}

impl<V: Visibility> TreeCursor<V> {
    /// Whether each step looks for entries inserted since the last one (the
    /// default). A reader that has not written and whose snapshot is fixed
    /// needs that at seeks only, and saves a look-up per step while others
    /// write.
    pub fn follow_inserts(&mut self, follow: bool) {
        self.follow = follow;
    }

    /// Replaces what the cursor sees. It stands nowhere until the next seek.
    pub fn set_visibility(&mut self, visibility: V) {
        self.visibility = visibility;
        self.last_answer = (WriteId::SETTLED, true);
        self.place = Place::Nowhere;
        if self.left_out {
            // This one may see it.
            self.sources.clear();
        }
    }

    /// Asks the visibility anew about the next entry, also when it has answered
    /// for the same write before.
    pub fn forget_answer(&mut self) {
        self.last_answer = (WriteId::SETTLED, true);
    }

    /// Ends moves at `lower <= key < upper`. A visibility that keeps what it was
    /// asked about hears of no key beyond.
    pub fn set_limits(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        self.limits = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
    }

    /// Whether this key and all after it lie beyond the limit.
    #[inline]
    fn is_past_limit(&self, key: &[u8]) -> bool {
        self.limits
            .1
            .as_deref()
            .is_some_and(|upper| key_order(key, upper).is_ge())
    }

    /// Whether this key and all before it lie beyond the limit.
    #[inline]
    fn is_before_limit(&self, key: &[u8]) -> bool {
        self.limits
            .0
            .as_deref()
            .is_some_and(|lower| key_order(key, lower).is_lt())
    }

    /// Lets go of the version, its memory and its space. The cursor stands
    /// nowhere until the next seek.
    pub fn release(&mut self) {
        self.sources.clear();
        self.memtables.clear();
        self.layers.clear();
        self.bounded.clear();
        self.version = None;
        self.place = Place::Nowhere;
    }

    /// Moves to the first visible key at or after `key`. False when there is
    /// none; the cursor then stands after the last key.
    ///
    /// # Errors
    /// Those of reading blocks; `Interrupted` when the visibility says so. The
    /// cursor then stands nowhere.
    pub fn seek(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.place = Place::Nowhere;
        self.refresh();
        self.seek_forward(key)
    }

    /// Moves to the first visible key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn seek_first(&mut self) -> StorageResult<bool> {
        self.seek(&[])
    }

    /// Moves to the last visible key before `key`. False when there is none;
    /// the cursor then stands before the first key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn seek_before(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.place = Place::Nowhere;
        self.refresh();
        self.seek_backward(Some(key))
    }

    /// Moves to the last visible key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn seek_last(&mut self) -> StorageResult<bool> {
        self.place = Place::Nowhere;
        self.refresh();
        self.seek_backward(None)
    }

    /// Moves to the next visible key. Before the first key that is the first;
    /// nowhere and after the last key there is none.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    #[inline]
    #[allow(clippy::should_implement_trait)] // It lends; iterators cannot.
    pub fn next(&mut self) -> StorageResult<bool> {
        if let Place::Source(source) = self.place
            && self.direction == Direction::Forward
            && self.layers.is_empty()
            && !self.must_follow()
        {
            return match self.heap.len() {
                1 => self.next_of_single(source),
                _ => self.next_in_place(source),
            };
        }
        self.next_of_many()
    }

    /// Moves to the previous visible key. After the last key that is the last;
    /// nowhere and before the first key there is none.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn previous(&mut self) -> StorageResult<bool> {
        self.step_back()
    }

    /// Whether the cursor stands on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        matches!(self.place, Place::Source(_))
    }

    /// The key.
    ///
    /// # Panics
    /// When the cursor stands on no key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.source().key()
    }

    /// The value that the reader sees.
    ///
    /// # Panics
    /// When the cursor stands on no key.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.source().value()
    }

    /// The newest write that the reader sees of the key.
    ///
    /// # Panics
    /// When the cursor stands on no key.
    #[inline]
    #[must_use]
    pub fn write_id(&self) -> WriteId {
        self.source().write_id()
    }

    /// The source that the cursor stands on.
    #[inline]
    fn source(&self) -> &Source {
        let source = match self.place {
            Place::Source(source) => self.sources.get(source),
            _ => None,
        };
        match source {
            Some(source) => source,
            None => unreachable!("the cursor stands on no key"),
        }
    }
}
