//! Cursors.

use crate::arguments::{exclusive, out, reference, store, teak_slice};
use crate::status::teak_status::{self, TEAK_NOT_FOUND, TEAK_OK};
use crate::status::{Failure, Outcome, call};
use crate::table::teak_table;
use crate::transaction::{owned_and_table, teak_transaction};
use ::teak_engine::{
    Cursor, EngineResult, EngineTransaction, LockPolicy, ReadMode, Row, RowRetention, Seek,
};

/// How a cursor reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_lock_mode {
    /// The transaction's snapshot.
    TEAK_LOCK_NONE = 0,
    /// Newest committed row, locked against writers.
    TEAK_LOCK_SHARED = 1,
    /// Newest committed row, locked against everybody who locks or writes.
    TEAK_LOCK_EXCLUSIVE = 2,
}

/// The number of a `teak_lock_mode`, as C passes it.
pub type teak_lock_mode_number = u32;

/// Where a seek goes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_seek {
    /// First key >= given.
    TEAK_SEEK_AT_OR_AFTER = 0,
    /// First key greater than every key that starts with the given bytes.
    TEAK_SEEK_AFTER_PREFIX = 1,
    /// Last key < given.
    TEAK_SEEK_BEFORE = 2,
    /// Last key that starts with, or is smaller than, the given bytes.
    TEAK_SEEK_AT_OR_BEFORE_PREFIX = 3,
}

/// The number of a `teak_seek`, as C passes it.
pub type teak_seek_number = u32;

/// A row; valid until the next call on the cursor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_row {
    /// The key.
    pub key: teak_slice,
    /// The value.
    pub value: teak_slice,
}

/// A cursor over one index.
pub struct teak_cursor {
    cursor: Cursor,
    transaction: *mut teak_transaction,
}

fn mode_of(number: teak_lock_mode_number) -> Result<ReadMode, Failure> {
    match number {
        0 => Ok(ReadMode::Snapshot),
        1 => Ok(ReadMode::Shared),
        2 => Ok(ReadMode::Exclusive),
        _ => Err(Failure::invalid("there is no such lock mode")),
    }
}

fn seek_of(number: teak_seek_number) -> Result<Seek, Failure> {
    match number {
        0 => Ok(Seek::AtOrAfter),
        1 => Ok(Seek::AfterPrefix),
        2 => Ok(Seek::Before),
        3 => Ok(Seek::AtOrBeforePrefix),
        _ => Err(Failure::invalid("there is no such seek")),
    }
}

/// Sets a lock policy, or returns from it to waiting.
fn change_policy(cursor: &mut Cursor, policy: LockPolicy, on: bool) {
    if on {
        cursor.set_lock_policy(policy);
    } else if cursor.lock_policy() == policy {
        cursor.set_lock_policy(LockPolicy::Wait);
    }
}

/// The transaction and table outlive the cursor. On a secondary index a locking cursor waits for uncommitted
/// entries and returns the newest committed ones, without locking them: the row itself is locked by teak_cursor_get on index 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_open(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    index: u32,
    mode: teak_lock_mode_number,
    cursor: *mut *mut teak_cursor,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (owned, table) = unsafe { owned_and_table(transaction, table) }?;
        let place = out(cursor, "cursor")?;
        let cursor = owned.cursor(&table.handle, index, mode_of(mode)?)?;
        let handle = Box::new(teak_cursor {
            cursor,
            transaction,
        });
        // SAFETY: checked above.
        unsafe { store(place, Box::into_raw(handle)) };
        Ok(TEAK_OK)
    })
}

/// Closes a cursor; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_close(cursor: *mut teak_cursor) {
    call(|| {
        if !cursor.is_null() {
            // SAFETY: a handle, which the caller gives up.
            drop(unsafe { Box::from_raw(cursor) });
        }
        Ok(TEAK_OK)
    });
}

/// Whether a locking cursor passes over rows that others have locked or are writing, instead of waiting; false at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_skip_locked(
    cursor: *mut teak_cursor,
    skip: bool,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let cursor = &mut unsafe { exclusive(cursor, "cursor") }?.cursor;
        change_policy(cursor, LockPolicy::SkipLocked, skip);
        Ok(TEAK_OK)
    })
}

/// Whether a scan of index 0 with locks returns rows that others have locked or are writing as they were committed last, and
/// unlocked, instead of waiting; false at first, and always where reads mark ranges. Who wants such a row turns this off and
/// seeks it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_semi_consistent(
    cursor: *mut teak_cursor,
    semi_consistent: bool,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let cursor = &mut unsafe { exclusive(cursor, "cursor") }?.cursor;
        change_policy(cursor, LockPolicy::SemiConsistent, semi_consistent);
        Ok(TEAK_OK)
    })
}

/// Whether the row returned last is unlocked for that reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_is_unlocked(cursor: *const teak_cursor) -> bool {
    let mut is_unlocked = false;
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        is_unlocked = unsafe { reference(cursor, "cursor") }?.cursor.is_unlocked();
        Ok(TEAK_OK)
    });
    is_unlocked
}

/// Lets a locking cursor mark what it looked at under any isolation, so that nobody inserts there until the transaction ends.
/// Without this it does from REPEATABLE READ on. To be called before the first read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_lock_ranges(cursor: *mut teak_cursor) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe { exclusive(cursor, "cursor") }?.cursor.lock_gaps();
        Ok(TEAK_OK)
    })
}

/// Whether nobody may change what a locking cursor looked at until its transaction ends, also what it unlocked; false at
/// first, and always below repeatable read. To be set before the first row is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_retain_locks(
    cursor: *mut teak_cursor,
    keeps: bool,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe { exclusive(cursor, "cursor") }?
            .cursor
            .set_row_retention(if keeps {
                RowRetention::UntilTransactionEnd
            } else {
                RowRetention::UntilUnlocked
            });
        Ok(TEAK_OK)
    })
}

/// lower <= key < upper for every row returned from now on, also by teak_cursor_get; data NULL is unbounded. In the
/// middle of a scan the next step goes to the nearest key within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_bounds(
    cursor: *mut teak_cursor,
    lower: teak_slice,
    upper: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (cursor, lower, upper) = unsafe {
            (
                exclusive(cursor, "cursor")?,
                lower.optional()?,
                upper.optional()?,
            )
        };
        cursor.cursor.set_bounds(lower, upper);
        Ok(TEAK_OK)
    })
}

/// Moves a cursor and hands out the row found.
#[inline]
unsafe fn moved(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
    motion: impl for<'a> FnOnce(&'a mut Cursor, &mut EngineTransaction) -> EngineResult<Option<Row<'a>>>,
) -> Outcome {
    // SAFETY: pointers as promised in `arguments`; the transaction outlives
    // the cursor.
    let (cursor, transaction) = unsafe {
        let cursor = exclusive(cursor, "cursor")?;
        let transaction = reference(cursor.transaction, "transaction")?.owned();
        (cursor, transaction)
    };
    let row = out(row, "row")?;
    match motion(&mut cursor.cursor, transaction)? {
        Some(found) => {
            let translated = teak_row {
                key: teak_slice::of(found.key),
                value: teak_slice::of(found.value),
            };
            // SAFETY: checked above.
            unsafe { store(row, translated) };
            Ok(TEAK_OK)
        }
        None => Ok(TEAK_NOT_FOUND),
    }
}

/// The row of exactly this key (filters make absent keys cheap). Positions nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_get(
    cursor: *mut teak_cursor,
    key: teak_slice,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: pointers as promised in `arguments`.
    call(|| unsafe {
        let key = key.bytes()?;
        moved(cursor, row, |cursor, own| cursor.get(own, key))
    })
}

/// Moves to a key near the given one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_seek(
    cursor: *mut teak_cursor,
    key: teak_slice,
    mode: teak_seek_number,
    row: *mut teak_row,
) -> teak_status {
    call(|| {
        let seek = seek_of(mode)?;
        // SAFETY: pointers as promised in `arguments`.
        unsafe {
            let key = key.bytes()?;
            moved(cursor, row, |cursor, own| cursor.seek(own, key, seek))
        }
    })
}

/// Moves to the first row within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_first(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: pointers as promised in `arguments`.
    call(|| unsafe { moved(cursor, row, Cursor::first) })
}

/// Moves to the last row within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_last(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: pointers as promised in `arguments`.
    call(|| unsafe { moved(cursor, row, Cursor::last) })
}

/// Moves to the next row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_next(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: pointers as promised in `arguments`.
    call(|| unsafe { moved(cursor, row, Cursor::next) })
}

/// Moves to the previous row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_previous(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: pointers as promised in `arguments`.
    call(|| unsafe { moved(cursor, row, Cursor::previous) })
}

/// Gives up the explicit lock of the row last returned by a locking get or scan (the server's unlock_row).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_unlock(cursor: *mut teak_cursor) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`; the transaction
        // outlives the cursor.
        let (cursor, transaction) = unsafe {
            let cursor = exclusive(cursor, "cursor")?;
            let transaction = reference(cursor.transaction, "transaction")?.owned();
            (cursor, transaction)
        };
        cursor.cursor.unlock(transaction)?;
        Ok(TEAK_OK)
    })
}
