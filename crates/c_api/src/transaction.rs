//! Transactions.

use crate::boundary::{Failure, OwnedHandle, boundary};
use crate::handles::{teak_engine, teak_transaction};
use crate::options::wait_time;
use crate::status::teak_status;
use ::teak_engine::{EngineTransaction, Isolation};

/// The writes of other transactions that a transaction sees when it reads without locks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_isolation {
    /// Reads see all writes, including uncommitted ones.
    TEAK_READ_UNCOMMITTED = 0,
    /// Reads see the writes committed before the first read of the statement, see
    /// teak_transaction_begin_statement().
    TEAK_READ_COMMITTED = 1,
    /// Reads see the writes committed before the transaction's first read, or before
    /// teak_transaction_take_snapshot().
    TEAK_REPEATABLE_READ = 2,
    /// Like TEAK_REPEATABLE_READ. For serializable results, the caller must open every cursor with
    /// a lock mode.
    TEAK_SERIALIZABLE = 3,
}

/// The number of a `teak_isolation`, as C passes it.
pub type teak_isolation_number = u32;

fn isolation_of(number: teak_isolation_number) -> Result<Isolation, Failure> {
    match number {
        0 => Ok(Isolation::ReadUncommitted),
        1 => Ok(Isolation::ReadCommitted),
        2 => Ok(Isolation::RepeatableRead),
        3 => Ok(Isolation::Serializable),
        _ => Err(Failure::invalid("isolation is not a teak_isolation")),
    }
}

/// Begins a transaction. End it with teak_transaction_commit() or teak_transaction_rollback().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_begin(
    engine: *mut teak_engine,
    isolation: teak_isolation_number,
    transaction: *mut *mut teak_transaction,
) -> teak_status {
    boundary!([reference(engine), out(transaction)] {
        let begun = engine.engine.begin(isolation_of(isolation)?);
        transaction.set_handle(teak_transaction::new(begun));
        Ok(())
    })
}

/// Sets the transaction's lock timeout in milliseconds; 0 or TEAK_NO_WAIT: do not wait; TEAK_NEVER:
/// no limit. Overrides teak_engine_options.lock_timeout_milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_lock_timeout(
    transaction: *mut teak_transaction,
    milliseconds: u32,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.set_lock_timeout(wait_time(milliseconds));
        Ok(())
    })
}

/// Sets whether the commit is durable when it returns. Has no effect if the engine's commits are
/// not synced. Default: true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_commit_sync(
    transaction: *mut teak_transaction,
    sync: bool,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.set_waits_for_disk(sync);
        Ok(())
    })
}

/// Sets what happens to a row that was changed or deleted after the transaction's snapshot. true:
/// writing or locking it fails with TEAK_CONFLICT. false (the default): a locking read returns its
/// newest committed version, which the transaction can then write; a deleted row is TEAK_NOT_FOUND;
/// writing a changed row that the transaction has not locked fails with TEAK_CONFLICT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_snapshot_isolation(
    transaction: *mut teak_transaction,
    on: bool,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.set_snapshot_isolation(on);
        Ok(())
    })
}

/// Sets the weight of the transaction in the choice of deadlock victims. Of the transactions in a
/// cycle, the one with the lowest weight gets TEAK_DEADLOCK. Of several with this weight, it is the
/// one that has written the fewest rows, and then the one that has locked the fewest. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_weight(
    transaction: *mut teak_transaction,
    weight: u32,
) -> teak_status {
    boundary!([reference(transaction)] {
        if let Some(shared) = transaction.handle() {
            shared.set_weight(weight);
        }
        Ok(())
    })
}

/// Takes the snapshot now. By default the first read without locks takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_take_snapshot(
    transaction: *mut teak_transaction,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.take_snapshot()?;
        Ok(())
    })
}

/// Begins a statement: clears a pending interrupt, and drops the snapshot of a transaction under
/// TEAK_READ_COMMITTED or TEAK_READ_UNCOMMITTED, so that its next read takes a new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_begin_statement(
    transaction: *mut teak_transaction,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.begin_statement()?;
        Ok(())
    })
}

/// Sets a savepoint; `savepoint` receives its number, which is valid until a rollback to an earlier
/// savepoint. Savepoints need not be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_savepoint(
    transaction: *mut teak_transaction,
    savepoint: *mut u64,
) -> teak_status {
    boundary!([owned(transaction), out(savepoint)] {
        savepoint.set(transaction.savepoint()?);
        Ok(())
    })
}

/// Undoes every write since the savepoint, in a time that does not depend on their number. The rows
/// of these writes are unlocked unless they were locked before the savepoint; all other locks
/// remain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_rollback_to_savepoint(
    transaction: *mut teak_transaction,
    savepoint: u64,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.rollback_to_savepoint(savepoint)?;
        Ok(())
    })
}

/// Commits. Frees the handle on TEAK_OK. After an error nothing is committed and the handle must be
/// rolled back, with one exception: when syncing the log fails with TEAK_IO or TEAK_POISONED, the
/// outcome is unknown until the engine is opened again; teak_transaction_rollback() then only frees
/// the handle. Cursors of the transaction must be closed first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_commit(
    transaction: *mut teak_transaction,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction)] {
        transaction.commit()?;
        // SAFETY: the contract of `boundary`; the caller transfers the handle
        // with success.
        drop(unsafe { OwnedHandle::new(handle) });
        Ok(())
    })
}

/// Commits as teak_transaction_commit(), but does not free the handle: after TEAK_OK it can begin another transaction, see
/// teak_transaction_begin_again(), or be freed by teak_transaction_rollback(). After an error it must be rolled back. Meant for
/// many short transactions: a new handle needs memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_commit_and_keep(
    transaction: *mut teak_transaction,
) -> teak_status {
    boundary!([exclusive(transaction)] {
        // SAFETY: the contract of `boundary`; the calling thread is the owner.
        unsafe { transaction.owned() }.commit()?;
        transaction.end();
        Ok(())
    })
}

/// Begins another transaction with a handle from teak_transaction_commit_and_keep(). What teak_transaction_set_...() functions
/// have set remains, except an owner (teak_transaction_set_owner()).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_begin_again(
    transaction: *mut teak_transaction,
    isolation: teak_isolation_number,
) -> teak_status {
    boundary!([exclusive(transaction)] {
        transaction.begin_again(isolation_of(isolation)?)?;
        Ok(())
    })
}

/// Undoes every write and always frees the handle. Only the rollback of a prepared transaction can
/// fail; the transaction then remains prepared. Cursors of the transaction must be closed first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_rollback(
    transaction: *mut teak_transaction,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction)] {
        // SAFETY: the contract of `boundary`; the caller transfers the handle.
        let _freed = unsafe { OwnedHandle::new(handle) };
        transaction.try_rollback()?;
        Ok(())
    })
}

/// Makes reads, writes and waits of the transaction fail with TEAK_INTERRUPTED, until
/// teak_transaction_begin_statement(). May be called from any thread while the handle exists. Does
/// nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_interrupt(transaction: *mut teak_transaction) {
    boundary!(or (), [reference(transaction)] {
        if let Some(shared) = transaction.handle() {
            shared.interrupt();
        }
        Ok(())
    });
}

/// Whether the transaction has writes that were not rolled back. false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_has_writes(transaction: *const teak_transaction) -> bool {
    boundary!(or false, [owned(transaction)] {
        Ok(EngineTransaction::has_writes(transaction))
    })
}
