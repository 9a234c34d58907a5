//! Adding many rows to a table.

use crate::boundary::{Context, Failure, boundary, free, progress_report};
use crate::handles::{teak_table, teak_transaction};
use crate::row::{converted_entries, teak_duplicate, teak_row_entry, with_duplicate};
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{EngineError, EngineResult, LoadStream, RowEncoder, RowLoad};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Rows that are being added to a table, from teak_load_begin() to teak_load_end(). Used by the
/// thread that uses the transaction.
pub struct teak_load {
    state: State,
}

enum State {
    Rows(RowLoad),
    Stream(LoadStream),
    Ended,
}

fn ended() -> Failure {
    Failure::invalid("the load is finished, has failed, or does not accept rows in this form")
}

/// Where an encoder adds rows, during its call only.
pub struct teak_load_rows {
    load: NonNull<RowLoad>,
    failure: Option<EngineError>,
}

type Encode = unsafe extern "C" fn(
    context: *mut c_void,
    batch: teak_slice,
    rows: *mut teak_load_rows,
) -> teak_status;

/// The encoder of the caller.
struct Encoder {
    encode: Encode,
    context: Context,
}

impl RowEncoder for Encoder {
    fn encode(&mut self, batch: &[u8], load: &mut RowLoad) -> EngineResult<()> {
        let mut rows = teak_load_rows {
            load: NonNull::from(load),
            failure: None,
        };
        // SAFETY: the caller's function, with the caller's context. It uses `rows` only during the
        // call, in which nothing else uses the load.
        let status = unsafe { (self.encode)(self.context.0, teak_slice::of(batch), &raw mut rows) };
        match (rows.failure, status) {
            (Some(failure), _) => Err(failure),
            (None, teak_status::TEAK_OK) => Ok(()),
            (None, status) => {
                let reason = format!("rows of a load could not be encoded: {status:?}");
                Err(EngineError::Internal(reason))
            }
        }
    }
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
            state: State::Rows(begun),
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
        let State::Rows(load) = &mut load.state else {
            return Err(ended());
        };
        converted_entries(entries, |entries| load.add(entries))??;
        Ok(())
    })
}

/// From now on the rows are added by `encode`, which gets batches that are passed with
/// teak_load_pass(), in their order. It adds the rows of a batch with teak_load_rows_add(), and returns
/// TEAK_OK or the status of a failure, after which the load fails. It is called by one thread at a time,
/// often another one than that of the transaction, until teak_load_end(), teak_load_finish(), or a
/// failed call for the load returns. `batch` and `rows` are valid during the call only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_encode(
    load: *mut teak_load,
    encode: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            batch: teak_slice,
            rows: *mut teak_load_rows,
        ) -> teak_status,
    >,
    context: *mut c_void,
) -> teak_status {
    boundary!([exclusive(load), callback(encode)] {
        match std::mem::replace(&mut load.state, State::Ended) {
            State::Rows(rows) => {
                let context = Context(context);
                load.state = State::Stream(rows.encoded_by(Box::new(Encoder { encode, context })));
                Ok(())
            }
            other => {
                load.state = other;
                Err(ended())
            }
        }
    })
}

/// Passes a batch of so many rows, in a form of the caller's, to the encoder. The batch is copied. The
/// call may wait for an earlier batch. An error may be that of an earlier batch; the load can then only
/// be ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_pass(
    load: *mut teak_load,
    batch: teak_slice,
    rows: u64,
) -> teak_status {
    boundary!([exclusive(load), bytes(batch)] {
        let State::Stream(stream) = &mut load.state else {
            return Err(ended());
        };
        let passed = stream.pass(batch.to_vec(), rows);
        if passed.is_err() {
            load.state = State::Ended;
        }
        Ok(passed?)
    })
}

/// Adds a row of a batch, as teak_load_add(). Only the encoder calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_load_rows_add(
    rows: *mut teak_load_rows,
    entries: *const teak_row_entry,
    count: usize,
) -> teak_status {
    boundary!([exclusive(rows), array(entries, count)] {
        // SAFETY: the handle exists only during the call of the encoder, see `Encoder::encode`.
        let load = unsafe { rows.load.as_mut() };
        if let Err(error) = converted_entries(entries, |entries| load.add(entries))? {
            rows.failure.get_or_insert_with(|| error.clone());
            return Err(error.into());
        }
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
        let load = match std::mem::replace(&mut load.state, State::Ended) {
            State::Rows(load) => load,
            State::Stream(stream) => stream.finish()?,
            State::Ended => return Err(ended()),
        };
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
