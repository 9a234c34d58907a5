//! One version of the tree: the memtables and the root, which together hold
//! every entry exactly once.
//!
//! A version is immutable, except that the active memtable grows and runs may be marked as settled.
//! It is replaced as a whole under the install lock. A reference to a version prevents the reuse of
//! its blocks:
//! - Its pin retains everything that was in the file when the version was created.
//! - Nodes that were in no block then are written by the next checkpoint that captures them, or
//!   never, because a later version has replaced them. The pin of the first checkpoint that was
//!   captured after the version was created retains these blocks. It is shared by all versions
//!   between two captures, and is set before any of the nodes can be evicted. It also retains what
//!   jobs have published between the version and the capture.

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

/// The pin of a checkpoint that is captured later.
pub(crate) type CheckpointPin = Arc<OnceLock<Arc<Pin>>>;

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
    /// Prevents the reuse of the blocks of nodes that were written later.
    pub(crate) checkpoint_pin: CheckpointPin,
    /// Whether a bulk load will add older data below this version (see `bulk`). Until then, no data
    /// of this version may be treated as bottom data.
    pub(crate) awaits_base: bool,
}

impl TreeVersion {
    /// The same version with `root`, which may be the old one, and with new pins. Unlike the old
    /// pins, these do not retain node blocks that a checkpoint has freed since. The caller holds
    /// the install lock.
    pub(crate) fn with_root(
        &self,
        root: Arc<Node>,
        file: &BlockFile,
        checkpoint_pin: CheckpointPin,
    ) -> Self {
        // Then all nodes below are in blocks, too.
        let is_published = root.block.published_place().is_some();
        Self {
            active: Arc::clone(&self.active),
            frozen: self.frozen.clone(),
            flushed: self.flushed,
            root,
            pin: Arc::new(file.pin()),
            checkpoint_pin: match is_published {
                true => CheckpointPin::default(),
                false => checkpoint_pin,
            },
            awaits_base: self.awaits_base,
        }
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl DoubleEndedIterator<Item = &Arc<MemtableSlot>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// The estimated number of rows.
    pub(crate) fn rows(&self) -> u64 {
        let memtables: i64 = self.memtables().map(|slot| slot.memtable.rows()).sum();
        let rows = memtables.saturating_add(self.root.summary.rows);
        u64::try_from(rows).unwrap_or(0)
    }

    /// Bytes of the frozen memtables.
    pub(crate) fn frozen_bytes(&self) -> u64 {
        self.frozen.iter().map(|slot| slot.memtable.bytes()).sum()
    }
}
