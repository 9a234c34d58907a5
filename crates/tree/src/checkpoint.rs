//! Checkpoints: making the current root the one that a crash finds.

use crate::tree::Tree;
use teak_base::{Lsn, StorageResult};

impl Tree {
    /// Makes the runs and nodes of the current root durable, and with them
    /// everything that was logged before the returned position.
    ///
    /// `make_log_durable` is called with a position before which all of the
    /// log must be durable when it returns: blocks must not outlive the
    /// records of what they hold.
    ///
    /// # Errors
    /// Those of `make_log_durable`; `NoSpace`, `Io`, `Poisoned`, `Corrupt`.
    /// The older checkpoint stays valid.
    pub fn checkpoint(
        &self,
        make_log_durable: &dyn Fn(Lsn) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        let flushed = self.flushed_lsn();
        make_log_durable(flushed)?;
        Ok(flushed)
    }
}
