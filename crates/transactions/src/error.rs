//! Errors of lock waits.

use std::fmt;

/// The reason why a lock request or a wait failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The lock timeout expired.
    Timeout,
    /// The transaction is the victim of a deadlock.
    Deadlock,
    /// Another thread interrupted the transaction.
    Interrupted,
    /// The memory limit for locks is reached, and lock escalation did not free
    /// enough.
    TooManyLocks,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "lock wait timeout exceeded",
            Self::Deadlock => "deadlock found when waiting for a row",
            Self::Interrupted => "the wait was interrupted",
            Self::TooManyLocks => "the memory limit for locks is reached",
        })
    }
}

impl std::error::Error for WaitError {}
