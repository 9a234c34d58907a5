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
    /// Whether the transaction may have written the row since it acquired the lock.
    pub written: bool,
}

/// How a transaction blocks the wait of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockerKind {
    /// It holds a lock of the row, or its request for one is ahead in the queue.
    Row,
    /// It holds a row range that contains the row.
    RowRange,
    /// It holds a gap lock that contains the key.
    Gap,
    /// It holds a write range lock that contains the key.
    WriteRange,
    /// It wrote the newest version of the row.
    Written,
    /// It holds no conflicting lock, but a range lock blocked its write of a key in the requested
    /// range before the request was made.
    WaitingWrite,
}

/// A transaction that blocks another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocking {
    pub transaction: TransactionId,
    pub kind: BlockerKind,
}

/// The transactions that block one transaction, each once, with the first kind that was added.
#[derive(Debug, Default)]
pub(crate) struct Blockers(SmallVec<[Blocking; 4]>);

impl Blockers {
    /// Adds a transaction, unless the list contains it.
    pub(crate) fn add(&mut self, transaction: TransactionId, kind: BlockerKind) {
        if !self.0.iter().any(|known| known.transaction == transaction) {
            self.0.push(Blocking { transaction, kind });
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Blocking> {
        self.0.iter()
    }
}

impl FromIterator<Blocking> for Blockers {
    fn from_iter<I: IntoIterator<Item = Blocking>>(blockers: I) -> Self {
        let mut list = Self::default();
        for Blocking { transaction, kind } in blockers {
            list.add(transaction, kind);
        }
        list
    }
}

/// A change of the memory of a transaction's range locks, row ranges or list of write ids, in
/// bytes.
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
