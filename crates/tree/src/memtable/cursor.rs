//! The cursor over a memtable. Where range tombstones cover the points of a
//! key, the key's versions are laid out in a small vector as it is entered;
//! else the cursor is just a node of the list.

// The nodes of a memtable are used next to the Arc that keeps them alive.
#![allow(unsafe_code)]

use super::node::{Node, SearchKey};
use super::skip_list::Finger;
use super::{Covering, Memtable};
use crate::VersionCursor;
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over a [`Memtable`].
#[derive(Debug)]
pub struct MemtableCursor {
    /// The newest point of the key, or the version the cursor stands on when
    /// there is no overlay. All nodes here are of `memtable`.
    node: Option<Node<'static>>,
    overlay: Option<Overlay>,
    finger: Finger<'static>,
    /// Whether the last move was backward, so that `finger` is near.
    finger_is_near: bool,
    memtable: Arc<Memtable>,
}

/// The versions of a key, with the deletes of range tombstones between them.
#[derive(Debug)]
struct Overlay {
    /// The last is a point.
    versions: Vec<Version>,
    position: usize,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    Point(Node<'static>),
    Deleted(WriteId),
}

/// What an invalid cursor says when it is used.
const NOT_VALID: &str = "the cursor stands on no entry";

/// # Safety
/// As for [`Node::detach`].
unsafe fn detach(node: Option<Node<'_>>) -> Option<Node<'static>> {
    // SAFETY: per this function's contract.
    node.map(|node| unsafe { node.detach() })
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self {
            node: None,
            overlay: None,
            finger: Finger::NONE,
            finger_is_near: false,
            memtable,
        }
    }

    #[inline]
    fn node(&self) -> Node<'static> {
        assert!(self.node.is_some(), "{NOT_VALID}");
        match self.node {
            Some(node) => node,
            None => unreachable!("{NOT_VALID}"),
        }
    }

    /// Stands on the newest version of a key, of which `node` is the newest
    /// point.
    #[inline]
    fn enter(&mut self, node: Option<Node<'static>>) {
        self.node = node;
        self.overlay = None;
        if let Some(node) = node
            && let Some(tombstones) = self.memtable.covering()
        {
            self.overlay = Overlay::new(node, &tombstones);
        }
    }

    #[inline]
    fn version(&self) -> Version {
        match &self.overlay {
            None => Version::Point(self.node()),
            Some(overlay) => match overlay.versions.get(overlay.position) {
                Some(version) => *version,
                None => unreachable!("an overlay is left at its end"),
            },
        }
    }

    /// The newest point of the key that `oldest` belongs to.
    #[inline]
    fn newest_of(&self, oldest: Option<Node<'static>>) -> Option<Node<'static>> {
        let oldest = oldest?;
        if !oldest.is_shadowed() {
            return Some(oldest);
        }
        // SAFETY: the cursor keeps the memtable alive beside its nodes.
        unsafe { detach(self.memtable.list.lower_bound(oldest.search_key())) }
    }
}

impl Overlay {
    /// The overlay of the key that has `newest` as its newest point; `None`
    /// when no tombstone covers a point of it.
    #[cold]
    fn new(newest: Node<'static>, tombstones: &[Covering]) -> Option<Overlay> {
        let key = newest.search_key();
        let mut covering = tombstones
            .iter()
            .filter(|covering| covering.tombstone.covers(key.bytes()))
            .peekable();
        covering.peek()?;
        let mut versions = Vec::new();
        let mut points = 0;
        let mut node = Some(newest);
        while let Some(point) = node
            && point.has_key(key)
        {
            while let Some(newer) = covering.next_if(|c| c.sequence > point.sequence()) {
                versions.push(Version::Deleted(newer.tombstone.write_id));
            }
            versions.push(Version::Point(point));
            points += 1;
            node = point.next();
        }
        (versions.len() > points).then_some(Overlay {
            versions,
            position: 0,
        })
    }
}

impl VersionCursor for MemtableCursor {
    #[inline]
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.finger_is_near = false;
        let node = self.memtable.list.lower_bound(SearchKey::new(key));
        // SAFETY: the cursor keeps the memtable alive beside its nodes.
        let node = unsafe { detach(node) };
        self.enter(node);
        Ok(())
    }

    fn seek_first(&mut self) -> StorageResult<()> {
        self.finger_is_near = false;
        // SAFETY: the cursor keeps the memtable alive beside its nodes.
        let node = unsafe { detach(self.memtable.list.first()) };
        self.enter(node);
        Ok(())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.finger_is_near = false;
        // SAFETY: the cursor keeps the memtable alive beside its nodes.
        let oldest = unsafe { detach(self.memtable.list.last()) };
        let newest = self.newest_of(oldest);
        self.enter(newest);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        self.finger_is_near = false;
        let node = self.memtable.list.last_before(SearchKey::new(key));
        // SAFETY: the cursor keeps the memtable alive beside its nodes.
        let oldest = unsafe { detach(node) };
        let newest = self.newest_of(oldest);
        self.enter(newest);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.node().key()
    }

    #[inline]
    fn write_id(&self) -> WriteId {
        match self.version() {
            Version::Point(node) => node.write_id(),
            Version::Deleted(write_id) => write_id,
        }
    }

    #[inline]
    fn operation(&self) -> Operation {
        match self.version() {
            Version::Point(node) => node.operation(),
            Version::Deleted(_) => Operation::Delete,
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self.version() {
            Version::Point(node) => node.value(),
            Version::Deleted(_) => &[],
        }
    }

    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        self.finger_is_near = false;
        if let Some(overlay) = &mut self.overlay {
            let left = overlay.versions.get(overlay.position);
            overlay.position += 1;
            if overlay.position == overlay.versions.len() {
                let next = match left {
                    Some(Version::Point(oldest)) => oldest.next(),
                    _ => unreachable!("an overlay ends with a point"),
                };
                self.enter(next);
            }
            return Ok(());
        }
        let node = self.node();
        let next = node.next();
        match next {
            // An older point of a key that was entered before a tombstone
            // came, or whose tombstones are all older.
            Some(next) if self.memtable.has_tombstones() && next.has_key(node.search_key()) => {
                self.node = Some(next);
            }
            _ => self.enter(next),
        }
        Ok(())
    }

    #[inline]
    fn previous_key(&mut self) -> StorageResult<()> {
        let node = self.node();
        if !self.finger_is_near {
            self.finger = Finger::NONE;
            self.finger_is_near = true;
        }
        let list = &self.memtable.list;
        // SAFETY: the finger is used with this list only, and the cursor keeps
        // the memtable alive beside its nodes.
        let oldest = unsafe { list.last_before_near(node.search_key(), &mut self.finger) };
        let newest = self.newest_of(oldest);
        self.enter(newest);
        Ok(())
    }
}
