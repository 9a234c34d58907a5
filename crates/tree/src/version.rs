//! One version of the tree, as a reader holds it: the memtables and the root,
//! which together hold every entry exactly once.
//!
//! Versions are immutable (the active memtable alone takes entries) and
//! replaced as a whole under the install lock. Holding one keeps its blocks.

use crate::Memtable;
use crate::node::Node;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use teak_base::Lsn;
use teak_block_file::Pin;

/// A memtable with its place in the log.
#[derive(Debug)]
pub(crate) struct MemtableSlot {
    pub(crate) memtable: Arc<Memtable>,
    /// Position of the first record in it; `u64::MAX` while there is none.
    first_lsn: AtomicU64,
    /// Set when frozen: every entry was logged before this.
    pub(crate) boundary: OnceLock<Lsn>,
}

impl MemtableSlot {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            memtable: Arc::new(Memtable::new()),
            first_lsn: AtomicU64::new(u64::MAX),
            boundary: OnceLock::new(),
        })
    }

    pub(crate) fn note_lsn(&self, lsn: Lsn) {
        // Mostly the first one stays, so a load saves the write.
        if lsn.0 < self.first_lsn.load(Ordering::Relaxed) {
            self.first_lsn.fetch_min(lsn.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn first_lsn(&self) -> Option<Lsn> {
        let lsn = self.first_lsn.load(Ordering::Relaxed);
        (lsn != u64::MAX).then_some(Lsn(lsn))
    }
}

/// Everything a reader needs.
#[derive(Debug)]
pub(crate) struct TreeVersion {
    pub(crate) active: Arc<MemtableSlot>,
    /// Newest first.
    pub(crate) frozen: Vec<Arc<MemtableSlot>>,
    pub(crate) root: Arc<Node>,
    /// Keeps the blocks of the root.
    pub(crate) pin: Arc<Pin>,
    /// Older data than all of this is still to come, see `bulk`: nothing here
    /// lies at the bottom yet.
    pub(crate) awaits_base: bool,
}

impl TreeVersion {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl DoubleEndedIterator<Item = &Arc<MemtableSlot>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }
}
