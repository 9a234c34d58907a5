//! What transactions hold and wait for, as people want to see it. Everything
//! here is a copy: nothing is locked while it is looked at.

use crate::range_locks::RangeLockKind;
use crate::row_locks::LockMode;
use std::time::{Duration, SystemTime};
use teak_base::FileId;
use teak_base::TransactionId;

/// What stops a waiting transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// An explicit lock of the row, or a range that holds it.
    Lock(LockMode),
    /// The row's newest version, whose writer is undecided.
    Write,
    /// A range in which it wants to insert or write.
    RangeLock,
    /// Somebody who waits to insert or write in a range that it wants to lock,
    /// from this key on.
    RangeRequest,
}

/// A transaction, and who runs it in the caller's numbers (zero for nobody).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The transaction.
    pub transaction: TransactionId,
    /// Who runs it.
    pub thread: u64,
}

/// What a transaction wants and does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The index.
    pub file: FileId,
    /// The key.
    pub key: Box<[u8]>,
    /// What stops it.
    pub kind: WaitKind,
}

/// A wait that goes on.
#[derive(Clone, Debug)]
pub struct WaitReport {
    /// Who waits.
    pub requester: Party,
    /// For what.
    pub request: LockRequest,
    /// For how long by now.
    pub waited: Duration,
    /// For whom: whoever stands in the way, and the one ahead in the queue.
    pub blockers: Vec<Party>,
}

/// A wait that ended in an error.
#[derive(Clone, Debug)]
pub struct FailedWait {
    /// For what.
    pub request: LockRequest,
    /// For how long.
    pub waited: Duration,
    /// For whom.
    pub blockers: Vec<Party>,
}

/// What a lock covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockExtent {
    /// One key. `None` when rows of several names share the lock.
    Row(Option<Box<[u8]>>),
    /// Insertions at `low <= key < high`, or all writes there.
    Range {
        /// The first key.
        low: Box<[u8]>,
        /// The first key behind; `None` at the end of the index.
        high: Option<Box<[u8]>>,
        /// What it keeps others from.
        kind: RangeLockKind,
    },
    /// All rows `low <= key < high`, in place of single ones.
    RowRange {
        /// The first key.
        low: Box<[u8]>,
        /// The first key behind.
        high: Box<[u8]>,
    },
}

/// An explicit lock.
#[derive(Clone, Debug)]
pub struct LockReport {
    /// Who holds it.
    pub transaction: TransactionId,
    /// In which index.
    pub file: FileId,
    /// On what.
    pub extent: LockExtent,
    /// How.
    pub mode: LockMode,
}

/// One transaction of a deadlock.
#[derive(Clone, Debug)]
pub struct DeadlockMember {
    /// Which.
    pub party: Party,
    /// What it waits for; the next member has it.
    pub request: LockRequest,
    /// How long it had waited.
    pub waited: Duration,
    /// Rows it had written.
    pub rows_written: u64,
    /// Rows it had locked.
    pub row_locks: u64,
}

/// A deadlock: each member waits for the next, the last one for the first.
#[derive(Clone, Debug)]
pub struct DeadlockReport {
    /// When it was found.
    pub at: SystemTime,
    /// The members.
    pub members: Vec<DeadlockMember>,
    /// The one that failed.
    pub victim: TransactionId,
}
