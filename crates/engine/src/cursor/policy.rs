//! How a locking cursor handles conflicting locks, and how long it protects the
//! rows that it returned.

/// How a locking read handles a row that another transaction has written without
/// having committed, or has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPolicy {
    /// Waits for the other transaction.
    #[default]
    Wait,
    /// Skips the row (SKIP LOCKED). If the newest version is uncommitted, the
    /// last committed version decides whether the row exists.
    SkipLocked,
    /// A scan returns the last committed version of the row, without locking
    /// it. A caller that needs the lock sets [`LockPolicy::Wait`] and seeks the
    /// row again. Applies only to the index of the rows, and only if the read
    /// locks no gaps; otherwise the cursor waits.
    SemiConsistent,
}

/// How long the rows that a locking read returned are protected from writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowRetention {
    /// Until `Cursor::unlock`, or the end of the transaction.
    #[default]
    UntilUnlocked,
    /// Until the transaction ends, even after `Cursor::unlock`. A scan of the
    /// index of the rows locks the ranges that it reads against all writes, so
    /// it needs no row locks.
    UntilTransactionEnd,
}
