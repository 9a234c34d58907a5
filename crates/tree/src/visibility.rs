//! What the tree asks of its callers: which writes a reader sees, what became
//! of a write, and how update messages change a value. The tree knows no
//! transactions; these traits are all it hears of them.

use std::path::Path;
use std::sync::Arc;
use teak_base::{CommitSequence, StorageError, StorageResult, WriteId};

/// Which writes one reader sees.
pub trait Visibility {
    /// Whether the reader sees what this write wrote. Settled entries are
    /// visible to everybody and never asked about.
    fn is_visible(&self, id: WriteId) -> bool;

    /// Whether the reader sees no write from `least` to `greatest`, and never
    /// will: then it is spared what they alone have written.
    fn hides_all(&self, least: WriteId, greatest: WriteId) -> bool {
        let _ = (least, greatest);
        false
    }

    /// Whether the reader wants to stop. Asked now and then while a cursor
    /// passes entries that the reader does not see.
    fn is_interrupted(&self) -> bool {
        false
    }
}

impl<V: Visibility + ?Sized> Visibility for &V {
    fn is_visible(&self, id: WriteId) -> bool {
        (**self).is_visible(id)
    }

    fn hides_all(&self, least: WriteId, greatest: WriteId) -> bool {
        (**self).hides_all(least, greatest)
    }

    fn is_interrupted(&self) -> bool {
        (**self).is_interrupted()
    }
}

impl<V: Visibility + ?Sized> Visibility for Arc<V> {
    fn is_visible(&self, id: WriteId) -> bool {
        (**self).is_visible(id)
    }

    fn hides_all(&self, least: WriteId, greatest: WriteId) -> bool {
        (**self).hides_all(least, greatest)
    }

    fn is_interrupted(&self) -> bool {
        (**self).is_interrupted()
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Committed at this place in the commit order.
    Committed(CommitSequence),
    /// Neither committed nor rolled back.
    Active,
    /// Rolled back: visible to nobody, ever.
    Aborted,
}

/// What a merge may throw away: the state of all writes and the snapshots that
/// live while the merge runs.
///
/// The value is taken before the merge starts and may grow old: snapshots
/// taken later must see at least the newest sequence of [`Horizon::snapshots`],
/// and a write that was active may turn committed or aborted at any time.
pub trait Horizon: Send + Sync {
    /// What became of a write. Never asked about [`WriteId::SETTLED`].
    fn fate(&self, id: WriteId) -> Fate;

    /// The live snapshots, ascending; the last is the newest published commit.
    fn snapshots(&self) -> &[CommitSequence];

    /// What became of all writes from `least` to `greatest`. The default asks
    /// for each of a few and gives up on many.
    fn resolution(&self, least: WriteId, greatest: WriteId) -> Resolution {
        const ASKED_MAX: u64 = 4096;
        if greatest.0.saturating_sub(least.0) >= ASKED_MAX {
            return Resolution::Unresolved;
        }
        let oldest = self.snapshots().first();
        let mut aborted = 0;
        for id in least.0..=greatest.0 {
            match self.fate(WriteId(id)) {
                Fate::Committed(at) if oldest.is_some_and(|oldest| at <= *oldest) => {}
                Fate::Aborted => aborted += 1,
                Fate::Committed(_) | Fate::Active => return Resolution::Unresolved,
            }
        }
        Resolution::of(aborted, least, greatest)
    }
}

/// What became of a range of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// All are committed and seen by every snapshot.
    Settled,
    /// As before, but some are aborted.
    SettledOrAborted,
    /// All are aborted.
    Aborted,
    /// Some are active, or not seen by every snapshot, or it is not known.
    Unresolved,
}

impl Resolution {
    /// Of resolved writes from `least` to `greatest`, so many of them aborted.
    #[must_use]
    pub fn of(aborted: u64, least: WriteId, greatest: WriteId) -> Self {
        match aborted {
            0 => Self::Settled,
            _ if aborted > greatest.0.saturating_sub(least.0) => Self::Aborted,
            _ => Self::SettledOrAborted,
        }
    }
}

/// The functions that update messages name.
pub trait UpdateFunctions: Send + Sync {
    /// The new value of a key whose value was `old` (`None`: it had none).
    /// `None` deletes the key. Must be deterministic: it runs again whenever
    /// the message is read before it is merged.
    fn apply(&self, function: u32, old: Option<&[u8]>, argument: &[u8]) -> Option<Vec<u8>>;
}

/// For trees whose owner writes no updates: every update leaves the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUpdates;

impl UpdateFunctions for NoUpdates {
    fn apply(&self, _function: u32, old: Option<&[u8]>, _argument: &[u8]) -> Option<Vec<u8>> {
        old.map(<[u8]>::to_vec)
    }
}

/// The value of an update entry for `function` and `argument`.
#[must_use]
pub fn encode_update(function: u32, argument: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(4 + argument.len());
    value.extend_from_slice(&function.to_le_bytes());
    value.extend_from_slice(argument);
    value
}

/// Applies the value of an update entry to `old`.
///
/// # Errors
/// `Corrupt` of `path` when the value is too short to name a function.
pub(crate) fn apply_update(
    functions: &dyn UpdateFunctions,
    path: &Path,
    old: Option<&[u8]>,
    update: &[u8],
) -> StorageResult<Option<Vec<u8>>> {
    let (function, argument) = update
        .split_first_chunk::<4>()
        .ok_or_else(|| StorageError::corrupt(path, 0, "an update names no function"))?;
    Ok(functions.apply(u32::from_le_bytes(*function), old, argument))
}
