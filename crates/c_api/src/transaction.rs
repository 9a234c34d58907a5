//! Transactions.
//!
//! A transaction handle belongs to one thread at a time, except that any
//! thread may interrupt it; so its owner's half sits in a cell, and no call
//! makes a `&mut` of the whole handle.

use crate::arguments::{GivenUp, out, reference, store, teak_slice};
use crate::engine::teak_engine;
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, call};
use crate::table::teak_table;
use ::teak_engine::{EngineTransaction, Isolation, Owner, TransactionHandle};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// What a transaction sees of others.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_isolation {
    /// Uncommitted rows too.
    TEAK_READ_UNCOMMITTED = 0,
    /// What was committed when the statement began.
    TEAK_READ_COMMITTED = 1,
    /// What was committed at the first read.
    TEAK_REPEATABLE_READ = 2,
    /// As repeatable read; the caller reads with shared locks.
    TEAK_SERIALIZABLE = 3,
}

/// The number of a `teak_isolation`, as C passes it.
pub type teak_isolation_number = u32;

/// A running transaction. Belongs to one thread at a time, but for teak_transaction_interrupt.
pub struct teak_transaction {
    owned: UnsafeCell<EngineTransaction>,
    interrupter: Arc<TransactionHandle>,
}

impl teak_transaction {
    /// The half that any thread may use.
    pub(crate) fn handle(&self) -> &TransactionHandle {
        &self.interrupter
    }

    /// The owner's half.
    #[allow(clippy::mut_from_ref)] // See the top of the file.
    pub(crate) unsafe fn owned(&self) -> &mut EngineTransaction {
        // SAFETY: only the owning thread calls this, and no call of this
        // library keeps the reference beyond its end or makes two of them.
        unsafe { &mut *self.owned.get() }
    }
}

/// The owner's half of a transaction, and a table for it to work on.
///
/// # Safety
/// Pointers as promised in `arguments`; the caller is the transaction's owner.
pub(crate) unsafe fn owned_and_table<'a>(
    transaction: *mut teak_transaction,
    table: *const teak_table,
) -> Result<(&'a mut EngineTransaction, &'a teak_table), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        Ok((
            reference(transaction, "transaction")?.owned(),
            reference(table, "table")?,
        ))
    }
}

fn isolation_of(number: teak_isolation_number) -> Result<Isolation, Failure> {
    match number {
        0 => Ok(Isolation::ReadUncommitted),
        1 => Ok(Isolation::ReadCommitted),
        2 => Ok(Isolation::RepeatableRead),
        3 => Ok(Isolation::Serializable),
        _ => Err(Failure::invalid("there is no such isolation")),
    }
}

/// Starts a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_begin(
    engine: *mut teak_engine,
    isolation: teak_isolation_number,
    transaction: *mut *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let engine = unsafe { reference(engine, "engine") }?;
        let transaction = out(transaction, "transaction")?;
        let begun = engine.engine.begin(isolation_of(isolation)?);
        let handle = Box::new(teak_transaction {
            interrupter: Arc::clone(begun.handle()),
            owned: UnsafeCell::new(begun),
        });
        // SAFETY: checked above.
        unsafe { store(transaction, Box::into_raw(handle)) };
        Ok(TEAK_OK)
    })
}

/// Names who runs the transaction, for the option wait_begins. The pointer is passed on, never followed; it must stay good until
/// the transaction has ended or is detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_owner(
    transaction: *mut teak_transaction,
    owner: *mut c_void,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let transaction = unsafe { reference(transaction, "transaction")?.owned() };
        transaction.set_owner(Owner(owner.expose_provenance()));
        Ok(TEAK_OK)
    })
}

/// How long the transaction waits for a row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_lock_timeout(
    transaction: *mut teak_transaction,
    milliseconds: u32,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let transaction = unsafe { reference(transaction, "transaction")?.owned() };
        transaction.set_lock_timeout(Duration::from_millis(milliseconds.into()));
        Ok(TEAK_OK)
    })
}

/// Whether the commit waits until it is durable, where the engine's commits do; true at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_commit_sync(
    transaction: *mut teak_transaction,
    waits: bool,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.set_waits_for_disk(waits);
        Ok(TEAK_OK)
    })
}

/// Whether a locking read of a row that changed after the transaction's snapshot ends in TEAK_CONFLICT; by default it reads the
/// newest committed version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_snapshot_isolation(
    transaction: *mut teak_transaction,
    on: bool,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let transaction = unsafe { reference(transaction, "transaction")?.owned() };
        transaction.set_snapshot_isolation(on);
        Ok(TEAK_OK)
    })
}

/// Takes the snapshot now (START TRANSACTION WITH CONSISTENT SNAPSHOT); else the first read does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_take_snapshot(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.take_snapshot()?;
        Ok(TEAK_OK)
    })
}

/// What a transaction answers, or what stands for the answer of a handle that is none.
///
/// # Safety
/// As for [`reference`]; the caller owns the transaction.
unsafe fn asked<T>(
    transaction: *const teak_transaction,
    otherwise: T,
    question: fn(&EngineTransaction) -> T,
) -> T {
    let mut answer = otherwise;
    call(|| {
        // SAFETY: passed on.
        answer = question(unsafe { reference(transaction, "transaction")?.owned() });
        Ok(TEAK_OK)
    });
    answer
}

/// The newest commit that the transaction's snapshot shows; 0 while it has no snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_get_snapshot_commit(
    transaction: *const teak_transaction,
) -> u64 {
    // SAFETY: a handle, used by its owner.
    let snapshot = unsafe { asked(transaction, None, EngineTransaction::snapshot) };
    snapshot.map_or(0, |sequence| sequence.0)
}

/// The newest commit that is visible, as a number that each commit with writes raises; at least 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_newest_commit(engine: *mut teak_engine) -> u64 {
    let mut commit = 0;
    call(|| {
        // SAFETY: a handle.
        commit = unsafe { reference(engine, "engine") }?
            .engine
            .newest_commit()
            .0;
        Ok(TEAK_OK)
    });
    commit
}

/// Transactions are numbered as they begin. `oldest`: the oldest that runs, prepared ones included; or else the next one.
/// `next`: all that began before the call are below it; one that is not sees what the caller had written before the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_running_transactions(
    engine: *mut teak_engine,
    oldest: *mut u64,
    next: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let engine = unsafe { reference(engine, "engine") }?;
        let (oldest, next) = (out(oldest, "oldest")?, out(next, "next")?);
        let (first, end) = engine.engine.running_transactions();
        // SAFETY: checked above.
        unsafe {
            store(oldest, first.0);
            store(next, end.0);
        }
        Ok(TEAK_OK)
    })
}

/// A statement starts: READ COMMITTED takes a new snapshot; clears a pending interrupt.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_begin_statement(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.statement()?;
        Ok(TEAK_OK)
    })
}

/// A mark to return to: statements and savepoints alike.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_savepoint(
    transaction: *mut teak_transaction,
    mark: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let transaction = unsafe { reference(transaction, "transaction")?.owned() };
        let mark = out(mark, "mark")?;
        let set = transaction.savepoint()?;
        // SAFETY: checked above.
        unsafe { store(mark, set) };
        Ok(TEAK_OK)
    })
}

/// Undoes every write since the mark, at once whatever their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_rollback_to_savepoint(
    transaction: *mut teak_transaction,
    mark: u64,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.rollback_to_savepoint(mark)?;
        Ok(TEAK_OK)
    })
}

/// Frees the handle on TEAK_OK. On an error nothing is committed, and the handle must be rolled back.
/// One exception: TEAK_POISONED/TEAK_IO from the log sync leaves the outcome to recovery; the handle is then freed by rollback too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_commit(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.commit()?;
        // SAFETY: a handle, which the caller gives up with success.
        drop(unsafe { GivenUp::new(transaction) });
        Ok(TEAK_OK)
    })
}

/// Undoes everything, at once whatever it wrote. Always frees the handle. Fails only for a prepared transaction, which then
/// stays prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_rollback(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let owned = unsafe { reference(transaction, "transaction")?.owned() };
        // SAFETY: a handle, which the caller gives up.
        let _given_up = unsafe { GivenUp::new(transaction) };
        owned.try_rollback()?;
        Ok(TEAK_OK)
    })
}

/// From any thread while the transaction lives: pending waits and loops end with TEAK_INTERRUPTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_interrupt(transaction: *mut teak_transaction) {
    call(|| {
        // SAFETY: a living handle; only its shared half is touched.
        unsafe { reference(transaction, "transaction") }?
            .interrupter
            .interrupt();
        Ok(TEAK_OK)
    });
}

/// Whether any write of the transaction counts (was not rolled back).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_has_writes(transaction: *const teak_transaction) -> bool {
    // SAFETY: a handle, used by its owner.
    unsafe { asked(transaction, false, EngineTransaction::has_writes) }
}

/// Whether others may have to wait for the transaction: it has locked rows or ranges, or has writes that count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_holds_locks(
    transaction: *const teak_transaction,
) -> bool {
    // SAFETY: a handle, used by its owner.
    unsafe { asked(transaction, true, EngineTransaction::holds_locks) }
}

/// Whether entries of secondary indexes that the transaction's snapshot sees must be compared with their rows: it may have
/// written rows whose newest versions were later than its snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_is_past_snapshot(
    transaction: *const teak_transaction,
) -> bool {
    // SAFETY: a handle, used by its owner.
    unsafe { asked(transaction, false, EngineTransaction::is_past_snapshot) }
}

/// The entry that refused a write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_duplicate {
    /// Which index refused.
    pub index: u32,
    /// The existing entry's key, valid until the next call on the transaction.
    pub key: teak_slice,
    /// Its value.
    pub value: teak_slice,
}
