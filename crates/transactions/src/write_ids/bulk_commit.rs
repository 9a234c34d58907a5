//! The commit of many ids at the same moment. Other commits do not wait while the
//! status of each id is set:
//! 1. Record the transaction and its commit sequence here. From now on a reader
//!    that finds an id active for the transaction treats it as committed.
//! 2. The caller makes the sequence visible to readers.
//! 3. Set the status of each id.
//! 4. Remove the record.
//!
//! A reader that finds an id active, and no record of the transaction, reads the
//! id's status again, because the record may have been removed in the meantime.
//!
//! There are several places for records, so a commit of millions of ids does not
//! delay other such commits. A commit that finds all places taken waits for one.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use teak_base::{CommitSequence, TransactionId};

const PLACES: usize = if cfg!(feature = "schedules") { 2 } else { 16 };

#[derive(Default)]
pub(super) struct BulkCommit {
    /// Number of records, so that a reader rarely looks at all places.
    recorded: AtomicU64,
    places: [Place; PLACES],
}

#[derive(Default)]
struct Place {
    /// Held during a commit that uses this place.
    turn: Mutex<()>,
    /// The transaction, or zero.
    transaction: AtomicU64,
    sequence: AtomicU64,
}

/// A place that one commit has taken.
pub(super) struct TakenPlace<'a> {
    recorded: &'a AtomicU64,
    place: &'a Place,
    _turn: MutexGuard<'a, ()>,
}

impl BulkCommit {
    /// Takes a free place, or waits for one. `transaction` selects the place that is tried first.
    pub(super) fn take_place(&self, transaction: TransactionId) -> TakenPlace<'_> {
        let first = usize::try_from(transaction.0 % PLACES as u64).unwrap_or(0);
        let (before, after) = self.places.split_at(first);
        let mut places = after.iter().chain(before);
        let free = places.find_map(|place| Some((place, place.turn.try_lock()?)));
        let (place, turn) = free.unwrap_or_else(|| {
            let place = after.first().unwrap_or(&self.places[0]);
            (place, place.turn.lock())
        });
        TakenPlace {
            recorded: &self.recorded,
            place,
            _turn: turn,
        }
    }

    /// The commit sequence of the transaction, if it is recorded.
    pub(super) fn sequence_of(&self, transaction: TransactionId) -> Option<CommitSequence> {
        if transaction.0 == 0 || self.recorded.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.places
            .iter()
            .find_map(|place| place.sequence_of(transaction))
    }
}

impl Place {
    fn sequence_of(&self, transaction: TransactionId) -> Option<CommitSequence> {
        let is_recorded = || self.transaction.load(Ordering::SeqCst) == transaction.0;
        if !is_recorded() {
            return None;
        }
        let sequence = CommitSequence(self.sequence.load(Ordering::SeqCst));
        // The transaction is cleared before a later commit sets its sequence.
        is_recorded().then_some(sequence)
    }
}

impl TakenPlace<'_> {
    /// Step 1.
    pub(super) fn begin(&self, transaction: TransactionId, sequence: CommitSequence) {
        self.recorded.fetch_add(1, Ordering::SeqCst);
        self.place.sequence.store(sequence.0, Ordering::SeqCst);
        self.place
            .transaction
            .store(transaction.0, Ordering::SeqCst);
    }

    /// Step 4.
    pub(super) fn end(self) {
        self.place.transaction.store(0, Ordering::SeqCst);
        self.recorded.fetch_sub(1, Ordering::SeqCst);
    }
}
