//! What one reader sees. A view answers for each write id whether its versions
//! are visible; decided answers are remembered in a small direct-mapped cache,
//! so a scan over rows of few writers costs two loads per row.
//!
//! Only answers that cannot change are kept: a foreign write that was undecided
//! when a snapshot was taken commits after it, hence stays invisible to it.
//! Readers without a snapshot (dirty reads, newest-committed reads) do not keep
//! answers about undecided writes.

use crate::shared::TransactionHandle;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::write_ids::WriteIdTable;
use std::sync::Arc;
use teak_base::TransactionId;
use teak_base::WriteStatus;
use teak_base::{CommitSequence, WriteId};

const SLOTS: usize = 64;

/// Which foreign writes a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Committed at or before the sequence.
    Snapshot(CommitSequence),
    /// Committed by now. Notes undecided writes that were met.
    Committed,
    /// Committed or undecided.
    Uncommitted,
}

/// The eyes of one reader. Shared by its cursors; cheap to ask.
pub struct ReadView {
    ids: Arc<WriteIdTable>,
    owner: TransactionId,
    kind: ViewKind,
    /// `id << 1 | visible`, or zero.
    cache: [AtomicU64; SLOTS],
    /// The first undecided foreign write met since it was last taken.
    met: AtomicU64,
    /// Whose interrupt ends a read, if anybody's.
    interrupted_by: Option<Arc<TransactionHandle>>,
}

impl ReadView {
    /// A view of `owner`'s own undecided writes and of `reads`.
    #[must_use]
    pub fn new(ids: Arc<WriteIdTable>, owner: TransactionId, kind: ViewKind) -> Self {
        Self {
            ids,
            owner,
            kind,
            cache: [const { AtomicU64::new(0) }; SLOTS],
            met: AtomicU64::new(0),
            interrupted_by: None,
        }
    }

    /// The same view, whose reads end when the transaction is interrupted.
    #[must_use]
    pub fn interrupted_by(mut self, transaction: &Arc<TransactionHandle>) -> Self {
        self.interrupted_by = Some(Arc::clone(transaction));
        self
    }

    /// What the view sees of others.
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
        let place = usize::try_from(id.0 % SLOTS as u64).unwrap_or(0);
        if let Some(slot) = self.cache.get(place) {
            let kept = slot.load(Ordering::Relaxed);
            if kept >> 1 == id.0 {
                return kept & 1 == 1;
            }
        }
        self.ask(id, place)
    }

    #[cold]
    fn ask(&self, id: WriteId, place: usize) -> bool {
        let (visible, lasting) = match (self.ids.status(id), self.kind) {
            (WriteStatus::Active(owner), _) if owner == self.owner => (true, false),
            (WriteStatus::Active(_), ViewKind::Snapshot(_)) => (false, true),
            (WriteStatus::Active(_), ViewKind::Uncommitted) => (true, false),
            (WriteStatus::Active(_), ViewKind::Committed) => {
                let _ = self
                    .met
                    .compare_exchange(0, id.0, Ordering::Relaxed, Ordering::Relaxed);
                (false, false)
            }
            (WriteStatus::Aborted, _) => (false, true),
            (WriteStatus::Committed(at), ViewKind::Snapshot(sequence)) => (at <= sequence, true),
            (WriteStatus::Committed(_), _) => (true, true),
        };
        if lasting && let Some(slot) = self.cache.get(place) {
            slot.store((id.0 << 1) | u64::from(visible), Ordering::Relaxed);
        }
        visible
    }

    /// Takes the first undecided foreign write met by a newest-committed read.
    pub fn take_conflicting_write(&self) -> Option<WriteId> {
        match self.met.load(Ordering::Relaxed) {
            0 => None,
            id => {
                self.met.store(0, Ordering::Relaxed);
                Some(WriteId(id))
            }
        }
    }
}

impl teak_base::Visibility for ReadView {
    #[inline]
    fn is_visible(&self, id: WriteId) -> bool {
        self.sees(id)
    }

    /// A snapshot never sees what was undecided when it was taken.
    fn hides_all(&self, least: WriteId, greatest: WriteId) -> bool {
        const ASKED_MAX: u64 = 16;
        greatest.0.saturating_sub(least.0) < ASKED_MAX
            && (least.0..=greatest.0).all(|id| match (self.ids.status(WriteId(id)), self.kind) {
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

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);

    #[test]
    fn snapshot_never_sees_later_commits() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), WriteId(1), &[]));
        let mine = ids.allocate(ME);
        let early = ids.allocate(OTHER);
        let late = ids.allocate(OTHER);
        ids.commit(&[early], CommitSequence(1));
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Snapshot(CommitSequence(1)));
        let answers = || [mine, early, late].map(|id| view.sees(id));
        assert_eq!(answers(), [true, true, false]);
        ids.commit(&[late], CommitSequence(2));
        assert_eq!(answers(), [true, true, false]);
        ids.abort(&[mine]);
        assert_eq!(answers(), [false, true, false]);
    }

    #[test]
    fn newest_read_notes_the_undecided_writer() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), WriteId(1), &[]));
        let other = ids.allocate(OTHER);
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Committed);
        assert!(!view.sees(other));
        assert_eq!(view.take_conflicting_write(), Some(other));
        assert_eq!(view.take_conflicting_write(), None);
        ids.commit(&[other], CommitSequence(1));
        assert!(view.sees(other));
    }

    #[test]
    fn an_interrupt_of_its_transaction_reaches_the_reader() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), WriteId(1), &[]));
        let transaction = Arc::new(TransactionHandle::new(ME));
        let view = ReadView::new(ids, ME, ViewKind::Committed).interrupted_by(&transaction);
        let asked = || teak_base::Visibility::is_interrupted(&&view);
        assert!(!asked());
        transaction.interrupt();
        assert!(asked());
        transaction.clear_interrupt();
        assert!(!asked());
    }

    #[test]
    fn dirty_read_sees_what_is_undecided() {
        let ids = Arc::new(WriteIdTable::new(WriteId(1), WriteId(1), &[]));
        let other = ids.allocate(OTHER);
        let view = ReadView::new(Arc::clone(&ids), ME, ViewKind::Uncommitted);
        assert!(view.sees(other));
        ids.abort(&[other]);
        assert!(!view.sees(other));
    }
}
