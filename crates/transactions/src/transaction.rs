//! One transaction's own half: the ids of its writes, its marks, the rows it
//! has locked. It belongs to one thread at a time.

use crate::hash::{LockId, PassBuild};
use crate::range_locks::{RangeLocks, RowRange};
use crate::row_locks::{LockMode, RowName};
use crate::shared::TransactionHandle;
use crate::snapshots::HeldSnapshot;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::TransactionId;
use teak_base::stripes::Stripe;
use teak_base::{CommitSequence, WriteId};

/// A mark in a transaction's writes to which it can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub mode: LockMode,
    pub count: u32,
    /// The mark after which it was taken first.
    pub scope: u64,
    /// The transaction may have written the row since.
    pub written: bool,
}

/// The half of a transaction that its owner uses.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<TransactionHandle>,
    /// Ids of writes that count, oldest first.
    pub(crate) ids: Vec<WriteId>,
    /// Whether the newest id may take further writes.
    open: bool,
    /// Counts marks, so that a lock knows whether one was set since.
    pub(crate) scope: u64,
    pub(crate) held: HashMap<LockId, HeldLock, PassBuild>,
    /// Indexes in which it has locked rows.
    pub(crate) locked_in: Vec<Arc<RangeLocks>>,
    /// Ranges of rows that it holds in place of single ones.
    pub(crate) row_ranges: Vec<(Arc<RangeLocks>, RowRange)>,
    /// Indexes in which it has marked ranges.
    pub(crate) marked: Vec<Arc<RangeLocks>>,
    pub(crate) snapshot: Option<HeldSnapshot>,
    /// Where it is listed as running.
    pub(crate) stripe: Stripe,
    /// Whether it took rows that were committed after its snapshot, to write.
    pub(crate) is_past_snapshot: bool,
}

impl Transaction {
    pub(crate) fn new(shared: Arc<TransactionHandle>, stripe: Stripe) -> Self {
        Self {
            shared,
            ids: Vec::new(),
            open: false,
            scope: 0,
            held: HashMap::default(),
            locked_in: Vec::new(),
            row_ranges: Vec::new(),
            marked: Vec::new(),
            snapshot: None,
            stripe,
            is_past_snapshot: false,
        }
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        self.shared.id()
    }

    /// The half that other threads may use.
    #[must_use]
    pub fn handle(&self) -> &Arc<TransactionHandle> {
        &self.shared
    }

    /// Whether any write counts so far.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The ids of the writes that count, oldest first.
    #[must_use]
    pub fn write_ids(&self) -> &[WriteId] {
        &self.ids
    }

    /// The id under which to write now, if one is open.
    #[must_use]
    pub fn open_write_id(&self) -> Option<WriteId> {
        if self.open {
            self.ids.last().copied()
        } else {
            None
        }
    }

    pub(crate) fn push_write_id(&mut self, id: WriteId) {
        self.ids.push(id);
        self.open = true;
        self.shared.set_write_ids(self.ids.len());
    }

    /// Sets a mark: later writes take another id.
    pub fn savepoint(&mut self) -> Savepoint {
        self.open = false;
        self.scope += 1;
        Savepoint(self.ids.len() as u64)
    }

    pub(crate) fn split_off(&mut self, savepoint: Savepoint) -> Vec<WriteId> {
        self.open = false;
        let keep = usize::try_from(savepoint.0).unwrap_or(usize::MAX);
        if keep >= self.ids.len() {
            return Vec::new();
        }
        let gone = self.ids.split_off(keep);
        self.shared.set_write_ids(self.ids.len());
        gone
    }

    /// The snapshot held, if one was taken.
    #[must_use]
    pub fn snapshot(&self) -> Option<CommitSequence> {
        self.snapshot.map(|held| held.sequence)
    }

    /// Notes that a row was locked or written whose newest version is later
    /// than the snapshot.
    pub fn go_past_snapshot(&mut self) {
        self.is_past_snapshot = true;
    }

    /// Whether its own writes may have replaced what its snapshot does not see.
    /// Then the snapshot sees entries of secondary indexes that are no longer of
    /// the rows that it sees.
    #[must_use]
    pub fn is_past_snapshot(&self) -> bool {
        self.is_past_snapshot
    }

    /// Whether a range of its own holds the row in this mode.
    #[must_use]
    pub fn covers(&self, row: &RowName<'_>, mode: LockMode) -> bool {
        self.row_ranges.iter().any(|(index, range)| {
            Arc::ptr_eq(index, row.index) && range.mode >= mode && range.covers(row.key)
        })
    }

    /// Whether this transaction holds an explicit lock that covers `mode`.
    #[must_use]
    pub fn holds(&self, row: RowName<'_>, mode: LockMode) -> bool {
        let held = self.held.get(&row.lock);
        held.is_some_and(|held| held.mode >= mode) || self.covers(&row, mode)
    }

    /// Whether the row is as it was when it was locked: this transaction holds
    /// an explicit lock that covers `mode` and has not written the row since.
    #[must_use]
    pub fn holds_unwritten(&self, lock: LockId, mode: LockMode) -> bool {
        let covers = |held: &HeldLock| held.mode >= mode && !held.written;
        !self.held.is_empty() && self.held.get(&lock).is_some_and(covers)
    }

    /// How many rows it has locked explicitly, one by one.
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.held.len()
    }

    /// Whether others may have to wait for it: it has locked rows or ranges, or
    /// has writes that count, which lock their rows.
    #[must_use]
    pub fn holds_locks(&self) -> bool {
        self.has_writes()
            || !self.held.is_empty()
            || !self.row_ranges.is_empty()
            || !self.marked.is_empty()
    }

    pub(crate) fn note_index(&mut self, index: &Arc<RangeLocks>) {
        let is_last = self.locked_in.last();
        if is_last.is_some_and(|last| Arc::ptr_eq(last, index))
            || self.locked_in.iter().any(|known| Arc::ptr_eq(known, index))
        {
            return;
        }
        self.locked_in.push(Arc::clone(index));
    }
}
