//! Read views: whether a reader sees the versions of a write. A small direct-mapped cache stores
//! final answers, so a scan over rows of few writers rarely reads the table of write ids.
//!
//! The cache keeps only answers that cannot change. If a write of another transaction is active
//! after the snapshot was taken, it commits later than the snapshot, so the snapshot never sees it.
//! Views without a snapshot do not cache answers about active writes.

use crate::handle::TransactionHandle;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::write_ids::WriteIdTable;
use std::sync::Arc;
use teak_base::{CommitSequence, TransactionId, Visibility, WriteId, WriteStatus};

const SLOTS: usize = 64;

/// Which writes of other transactions a view sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Committed at or before the sequence.
    Snapshot(CommitSequence),
    /// Committed at the time of the read. The view records an active write that
    /// it skips, see [`ReadView::take_conflicting_write`].
    Committed,
    /// Committed or active.
    Uncommitted,
}

/// The visibility of one reader; its cursors share it.
pub struct ReadView {
    ids: Arc<WriteIdTable>,
    owner: TransactionId,
    kind: ViewKind,
    /// `id << 1 | visible`, or zero.
    cache: [AtomicU64; SLOTS],
    /// The first active write of another transaction found since the last
    /// `take_conflicting_write`; zero for none.
    conflicting_write: AtomicU64,
    /// If this transaction is interrupted, reads through the view end.
    interrupted_by: Option<Arc<TransactionHandle>>,
}

impl ReadView {
    /// Creates a view of the active writes of `owner` and of those writes of other transactions
    /// that `kind` includes.
    #[must_use]
    pub fn new(ids: Arc<WriteIdTable>, owner: TransactionId, kind: ViewKind) -> Self {
        Self {
            ids,
            owner,
            kind,
            cache: [const { AtomicU64::new(0) }; SLOTS],
            conflicting_write: AtomicU64::new(0),
            interrupted_by: None,
        }
    }

    /// Makes an interrupt of `transaction` end reads through this view.
    #[must_use]
    pub fn interrupted_by(mut self, transaction: &Arc<TransactionHandle>) -> Self {
        self.interrupted_by = Some(Arc::clone(transaction));
        self
    }

    /// Makes it a view of a later transaction of the same system.
    pub(crate) fn renew(&mut self, transaction: &Arc<TransactionHandle>, kind: ViewKind) {
        self.owner = transaction.id();
        self.kind = kind;
        self.cache = [const { AtomicU64::new(0) }; SLOTS];
        self.conflicting_write = AtomicU64::new(0);
        self.interrupted_by = Some(Arc::clone(transaction));
    }

    /// Releases the transaction's handle, after its end.
    pub fn end(&mut self) {
        self.interrupted_by = None;
    }

    /// Which writes of other transactions the view sees.
    #[must_use]
    pub fn kind(&self) -> ViewKind {
        self.kind
    }

    /// Whether versions of `id` are visible.
    #[inline]
    #[must_use]
    pub fn sees(&self, id: WriteId) -> bool {
        if id.is_settled() {
            return true;
        }
        let slot_index = usize::try_from(id.0 % SLOTS as u64).unwrap_or(0);
        if let Some(slot) = self.cache.get(slot_index) {
            let cached = slot.load(Ordering::Relaxed);
            if cached >> 1 == id.0 {
                return cached & 1 == 1;
            }
        }
        self.compute(id, slot_index)
    }

    #[cold]
    fn compute(&self, id: WriteId, slot_index: usize) -> bool {
        let status = self.ids.status_for(id, self.owner);
        let (visible, is_final) = match (status, self.kind) {
            (WriteStatus::Active(owner), _) if owner == self.owner => (true, false),
            (WriteStatus::Active(_), ViewKind::Snapshot(_)) => (false, true),
            (WriteStatus::Active(_), ViewKind::Uncommitted) => (true, false),
            (WriteStatus::Active(_), ViewKind::Committed) => {
                let _ = self.conflicting_write.compare_exchange(
                    0,
                    id.0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                (false, false)
            }
            (WriteStatus::Aborted, _) => (false, true),
            (WriteStatus::Committed(at), ViewKind::Snapshot(sequence)) => (at <= sequence, true),
            (WriteStatus::Committed(_), _) => (true, true),
        };
        if is_final && let Some(slot) = self.cache.get(slot_index) {
            slot.store((id.0 << 1) | u64::from(visible), Ordering::Relaxed);
        }
        visible
    }

    /// Takes the first active write of another transaction that a read of
    /// [`ViewKind::Committed`] skipped.
    pub fn take_conflicting_write(&self) -> Option<WriteId> {
        match self.conflicting_write.load(Ordering::Relaxed) {
            0 => None,
            id => {
                self.conflicting_write.store(0, Ordering::Relaxed);
                Some(WriteId(id))
            }
        }
    }
}

impl Visibility for ReadView {
    #[inline]
    fn is_visible(&self, id: WriteId) -> bool {
        self.sees(id)
    }

    /// Checks at most 16 ids; returns false for more. A write that is active now can only commit
    /// after the snapshot was taken, so the snapshot never sees it.
    fn hides_all(&self, min: WriteId, max: WriteId) -> bool {
        const CHECKED_IDS_MAX: u64 = 16;
        max.0.saturating_sub(min.0) < CHECKED_IDS_MAX
            && (min.0..=max.0).all(|id| match (self.ids.status(WriteId(id)), self.kind) {
                (WriteStatus::Aborted, _) => true,
                (WriteStatus::Active(owner), ViewKind::Snapshot(_)) => owner != self.owner,
                (WriteStatus::Committed(at), ViewKind::Snapshot(sequence)) => at > sequence,
                _ => false,
            })
    }

    fn is_interrupted(&self) -> bool {
        let by = self.interrupted_by.as_ref();
        by.is_some_and(|transaction| transaction.is_interrupted())
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::*;
    use teak_base::{WriteIdRange, WriteIdRanges};

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);

    #[test]
    fn snapshot_never_sees_later_commits() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), &WriteIdRanges::default()));
        let mine = ids.allocate(ME);
        let early = ids.allocate(OTHER);
        let late = ids.allocate(OTHER);
        ids.commit(&[WriteIdRange::one(early)], CommitSequence(1));
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Snapshot(CommitSequence(1)));
        let answers = || [mine, early, late].map(|id| view.sees(id));
        assert_eq!(answers(), [true, true, false]);
        ids.commit(&[WriteIdRange::one(late)], CommitSequence(2));
        assert_eq!(answers(), [true, true, false]);
        ids.abort(&[WriteIdRange::one(mine)]);
        assert_eq!(answers(), [false, true, false]);
    }

    #[test]
    fn read_of_committed_versions_records_the_active_writer() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), &WriteIdRanges::default()));
        let other = ids.allocate(OTHER);
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Committed);
        assert!(!view.sees(other));
        assert_eq!(view.take_conflicting_write(), Some(other));
        assert_eq!(view.take_conflicting_write(), None);
        ids.commit(&[WriteIdRange::one(other)], CommitSequence(1));
        assert!(view.sees(other));
    }

    #[test]
    fn an_interrupt_of_its_transaction_reaches_the_reader() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), &WriteIdRanges::default()));
        let transaction = Arc::new(TransactionHandle::new(ME));
        let view = ReadView::new(ids, ME, ViewKind::Committed).interrupted_by(&transaction);
        let interrupted = || Visibility::is_interrupted(&&view);
        assert!(!interrupted());
        transaction.interrupt();
        assert!(interrupted());
        transaction.clear_interrupt();
        assert!(!interrupted());
    }

    #[test]
    fn read_of_uncommitted_versions_sees_active_writes() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), &WriteIdRanges::default()));
        let other = ids.allocate(OTHER);
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Uncommitted);
        assert!(view.sees(other));
        ids.abort(&[WriteIdRange::one(other)]);
        assert!(!view.sees(other));
    }
}
