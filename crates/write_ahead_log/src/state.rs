//! The state of an open log, guarded by a mutex.

use crate::groups::Groups;
use crate::space::SpaceReservation;
use crate::waiter::Waiter;
use std::path::PathBuf;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

#[derive(Debug)]
pub(crate) struct State {
    /// Records that are not in a batch yet.
    pub(crate) pending: Vec<u8>,
    /// Log position of the first byte of `pending`.
    pub(crate) pending_start: u64,
    /// Reserved space in the file, which includes space for every pending
    /// record.
    pub(crate) space: SpaceReservation,
    /// The position from which recovery needs the log.
    pub(crate) needed_from: u64,
    /// Row records must end at or before this position, because of the log's bound;
    /// `LogBound::accepts` describes an exception.
    pub(crate) stop_position: u64,
    /// Whether the writer retains a batch that found no space.
    pub(crate) batch_retained: bool,
    /// Whether a thread leads: it writes to the file, or syncs it while no other thread may write.
    pub(crate) leading: bool,
    pub(crate) groups: Groups,
    /// Whether a thread waits for more pending records.
    pub(crate) awaits_pending: bool,
    /// Set to end the wait in `wait_for_pending`.
    pub(crate) is_woken: bool,
    /// The first failure; it poisons the log.
    pub(crate) failed: Option<LogFailure>,
}

/// The failure that poisoned a log.
#[derive(Clone, Debug)]
pub(crate) struct LogFailure {
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

impl LogFailure {
    pub(crate) fn to_error(&self) -> StorageError {
        StorageError::Poisoned {
            path: self.path.clone(),
            first: self.reason.clone(),
        }
    }
}

impl State {
    pub(crate) fn new(first_lsn: u64, needed_from: u64, space: SpaceReservation) -> Self {
        Self {
            pending: Vec::new(),
            pending_start: first_lsn,
            space,
            needed_from,
            stop_position: u64::MAX,
            batch_retained: false,
            leading: false,
            groups: Groups::default(),
            awaits_pending: false,
            is_woken: false,
            failed: None,
        }
    }

    /// The position of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.pending_start + self.pending.len() as u64
    }

    /// Whether any record has not been written to the file.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.batch_retained || !self.pending.is_empty()
    }

    /// A committing thread to wake as the next leader, if one may lead now.
    pub(crate) fn take_next_leader(&mut self) -> Option<Arc<Waiter>> {
        (!self.leading && self.groups.may_sync())
            .then(|| self.groups.take_next())
            .flatten()
    }

    /// # Errors
    /// `Poisoned` after a failure.
    pub(crate) fn check(&self) -> StorageResult<()> {
        match &self.failed {
            None => Ok(()),
            Some(failure) => Err(failure.to_error()),
        }
    }
}
