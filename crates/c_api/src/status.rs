//! Status codes, the last error of a thread, and the panic boundary.

use crate::arguments::store;
use ::teak_engine::{EngineError, StorageError, WaitError};
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_status {
    /// Done; out-parameters are written.
    TEAK_OK = 0,
    /// No such key or row; the cursor has no further row.
    TEAK_NOT_FOUND = 1,
    /// A live entry of the same unique key exists; nothing of the row was written.
    TEAK_DUPLICATE_KEY = 2,
    /// Another transaction kept the row for longer than the lock timeout.
    TEAK_LOCK_TIMEOUT = 3,
    /// Waiting would have closed a circle of transactions that wait for each other.
    TEAK_DEADLOCK = 4,
    /// The row changed after the snapshot was taken, and was not locked.
    TEAK_CONFLICT = 5,
    /// teak_interrupt, or the caller's own interrupt callback, ended the call.
    TEAK_INTERRUPTED = 6,
    /// The disk or quota is full.
    TEAK_NO_SPACE = 7,
    /// Bytes on disk are not what was written there; the text says which.
    TEAK_CORRUPT = 8,
    /// The system refused a file operation.
    TEAK_IO = 9,
    /// A table of this name exists.
    TEAK_TABLE_EXISTS = 10,
    /// No table of this name exists.
    TEAK_NO_SUCH_TABLE = 11,
    /// A key, value or row is larger than the format allows.
    TEAK_TOO_LARGE = 12,
    /// The log failed earlier: nothing more is acknowledged.
    TEAK_POISONED = 13,
    /// A pointer is NULL, a number is none of its enumeration, or a name is none.
    TEAK_INVALID_ARGUMENT = 14,
    /// A file is of a newer version than this library reads.
    TEAK_UNSUPPORTED_FORMAT = 15,
    /// Memory could not be had.
    TEAK_OUT_OF_MEMORY = 16,
    /// A bug, or a call on a handle that has ended.
    TEAK_INTERNAL = 17,
}

use teak_status::*;

/// What a call of this crate returns before it is translated.
pub(crate) type Outcome = Result<teak_status, Failure>;

/// A failed call: its status and a sentence.
pub(crate) struct Failure {
    status: teak_status,
    text: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn invalid(text: &str) -> Self {
        Self {
            status: TEAK_INVALID_ARGUMENT,
            text: Cow::Owned(text.to_owned()),
        }
    }
}

fn storage_status(error: &StorageError) -> teak_status {
    match error {
        StorageError::NoSpace { .. } => TEAK_NO_SPACE,
        StorageError::Corrupt { .. } => TEAK_CORRUPT,
        StorageError::UnsupportedFormat { .. } => TEAK_UNSUPPORTED_FORMAT,
        StorageError::Poisoned { .. } => TEAK_POISONED,
        StorageError::Interrupted => TEAK_INTERRUPTED,
        StorageError::TooLarge { .. } => TEAK_TOO_LARGE,
        _ => TEAK_IO,
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let status = match &error {
            EngineError::Storage(error) => storage_status(error),
            EngineError::Wait(WaitError::Timeout) => TEAK_LOCK_TIMEOUT,
            EngineError::Wait(WaitError::Deadlock) => TEAK_DEADLOCK,
            EngineError::Wait(WaitError::Interrupted) => TEAK_INTERRUPTED,
            EngineError::Wait(WaitError::TooManyLocks) => TEAK_OUT_OF_MEMORY,
            EngineError::DuplicateKey => TEAK_DUPLICATE_KEY,
            EngineError::Conflict => TEAK_CONFLICT,
            EngineError::NotFound => TEAK_NOT_FOUND,
            EngineError::TableExists { .. } => TEAK_TABLE_EXISTS,
            EngineError::NoSuchTable { .. } => TEAK_NO_SUCH_TABLE,
            EngineError::TableDamaged { .. } => TEAK_CORRUPT,
            EngineError::InvalidArgument(_) => TEAK_INVALID_ARGUMENT,
            _ => TEAK_INTERNAL,
        };
        // The commonest refusals are part of normal work: no text is made.
        let text = match status {
            TEAK_NOT_FOUND => Cow::Borrowed(""),
            TEAK_DUPLICATE_KEY => Cow::Borrowed("an entry of the same unique key exists"),
            _ => Cow::Owned(error.to_string()),
        };
        Self { status, text }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("internal error: {}", text.unwrap_or_default())
}

/// Runs a call: keeps its error for `teak_last_error`, and lets no panic out.
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> teak_status {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => return status,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure {
            status: TEAK_INTERNAL,
            text: Cow::Owned(panic_text(&*panic)),
        },
    };
    LAST_ERROR.with_borrow_mut(|last| {
        last.clear();
        last.push_str(&failure.text);
    });
    failure.status
}

/// Copies the calling thread's last error text into the buffer, which may be NULL, and a terminator when there is room;
/// returns its whole length, without the terminator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_last_error(buffer: *mut c_char, capacity: usize) -> usize {
    LAST_ERROR.with_borrow(|last| {
        let copied = last.len().min(capacity);
        if !buffer.is_null() {
            // SAFETY: the caller's buffer holds `capacity` bytes, and no part
            // of it is the thread's own text.
            unsafe { std::ptr::copy_nonoverlapping(last.as_ptr(), buffer.cast(), copied) };
            if copied < capacity {
                // SAFETY: as above; the place behind the text lies inside.
                unsafe { store(buffer.add(copied), 0) };
            }
        }
        last.len()
    })
}
