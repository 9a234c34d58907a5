//! Copies of lock and wait state for monitoring. Reading them holds no lock.

use crate::lock_types::{BlockerKind, LockMode, RangeLockKind};
use std::time::{Duration, SystemTime};
use teak_base::{FileId, TransactionId};

/// The conflict that makes a transaction wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// The request is for a row lock of this mode. A row lock, a row range (which replaced row
    /// locks after escalation) or an earlier request conflicts.
    Lock(LockMode),
    /// The row's newest version, whose writer is active.
    Write,
    /// A gap lock or write range lock that blocks a write of the key.
    RangeLock,
    /// The request is for a range lock of this kind that starts at the key. It
    /// waits for a blocked write in the range with an earlier ticket.
    RangeRequest(RangeLockKind),
}

/// A transaction and its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The transaction.
    pub transaction: TransactionId,
    /// Thread id assigned by the caller; zero for none.
    pub thread: u64,
}

/// A transaction that blocks a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The transaction.
    pub participant: Participant,
    /// How it blocks the wait.
    pub kind: BlockerKind,
}

/// A lock request that has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The index.
    pub file: FileId,
    /// The key.
    pub key: Box<[u8]>,
    /// The conflict.
    pub kind: WaitKind,
}

/// A current wait.
#[derive(Clone, Debug)]
pub struct WaitReport {
    /// The waiting transaction.
    pub requester: Participant,
    /// Its request.
    pub request: LockRequest,
    /// Time waited so far.
    pub waited: Duration,
    /// The conflicting transactions and, for a row lock, the transaction whose request is directly
    /// ahead in the queue.
    pub blockers: Vec<Blocker>,
}

/// A wait that failed.
#[derive(Clone, Debug)]
pub struct FailedWait {
    /// The request.
    pub request: LockRequest,
    /// Time waited.
    pub waited: Duration,
    /// The transactions that blocked it.
    pub blockers: Vec<Blocker>,
}

/// The keys that a lock covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockExtent {
    /// One key. `None` if rows with the same hash share the lock.
    Row(Option<Box<[u8]>>),
    /// A range lock on `low <= key < high`.
    Range {
        /// The first key.
        low: Box<[u8]>,
        /// The end, exclusive; `None` for the end of the index.
        high: Option<Box<[u8]>>,
        /// The writes that it blocks.
        kind: RangeLockKind,
    },
    /// All rows at `low <= key < high`, after lock escalation.
    RowRange {
        /// The first key.
        low: Box<[u8]>,
        /// The end, exclusive.
        high: Box<[u8]>,
    },
}

/// An explicit lock.
#[derive(Clone, Debug)]
pub struct LockReport {
    /// The holder.
    pub transaction: TransactionId,
    /// The index.
    pub file: FileId,
    /// The keys.
    pub extent: LockExtent,
    /// The mode.
    pub mode: LockMode,
}

/// One transaction of a deadlock.
#[derive(Clone, Debug)]
pub struct DeadlockMember {
    /// The transaction.
    pub participant: Participant,
    /// Its request, which the next member blocks.
    pub request: LockRequest,
    /// How the next member blocks it.
    pub blocked_by: BlockerKind,
    /// Time waited.
    pub waited: Duration,
    /// Number of rows written.
    pub rows_written: u64,
    /// Number of rows locked explicitly.
    pub row_locks: u64,
}

/// A deadlock: each member waits for the next, and the last one for the first.
#[derive(Clone, Debug)]
pub struct DeadlockReport {
    /// When it was detected.
    pub at: SystemTime,
    /// The members of the cycle.
    pub members: Vec<DeadlockMember>,
    /// The member that failed.
    pub victim: TransactionId,
}
