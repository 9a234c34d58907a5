//! Why a wait for a row ended without the row.

use std::fmt;

/// Why a wait ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The lock timeout passed.
    Timeout,
    /// Waiting would close a cycle of transactions that wait for each other.
    Deadlock,
    /// The transaction was interrupted from another thread.
    Interrupted,
    /// The locks of all transactions take the memory that they may, and a range
    /// in place of rows does not help.
    TooManyLocks,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "lock wait timeout exceeded",
            Self::Deadlock => "deadlock found when waiting for a row",
            Self::Interrupted => "the wait was interrupted",
            Self::TooManyLocks => "the locks of all transactions take the memory that they may",
        })
    }
}

impl std::error::Error for WaitError {}
