//! Adding many rows to a table.

use crate::boundary::{Failure, boundary, free, progress_report};
use crate::handles::{teak_table, teak_transaction};
use crate::row::{converted_entries, teak_duplicate, teak_row_entry, with_duplicate};
use crate::status::teak_status;
use ::teak_engine::RowLoad;
use std::ffi::c_void;

/// Rows that are being added to a table, from teak_load_begin() to teak_load_end(). Used by the
/// thread that uses the transaction.
pub struct teak_load {
    load: Option<RowLoad>,
}

fn finished() -> Failure {
    Failure::invalid("the load is finished")
}

/// Whether teak_load_begin() suits the table: it is not temporary, and no alteration is building
/// indexes of it. false for NULL and after an error of opening its files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_can_load(table: *mut teak_table) -> bool {
    boundary!(or false, [reference(table)] {
        Ok(table.handle.can_load()?)
    })
}

/// Begins to add many rows to a table. They are sorted and written to its files without a log record
/// for each row. `unique` has one element for each index of the table. true: a live entry with the
/// same key makes teak_load_finish() fail. false: the keys are not checked; see teak_row_entry.
/// `tables`: the number of tables, such as partitions, that the statement loads; they share the memory
/// of its sorts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_begin(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    unique: *const bool,
    unique_count: usize,
    tables: u32,
    load: *mut *mut teak_load,
) -> teak_status {
    boundary!([owned(transaction), reference(table), array(unique, unique_count), out(load)] {
        let begun = transaction.begin_load(&table.handle, unique, tables)?;
        load.set_handle(teak_load {
            load: Some(begun),
        });
        Ok(())
    })
}

/// Adds a row, given its entries; `unchecked` of the entries is ignored. No reader sees it before
/// teak_load_finish(). After an error other than TEAK_TOO_LARGE the load can only be ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_add(
    load: *mut teak_load,
    entries: *const teak_row_entry,
    count: usize,
) -> teak_status {
    boundary!([exclusive(load), array(entries, count)] {
        let load = load.load.as_mut().ok_or_else(finished)?;
        converted_entries(entries, |entries| load.add(entries))??;
        Ok(())
    })
}

/// Adds the rows to the table, as rows that the transaction has inserted, and makes them durable;
/// they become visible to others when the transaction commits. It must be the transaction that has
/// begun the load. `rows` receives their number. `progress` may be NULL; it is called regularly on the
/// calling thread, with the number of written entries and their total. On TEAK_DUPLICATE_KEY
/// `duplicate`, which may be NULL, receives an entry with the duplicate key, which may be one of the
/// load; it is valid until the next call on the transaction. The call may wait for locks like
/// teak_transaction_insert(), and until other loads of the table that are being finished are
/// committed. After an error the caller must roll back to a savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_finish(
    load: *mut teak_load,
    transaction: *mut teak_transaction,
    progress: Option<unsafe extern "C" fn(context: *mut c_void, done: u64, total: u64)>,
    context: *mut c_void,
    rows: *mut u64,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([exclusive(load), owned(transaction), out(rows), maybe_out(duplicate)] {
        let load = load.load.take().ok_or_else(finished)?;
        let added = transaction.finish_load(load, &mut progress_report(progress, context));
        rows.set(with_duplicate(added, duplicate, || transaction.duplicate())?);
        Ok(())
    })
}

/// Frees a load; NULL is allowed. If it was not finished, the table remains unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_end(load: *mut teak_load) {
    free!(load);
}
