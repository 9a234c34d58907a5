//! The engine's transaction behind a transaction or a snapshot.

use crate::error::Result;
use std::cell::RefCell;
use teak_engine::{Engine, EngineTransaction, ReadMode};

/// Which writes of other transactions a transaction sees, and how conflicts are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Each call reads the rows that are committed when it begins. An iterator reads the rows that
    /// are committed at its first step, and after another call on the transaction, those that are
    /// committed then. Writes wait for other transactions that have locked or written the row, and
    /// apply to its newest version. Rows are locked, but no gaps: other transactions can insert a
    /// key that [`get_for_update`](crate::Transaction::get_for_update) has not found, and into the
    /// ranges of [`range_for_update`](crate::Transaction::range_for_update).
    ReadCommitted,
    /// All reads see the rows that were committed at the time of the first read. Writing or locking
    /// a row that another transaction changed since then fails with
    /// [`Error::Conflict`](crate::Error::Conflict).
    #[default]
    Snapshot,
    /// All reads lock the rows and ranges that they read, even ranges without rows, so that the
    /// result is the same as that of a serial execution. Conflicts cause waits and deadlocks.
    Serializable,
}

pub(crate) struct Session {
    // A read step needs exclusive access to the engine's transaction only while it runs. The cell
    // allows iterators and writes of one thread to alternate.
    transaction: RefCell<EngineTransaction>,
    isolation: Isolation,
}

impl Session {
    pub(crate) fn begin(engine: &Engine, isolation: Isolation) -> Self {
        let transaction = match isolation {
            Isolation::ReadCommitted => engine.begin(teak_engine::Isolation::ReadCommitted),
            Isolation::Snapshot => {
                let mut transaction = engine.begin(teak_engine::Isolation::RepeatableRead);
                transaction.set_snapshot_isolation(true);
                transaction
            }
            Isolation::Serializable => engine.begin(teak_engine::Isolation::Serializable),
        };
        Self {
            transaction: RefCell::new(transaction),
            isolation,
        }
    }

    /// Runs one step. A step runs no code of the caller, so the cell is never borrowed twice.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut EngineTransaction) -> R) -> R {
        step(&mut self.transaction.borrow_mut())
    }

    /// Begins a call that reads.
    pub(crate) fn begin_read(&self) -> Result<ReadMode> {
        self.begin_statement()?;
        Ok(match self.isolation {
            Isolation::ReadCommitted | Isolation::Snapshot => ReadMode::Snapshot,
            Isolation::Serializable => ReadMode::Shared,
        })
    }

    /// Begins a call that writes rows, or locks them so that they can be written. Under read
    /// committed the transaction then has no snapshot, so the call cannot fail with a conflict.
    pub(crate) fn begin_write(&self) -> Result<ReadMode> {
        self.begin_statement()?;
        Ok(ReadMode::Exclusive)
    }

    fn begin_statement(&self) -> Result<()> {
        if self.isolation == Isolation::ReadCommitted {
            self.with(EngineTransaction::begin_statement)?;
        }
        Ok(())
    }

    pub(crate) fn into_engine_transaction(self) -> EngineTransaction {
        self.transaction.into_inner()
    }
}
