//! Transactions, locks and waits, one by one through callbacks. What a callback
//! is given is valid until it returns.

use crate::arguments::{reference, teak_slice};
use crate::cursor::teak_lock_mode::{self, TEAK_LOCK_EXCLUSIVE, TEAK_LOCK_NONE, TEAK_LOCK_SHARED};
use crate::engine::teak_engine;
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, call};
use crate::transaction::teak_transaction;
use ::teak_engine::report::{LockExtent, LockRequest, Party, WaitKind};
use ::teak_engine::{Engine, IndexNames, LockMode, RangeLockKind, TransactionHandle};
use std::collections::HashMap;
use std::ffi::c_void;
use std::time::{Duration, UNIX_EPOCH};

/// What a lock covers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_lock_kind {
    /// One row.
    TEAK_LOCK_KIND_ROW = 0,
    /// All rows between two keys, in place of many single ones.
    TEAK_LOCK_KIND_ROW_RANGE = 1,
    /// Insertions between two keys.
    TEAK_LOCK_KIND_GAP = 2,
    /// All writes between two keys.
    TEAK_LOCK_KIND_WRITE_RANGE = 3,
    /// What a transaction has written: its undecided versions are its locks.
    TEAK_LOCK_KIND_WRITTEN = 4,
    /// Of waits alone: somebody who waits to write where a range is to be locked.
    TEAK_LOCK_KIND_RANGE_REQUEST = 5,
}

use teak_lock_kind::*;

/// A running transaction.
#[repr(C)]
pub struct teak_transaction_info {
    /// Its number.
    pub id: u64,
    /// Who runs it, as teak_transaction_set_thread said; 0 for nobody.
    pub thread: u64,
    /// The number of its teak_isolation.
    pub isolation: u32,
    /// When it began, in microseconds since 1970.
    pub started_microseconds: u64,
    /// The commit sequence that it reads at; 0 without a snapshot.
    pub snapshot: u64,
    /// Rows written, those undone by a savepoint included.
    pub rows_written: u64,
    /// Write ids that count.
    pub write_ids: u64,
    /// Rows locked one by one.
    pub row_locks: u64,
    /// Bytes that its locks take.
    pub lock_bytes: u64,
    /// The name under which it is prepared; NULL when it is not.
    pub prepared_as: teak_slice,
    /// Whether it waits for another.
    pub is_waiting: bool,
    /// For how long.
    pub waited_milliseconds: u64,
}

/// A lock.
#[repr(C)]
pub struct teak_lock_info {
    /// Whose.
    pub transaction: u64,
    /// Who runs that; 0 for nobody.
    pub thread: u64,
    /// What it covers.
    pub kind: teak_lock_kind,
    /// How.
    pub mode: teak_lock_mode,
    /// The table; NULL for TEAK_LOCK_KIND_WRITTEN, and when it is gone or being opened.
    pub table: teak_slice,
    /// The label of the index; NULL as the table.
    pub index: teak_slice,
    /// The row's key, or the first key; NULL when it is not known.
    pub low: teak_slice,
    /// The first key behind; NULL for a row, and at the end of the index.
    pub high: teak_slice,
    /// Rows written, for TEAK_LOCK_KIND_WRITTEN; else 0.
    pub rows: u64,
}

/// A transaction that waits for another.
#[repr(C)]
pub struct teak_wait_info {
    /// Who waits.
    pub requester: u64,
    /// Who runs that; 0 for nobody.
    pub requester_thread: u64,
    /// For whom; 0 when that has just ended.
    pub blocker: u64,
    /// Who runs that; 0 for nobody.
    pub blocker_thread: u64,
    /// What stops it.
    pub kind: teak_lock_kind,
    /// How it wants the row; TEAK_LOCK_NONE but for TEAK_LOCK_KIND_ROW.
    pub mode: teak_lock_mode,
    /// The table; NULL when it is gone or being opened.
    pub table: teak_slice,
    /// The label of the index; NULL as the table.
    pub index: teak_slice,
    /// The key.
    pub key: teak_slice,
    /// For how long.
    pub waited_milliseconds: u64,
}

const NO_BYTES: teak_slice = teak_slice {
    data: std::ptr::null(),
    len: 0,
};

/// Present bytes, even if there are none of them.
fn present(bytes: Option<&[u8]>) -> teak_slice {
    bytes.map_or(NO_BYTES, teak_slice::of)
}

fn mode_of(mode: LockMode) -> teak_lock_mode {
    match mode {
        LockMode::Shared => TEAK_LOCK_SHARED,
        LockMode::Exclusive => TEAK_LOCK_EXCLUSIVE,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn names_of(names: &IndexNames, file: ::teak_engine::FileId) -> (teak_slice, teak_slice) {
    match names.get(file) {
        Some(name) => (
            teak_slice::of(name.table.as_bytes()),
            teak_slice::of(name.index.as_bytes()),
        ),
        None => (NO_BYTES, NO_BYTES),
    }
}

fn wait_info(
    requester: Party,
    blocker: Option<&Party>,
    wanted: &LockRequest,
    waited: Duration,
    names: &IndexNames,
) -> teak_wait_info {
    let (table, index) = names_of(names, wanted.file);
    let (kind, mode) = match wanted.kind {
        WaitKind::Lock(mode) => (TEAK_LOCK_KIND_ROW, mode_of(mode)),
        WaitKind::Write => (TEAK_LOCK_KIND_WRITTEN, TEAK_LOCK_NONE),
        WaitKind::RangeLock => (TEAK_LOCK_KIND_GAP, TEAK_LOCK_NONE),
        WaitKind::RangeRequest => (TEAK_LOCK_KIND_RANGE_REQUEST, TEAK_LOCK_NONE),
    };
    teak_wait_info {
        requester: requester.transaction.0,
        requester_thread: requester.thread,
        blocker: blocker.map_or(0, |party| party.transaction.0),
        blocker_thread: blocker.map_or(0, |party| party.thread),
        kind,
        mode,
        table,
        index,
        key: teak_slice::of(&wanted.key),
        waited_milliseconds: milliseconds(waited),
    }
}

fn list_transactions(engine: &Engine, give: &mut dyn FnMut(&teak_transaction_info)) {
    let waits = engine.lock_waits();
    let waited: HashMap<u64, Duration> = waits
        .iter()
        .map(|wait| (wait.requester.transaction.0, wait.waited))
        .collect();
    for transaction in engine.transactions() {
        let id = transaction.id().0;
        let started = transaction.started().duration_since(UNIX_EPOCH);
        let prepared_as = transaction.prepared_as();
        give(&teak_transaction_info {
            id,
            thread: transaction.thread(),
            isolation: transaction.isolation().into(),
            started_microseconds: started
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0)),
            snapshot: transaction.snapshot(),
            rows_written: transaction.rows_written(),
            write_ids: transaction.write_ids(),
            row_locks: transaction.row_locks(),
            lock_bytes: transaction.lock_bytes(),
            prepared_as: present(prepared_as.as_deref()),
            is_waiting: waited.contains_key(&id),
            waited_milliseconds: waited.get(&id).copied().map_or(0, milliseconds),
        });
    }
}

fn list_locks(engine: &Engine, give: &mut dyn FnMut(&teak_lock_info)) {
    let transactions = engine.transactions();
    let names = engine.index_names();
    let threads: HashMap<u64, u64> = transactions
        .iter()
        .map(|transaction| (transaction.id().0, transaction.thread()))
        .collect();
    for transaction in &transactions {
        if transaction.write_ids() > 0 {
            give(&teak_lock_info {
                transaction: transaction.id().0,
                thread: transaction.thread(),
                kind: TEAK_LOCK_KIND_WRITTEN,
                mode: TEAK_LOCK_EXCLUSIVE,
                table: NO_BYTES,
                index: NO_BYTES,
                low: NO_BYTES,
                high: NO_BYTES,
                rows: transaction.rows_written(),
            });
        }
    }
    engine.for_each_lock(&mut |lock| {
        let (table, index) = names_of(&names, lock.file);
        let (kind, low, high) = match &lock.extent {
            LockExtent::Row(key) => (TEAK_LOCK_KIND_ROW, present(key.as_deref()), NO_BYTES),
            LockExtent::RowRange { low, high } => (
                TEAK_LOCK_KIND_ROW_RANGE,
                teak_slice::of(low),
                teak_slice::of(high),
            ),
            LockExtent::Range { low, high, kind } => (
                match kind {
                    RangeLockKind::Gap => TEAK_LOCK_KIND_GAP,
                    RangeLockKind::Write => TEAK_LOCK_KIND_WRITE_RANGE,
                },
                teak_slice::of(low),
                present(high.as_deref()),
            ),
        };
        let transaction = lock.transaction.0;
        give(&teak_lock_info {
            transaction,
            thread: threads.get(&transaction).copied().unwrap_or(0),
            kind,
            mode: mode_of(lock.mode),
            table,
            index,
            low,
            high,
            rows: 0,
        });
    });
}

/// Says who runs the transaction, in the caller's numbers; 0 for nobody.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_thread(
    transaction: *mut teak_transaction,
    thread: u64,
) -> teak_status {
    call(|| {
        // SAFETY: a living handle; only its shared half is touched.
        let shared: &TransactionHandle = unsafe { reference(transaction, "transaction") }?.handle();
        shared.set_thread(thread);
        Ok(TEAK_OK)
    })
}

/// Of the transactions of a deadlock one of the least weight fails; among them the one that has written and locked fewest
/// rows. At first 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_weight(
    transaction: *mut teak_transaction,
    weight: u32,
) -> teak_status {
    call(|| {
        // SAFETY: a living handle; only its shared half is touched.
        let shared: &TransactionHandle = unsafe { reference(transaction, "transaction") }?.handle();
        shared.set_weight(weight);
        Ok(TEAK_OK)
    })
}

/// Calls `sink` for each transaction that stood in the way when the last call of this one ended in TEAK_LOCK_TIMEOUT or
/// TEAK_DEADLOCK, and once with none if all have ended. TEAK_NOT_FOUND when that was told already, or there was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_take_failed_wait(
    engine: *mut teak_engine,
    transaction: *mut teak_transaction,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, wait: *const teak_wait_info)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: handles; only the transaction's shared half is touched.
        let (engine, shared) = unsafe {
            let transaction = reference(transaction, "transaction")?;
            (reference(engine, "engine")?, transaction.handle())
        };
        let Some(failed) = shared.take_failed_wait() else {
            return Ok(teak_status::TEAK_NOT_FOUND);
        };
        let names = engine.engine.index_names();
        let requester = Party {
            transaction: shared.id(),
            thread: shared.thread(),
        };
        let give = |blocker: Option<&Party>| {
            let info = wait_info(requester, blocker, &failed.request, failed.waited, &names);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        };
        if failed.blockers.is_empty() {
            give(None);
        }
        failed
            .blockers
            .iter()
            .for_each(|blocker| give(Some(blocker)));
        Ok(TEAK_OK)
    })
}

/// Calls `sink` for each running transaction, prepared ones included, by number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_list(
    engine: *mut teak_engine,
    sink: Option<
        unsafe extern "C" fn(context: *mut c_void, transaction: *const teak_transaction_info),
    >,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        let engine = unsafe { reference(engine, "engine") }?;
        list_transactions(&engine.engine, &mut |info| {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const *info) };
        });
        Ok(TEAK_OK)
    })
}

/// Calls `sink` for each lock, and for each transaction that has written with TEAK_LOCK_KIND_WRITTEN. Locks come and go
/// meanwhile: the list is of several moments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_lock_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, lock: *const teak_lock_info)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        let engine = unsafe { reference(engine, "engine") }?;
        list_locks(&engine.engine, &mut |info| {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const *info) };
        });
        Ok(TEAK_OK)
    })
}

/// Calls `sink` for each pair of a transaction that waits and one that stands in its way or is ahead of it in the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_lock_wait_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, wait: *const teak_wait_info)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        let engine = &unsafe { reference(engine, "engine") }?.engine;
        let waits = engine.lock_waits();
        let names = engine.index_names();
        for wait in &waits {
            for blocker in &wait.blockers {
                let blocker = Some(blocker);
                let info = wait_info(wait.requester, blocker, &wait.request, wait.waited, &names);
                // SAFETY: the caller's callback, with the caller's context.
                unsafe { sink(context, &raw const info) };
            }
        }
        Ok(TEAK_OK)
    })
}
