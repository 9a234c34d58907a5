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
    /// teak_transaction_interrupt, or the caller's own interrupt callback, ended the call.
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
    /// Another process, or another engine of this one, has the data directory open.
    TEAK_IN_USE = 18,
    /// The table or index came to be after the transaction's snapshot was taken.
    TEAK_TABLE_CHANGED = 19,
    /// Row locks have reached their share of the memory.
    TEAK_TOO_MANY_LOCKS = 20,
    /// The table has no index of this number, or has it no more.
    TEAK_NO_SUCH_INDEX = 21,
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
    #[cold]
    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: TEAK_INVALID_ARGUMENT,
            text: text.into(),
        }
    }
}

fn storage_status(error: &StorageError) -> teak_status {
    match error {
        StorageError::NoSpace { .. } => TEAK_NO_SPACE,
        StorageError::Corrupt { .. } => TEAK_CORRUPT,
        StorageError::UnsupportedFormat { .. } => TEAK_UNSUPPORTED_FORMAT,
        StorageError::Poisoned { .. } => TEAK_POISONED,
        StorageError::InUse { .. } => TEAK_IN_USE,
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
            EngineError::Wait(WaitError::TooManyLocks) => TEAK_TOO_MANY_LOCKS,
            EngineError::DuplicateKey => TEAK_DUPLICATE_KEY,
            EngineError::Conflict => TEAK_CONFLICT,
            EngineError::NotFound => TEAK_NOT_FOUND,
            EngineError::TableChanged => TEAK_TABLE_CHANGED,
            EngineError::NoSuchIndex { .. } => TEAK_NO_SUCH_INDEX,
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
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("no text"))
}

/// Runs a call: keeps its error for `teak_last_error`, and lets no panic out.
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> teak_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => keep(&failure),
        Err(panic) => keep(&Failure {
            status: TEAK_INTERNAL,
            text: panic_text(&*panic).into(),
        }),
    }
}

#[cold]
fn keep(failure: &Failure) -> teak_status {
    // A thread that calls from its last destructors has no text any more.
    let _ = LAST_ERROR.try_with(|last| {
        let mut last = last.borrow_mut();
        last.clear();
        last.push_str(&failure.text);
    });
    failure.status
}

/// Copies the calling thread's last error text into the buffer, which may be NULL, and a terminator when there is room;
/// returns its whole length, without the terminator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_last_error(buffer: *mut c_char, capacity: usize) -> usize {
    let copy = |last: &RefCell<String>| {
        let last = last.borrow();
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
    };
    LAST_ERROR.try_with(copy).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        let mut text = vec![0u8; 256];
        // SAFETY: the buffer holds as many bytes as are said.
        let length = unsafe { teak_last_error(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(length);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(call(|| panic!("the sky fell")), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: the sky fell");
        let what = "roof";
        assert_eq!(call(|| panic!("the {what} fell")), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: the roof fell");
        assert_eq!(call(|| std::panic::panic_any(7)), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: no text");
    }

    #[test]
    fn success_leaves_the_last_error_alone() {
        assert_eq!(call(|| Err(Failure::invalid("no"))), TEAK_INVALID_ARGUMENT);
        assert_eq!(call(|| Ok(TEAK_OK)), TEAK_OK);
        assert_eq!(last_error(), "no");
    }

    #[test]
    fn every_error_but_not_found_has_a_sentence() {
        let path = std::path::PathBuf::from("f");
        let name = || "t".to_owned();
        let corrupt = || StorageError::Corrupt {
            path: "f".into(),
            offset: 1,
            reason: name(),
        };
        let cases = [
            (EngineError::DuplicateKey, TEAK_DUPLICATE_KEY),
            (EngineError::Conflict, TEAK_CONFLICT),
            (EngineError::Wait(WaitError::Timeout), TEAK_LOCK_TIMEOUT),
            (EngineError::Wait(WaitError::Deadlock), TEAK_DEADLOCK),
            (EngineError::Wait(WaitError::Interrupted), TEAK_INTERRUPTED),
            (
                EngineError::Wait(WaitError::TooManyLocks),
                TEAK_TOO_MANY_LOCKS,
            ),
            (EngineError::TableExists { name: name() }, TEAK_TABLE_EXISTS),
            (
                EngineError::NoSuchTable { name: name() },
                TEAK_NO_SUCH_TABLE,
            ),
            (
                EngineError::TableDamaged {
                    name: name(),
                    cause: corrupt(),
                },
                TEAK_CORRUPT,
            ),
            (EngineError::InvalidArgument(name()), TEAK_INVALID_ARGUMENT),
            (EngineError::Internal(name()), TEAK_INTERNAL),
            (corrupt().into(), TEAK_CORRUPT),
            (
                StorageError::NoSpace { path: path.clone() }.into(),
                TEAK_NO_SPACE,
            ),
            (
                StorageError::NotFound { path: path.clone() }.into(),
                TEAK_IO,
            ),
            (StorageError::Interrupted.into(), TEAK_INTERRUPTED),
            (
                StorageError::Poisoned {
                    path: path.clone(),
                    first: name(),
                }
                .into(),
                TEAK_POISONED,
            ),
            (
                StorageError::UnsupportedFormat {
                    path,
                    found: 9,
                    supported: 1,
                }
                .into(),
                TEAK_UNSUPPORTED_FORMAT,
            ),
            (
                StorageError::TooLarge {
                    what: "key",
                    bytes: 2,
                    limit: 1,
                }
                .into(),
                TEAK_TOO_LARGE,
            ),
        ];
        for (error, status) in cases {
            let said: String = error.to_string();
            assert_eq!(call(|| Err(error.into())), status, "{said}");
            assert_eq!(last_error(), said);
        }
        assert_eq!(call(|| Err(EngineError::NotFound.into())), TEAK_NOT_FOUND);
    }
}
