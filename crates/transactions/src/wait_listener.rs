//! Telling whoever runs the transactions that one begins to wait for another.
//!
//! A caller that has decided in which order transactions commit must know when
//! an earlier one waits for a later one: it ends the later one then. Otherwise
//! both would wait, the one for a row, the other for its turn, and no circle
//! would be seen here.
//!
//! A report holds the lock of the holder's owner, and nothing else: an owner is
//! not forgotten while it is being reported. Transactions forget their owners
//! before they decide their writes and release their locks.

use crate::shared::TransactionHandle;
use smallvec::SmallVec;
use teak_base::TransactionId;

/// Who runs a transaction, as the receiver of reports knows it. Means nothing
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub usize);

/// Receives reports of waits.
pub trait WaitListener: Send + Sync {
    /// `waiter` is about to wait for `holder`. Called in the waiter's thread;
    /// the holder's transaction does not end before the call returns, so the
    /// call must not wait for that.
    fn wait_begins(&self, waiter: Owner, holder: Owner);
}

/// Transactions that one waits for.
pub(crate) type Blockers = SmallVec<[TransactionId; 4]>;

/// Reports that `waiter` waits for each of `holders`.
pub(crate) fn report<'a>(
    reports: &dyn WaitListener,
    waiter: &TransactionHandle,
    holders: impl Iterator<Item = &'a TransactionHandle>,
) {
    let Some(owner) = waiter.owner() else {
        return;
    };
    for holder in holders {
        holder.with_owner(|other| reports.wait_begins(owner, other));
    }
}
