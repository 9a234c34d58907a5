//! One version of the tree: the memtables and the root, which together hold
//! every entry exactly once.
//!
//! A version is immutable, except that the active memtable grows and runs may be marked as settled.
//! It is replaced as a whole under the install lock. A reference to a version prevents the reuse of
//! its blocks.

use crate::Memtable;
use crate::memory::{Charge, TreeAccount};
use crate::node::Node;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use teak_base::Lsn;
use teak_block_file::{BlockFile, Pin};

/// A memtable with its log positions.
#[derive(Debug)]
pub(crate) struct MemtableSlot {
    pub(crate) memtable: Arc<Memtable>,
    /// Log position of the first record with entries in the memtable; `u64::MAX` if there is none.
    first_lsn: AtomicU64,
    /// Set when frozen: every entry was logged before this position.
    pub(crate) boundary: OnceLock<Lsn>,
}

impl MemtableSlot {
    pub(crate) fn new(account: &Arc<TreeAccount>) -> Arc<Self> {
        Arc::new(Self {
            memtable: Arc::new(Memtable::charged(Charge::new(account))),
            first_lsn: AtomicU64::new(u64::MAX),
            boundary: OnceLock::new(),
        })
    }

    pub(crate) fn note_lsn(&self, lsn: Lsn) {
        // The first position is usually the lowest; a load avoids the write.
        if lsn.0 < self.first_lsn.load(Ordering::Relaxed) {
            self.first_lsn.fetch_min(lsn.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn first_lsn(&self) -> Option<Lsn> {
        let lsn = self.first_lsn.load(Ordering::Relaxed);
        (lsn != u64::MAX).then_some(Lsn(lsn))
    }
}

/// All data that a reader needs.
#[derive(Debug)]
pub(crate) struct TreeVersion {
    pub(crate) active: Arc<MemtableSlot>,
    /// Newest first.
    pub(crate) frozen: Vec<Arc<MemtableSlot>>,
    /// Number of memtables that were flushed since the tree was opened.
    pub(crate) flushed: u64,
    pub(crate) root: Arc<Node>,
    /// Prevents the reuse of the blocks that can be reached from the root.
    pub(crate) pin: Arc<Pin>,
    /// Whether a bulk load will add older data below this version (see `flush::bulk`). Until then,
    /// no run of this version is a bottom run.
    pub(crate) awaits_base: bool,
}

impl TreeVersion {
    /// The same version with a new pin. The new pin does not retain node blocks that a checkpoint
    /// has replaced since the old pin was taken. The caller holds the install lock.
    pub(crate) fn pinned_again(&self, file: &BlockFile) -> Self {
        Self {
            active: Arc::clone(&self.active),
            frozen: self.frozen.clone(),
            flushed: self.flushed,
            root: Arc::clone(&self.root),
            pin: Arc::new(file.pin()),
            awaits_base: self.awaits_base,
        }
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl DoubleEndedIterator<Item = &Arc<MemtableSlot>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }
}
