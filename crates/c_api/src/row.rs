//! Writing rows.

use crate::boundary::{Failure, Out, Outcome, boundary};
use crate::handles::{teak_table, teak_transaction};
use crate::slice::teak_slice;
use crate::status::teak_status::{self, TEAK_NOT_FOUND, TEAK_OK};
use ::teak_engine::{
    EngineError, EngineResult, EngineTransaction, IndexNumber, RowChange, RowEntry,
};

/// Maximum length of a key, in bytes.
pub const TEAK_KEY_BYTES_MAX: usize = 65536;
const _: () = assert!(TEAK_KEY_BYTES_MAX == ::teak_engine::KEY_BYTES_MAX);

/// A row's entry in one index. Keys are ordered as by memcmp(). The keys of a secondary index that
/// is not unique must contain the primary key, so that no two rows have the same entry.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_row_entry {
    /// Number of the index.
    pub index: u32,
    /// false: a live entry with the same key makes the call fail with TEAK_DUPLICATE_KEY, and a
    /// transaction that has written or locked the key is waited for. true: the key is not checked.
    /// This is faster, for keys that no other row has: in an index that is not unique, and of rows
    /// with generated keys. An existing entry with the key would be replaced. Ignored by
    /// teak_transaction_delete().
    pub unchecked: bool,
    /// The key, at most TEAK_KEY_BYTES_MAX bytes.
    pub key: teak_slice,
    /// The value. Ignored by teak_transaction_delete().
    pub value: teak_slice,
}

/// A change of a row's entry in one index. If both keys are equal, only the value changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_row_change {
    /// Number of the index.
    pub index: u32,
    /// As in teak_row_entry, for the new key if that differs from the old one.
    pub unchecked: bool,
    /// The entry to remove; data NULL: none.
    pub old_key: teak_slice,
    /// The entry to write; data NULL: none.
    pub new_key: teak_slice,
    /// Value of the entry to write.
    pub new_value: teak_slice,
}

/// The entry that made a call fail with TEAK_DUPLICATE_KEY.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct teak_duplicate {
    /// Number of the index.
    pub index: u32,
    /// The existing key. Valid until the next call on the transaction or alteration.
    pub key: teak_slice,
    /// Its value. Valid until the next call on the transaction or alteration.
    pub value: teak_slice,
    /// Whether the entry is a row that teak_transaction_insert_or_lock() has locked. Key and value
    /// are then those of its newest version.
    pub is_locked: bool,
}

impl teak_duplicate {
    pub(crate) fn of(found: &::teak_engine::Duplicate) -> Self {
        Self {
            index: found.index.0,
            key: teak_slice::of(&found.key),
            value: teak_slice::of(&found.value),
            is_locked: found.is_locked,
        }
    }
}

/// Rows with up to this many entries are converted without allocation.
const INLINE: usize = 8;

/// Converts an array of entries element by element, without allocation if it is short.
#[inline]
fn converted<T: Copy, U: Copy, R>(
    given: &[T],
    empty: U,
    convert: impl Fn(&T) -> Result<U, Failure>,
    then: impl FnOnce(&[U]) -> R,
) -> Result<R, Failure> {
    if given.is_empty() {
        return Err(Failure::invalid("a row has at least one entry"));
    }
    let mut inline = [empty; INLINE];
    match inline.get_mut(..given.len()) {
        Some(elements) => {
            for (element, given) in elements.iter_mut().zip(given) {
                *element = convert(given)?;
            }
            Ok(then(elements))
        }
        None => {
            let long: Result<Vec<U>, Failure> = given.iter().map(convert).collect();
            Ok(then(&long?))
        }
    }
}

const NO_ENTRY: RowEntry<'static> = RowEntry {
    index: IndexNumber::ROWS,
    unique: false,
    key: &[],
    value: &[],
};

const NO_CHANGE: RowChange<'static> = RowChange {
    index: IndexNumber::ROWS,
    unique: false,
    old_key: None,
    new_key: None,
    new_value: &[],
};

fn entry<'a>(given: &teak_row_entry) -> Result<RowEntry<'a>, Failure> {
    // SAFETY: the contract of `boundary`; the elements of an argument.
    let (key, value) = unsafe { (given.key.bytes()?, given.value.bytes()?) };
    Ok(RowEntry {
        index: IndexNumber(given.index),
        unique: !given.unchecked,
        key,
        value,
    })
}

fn change<'a>(given: &teak_row_change) -> Result<RowChange<'a>, Failure> {
    // SAFETY: as in `entry`.
    unsafe {
        Ok(RowChange {
            index: IndexNumber(given.index),
            unique: !given.unchecked,
            old_key: given.old_key.optional()?,
            new_key: given.new_key.optional()?,
            new_value: given.new_value.bytes()?,
        })
    }
}

/// Calls `then` with the converted entries of a row.
pub(crate) fn converted_entries<R>(
    given: &[teak_row_entry],
    then: impl FnOnce(&[RowEntry<'_>]) -> R,
) -> Result<R, Failure> {
    converted(given, NO_ENTRY, entry, then)
}

/// Returns the outcome of a write. After a duplicate-key error, `duplicate` receives the existing
/// entry.
fn finish(
    outcome: EngineResult<()>,
    transaction: &EngineTransaction,
    duplicate: Option<Out<teak_duplicate>>,
) -> Outcome {
    with_duplicate(outcome, duplicate, || transaction.duplicate())?;
    Ok(teak_status::TEAK_OK)
}

/// Returns the outcome. After a duplicate-key error, `duplicate` receives the entry that was found.
pub(crate) fn with_duplicate<'a, T>(
    outcome: EngineResult<T>,
    duplicate: Option<Out<teak_duplicate>>,
    found: impl FnOnce() -> &'a ::teak_engine::Duplicate,
) -> EngineResult<T> {
    if let (Err(EngineError::DuplicateKey), Some(duplicate)) = (&outcome, duplicate) {
        duplicate.set(teak_duplicate::of(found()));
    }
    outcome
}

/// Inserts one row atomically, given its entry in every index, index 0 first. On TEAK_DUPLICATE_KEY
/// `duplicate`, which may be NULL, receives the existing entry, and the transaction continues
/// without the row. The call may wait for a lock, and then fail with TEAK_LOCK_TIMEOUT,
/// TEAK_DEADLOCK or TEAK_INTERRUPTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_insert(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    entries: *const teak_row_entry,
    count: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([owned(transaction), reference(table), array(entries, count), maybe_out(duplicate)] {
        let outcome = converted(entries, NO_ENTRY, entry, |entries| {
            transaction.insert(&table.handle, entries)
        })?;
        finish(outcome, transaction, duplicate)
    })
}

/// As teak_transaction_insert(). If an existing row has the same key in index 0, this row is also
/// locked, as a cursor with TEAK_LOCK_EXCLUSIVE would lock it, and `duplicate` receives its newest
/// version. TEAK_CONFLICT under snapshot isolation when it is newer than the snapshot. The call does
/// not wait for this lock: `is_locked` is false if it was not free. Then, and after a duplicate in
/// another index, the caller has to read the row with a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_insert_or_lock(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    entries: *const teak_row_entry,
    count: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([owned(transaction), reference(table), array(entries, count), maybe_out(duplicate)] {
        let outcome = converted(entries, NO_ENTRY, entry, |entries| {
            transaction.insert_or_lock(&table.handle, entries)
        })?;
        finish(outcome, transaction, duplicate)
    })
}

/// Updates one row, given the changed entries. Index 0 must be included. TEAK_NOT_FOUND when the
/// row does not exist; TEAK_CONFLICT when it changed after the snapshot and this transaction has
/// not locked it. Otherwise as teak_transaction_insert().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_update(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    changes: *const teak_row_change,
    count: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([owned(transaction), reference(table), array(changes, count), maybe_out(duplicate)] {
        let outcome = converted(changes, NO_CHANGE, change, |changes| {
            transaction.update(&table.handle, changes)
        })?;
        finish(outcome, transaction, duplicate)
    })
}

/// Deletes one row, given its entry in every index. TEAK_NOT_FOUND when the row does not exist;
/// TEAK_CONFLICT when it changed after the snapshot and this transaction has not locked it. Waits
/// for locks like teak_transaction_insert().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_delete(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    entries: *const teak_row_entry,
    count: usize,
) -> teak_status {
    boundary!([owned(transaction), reference(table), array(entries, count)] {
        let outcome = converted(entries, NO_ENTRY, entry, |entries| {
            transaction.delete(&table.handle, entries)
        })?;
        finish(outcome, transaction, None)
    })
}

/// Returns how many rows of the table the reads of the transaction without locks see, without reading
/// them. Takes the snapshot, as the first such read does. TEAK_NOT_FOUND when the number is not known:
/// after a crash, after a rebuild of the table, for a snapshot that is older than the table's index,
/// under TEAK_READ_UNCOMMITTED, when the transaction has deleted all rows or a range of them, and when
/// it has written rows that changed after its snapshot. A scan of a whole index makes it known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_count_rows(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    count: *mut u64,
) -> teak_status {
    boundary!([owned(transaction), reference(table), out(count)] {
        match transaction.count_rows(&table.handle)? {
            Some(rows) => {
                count.set(rows);
                Ok(())
            }
            None => Err(EngineError::NotFound.into()),
        }
    })
}

/// Whether teak_transaction_count_rows() would probably return the number of rows. Takes no snapshot. false
/// for NULL and after an error of opening the table's files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_knows_row_count(table: *mut teak_table) -> bool {
    boundary!(or false, [reference(table)] {
        Ok(table.handle.knows_row_count()?)
    })
}

/// Whether teak_transaction_delete_all() suits the table: it has at least about `rows_min` rows, no
/// alteration is building indexes of it, and it was not emptied like this many times shortly before.
/// false for NULL and after an error of opening its files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_can_delete_all(table: *mut teak_table, rows_min: u64) -> bool {
    boundary!(or false, [reference(table)] {
        Ok(table.handle.can_delete_all(rows_min)?)
    })
}

/// Deletes all rows of a table; `count` receives their number. Locks the table against writes of
/// other transactions until the transaction ends, and waits for locks like
/// teak_transaction_insert(). After an error the caller must roll back to a savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_delete_all(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    count: *mut u64,
) -> teak_status {
    boundary!([owned(transaction), reference(table), out(count)] {
        count.set(transaction.delete_all(&table.handle)?);
        Ok(())
    })
}

/// Whether teak_transaction_delete_range() suits the table: it has no index except that of the rows,
/// no alteration is building others, and not many ranges were deleted shortly before. false for NULL
/// and after an error of opening its files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_can_delete_range(table: *mut teak_table) -> bool {
    boundary!(or false, [reference(table)] {
        Ok(table.handle.can_delete_range()?)
    })
}

/// As teak_transaction_delete_all(), for the rows with lower <= key < upper. A slice whose data is
/// NULL means no limit on that side. Locks this range. TEAK_INVALID_ARGUMENT if the table has several
/// indexes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_delete_range(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    lower: teak_slice,
    upper: teak_slice,
    count: *mut u64,
) -> teak_status {
    boundary!([owned(transaction), reference(table), optional(lower), optional(upper), out(count)] {
        let lower = lower.unwrap_or_default();
        let deleted = match upper {
            // No key is before the empty key.
            Some([]) => 0,
            upper => transaction.delete_range(&table.handle, lower, upper.unwrap_or_default())?,
        };
        count.set(deleted);
        Ok(())
    })
}

/// Locks a row exclusively, as a read with TEAK_LOCK_EXCLUSIVE does, for a caller that knows what the row contains: reads
/// the row only if filters in memory do not decide whether it exists. TEAK_NOT_FOUND if it does not; of about 50 such
/// rows, one may be locked. `key`: of index 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_lock_row(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    key: teak_slice,
) -> teak_status {
    boundary!([owned(transaction), reference(table), bytes(key)] {
        Ok(match transaction.lock_row(&table.handle, key)? {
            true => TEAK_OK,
            false => TEAK_NOT_FOUND,
        })
    })
}

/// Locks a key of a unique index that has no live entry, so that no other transaction inserts it
/// before this one ends. TEAK_DUPLICATE_KEY when the key has a live entry; it is then not locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_lock_absent(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    index: u32,
    key: teak_slice,
) -> teak_status {
    boundary!([owned(transaction), reference(table), bytes(key)] {
        if transaction.lock_absent(&table.handle, IndexNumber(index), key)? {
            Ok(())
        } else {
            Err(EngineError::DuplicateKey.into())
        }
    })
}
