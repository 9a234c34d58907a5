//! The types behind the opaque handles.

use ::teak_engine::{
    Backup, BackupTarget, Cursor, Engine, EngineTransaction, Projection, TableHandle,
    TransactionHandle,
};
use std::cell::UnsafeCell;
use std::sync::Arc;

/// An open engine, from teak_engine_open() to teak_engine_close(). All threads may use it
/// concurrently.
pub struct teak_engine {
    pub(crate) engine: Engine,
}

/// A cut of a backup, from teak_backup_begin() to teak_backup_end(). All threads may use it
/// concurrently.
pub struct teak_backup {
    pub(crate) backup: Backup,
    pub(crate) target: BackupTarget,
}

/// An open table, from teak_table_open() to teak_table_close(). All threads may use it
/// concurrently.
pub struct teak_table {
    pub(crate) handle: TableHandle,
}

/// A running transaction, from teak_transaction_begin() to teak_transaction_commit() or
/// teak_transaction_rollback(). One thread at a time uses it and its cursors, except for calls that
/// are allowed from any thread, such as teak_transaction_interrupt().
// The part of the owning thread is in a cell, and no call makes a `&mut` of the whole handle,
// because another thread may interrupt the transaction at any time.
pub struct teak_transaction {
    owned: UnsafeCell<EngineTransaction>,
    shared: Arc<TransactionHandle>,
}

impl teak_transaction {
    pub(crate) fn new(transaction: EngineTransaction) -> Self {
        Self {
            shared: Arc::clone(transaction.handle()),
            owned: UnsafeCell::new(transaction),
        }
    }

    /// The part that any thread may use.
    pub(crate) fn handle(&self) -> &TransactionHandle {
        &self.shared
    }

    /// The part of the owning thread. Only that thread may call this.
    #[allow(clippy::mut_from_ref)] // See above.
    pub(crate) unsafe fn owned(&self) -> &mut EngineTransaction {
        // SAFETY: only the owning thread calls this, and no call of this
        // library keeps the reference or makes two of them.
        unsafe { &mut *self.owned.get() }
    }
}

/// A cursor over one index of a table, for one transaction, from teak_cursor_open() to
/// teak_cursor_close(). Used by the thread that uses the transaction.
pub struct teak_cursor {
    pub(crate) cursor: Cursor,
    pub(crate) transaction: *mut teak_transaction,
}

/// The columns of values that readers of an index need, from teak_columns_new() to teak_columns_free(). All threads may use
/// it concurrently.
pub struct teak_columns {
    pub(crate) projection: Projection,
}
