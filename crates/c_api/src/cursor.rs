//! Cursors.

use crate::boundary::{Failure, Out, OutArray, Outcome, boundary, exclusive, free, reference};
use crate::handles::{teak_columns, teak_cursor, teak_table, teak_transaction};
use crate::slice::teak_slice;
use crate::status::teak_status::{self, TEAK_NOT_FOUND, TEAK_OK};
use ::teak_engine::{
    Cursor, EngineResult, EngineTransaction, IndexNumber, LockPolicy, ReadMode, Row, Rows, Seek,
};

/// How a cursor reads, and the mode of a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_lock_mode {
    /// Reads without locks; the isolation level determines which versions.
    TEAK_LOCK_NONE = 0,
    /// Reads the newest committed rows and locks them: other transactions can also lock them in
    /// this mode, but not write them.
    TEAK_LOCK_SHARED = 1,
    /// Reads the newest committed rows and locks them: other transactions can neither lock nor
    /// write them.
    TEAK_LOCK_EXCLUSIVE = 2,
}

/// The number of a `teak_lock_mode`, as C passes it.
pub type teak_lock_mode_number = u32;

/// Target of a seek.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_seek {
    /// The first key >= the given bytes.
    TEAK_SEEK_AT_OR_AFTER = 0,
    /// The first key after all keys that start with the given bytes.
    TEAK_SEEK_AFTER_PREFIX = 1,
    /// The last key < the given bytes.
    TEAK_SEEK_BEFORE = 2,
    /// The last key that starts with the given bytes or is smaller.
    TEAK_SEEK_AT_OR_BEFORE_PREFIX = 3,
}

/// The number of a `teak_seek`, as C passes it.
pub type teak_seek_number = u32;

/// A key and its value. Valid until the next call on the cursor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_row {
    /// The key.
    pub key: teak_slice,
    /// The value; data NULL if it was skipped, see teak_cursor_skip_large_values().
    pub value: teak_slice,
}

fn mode_of(number: teak_lock_mode_number) -> Result<ReadMode, Failure> {
    match number {
        0 => Ok(ReadMode::Snapshot),
        1 => Ok(ReadMode::Shared),
        2 => Ok(ReadMode::Exclusive),
        _ => Err(Failure::invalid("mode is not a teak_lock_mode")),
    }
}

fn seek_of(number: teak_seek_number) -> Result<Seek, Failure> {
    match number {
        0 => Ok(Seek::AtOrAfter),
        1 => Ok(Seek::AfterPrefix),
        2 => Ok(Seek::Before),
        3 => Ok(Seek::AtOrBeforePrefix),
        _ => Err(Failure::invalid("mode is not a teak_seek")),
    }
}

/// Opens a cursor. Close it before the transaction ends and before the table is closed. A cursor
/// with a lock mode locks the rows it returns if it reads index 0. On a secondary index it waits
/// for uncommitted writes of the entries, but locks no entry: to lock the row, get it from index 0.
/// Under TEAK_REPEATABLE_READ and TEAK_SERIALIZABLE, a locking cursor also locks the ranges it
/// reads, so that no other transaction inserts there before this one ends. Without a lock mode,
/// reads return TEAK_TABLE_CHANGED when the index was created or replaced after the snapshot,
/// except under TEAK_READ_UNCOMMITTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_open(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    index: u32,
    mode: teak_lock_mode_number,
    cursor: *mut *mut teak_cursor,
) -> teak_status {
    let handle = transaction;
    boundary!([owned(transaction), reference(table), out(cursor)] {
        let opened = transaction.cursor(&table.handle, IndexNumber(index), mode_of(mode)?)?;
        cursor.set_handle(teak_cursor::new(opened, handle));
        Ok(())
    })
}

/// Closes a cursor but keeps its memory, which is less than 4 KiB, for teak_cursor_open_again(). Until then only this function
/// and teak_cursor_close() may be called with it. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_park(cursor: *mut teak_cursor) {
    boundary!(or (), [] {
        // SAFETY: the contract of `boundary`.
        if let Some(cursor) = unsafe { cursor.as_mut() } {
            cursor.park();
        }
        Ok(())
    });
}

/// Opens a parked cursor as teak_cursor_open() opens a new one. After an error it remains parked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_open_again(
    cursor: *mut teak_cursor,
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    index: u32,
    mode: teak_lock_mode_number,
) -> teak_status {
    let handle = transaction;
    boundary!([exclusive(cursor), owned(transaction), reference(table)] {
        let mode = mode_of(mode)?;
        let memory = cursor.take_memory()?;
        let opened = transaction.cursor_in(memory, &table.handle, IndexNumber(index), mode)?;
        *cursor = teak_cursor::new(opened, handle);
        Ok(())
    })
}

/// Closes a cursor; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_close(cursor: *mut teak_cursor) {
    free!(cursor);
}

/// Restricts every later call to lower <= key < upper. A slice whose data is NULL means no limit on
/// that side. If a scan is in progress, the next step starts from its current key: if that key is
/// before the bounds in the direction of the step, the step moves to the first key within them; if
/// it is after them, there is no row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_bounds(
    cursor: *mut teak_cursor,
    lower: teak_slice,
    upper: teak_slice,
) -> teak_status {
    boundary!([open(cursor), optional(lower), optional(upper)] {
        cursor.set_bounds(lower, upper);
        Ok(())
    })
}

/// Restricts every later call to the keys that start with the prefix, like teak_cursor_set_bounds.
/// The prefix must be the whole part of these keys before their suffix (see teak_index_definition).
/// Then reads skip the parts of the index whose filters exclude the prefix. With any other prefix,
/// entries may be missing. If the keys of the index have no suffix, the call only sets bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_prefix(
    cursor: *mut teak_cursor,
    prefix: teak_slice,
) -> teak_status {
    boundary!([open(cursor), bytes(prefix)] {
        cursor.set_prefix(prefix);
        Ok(())
    })
}

/// Names the columns of the values of an index that readers need, for teak_cursor_set_columns(). `bits`: `count` numbers with a bit
/// for each column of teak_index_definition, first value_columns, then optional_columns, then variable_columns; the lowest bit of
/// the first number is the first column, which is always read. Only values that begin with `beginning`, within the first column,
/// consist of these columns. Opens the table's files if they are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_columns_new(
    table: *const teak_table,
    index: u32,
    beginning: teak_slice,
    bits: *const u64,
    count: usize,
    columns: *mut *mut teak_columns,
) -> teak_status {
    boundary!([reference(table), bytes(beginning), array(bits, count), out(columns)] {
        let projection = table.handle.projection(IndexNumber(index), beginning, bits)?;
        columns.set_handle(teak_columns { projection });
        Ok(())
    })
}

/// Frees what teak_columns_new() returned; NULL is allowed. Cursors may still read these columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_columns_free(columns: *mut teak_columns) {
    free!(columns);
}

/// Lets a cursor for consistent reads return only some columns of the values, which is faster if they are many. The
/// values keep their form: they may have any bytes instead of other columns of fixed width, and empty strings instead of other
/// variable columns. Values of another form are returned whole, as are all values by locking cursors. `columns`: those of the
/// cursor's index; NULL: all columns, the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_columns(
    cursor: *mut teak_cursor,
    columns: *const teak_columns,
) -> teak_status {
    boundary!([open(cursor)] {
        // SAFETY: the contract of `boundary`; NULL is allowed.
        let columns = unsafe { columns.as_ref() };
        cursor.set_projection(columns.map(|columns| columns.projection.clone()));
        Ok(())
    })
}

/// Sets the lock policy of a cursor to `policy`, or if `on` is false, resets it from `policy` to
/// waiting.
pub(crate) fn change_policy(cursor: &mut Cursor, policy: LockPolicy, on: bool) {
    if on {
        cursor.set_lock_policy(policy);
    } else if cursor.lock_policy() == policy {
        cursor.set_lock_policy(LockPolicy::Wait);
    }
}

/// Sets whether a locking cursor skips rows that other transactions have locked or written, instead
/// of waiting. The cursor then locks no ranges. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_set_skip_locked(
    cursor: *mut teak_cursor,
    skip: bool,
) -> teak_status {
    boundary!([open(cursor)] {
        change_policy(cursor, LockPolicy::SkipLocked, skip);
        Ok(())
    })
}

/// Makes a locking cursor lock the ranges it reads under every isolation level. Call it before the
/// first read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_lock_ranges(cursor: *mut teak_cursor) -> teak_status {
    boundary!([open(cursor)] {
        cursor.lock_gaps();
        Ok(())
    })
}

/// A cursor and its transaction, for the duration of a call.
///
/// # Safety
/// The contract of `boundary`; the transaction outlives the cursor.
pub(crate) unsafe fn parts<'a>(
    cursor: *mut teak_cursor,
) -> Result<(&'a mut Cursor, &'a mut EngineTransaction), Failure> {
    // SAFETY: the caller guarantees the contract of `boundary`.
    unsafe {
        let cursor = exclusive(cursor, "cursor")?;
        let transaction = reference(cursor.transaction, "transaction")?.owned();
        Ok((cursor.open()?, transaction))
    }
}

/// Moves a cursor and returns the row found.
#[inline]
unsafe fn moved(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
    motion: impl for<'a> FnOnce(&'a mut Cursor, &mut EngineTransaction) -> EngineResult<Option<Row<'a>>>,
) -> teak_status {
    boundary!([out(row)] {
        // SAFETY: the caller guarantees the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        found(motion(cursor, transaction)?, row)
    })
}

#[inline]
fn found(found: Option<Row<'_>>, row: Out<teak_row>) -> Outcome {
    let Some(found) = found else {
        return Ok(TEAK_NOT_FOUND);
    };
    row.set(row_of(found));
    Ok(TEAK_OK)
}

/// Returns rows that were found.
#[inline]
pub(crate) fn return_rows(
    found: Option<Rows<'_>>,
    rows: OutArray<teak_row>,
    count: Out<usize>,
) -> Outcome {
    let Some(found) = found else {
        return Ok(TEAK_NOT_FOUND);
    };
    count.set(found.len());
    rows.set(found.iter().map(row_of));
    Ok(TEAK_OK)
}

#[inline]
fn row_of(row: Row<'_>) -> teak_row {
    teak_row {
        key: teak_slice::of(row.key),
        value: teak_slice::of_optional((!row.is_value_skipped).then_some(row.value)),
    }
}

/// Gets the row with exactly this key. The position of a scan does not change. Lookups of missing
/// keys are cheap if the index has filters, see teak_index_definition.exact_lookups.
/// TEAK_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_get(
    cursor: *mut teak_cursor,
    key: teak_slice,
    row: *mut teak_row,
) -> teak_status {
    boundary!([bytes(key), out(row)] {
        // SAFETY: the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        found(cursor.get(transaction, key)?, row)
    })
}

/// Begins to read in the background what teak_cursor_get() of this key will read from the index
/// file. A hint: it waits for nothing, and has no effect if the index file bypasses the cache of
/// the operating system. Several keys prefetched one after the other are read at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_prefetch(
    cursor: *mut teak_cursor,
    key: teak_slice,
) -> teak_status {
    boundary!([open(cursor), bytes(key)] {
        cursor.prefetch(key);
        Ok(())
    })
}

/// Moves to a key relative to the given bytes. TEAK_NOT_FOUND when there is none within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_seek(
    cursor: *mut teak_cursor,
    key: teak_slice,
    mode: teak_seek_number,
    row: *mut teak_row,
) -> teak_status {
    boundary!([bytes(key), out(row)] {
        let seek = seek_of(mode)?;
        // SAFETY: the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        found(cursor.seek(transaction, key, seek)?, row)
    })
}

/// Moves to the first row within the bounds. TEAK_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_first(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: the contract of `boundary`.
    unsafe { moved(cursor, row, Cursor::first) }
}

/// Moves to the last row within the bounds. TEAK_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_last(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: the contract of `boundary`.
    unsafe { moved(cursor, row, Cursor::last) }
}

/// Moves to the next row. TEAK_NOT_FOUND after the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_next(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: the contract of `boundary`.
    unsafe { moved(cursor, row, Cursor::next) }
}

/// Moves to the next row like teak_cursor_next(), and also returns rows that follow it, as far as
/// they are in memory side by side: `count` rows in all, at least one and at most `capacity`. The
/// cursor remains on the first of them. `passed`: before that, it moves over so many of the other
/// rows that the last call returned; at most their number, and 0 unless the last call on the cursor
/// was this one. The bytes of all rows are valid until the next call on the cursor. Rows that the
/// transaction writes after a call are not among those that it returned. A locking cursor returns
/// one row. TEAK_NOT_FOUND after the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_next_rows(
    cursor: *mut teak_cursor,
    passed: usize,
    rows: *mut teak_row,
    capacity: usize,
    count: *mut usize,
) -> teak_status {
    boundary!([out_array(rows, capacity), out(count)] {
        // SAFETY: the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        if rows.len() == 0 {
            return Err(Failure::invalid("capacity is 0"));
        }
        return_rows(cursor.next_rows(transaction, passed, rows.len())?, rows, count)
    })
}

/// Moves to the previous row. TEAK_NOT_FOUND before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_previous(
    cursor: *mut teak_cursor,
    row: *mut teak_row,
) -> teak_status {
    // SAFETY: the contract of `boundary`.
    unsafe { moved(cursor, row, Cursor::previous) }
}

/// Releases the lock of the row that a locking cursor last returned, for example because the row
/// does not match a condition. The row remains locked if the transaction had locked it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_cursor_unlock(cursor: *mut teak_cursor) -> teak_status {
    boundary!([] {
        // SAFETY: the contract of `boundary`.
        let (cursor, transaction) = unsafe { parts(cursor) }?;
        cursor.unlock(transaction)?;
        Ok(())
    })
}
