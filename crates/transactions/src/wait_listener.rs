//! Notification of the server that one transaction starts to wait for another.
//!
//! A server that has fixed a commit order (parallel replication) must be
//! notified when an earlier transaction waits for a later one: it then rolls
//! the later one back. Otherwise the earlier one waits for a row lock and the
//! later one waits for its turn to commit: a deadlock that the waits-for graph
//! of this crate does not contain.
//!
//! During a notification, the owner of the transaction that is waited for is locked, and nothing
//! else. So this owner is not cleared during the call. A transaction clears its owner before it
//! ends its writes and releases its locks.

/// The session that runs a transaction: an opaque token of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub usize);

/// Receives notifications of waits.
pub trait WaitListener: Send + Sync {
    /// `waiter` is about to wait for `holder`. Runs in the waiter's thread. The
    /// holder's transaction does not end before the call returns, so the call
    /// must not wait for the end of that transaction.
    fn wait_begins(&self, waiter: Owner, holder: Owner);
}
