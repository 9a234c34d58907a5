//! Two-phase commit.

use crate::arguments::{GivenUp, reference, teak_slice};
use crate::engine::teak_engine;
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, call};
use crate::transaction::teak_transaction;
use std::ffi::c_void;
use std::time::Duration;

/// Promises that the transaction survives a crash until it is committed or rolled back, by its handle or by its name `xid`
/// (at most 1024 bytes). It takes no further writes. A transaction without writes promises nothing and is not listed.
/// On an error the handle must be rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_prepare(
    transaction: *mut teak_transaction,
    xid: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let transaction = unsafe { reference(transaction, "transaction")?.owned() };
        // SAFETY: the caller's bytes.
        transaction.prepare(unsafe { xid.bytes() }?)?;
        Ok(TEAK_OK)
    })
}

/// Commits a prepared transaction without waiting for the disk: after a crash the coordinator knows its outcome.
/// Transactions become visible in the order of these calls. Frees the handle on TEAK_OK; on an error it stays prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_commit_ordered(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        unsafe { reference(transaction, "transaction")?.owned() }.commit_ordered()?;
        // SAFETY: a handle, which the caller gives up with success.
        drop(unsafe { GivenUp::new(transaction) });
        Ok(TEAK_OK)
    })
}

/// Frees the handle and leaves a prepared transaction to whoever knows its name; one that was not prepared is rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_detach(
    transaction: *mut teak_transaction,
) -> teak_status {
    call(|| {
        // SAFETY: a handle, used by its owner.
        let owned = unsafe { reference(transaction, "transaction")?.owned() };
        // SAFETY: a handle, which the caller gives up.
        let _given_up = unsafe { GivenUp::new(transaction) };
        owned.detach();
        Ok(TEAK_OK)
    })
}

/// Calls `sink` with the name of each prepared transaction that no handle owns: those found when the engine was opened, and
/// those detached since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, xid: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        for xid in unsafe { reference(engine, "engine") }?.engine.prepared() {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(&xid)) };
        }
        Ok(TEAK_OK)
    })
}

/// Commits a prepared transaction by its name. TEAK_NOT_FOUND when there is none of it. One that a handle owns is waited for,
/// up to `patience_ms` milliseconds; TEAK_LOCK_TIMEOUT when the handle was not given up by then. After an error it stays
/// prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_commit(
    engine: *mut teak_engine,
    xid: teak_slice,
    patience_ms: u32,
) -> teak_status {
    call(|| {
        // SAFETY: a handle and the caller's bytes.
        let (engine, xid) = unsafe { (reference(engine, "engine")?, xid.bytes()?) };
        let patience = Duration::from_millis(patience_ms.into());
        engine.engine.commit_prepared(xid, patience)?;
        Ok(TEAK_OK)
    })
}

/// Rolls a prepared transaction back by its name; otherwise as teak_prepared_commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_rollback(
    engine: *mut teak_engine,
    xid: teak_slice,
    patience_ms: u32,
) -> teak_status {
    call(|| {
        // SAFETY: a handle and the caller's bytes.
        let (engine, xid) = unsafe { (reference(engine, "engine")?, xid.bytes()?) };
        let patience = Duration::from_millis(patience_ms.into());
        engine.engine.rollback_prepared(xid, patience)?;
        Ok(TEAK_OK)
    })
}
