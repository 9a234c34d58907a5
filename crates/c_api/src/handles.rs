//! The types behind the opaque handles.

use crate::boundary::Failure;
use ::teak_engine::{
    Backup, BackupTarget, Cursor, CursorMemory, Engine, EngineResult, EngineTransaction, Isolation,
    Projection, TableHandle, TransactionHandle,
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
    /// `None` from teak_transaction_commit_and_keep() to teak_transaction_begin_again().
    shared: Option<Arc<TransactionHandle>>,
}

impl teak_transaction {
    pub(crate) fn new(transaction: EngineTransaction) -> Self {
        Self {
            shared: Some(Arc::clone(transaction.handle())),
            owned: UnsafeCell::new(transaction),
        }
    }

    /// The part that any thread may use, unless the transaction has ended.
    pub(crate) fn handle(&self) -> Option<&TransactionHandle> {
        self.shared.as_deref()
    }

    /// Releases that part. No other thread may use the handle during this call, and the next one.
    pub(crate) fn end(&mut self) {
        self.shared = None;
    }

    /// Begins another transaction after the end of this one.
    pub(crate) fn begin_again(&mut self, isolation: Isolation) -> EngineResult<()> {
        let owned = self.owned.get_mut();
        owned.begin_again(isolation)?;
        self.shared = Some(Arc::clone(owned.handle()));
        Ok(())
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
    state: CursorState,
    pub(crate) transaction: *mut teak_transaction,
}

#[allow(clippy::large_enum_variant)] // A box would be the allocation that parking avoids.
enum CursorState {
    Open(Cursor),
    /// After teak_cursor_park().
    Parked(CursorMemory),
}

impl teak_cursor {
    pub(crate) fn new(cursor: Cursor, transaction: *mut teak_transaction) -> Self {
        Self {
            state: CursorState::Open(cursor),
            transaction,
        }
    }

    /// The cursor.
    ///
    /// # Errors
    /// `Invalid` if it is parked.
    #[inline]
    pub(crate) fn open(&mut self) -> Result<&mut Cursor, Failure> {
        match &mut self.state {
            CursorState::Open(cursor) => Ok(cursor),
            CursorState::Parked(_) => Err(Failure::invalid("the cursor is parked")),
        }
    }

    pub(crate) fn is_unlocked(&self) -> bool {
        match &self.state {
            CursorState::Open(cursor) => cursor.is_unlocked(),
            CursorState::Parked(_) => false,
        }
    }

    /// Closes the cursor, and keeps its memory.
    pub(crate) fn park(&mut self) {
        let parked = CursorState::Parked(CursorMemory::default());
        let memory = match std::mem::replace(&mut self.state, parked) {
            CursorState::Open(cursor) => cursor.into_memory(),
            CursorState::Parked(memory) => memory,
        };
        self.state = CursorState::Parked(memory);
        self.transaction = std::ptr::null_mut();
    }

    /// Takes the memory of a parked cursor.
    ///
    /// # Errors
    /// `Invalid` if it is open.
    pub(crate) fn take_memory(&mut self) -> Result<CursorMemory, Failure> {
        match &mut self.state {
            CursorState::Open(_) => Err(Failure::invalid("the cursor is open")),
            CursorState::Parked(memory) => Ok(std::mem::take(memory)),
        }
    }
}

/// The columns of values that readers of an index need, from teak_columns_new() to teak_columns_free(). All threads may use
/// it concurrently.
pub struct teak_columns {
    pub(crate) projection: Projection,
}
