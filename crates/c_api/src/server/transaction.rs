//! Transaction calls for sessions, replication and the query cache.

use crate::boundary::boundary;
use crate::handles::{teak_engine, teak_transaction};
use crate::status::teak_status;
use ::teak_engine::{EngineTransaction, Owner, PageCounts};
use std::ffi::c_void;
use std::time::Duration;

/// Sets the owner for teak_engine_options.wait_begins. The pointer is passed to that callback and
/// never dereferenced. It must be valid until the transaction has ended or is detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_owner(
    transaction: *mut teak_transaction,
    owner: *mut c_void,
) -> teak_status {
    boundary!([owned(transaction)] {
        transaction.set_owner(Owner(owner.expose_provenance()));
        Ok(())
    })
}

/// Sets the thread id assigned by the caller, for the lists of transactions, locks and waits; 0:
/// none. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_set_thread(
    transaction: *mut teak_transaction,
    thread: u64,
) -> teak_status {
    boundary!([reference(transaction)] {
        if let Some(shared) = transaction.handle() {
            shared.set_thread(thread);
        }
        Ok(())
    })
}

/// Sequence number of the newest commit that the transaction's snapshot sees; 0 while it has no
/// snapshot, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_get_snapshot_commit(
    transaction: *const teak_transaction,
) -> u64 {
    boundary!(or 0, [owned(transaction)] {
        Ok(transaction.snapshot().map_or(0, |sequence| sequence.0))
    })
}

/// Whether other transactions may have to wait for this one, because it has locked rows or ranges
/// or has writes. true for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_holds_locks(
    transaction: *const teak_transaction,
) -> bool {
    boundary!(or true, [owned(transaction)] { Ok(EngineTransaction::holds_locks(transaction)) })
}

/// Whether the entries of secondary indexes that the transaction's snapshot sees must be compared
/// with their rows, because the transaction may have written rows that had changed after its
/// snapshot. false for NULL, and under snapshot isolation, see
/// teak_transaction_set_snapshot_isolation().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_is_past_snapshot(
    transaction: *const teak_transaction,
) -> bool {
    boundary!(or false, [owned(transaction)] { Ok(EngineTransaction::is_past_snapshot(transaction)) })
}

/// Sequence number of the newest visible commit; every commit with writes raises it. At least 1; 0
/// for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_newest_commit(engine: *mut teak_engine) -> u64 {
    boundary!(or 0, [reference(engine)] { Ok(engine.engine.newest_commit().0) })
}

/// Transactions are numbered in the order in which they begin. `oldest` receives the number of the
/// oldest running transaction, prepared ones included, or `next` if there is none. Every
/// transaction that began before the call has a number below `next`. A transaction with number
/// `next` or above sees all writes that were committed before the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_get_running_transactions(
    engine: *mut teak_engine,
    oldest: *mut u64,
    next: *mut u64,
) -> teak_status {
    boundary!([reference(engine), out(oldest), out(next)] {
        let (first, end) = engine.engine.running_transactions();
        oldest.set(first.0);
        next.set(end.0);
        Ok(())
    })
}

/// Blocks that a thread has accessed since it began: pages, index blocks and separate values.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_page_counts {
    /// Blocks accessed, cached or not.
    pub accessed: u64,
    /// Blocks read from disk.
    pub read: u64,
}

/// The blocks that the calling thread has accessed and read. The difference between two calls is
/// the number for the statement between them.
#[unsafe(no_mangle)]
pub extern "C" fn teak_thread_get_page_counts() -> teak_page_counts {
    let counts = PageCounts::of_thread();
    teak_page_counts {
        accessed: counts.accessed,
        read: counts.read,
    }
}

/// Adds the time of a statement to teak_engine_statistics.statement_times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_count_statement(
    engine: *mut teak_engine,
    microseconds: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.count_statement(Duration::from_micros(microseconds));
        Ok(())
    })
}
