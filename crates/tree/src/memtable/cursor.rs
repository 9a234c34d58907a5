//! The cursor over a memtable. If range tombstones cover entries of a key, the
//! key's versions are collected in a small vector when the cursor enters the
//! key. Otherwise the cursor is a position in the tree and an entry.

// Positions and entries have no lifetime here. The cursor keeps the memtable alive with an Arc.
#![allow(unsafe_code)]

use super::blink_tree::{BlinkTree, Position};
use super::entry::Entry;
use super::{Memtable, SequencedTombstone};
use crate::{StoredValue, VersionCursor};
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over a [`Memtable`].
#[derive(Debug)]
pub struct MemtableCursor {
    /// The position of the key. All positions and entries in this struct belong to `memtable`.
    position: Option<Position<'static>>,
    /// The current version, if there is no overlay.
    entry: Option<Entry<'static>>,
    overlay: Option<Overlay>,
    memtable: Arc<Memtable>,
}

/// The versions of a key, with the deletes of range tombstones between them.
#[derive(Debug)]
struct Overlay {
    versions: Vec<Version>,
    current: usize,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    Point(Entry<'static>),
    Deleted(WriteId),
}

/// The panic message of an invalid cursor.
const NOT_VALID: &str = "the cursor is not on an entry";

/// # Safety
/// As for [`Position::detach`].
unsafe fn detach(position: Option<Position<'_>>) -> Option<Position<'static>> {
    // SAFETY: per this function's contract.
    position.map(|position| unsafe { position.detach() })
}

impl Memtable {
    /// Creates a cursor over the entries. A range tombstone appears as a delete in front of the
    /// older entries that it covers. A move to another key sees all earlier insertions.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor {
            position: None,
            entry: None,
            overlay: None,
            memtable: Arc::clone(self),
        }
    }
}

impl MemtableCursor {
    #[inline]
    fn position(&self) -> Position<'static> {
        match self.position {
            Some(position) => position,
            None => unreachable!("{NOT_VALID}"),
        }
    }

    #[inline]
    fn entry(&self) -> Entry<'static> {
        match self.entry {
            Some(entry) => entry,
            None => unreachable!("{NOT_VALID}"),
        }
    }

    /// Moves to the newest version of the key at a position.
    #[inline]
    fn enter(&mut self, position: Option<Position<'static>>) {
        self.position = position;
        self.overlay = None;
        self.entry = position.map(|position| position.entry);
        if let Some(entry) = self.entry
            && let Some(tombstones) = self.memtable.covering()
        {
            self.overlay = Overlay::new(entry, &tombstones);
        }
    }

    #[inline]
    fn version(&self) -> Version {
        match &self.overlay {
            None => Version::Point(self.entry()),
            Some(overlay) => match overlay.versions.get(overlay.current) {
                Some(version) => *version,
                None => unreachable!("the cursor leaves an overlay at its end"),
            },
        }
    }

    /// The value.
    ///
    /// # Panics
    /// When the cursor is not on an entry.
    #[inline]
    #[must_use]
    pub fn inline_value(&self) -> &[u8] {
        match self.version() {
            Version::Point(entry) => entry.value(),
            Version::Deleted(_) => &[],
        }
    }

    /// Moves past all versions of the current key.
    #[inline]
    pub(crate) fn next_key(&mut self) {
        let next = BlinkTree::next(&self.position());
        self.enter(next);
    }
}

impl Overlay {
    /// The overlay of the key whose newest entry is `newest`; `None` when no
    /// tombstone covers an entry of the key.
    #[cold]
    fn new(newest: Entry<'static>, tombstones: &[SequencedTombstone]) -> Option<Overlay> {
        let mut covering = tombstones
            .iter()
            .filter(|covering| covering.tombstone.covers(newest.key()))
            .peekable();
        covering.peek()?;
        let mut versions = Vec::new();
        let mut points = 0;
        let mut entry = Some(newest);
        while let Some(point) = entry {
            while let Some(newer) = covering.next_if(|c| c.sequence > point.sequence()) {
                versions.push(Version::Deleted(newer.tombstone.write_id));
            }
            versions.push(Version::Point(point));
            points += 1;
            entry = point.older();
        }
        (versions.len() > points).then_some(Overlay {
            versions,
            current: 0,
        })
    }
}

impl VersionCursor for MemtableCursor {
    #[inline]
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        // SAFETY: the cursor keeps the memtable alive together with its
        // positions.
        let position = unsafe { detach(self.memtable.tree.lower_bound(key)) };
        if let Some(position) = &position {
            BlinkTree::prefetch_following(position);
        }
        self.enter(position);
        Ok(())
    }

    fn seek_first(&mut self) -> StorageResult<()> {
        // SAFETY: the cursor keeps the memtable alive together with its
        // positions.
        let position = unsafe { detach(self.memtable.tree.first()) };
        self.enter(position);
        Ok(())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        // SAFETY: the cursor keeps the memtable alive together with its
        // positions.
        let position = unsafe { detach(self.memtable.tree.last()) };
        self.enter(position);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        // SAFETY: the cursor keeps the memtable alive together with its
        // positions.
        let position = unsafe { detach(self.memtable.tree.last_before(key)) };
        self.enter(position);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.position.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    #[inline]
    fn write_id(&self) -> WriteId {
        match self.version() {
            Version::Point(entry) => entry.write_id(),
            Version::Deleted(write_id) => write_id,
        }
    }

    #[inline]
    fn operation(&self) -> Operation {
        match self.version() {
            Version::Point(entry) => entry.operation(),
            Version::Deleted(_) => Operation::Delete,
        }
    }

    #[inline]
    fn value(&self) -> StoredValue<'_> {
        StoredValue::Inline(self.inline_value())
    }

    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        if let Some(overlay) = &mut self.overlay {
            overlay.current += 1;
            if overlay.current == overlay.versions.len() {
                self.next_key();
            }
            return Ok(());
        }
        match self.entry().older() {
            Some(older) => self.entry = Some(older),
            None => self.next_key(),
        }
        Ok(())
    }

    #[inline]
    fn previous_key(&mut self) -> StorageResult<()> {
        let position = self.position();
        match BlinkTree::previous_near(&position) {
            Some(previous) => self.enter(Some(previous)),
            None => self.seek_before(position.entry.key())?,
        }
        Ok(())
    }
}
