//! How a locking cursor handles conflicting locks, and how long it protects the
//! rows that it returned.

/// How a locking read handles a row that another transaction has written without
/// having committed, or has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPolicy {
    /// Waits for the other transaction.
    #[default]
    Wait,
    /// Skips the row (SKIP LOCKED). Where another transaction's write has not
    /// committed, the last committed entry decides whether there is a row.
    SkipLocked,
    /// A scan returns the last committed version of the row, without locking it.
    /// A caller that needs the row sets [`LockPolicy::Wait`] and seeks it again.
    /// Only on the rows' index and only where the read locks no gaps; elsewhere
    /// the cursor waits.
    SemiConsistent,
}

/// How long the rows that a locking read returned are protected from writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowRetention {
    /// Until `Cursor::unlock`, or the end of the transaction.
    #[default]
    UntilUnlocked,
    /// Until the transaction ends, also after `Cursor::unlock`. A scan
    /// of the rows' index locks the ranges that it reads against all writes, so
    /// a long scan needs no lock for each row.
    UntilTransactionEnd,
}
