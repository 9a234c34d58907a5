//! Transaction state as the tree sees it: the status of a write, the writes
//! that a reader sees, and the versions that a merge may drop.
//!
//! The tree does not depend on transactions. It calls these traits;
//! `teak-transactions` implements them.

use crate::ids::{CommitSequence, TransactionId, WriteId};
use std::sync::Arc;

/// The status of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStatus {
    /// The transaction that wrote it has neither committed nor aborted.
    Active(TransactionId),
    /// Visible to snapshots at or after the sequence. Zero means that every snapshot
    /// sees it.
    Committed(CommitSequence),
    /// Rolled back: no reader ever sees it.
    Aborted,
}

/// The status of all writes of a range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRangeStatus {
    /// All are committed, and every snapshot sees them.
    Settled,
    /// Some are aborted; the others are committed, and every snapshot sees them.
    SettledOrAborted,
    /// All are aborted.
    Aborted,
    /// Some are active, or some snapshot does not see them, or the status was not computed because
    /// that would take too long.
    Unsettled,
}

impl WriteRangeStatus {
    /// The status of the ids from `min` to `max`, both included, when `aborted`
    /// of them are aborted and the others are settled.
    #[must_use]
    pub fn of(aborted: u64, min: WriteId, max: WriteId) -> Self {
        match aborted {
            0 => Self::Settled,
            _ if aborted > max.0.saturating_sub(min.0) => Self::Aborted,
            _ => Self::SettledOrAborted,
        }
    }
}

/// The writes that one reader sees.
pub trait Visibility {
    /// Whether the reader sees the versions of this write. Never called with
    /// [`WriteId::SETTLED`]: every reader sees settled entries.
    fn is_visible(&self, id: WriteId) -> bool;

    /// Whether the reader sees no write from `min` to `max`, both included, now or later. Then the
    /// tree skips data that consists of these writes only.
    fn hides_all(&self, min: WriteId, max: WriteId) -> bool {
        let _ = (min, max);
        false
    }

    /// Whether the reader must stop. Called periodically while a cursor skips
    /// entries that the reader does not see.
    fn is_interrupted(&self) -> bool {
        false
    }
}

impl<V: Visibility + ?Sized> Visibility for &V {
    fn is_visible(&self, id: WriteId) -> bool {
        (**self).is_visible(id)
    }

    fn hides_all(&self, min: WriteId, max: WriteId) -> bool {
        (**self).hides_all(min, max)
    }

    fn is_interrupted(&self) -> bool {
        (**self).is_interrupted()
    }
}

impl<V: Visibility + ?Sized> Visibility for Arc<V> {
    fn is_visible(&self, id: WriteId) -> bool {
        (**self).is_visible(id)
    }

    fn hides_all(&self, min: WriteId, max: WriteId) -> bool {
        (**self).hides_all(min, max)
    }

    fn is_interrupted(&self) -> bool {
        (**self).is_interrupted()
    }
}

/// Decides which versions a merge may drop: provides the status of all writes, and the snapshots
/// that are live when the merge starts.
///
/// While the merge runs, active writes may commit or abort, and snapshots may end. Every snapshot
/// taken later must be at or after the newest sequence of
/// [`Horizon::snapshots`].
pub trait Horizon: Send + Sync {
    /// The status of a write. Never called with [`WriteId::SETTLED`].
    fn status(&self, id: WriteId) -> WriteStatus;

    /// The live snapshots, ascending; the last is the newest published commit.
    fn snapshots(&self) -> &[CommitSequence];

    /// The decided watermark when the horizon was taken: all writes below are committed or aborted,
    /// and add no more entries. The default is the minimum.
    fn decided_below(&self) -> WriteId {
        WriteId(1)
    }

    /// Whether some write from `min` to `max`, both included and below the decided watermark, may be
    /// aborted.
    fn may_have_aborted(&self, min: WriteId, max: WriteId) -> bool {
        let _ = (min, max);
        true
    }

    /// The status of all writes from `min` to `max`, both included. The default
    /// checks each id, and returns `Unsettled` when there are too many.
    fn range_status(&self, min: WriteId, max: WriteId) -> WriteRangeStatus {
        const CHECKED_IDS_MAX: u64 = 4096;
        if max.0.saturating_sub(min.0) >= CHECKED_IDS_MAX {
            return WriteRangeStatus::Unsettled;
        }
        let oldest = self.snapshots().first();
        let mut aborted = 0;
        for id in min.0..=max.0 {
            match self.status(WriteId(id)) {
                WriteStatus::Committed(at) if oldest.is_some_and(|oldest| at <= *oldest) => {}
                WriteStatus::Aborted => aborted += 1,
                WriteStatus::Committed(_) | WriteStatus::Active(_) => {
                    return WriteRangeStatus::Unsettled;
                }
            }
        }
        WriteRangeStatus::of(aborted, min, max)
    }
}
