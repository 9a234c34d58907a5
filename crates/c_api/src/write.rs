//! Writing rows.

use crate::arguments::{array, reference, store, teak_slice};
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, Outcome, call};
use crate::table::teak_table;
use crate::transaction::{teak_duplicate, teak_transaction};
use ::teak_engine::{Change, EngineError, EngineResult, EngineTransaction, Entry};

/// Longest key, in bytes.
pub const TEAK_KEY_BYTES_MAX: usize = 65536;
const _: () = assert!(TEAK_KEY_BYTES_MAX == ::teak_engine::KEY_BYTES_MAX);

/// One index's entry of a row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_row_entry {
    /// Which index.
    pub index: u32,
    /// A live entry of the same key is a duplicate.
    pub unique: bool,
    /// The key.
    pub key: teak_slice,
    /// The value; not looked at when deleting.
    pub value: teak_slice,
}

/// One index's part of a row update. Unchanged indexes are not passed. key equality old==new means only the value changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_row_change {
    /// Which index.
    pub index: u32,
    /// A live entry of the new key is a duplicate.
    pub unique: bool,
    /// data NULL: no old entry.
    pub old_key: teak_slice,
    /// data NULL: no new entry.
    pub new_key: teak_slice,
    /// The new entry's value.
    pub new_value: teak_slice,
}

/// Rows of up to this many indexes are translated without allocation.
const INLINE: usize = 8;

/// Translates a row's array element by element, on the stack when it is short.
#[inline]
fn translated<T: Copy, U: Copy, R>(
    given: &[T],
    empty: U,
    translate: impl Fn(&T) -> Result<U, Failure>,
    then: impl FnOnce(&[U]) -> R,
) -> Result<R, Failure> {
    if given.is_empty() {
        return Err(Failure::invalid("a row has at least one entry"));
    }
    let mut inline = [empty; INLINE];
    match inline.get_mut(..given.len()) {
        Some(places) => {
            for (place, element) in places.iter_mut().zip(given) {
                *place = translate(element)?;
            }
            Ok(then(places))
        }
        None => {
            let long: Result<Vec<U>, Failure> = given.iter().map(translate).collect();
            Ok(then(&long?))
        }
    }
}

const NO_ENTRY: Entry<'static> = Entry {
    index: 0,
    unique: false,
    key: &[],
    value: &[],
};

const NO_CHANGE: Change<'static> = Change {
    index: 0,
    unique: false,
    old_key: None,
    new_key: None,
    new_value: &[],
};

unsafe fn entry<'a>(given: &teak_row_entry) -> Result<Entry<'a>, Failure> {
    Ok(Entry {
        index: given.index,
        unique: given.unique,
        // SAFETY: slices as promised in `arguments`.
        key: unsafe { given.key.bytes() }?,
        // SAFETY: as above.
        value: unsafe { given.value.bytes() }?,
    })
}

unsafe fn change<'a>(given: &teak_row_change) -> Result<Change<'a>, Failure> {
    Ok(Change {
        index: given.index,
        unique: given.unique,
        // SAFETY: slices as promised in `arguments`.
        old_key: unsafe { given.old_key.optional() }?,
        // SAFETY: as above.
        new_key: unsafe { given.new_key.optional() }?,
        // SAFETY: as above.
        new_value: unsafe { given.new_value.bytes() }?,
    })
}

/// Passes a write's outcome on, with the entry that refused it.
unsafe fn finish(
    outcome: EngineResult<()>,
    transaction: &EngineTransaction,
    duplicate: *mut teak_duplicate,
) -> Outcome {
    match outcome {
        Ok(()) => Ok(TEAK_OK),
        Err(EngineError::DuplicateKey) => {
            if !duplicate.is_null() {
                let found = transaction.duplicate();
                let translated = teak_duplicate {
                    index: found.index,
                    key: teak_slice::of(&found.key),
                    value: teak_slice::of(&found.value),
                };
                // SAFETY: not NULL, as promised in `arguments`.
                unsafe { store(duplicate, translated) };
            }
            Err(EngineError::DuplicateKey.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// One row. All or nothing: a duplicate leaves nothing of it. `duplicate` is written on TEAK_DUPLICATE_KEY; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_insert(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    entries: *const teak_row_entry,
    count: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe {
            let transaction = reference(transaction, "transaction")?.owned();
            let table = reference(table, "table")?;
            let entries = array(entries, count, "entries")?;
            let outcome = translated(
                entries,
                NO_ENTRY,
                |given| entry(given),
                |entries| transaction.insert(&table.handle, entries),
            )?;
            finish(outcome, transaction, duplicate)
        }
    })
}

/// One row, given the entries that change. TEAK_NOT_FOUND when the row is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_update(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    changes: *const teak_row_change,
    count: usize,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe {
            let transaction = reference(transaction, "transaction")?.owned();
            let table = reference(table, "table")?;
            let changes = array(changes, count, "changes")?;
            let outcome = translated(
                changes,
                NO_CHANGE,
                |given| change(given),
                |changes| transaction.update(&table.handle, changes),
            )?;
            finish(outcome, transaction, duplicate)
        }
    })
}

/// One row, given all its entries. TEAK_NOT_FOUND when the row is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_delete(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    entries: *const teak_row_entry,
    count: usize,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe {
            let transaction = reference(transaction, "transaction")?.owned();
            let table = reference(table, "table")?;
            let entries = array(entries, count, "entries")?;
            let outcome = translated(
                entries,
                NO_ENTRY,
                |given| entry(given),
                |entries| transaction.delete(&table.handle, entries),
            )?;
            finish(outcome, transaction, std::ptr::null_mut())
        }
    })
}

/// Locks a key of a unique index that has no live entry, until the transaction ends: nobody else inserts it.
/// TEAK_DUPLICATE_KEY when it has one; nothing is locked then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_transaction_lock_absent(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    index: u32,
    key: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        unsafe {
            let transaction = reference(transaction, "transaction")?.owned();
            let table = reference(table, "table")?;
            let absent = transaction.lock_absent(&table.handle, index, key.bytes()?)?;
            if absent {
                Ok(TEAK_OK)
            } else {
                Err(EngineError::DuplicateKey.into())
            }
        }
    })
}
