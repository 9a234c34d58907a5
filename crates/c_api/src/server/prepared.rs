//! Two-phase commit.

use crate::boundary::{OwnedHandle, boundary};
use crate::handles::{teak_engine, teak_transaction};
use crate::options::wait_time;
use crate::slice::teak_slice;
use crate::status::teak_status;
use std::ffi::c_void;

/// Prepares the transaction: it survives a crash until it is committed or rolled back, through its
/// handle or by its XID (at most 1024 bytes), and accepts no more writes. Has no effect on a
/// transaction without writes, or with writes of temporary tables only. After an error the handle
/// must be rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_prepare(
    transaction: *mut teak_transaction,
    xid: teak_slice,
) -> teak_status {
    boundary!([owned(transaction), bytes(xid)] {
        transaction.prepare(xid)?;
        Ok(())
    })
}

/// Commits a prepared transaction without waiting for the disk: if a crash loses the commit, the
/// coordinator must commit the transaction again. Commits become visible in the order of these
/// calls. Frees the handle on TEAK_OK; after an error the transaction remains prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_commit_ordered(
    transaction: *mut teak_transaction,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction)] {
        transaction.commit_ordered()?;
        // SAFETY: the contract of `boundary`; the caller transfers the handle
        // with success.
        drop(unsafe { OwnedHandle::new(handle) });
        Ok(())
    })
}

/// Frees the handle. A prepared transaction remains and can be ended by its XID; any other
/// transaction is rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_detach(
    transaction: *mut teak_transaction,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction)] {
        // SAFETY: the contract of `boundary`; the caller transfers the handle.
        let _freed = unsafe { OwnedHandle::new(handle) };
        transaction.detach();
        Ok(())
    })
}

/// Calls `sink` with the XID of each prepared transaction that no handle owns: those found when the
/// engine was opened, and those detached since. The XID is valid until `sink` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, xid: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        for xid in engine.engine.prepared() {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(&xid)) };
        }
        Ok(())
    })
}

/// Commits a prepared transaction by its XID. TEAK_NOT_FOUND when there is none. If a handle owns
/// it, the call waits until the handle is detached, and fails with TEAK_LOCK_TIMEOUT after
/// `timeout_milliseconds` (TEAK_NEVER: no limit). After an error the transaction remains prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_commit(
    engine: *mut teak_engine,
    xid: teak_slice,
    timeout_milliseconds: u32,
) -> teak_status {
    boundary!([reference(engine), bytes(xid)] {
        engine.engine.commit_prepared(xid, wait_time(timeout_milliseconds))?;
        Ok(())
    })
}

/// Rolls a prepared transaction back by its XID. Otherwise like teak_prepared_commit().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_prepared_rollback(
    engine: *mut teak_engine,
    xid: teak_slice,
    timeout_milliseconds: u32,
) -> teak_status {
    boundary!([reference(engine), bytes(xid)] {
        engine.engine.rollback_prepared(xid, wait_time(timeout_milliseconds))?;
        Ok(())
    })
}
