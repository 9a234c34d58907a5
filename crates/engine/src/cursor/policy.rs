//! How a locking cursor handles conflicting locks, and how long it protects the
//! rows that it returned.

/// How a locking read handles a row that has an uncommitted version or a
/// conflicting lock of another transaction.
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
    /// row again. A lookup waits. A cursor of a secondary index, or one that
    /// locks gaps, cannot be given this policy.
    SemiConsistent,
}

/// How long the rows that a locking read returned are protected from writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowRetention {
    /// Until `Cursor::unlock`, at the latest until the transaction ends.
    #[default]
    UntilUnlocked,
    /// Until the transaction ends, even after `Cursor::unlock`. A scan of the
    /// index of the rows locks the ranges that it reads against all writes, so
    /// a shared scan need not retain row locks.
    UntilTransactionEnd,
}
