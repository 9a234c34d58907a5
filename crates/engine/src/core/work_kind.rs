//! Kinds of background work on an index.

use teak_tree::JobKind;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Frozen memtables to flush, the largest first.
    Memtables,
    /// Runs to move down: those of indexes whose writers are delayed first, then
    /// the most bytes.
    Runs,
}

impl WorkKind {
    pub(crate) fn of(job: JobKind) -> Self {
        match job {
            JobKind::Memtable => Self::Memtables,
            _ => Self::Runs,
        }
    }
}
