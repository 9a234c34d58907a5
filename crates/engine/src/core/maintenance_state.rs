//! The state that maintenance keeps between two passes.

use std::time::Instant;
use teak_base::{Lsn, WriteId};
use teak_transactions::TransactionId;

/// Guarded by the mutex that allows one checkpoint at a time.
#[derive(Debug)]
pub(crate) struct MaintenanceState {
    pub last_checkpoint: Instant,
    /// The log's end at the last checkpoint.
    pub last_end: Lsn,
    /// `(id, transaction)`: aborted ids below `id` may be removed once no
    /// transaction older than `transaction` is running.
    pub forget: Option<(WriteId, TransactionId)>,
}

impl Default for MaintenanceState {
    fn default() -> Self {
        Self {
            last_checkpoint: Instant::now(),
            last_end: Lsn(0),
            forget: None,
        }
    }
}
