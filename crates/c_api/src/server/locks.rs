//! Lists of transactions, locks and waits, through callbacks.

use crate::boundary::boundary;
use crate::cursor::teak_lock_mode::{self, TEAK_LOCK_EXCLUSIVE, TEAK_LOCK_NONE, TEAK_LOCK_SHARED};
use crate::handles::{teak_engine, teak_transaction};
use crate::slice::teak_slice;
use crate::status::teak_status::{self, TEAK_NOT_FOUND, TEAK_OK};
use crate::transaction::teak_isolation_number;
use ::teak_engine::report::{Blocker, LockExtent, LockRequest, Participant, WaitKind};
use ::teak_engine::{BlockerKind, Engine, IndexNames, LockMode, RangeLockKind};
use std::collections::HashMap;
use std::ffi::c_void;
use std::time::{Duration, UNIX_EPOCH};

/// Kind of a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_lock_kind {
    /// One row, or one key of a unique index.
    TEAK_LOCK_KIND_ROW = 0,
    /// All rows between two keys: the result of lock escalation.
    TEAK_LOCK_KIND_ROW_RANGE = 1,
    /// A gap lock: blocks insertions between two keys.
    TEAK_LOCK_KIND_GAP = 2,
    /// Blocks all writes between two keys.
    TEAK_LOCK_KIND_WRITE_RANGE = 3,
    /// The implicit locks of the rows that a transaction wrote.
    TEAK_LOCK_KIND_WRITTEN = 4,
    /// Only in teak_wait_info: not a lock, but a write that itself waits for a lock in the range. A
    /// later request for a gap lock or range lock is queued behind it.
    TEAK_LOCK_KIND_WAITING_WRITE = 5,
}

use teak_lock_kind::*;

/// A running transaction.
#[repr(C)]
pub struct teak_transaction_info {
    /// Number of the transaction; numbers ascend in the order in which transactions begin.
    pub id: u64,
    /// Thread id assigned by the caller, see teak_transaction_set_thread(); 0: none.
    pub thread: u64,
    /// Its isolation level.
    pub isolation: teak_isolation_number,
    /// Start time, in microseconds since 1970.
    pub started_microseconds: u64,
    /// Commit sequence number of its snapshot; 0: no snapshot.
    pub snapshot: u64,
    /// Rows written, including rows undone by a rollback to a savepoint.
    pub rows_written: u64,
    /// Number of its write ids that were not rolled back.
    pub write_ids: u64,
    /// Number of its row locks, without row ranges and implicit locks.
    pub row_locks: u64,
    /// Memory of its row and range locks, and of its ranges of write ids beyond the first 1024, in
    /// bytes.
    pub lock_bytes: u64,
    /// The XID of a prepared transaction; data NULL: not prepared.
    pub prepared_as: teak_slice,
    /// Whether it waits for a lock.
    pub is_waiting: bool,
    /// Duration of that wait so far, in milliseconds; 0 if it does not wait.
    pub waited_milliseconds: u64,
}

/// A lock.
#[repr(C)]
pub struct teak_lock_info {
    /// Number of the transaction that holds it.
    pub transaction: u64,
    /// That transaction's thread id, assigned by the caller; 0: none.
    pub thread: u64,
    /// Kind of the lock.
    pub kind: teak_lock_kind,
    /// Shared or exclusive; gap locks and range locks are always shared.
    pub mode: teak_lock_mode,
    /// Name of the table; data NULL for TEAK_LOCK_KIND_WRITTEN, and if the table was dropped or is
    /// not open.
    pub table: teak_slice,
    /// Label of the index; data NULL if `table` is NULL.
    pub index: teak_slice,
    /// The row's key, or the first key of the range; data NULL: unknown, or TEAK_LOCK_KIND_WRITTEN.
    pub low: teak_slice,
    /// The first key after the range; data NULL for a row, and if the range extends to the end of
    /// the index.
    pub high: teak_slice,
    /// Rows written, for TEAK_LOCK_KIND_WRITTEN; else 0.
    pub rows: u64,
}

/// A transaction that waits for another.
#[repr(C)]
pub struct teak_wait_info {
    /// Number of the waiting transaction.
    pub requester: u64,
    /// Thread id of the waiting transaction, assigned by the caller; 0: none.
    pub requester_thread: u64,
    /// Number of the blocking transaction; 0 when it has just ended.
    pub blocker: u64,
    /// Thread id of the blocking transaction, assigned by the caller; 0: none.
    pub blocker_thread: u64,
    /// Kind of the lock that blocks. A request for a row lock that is ahead in the queue is
    /// reported as TEAK_LOCK_KIND_ROW. If the blocking transaction has just ended, a row range is
    /// reported as TEAK_LOCK_KIND_ROW, and a write range as TEAK_LOCK_KIND_GAP.
    pub kind: teak_lock_kind,
    /// Requested mode of a row lock; otherwise TEAK_LOCK_NONE.
    pub mode: teak_lock_mode,
    /// Name of the table; data NULL if it was dropped or is not open.
    pub table: teak_slice,
    /// Label of the index; data NULL if `table` is NULL.
    pub index: teak_slice,
    /// The requested key.
    pub key: teak_slice,
    /// Duration of the wait, so far or until it failed, in milliseconds.
    pub waited_milliseconds: u64,
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
        None => (teak_slice::NONE, teak_slice::NONE),
    }
}

fn kind_of(blocker: BlockerKind) -> teak_lock_kind {
    match blocker {
        BlockerKind::Row => TEAK_LOCK_KIND_ROW,
        BlockerKind::RowRange => TEAK_LOCK_KIND_ROW_RANGE,
        BlockerKind::Gap => TEAK_LOCK_KIND_GAP,
        BlockerKind::WriteRange => TEAK_LOCK_KIND_WRITE_RANGE,
        BlockerKind::Written => TEAK_LOCK_KIND_WRITTEN,
        BlockerKind::WaitingWrite => TEAK_LOCK_KIND_WAITING_WRITE,
    }
}

fn wait_info(
    requester: Participant,
    blocker: Option<&Blocker>,
    wanted: &LockRequest,
    waited: Duration,
    names: &IndexNames,
) -> teak_wait_info {
    let (table, index) = names_of(names, wanted.file);
    let (ended, mode) = match wanted.kind {
        WaitKind::Lock(mode) => (TEAK_LOCK_KIND_ROW, mode_of(mode)),
        WaitKind::Write => (TEAK_LOCK_KIND_WRITTEN, TEAK_LOCK_NONE),
        WaitKind::RangeLock => (TEAK_LOCK_KIND_GAP, TEAK_LOCK_NONE),
        WaitKind::RangeRequest(_) => (TEAK_LOCK_KIND_WAITING_WRITE, TEAK_LOCK_NONE),
    };
    teak_wait_info {
        requester: requester.transaction.0,
        requester_thread: requester.thread,
        blocker: blocker.map_or(0, |blocker| blocker.participant.transaction.0),
        blocker_thread: blocker.map_or(0, |blocker| blocker.participant.thread),
        kind: blocker.map_or(ended, |blocker| kind_of(blocker.kind)),
        mode,
        table,
        index,
        key: teak_slice::of(&wanted.key),
        waited_milliseconds: milliseconds(waited),
    }
}

fn list_transactions(engine: &Engine, report: &mut dyn FnMut(&teak_transaction_info)) {
    let waits = engine.lock_waits();
    let waited: HashMap<u64, Duration> = waits
        .iter()
        .map(|wait| (wait.requester.transaction.0, wait.waited))
        .collect();
    for transaction in engine.transactions() {
        let id = transaction.id().0;
        let started = transaction.started().duration_since(UNIX_EPOCH);
        let prepared_as = transaction.prepared_as();
        report(&teak_transaction_info {
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
            prepared_as: teak_slice::of_optional(prepared_as.as_deref()),
            is_waiting: waited.contains_key(&id),
            waited_milliseconds: waited.get(&id).copied().map_or(0, milliseconds),
        });
    }
}

fn list_locks(engine: &Engine, report: &mut dyn FnMut(&teak_lock_info)) {
    let transactions = engine.transactions();
    let names = engine.index_names();
    let threads: HashMap<u64, u64> = transactions
        .iter()
        .map(|transaction| (transaction.id().0, transaction.thread()))
        .collect();
    for transaction in &transactions {
        if transaction.write_ids() > 0 {
            report(&teak_lock_info {
                transaction: transaction.id().0,
                thread: transaction.thread(),
                kind: TEAK_LOCK_KIND_WRITTEN,
                mode: TEAK_LOCK_EXCLUSIVE,
                table: teak_slice::NONE,
                index: teak_slice::NONE,
                low: teak_slice::NONE,
                high: teak_slice::NONE,
                rows: transaction.rows_written(),
            });
        }
    }
    engine.for_each_lock(&mut |lock| {
        let (table, index) = names_of(&names, lock.file);
        let (kind, low, high) = match &lock.extent {
            LockExtent::Row(key) => (
                TEAK_LOCK_KIND_ROW,
                teak_slice::of_optional(key.as_deref()),
                teak_slice::NONE,
            ),
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
                teak_slice::of_optional(high.as_deref()),
            ),
        };
        let transaction = lock.transaction.0;
        report(&teak_lock_info {
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

/// Reports the transaction's last failed wait (TEAK_LOCK_TIMEOUT or TEAK_DEADLOCK): calls `sink`
/// for each transaction that blocked it; if all of them have ended, calls it once with a `blocker`
/// of 0. TEAK_NOT_FOUND if the wait was already reported, or there was none. May be called from any
/// thread. In this and the following calls, the struct is valid until `sink` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_take_failed_wait(
    engine: *mut teak_engine,
    transaction: *mut teak_transaction,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, wait: *const teak_wait_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), reference(transaction), callback(sink)] {
        let Some(shared) = transaction.handle() else {
            return Ok(TEAK_NOT_FOUND);
        };
        let Some(failed) = shared.take_failed_wait() else {
            return Ok(TEAK_NOT_FOUND);
        };
        let names = engine.engine.index_names();
        let requester = Participant {
            transaction: shared.id(),
            thread: shared.thread(),
        };
        let report = |blocker: Option<&Blocker>| {
            let info = wait_info(requester, blocker, &failed.request, failed.waited, &names);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        };
        if failed.blockers.is_empty() {
            report(None);
        }
        let blockers = failed.blockers.iter();
        blockers.for_each(|blocker| report(Some(blocker)));
        Ok(TEAK_OK)
    })
}

/// Calls `sink` for each running transaction, prepared ones included, in the order of their
/// numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_list(
    engine: *mut teak_engine,
    sink: Option<
        unsafe extern "C" fn(context: *mut c_void, transaction: *const teak_transaction_info),
    >,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        list_transactions(&engine.engine, &mut |info| {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const *info) };
        });
        Ok(())
    })
}

/// Calls `sink` for each lock, and for each transaction with writes (TEAK_LOCK_KIND_WRITTEN). The
/// list is not a snapshot: locks are acquired and released during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_lock_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, lock: *const teak_lock_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        list_locks(&engine.engine, &mut |info| {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const *info) };
        });
        Ok(())
    })
}

/// Calls `sink` for each pair of a waiting transaction and one that blocks it or is the next one
/// ahead of it in the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_lock_wait_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, wait: *const teak_wait_info)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        let names = engine.engine.index_names();
        for wait in engine.engine.lock_waits() {
            for blocker in &wait.blockers {
                let blocker = Some(blocker);
                let info = wait_info(wait.requester, blocker, &wait.request, wait.waited, &names);
                // SAFETY: the caller's callback, with the caller's context.
                unsafe { sink(context, &raw const info) };
            }
        }
        Ok(())
    })
}
