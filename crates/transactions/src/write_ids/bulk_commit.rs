//! The commit of many ids at the same moment, without a lock that other commits
//! need:
//! 1. Record the transaction and its commit sequence here. From now on a reader
//!    that finds an id active for the transaction takes it as committed.
//! 2. The caller makes the sequence visible to readers.
//! 3. Set the status of each id.
//! 4. Remove the record.
//!
//! A reader that finds an id active, and no record of the transaction, reads the
//! id's status again, because the record may have been removed between.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use teak_base::{CommitSequence, TransactionId};

#[derive(Default)]
pub(super) struct BulkCommit {
    /// Allows one at a time.
    turn: Mutex<()>,
    /// The transaction, or zero.
    transaction: AtomicU64,
    sequence: AtomicU64,
}

impl BulkCommit {
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Step 1. The caller holds the turn.
    pub(super) fn begin(&self, transaction: TransactionId, sequence: CommitSequence) {
        self.sequence.store(sequence.0, Ordering::SeqCst);
        self.transaction.store(transaction.0, Ordering::SeqCst);
    }

    /// Step 4.
    pub(super) fn end(&self) {
        self.transaction.store(0, Ordering::SeqCst);
    }

    /// The commit sequence of the transaction, if it is recorded.
    pub(super) fn sequence_of(&self, transaction: TransactionId) -> Option<CommitSequence> {
        let is_recorded = || self.transaction.load(Ordering::SeqCst) == transaction.0;
        if transaction.0 == 0 || !is_recorded() {
            return None;
        }
        let sequence = CommitSequence(self.sequence.load(Ordering::SeqCst));
        // A later commit clears the transaction before it sets its sequence.
        is_recorded().then_some(sequence)
    }
}
