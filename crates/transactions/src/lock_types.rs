//! Value types that the lock tables share.

use smallvec::SmallVec;
use teak_base::TransactionId;

/// The mode of a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Other transactions may take shared locks; none may write.
    Shared,
    /// No other transaction may lock or write.
    Exclusive,
}

impl LockMode {
    pub(crate) fn conflicts(self, other: LockMode) -> bool {
        self == LockMode::Exclusive || other == LockMode::Exclusive
    }
}

/// The writes of other transactions that a range lock blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLockKind {
    /// A gap lock: blocks inserts. Existing rows are locked one by one.
    Gap,
    /// Blocks inserts, updates and deletes.
    Write,
}

/// A row lock, as its holder records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub mode: LockMode,
    /// Acquisitions that have not been released.
    pub count: u32,
    /// Number of savepoints that the transaction had set when it first acquired
    /// the lock.
    pub savepoints: u64,
    /// The transaction may have written the row since.
    pub written: bool,
}

/// The transactions that block one transaction.
pub(crate) type Blockers = SmallVec<[TransactionId; 4]>;

/// A change of the memory of a transaction's ranges, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resized {
    pub before: u64,
    pub after: u64,
}

impl Resized {
    pub(crate) fn of(before: usize, after: usize) -> Self {
        Self {
            before: before as u64,
            after: after as u64,
        }
    }
}
