//! Cursors: the keys of the tree that a reader sees, merged in key order, in both directions.
//!
//! 1. A seek loads the current version, opens the memtables and the runs on the path to the key's
//!    leaf (except those in which the reader sees no write), and positions each of them.
//! 2. A heap orders the sources that are positioned inside the leaf's range.
//! 3. The versions of the first key are read, newest source first, until one is
//!    visible. Range tombstones of newer sources count as deletes.
//! 4. A step moves all sources that are on the current key past it. When no source is left in the
//!    leaf's range, the path to the next leaf is opened, in the version that is then current.
//!
//! The returned keys and values are references into the source, not copies. A separate value is
//! read when the caller asks for it; the cursor retains it until it returns another value.

mod column_pages;
mod keys;
mod open;
mod page_rows;
mod step;

pub use self::keys::{KeyCursor, NextKey};
pub use self::page_rows::PageRows;

use crate::filter_keys::KeyPrefix;
use crate::key_search::key_order;
use crate::merge::heap::{Direction, KeyHeap};
use crate::node::KeyRange;
use crate::page::Projection;
use crate::source::Source;
use crate::tree::Tree;
use crate::version::{MemtableSlot, TreeVersion};
use crate::{
    EncodedReference, RangeTombstone, SeparateValue, StoredValue, ValueReference, VersionCursor,
};
use std::sync::Arc;
use teak_base::bytes::{set_bytes, set_prefix_successor};
use teak_base::visibility::Visibility;
use teak_base::{StorageResult, WriteId};

/// The position of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPosition {
    /// None: the cursor is new, was released, has a new visibility, or an operation failed.
    None,
    /// Before the first key.
    BeforeFirst,
    /// After the last key.
    AfterLast,
    /// On the current version of a source.
    Source(usize),
    /// After a page of this source. `key` is its last key.
    PassedPage(usize),
}

/// A cursor over the keys that a reader sees.
///
/// By default each move takes new entries into account (see [`TreeCursor::follow_inserts`]). The
/// cursor holds a reference to a version, which retains the memory and disk space of that version.
/// It loads the current version when it seeks or moves to another leaf.
pub struct TreeCursor<V> {
    tree: Arc<Tree>,
    visibility: V,
    /// The last unsettled write whose visibility was checked, and the result.
    last_visibility: (WriteId, bool),
    follow: bool,

    version: Option<Arc<TreeVersion>>,
    generation: u64,
    /// Number of insertions into the active memtable when the sources were last positioned.
    active_insertions: u32,
    /// Newest first: memtables, then the runs on the path.
    sources: Vec<Source>,
    /// The memtables among the sources, which are the first sources.
    memtables: Vec<Arc<MemtableSlot>>,
    /// Whether memtables or runs were skipped because the reader sees none of
    /// their writes.
    has_skipped: bool,
    /// The sources that have range tombstones, newest first, with these tombstones.
    layers: Vec<(usize, Vec<RangeTombstone>)>,
    /// The leaf's range.
    range: KeyRange,
    /// For each source: whether it may have keys outside the leaf's range.
    bounded: Vec<bool>,

    heap: KeyHeap,
    direction: Direction,
    position: CursorPosition,
    /// The key whose versions are being read or skipped.
    key: Vec<u8>,
    /// Number of invisible entries passed, which determines when to check for an interrupt.
    passed: u32,
    /// Where moves backward end (inclusive) and where moves forward end (exclusive).
    limits: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// The prefix to which the cursor is restricted, if any. It is also the lower limit.
    prefix: Option<KeyPrefix>,
    /// The columns of values that the reader needs; `None`: all.
    projection: Option<Projection>,
    /// The separate value that was returned last.
    separate: Option<(EncodedReference, Arc<SeparateValue>)>,
}

impl<V> std::fmt::Debug for TreeCursor<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeCursor")
            .field("path", &self.tree.path())
            .field("position", &self.position)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// Creates a cursor, without a position, that returns the versions visible to `visibility`.
    pub fn cursor<V: Visibility>(self: &Arc<Self>, visibility: V) -> TreeCursor<V> {
        TreeCursor {
            tree: Arc::clone(self),
            visibility,
            last_visibility: (WriteId::SETTLED, true),
            follow: true,
            version: None,
            generation: 0,
            active_insertions: 0,
            sources: Vec::new(),
            memtables: Vec::new(),
            has_skipped: false,
            layers: Vec::new(),
            range: KeyRange::all(),
            bounded: Vec::new(),
            heap: KeyHeap::new(),
            direction: Direction::Forward,
            position: CursorPosition::None,
            key: Vec::new(),
            passed: 0,
            limits: (None, None),
            prefix: None,
            projection: None,
            separate: None,
        }
    }
}

impl<V: Visibility> TreeCursor<V> {
    /// Sets whether each step finds entries that were inserted since the previous step. By default
    /// it does; seeks always do. A reader with a fixed snapshot and no writes of its own can turn
    /// this off, which saves a seek per step while other threads write.
    pub fn follow_inserts(&mut self, follow: bool) {
        self.follow = follow;
    }

    /// Replaces the visibility. The cursor has no position until the next seek.
    pub fn set_visibility(&mut self, visibility: V) {
        self.visibility = visibility;
        self.last_visibility = (WriteId::SETTLED, true);
        self.position = CursorPosition::None;
        if self.has_skipped {
            // The new visibility may include writes in sources that were skipped.
            self.sources.clear();
        }
    }

    /// Discards the cached result of the visibility check, so that the next entry is checked even
    /// if it has the same write id.
    pub fn reset_visibility(&mut self) {
        self.last_visibility = (WriteId::SETTLED, true);
    }

    /// Restricts the cursor to `lower <= key < upper`: moves forward end at `upper`, and moves
    /// backward end at `lower`. A seek forward from below `lower`, or backward from above `upper`,
    /// does not apply that limit. The visibility of keys beyond the limit is not checked, which
    /// matters if the check has side effects. Ends a restriction to a prefix; then the cursor has
    /// no position until the next seek.
    pub fn set_limits(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        if self.prefix.take().is_some() {
            self.position = CursorPosition::None;
        }
        set_bytes(&mut self.limits.0, lower);
        set_bytes(&mut self.limits.1, upper);
    }

    /// Restricts the cursor to keys that start with the prefix. The prefix must be the part of all
    /// these keys that filters have ([`FilterKeys::part`](crate::FilterKeys::part), by the options
    /// of the tree). Then the cursor does not read pages of runs whose filters exclude the prefix.
    /// With another prefix, entries may be missing. The cursor has no position until the next seek.
    /// `None`, or other limits, end the restriction.
    pub fn set_prefix(&mut self, prefix: Option<&[u8]>) {
        self.position = CursorPosition::None;
        let Some(prefix) = prefix else {
            self.set_limits(None, None);
            return;
        };
        set_bytes(&mut self.limits.0, Some(prefix));
        set_prefix_successor(&mut self.limits.1, prefix);
        let filter_keys = self.tree.options().filter_keys;
        match &mut self.prefix {
            Some(current) => current.set(prefix, filter_keys),
            None => self.prefix = Some(KeyPrefix::new(prefix, filter_keys)),
        }
    }

    /// Restricts the values that the cursor returns to some columns; `None`: all. The other columns may have wrong
    /// contents (see [`Projection`]). The cursor has no position until the next seek.
    pub fn set_projection(&mut self, projection: Option<Projection>) {
        if self.projection != projection {
            self.projection = projection;
            self.position = CursorPosition::None;
            self.sources.clear();
        }
    }

    /// Whether this key and all following ones are beyond the upper limit.
    #[inline]
    fn is_past_limit(&self, key: &[u8]) -> bool {
        self.limits
            .1
            .as_deref()
            .is_some_and(|upper| key_order(key, upper).is_ge())
    }

    /// Whether this key and all preceding ones are beyond the lower limit.
    #[inline]
    fn is_before_limit(&self, key: &[u8]) -> bool {
        self.limits
            .0
            .as_deref()
            .is_some_and(|lower| key_order(key, lower).is_lt())
    }

    /// Releases the version with its memory and disk space. The cursor has no
    /// position until the next seek.
    pub fn release(&mut self) {
        self.sources.clear();
        self.memtables.clear();
        self.layers.clear();
        self.bounded.clear();
        self.version = None;
        self.separate = None;
        self.position = CursorPosition::None;
    }

    /// Moves to the first visible key at or after `key`. Returns false when
    /// there is none; the cursor is then after the last key.
    ///
    /// # Errors
    /// Errors of reading blocks; `Interrupted` when the visibility reports it.
    /// The cursor then has no position.
    pub fn seek(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.position = CursorPosition::None;
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

    /// Moves to the last visible key before `key`. Returns false when there is
    /// none; the cursor is then before the first key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn seek_before(&mut self, key: &[u8]) -> StorageResult<bool> {
        self.position = CursorPosition::None;
        self.refresh();
        self.seek_backward(Some(key))
    }

    /// Moves to the last visible key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn seek_last(&mut self) -> StorageResult<bool> {
        self.position = CursorPosition::None;
        self.refresh();
        self.seek_backward(None)
    }

    /// Moves to the next visible key. From the position before the first key, moves to the first
    /// key. Returns false without a position and after the last key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    #[inline]
    #[allow(clippy::should_implement_trait)] // The key borrows from the cursor.
    pub fn next(&mut self) -> StorageResult<bool> {
        if let CursorPosition::Source(source) = self.position
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

    /// Moves to the previous visible key. From the position after the last key, moves to the last
    /// key. Returns false without a position and before the first key.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn previous(&mut self) -> StorageResult<bool> {
        self.step_back()
    }

    /// Whether the cursor is on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        matches!(self.position, CursorPosition::Source(_))
    }

    /// The key.
    ///
    /// # Panics
    /// When the cursor is not on a key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.source().key()
    }

    /// Whether the value is stored apart from the entry, so that it may have to be read.
    ///
    /// # Panics
    /// When the cursor is not on a key.
    #[inline]
    #[must_use]
    pub fn is_separate(&self) -> bool {
        self.source().is_separate()
    }

    /// The value that the reader sees.
    ///
    /// # Errors
    /// Errors of reading a separate value.
    ///
    /// # Panics
    /// When the cursor is not on a key.
    #[inline]
    pub fn value(&mut self) -> StorageResult<&[u8]> {
        Ok(self.entry()?.1)
    }

    /// The key, and the value that the reader sees.
    ///
    /// # Errors
    /// Errors of reading a separate value.
    ///
    /// # Panics
    /// When the cursor is not on a key.
    #[inline]
    pub fn entry(&mut self) -> StorageResult<(&[u8], &[u8])> {
        if let CursorPosition::Source(source) = self.position
            && let Some(source) = self.sources.get_mut(source)
        {
            source.load_value()?;
        }
        if self.is_separate() || self.separate.is_some() {
            self.separate = self.read_separate()?;
        }
        let source = self.source();
        let value = match (source.value(), &self.separate) {
            (StoredValue::Inline(value), _) => value,
            (StoredValue::Separate(..), Some((_, value))) => value.bytes(),
            (StoredValue::Separate(..), None) => unreachable!("the value was read"),
        };
        Ok((source.key(), value))
    }

    /// Reads the separate value of the entry, if it has one and it was not returned last.
    #[cold]
    fn read_separate(&self) -> StorageResult<Option<(EncodedReference, Arc<SeparateValue>)>> {
        let StoredValue::Separate(encoded, reader) = self.source().value() else {
            return Ok(None);
        };
        // Equal references (address, length, checksum) have equal values.
        let value = match &self.separate {
            Some((last, value)) if last == encoded => Arc::clone(value),
            _ => reader.read_separate(&ValueReference::decode(encoded))?,
        };
        Ok(Some((*encoded, value)))
    }

    /// The write id of the version that the reader sees.
    ///
    /// # Panics
    /// When the cursor is not on a key.
    #[inline]
    #[must_use]
    pub fn write_id(&self) -> WriteId {
        self.source().write_id()
    }

    /// The source that the cursor is on.
    #[inline]
    fn source(&self) -> &Source {
        let source = match self.position {
            CursorPosition::Source(source) => self.sources.get(source),
            _ => None,
        };
        match source {
            Some(source) => source,
            None => unreachable!("the cursor is not on a key"),
        }
    }
}
