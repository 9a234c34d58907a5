//! Notification of the caller that one transaction starts to wait for another.
//!
//! A caller that has fixed a commit order (parallel replication) must be
//! notified when an earlier transaction waits for a later one: it then rolls
//! the later one back. Otherwise one waits for a row lock and the other for its
//! turn to commit, and the waits-for graph of this crate shows no cycle.
//!
//! A notification holds the holder's owner lock and no other lock, so the owner
//! is not cleared during the call. A transaction clears its owner before it
//! decides its writes and releases its locks.

/// The session that runs a transaction: an opaque token of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub usize);

/// Receives notifications of waits.
pub trait WaitListener: Send + Sync {
    /// `waiter` is about to wait for `holder`. Runs in the waiter's thread. The
    /// holder's transaction does not end before the call returns, so the call
    /// must not wait for that.
    fn wait_begins(&self, waiter: Owner, holder: Owner);
}
