//! Running the body of an exported function.

use crate::boundary::failure::Failure;
use crate::status::teak_status;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The message of the calling thread's last error.
    pub(crate) static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("no text"))
}

/// Runs a body and catches panics. The message of an error replaces the thread's last message; the
/// message of TEAK_NOT_FOUND is empty.
#[inline]
fn run<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, teak_status> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(remember(&failure)),
        Err(panic) => Err(remember(&Failure {
            status: teak_status::TEAK_INTERNAL,
            text: panic_text(&*panic).into(),
        })),
    }
}

/// Runs the body of a function that returns a status.
pub(crate) fn call<T: Into<teak_status>>(body: impl FnOnce() -> Result<T, Failure>) -> teak_status {
    run(body).map_or_else(|status| status, Into::into)
}

/// Runs the body of a function that does not return a status.
pub(crate) fn value_or<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    run(body).unwrap_or(otherwise)
}

#[cold]
fn remember(failure: &Failure) -> teak_status {
    // The access fails in a destructor that runs at thread exit, after `LAST_ERROR` was destroyed.
    let _ = LAST_ERROR.try_with(|last| {
        let mut last = last.borrow_mut();
        last.clear();
        last.push_str(&failure.text);
    });
    failure.status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::teak_last_error;
    use crate::status::teak_status::*;
    use ::teak_engine::{EngineError, StorageError, WaitError};

    fn status_of(body: impl FnOnce() -> Result<(), Failure>) -> teak_status {
        call(body)
    }

    fn last_error() -> String {
        let mut text = vec![0u8; 256];
        // SAFETY: the second argument is the size of the buffer.
        let length = unsafe { teak_last_error(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(length);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(status_of(|| panic!("no memory page")), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: no memory page");
        let what = "log";
        assert_eq!(status_of(|| panic!("no {what} page")), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: no log page");
        assert_eq!(status_of(|| std::panic::panic_any(7)), TEAK_INTERNAL);
        assert_eq!(last_error(), "internal error: no text");
    }

    #[test]
    fn success_leaves_the_last_error_alone() {
        assert_eq!(
            status_of(|| Err(Failure::invalid("no"))),
            TEAK_INVALID_ARGUMENT
        );
        assert_eq!(call(|| Ok(())), TEAK_OK);
        assert_eq!(last_error(), "no");
    }

    #[test]
    fn every_error_except_not_found_has_a_message() {
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
            (
                EngineError::TableUnavailable {
                    name: name(),
                    cause: corrupt(),
                },
                TEAK_UNAVAILABLE,
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
            let message: String = error.to_string();
            assert_eq!(status_of(|| Err(error.into())), status, "{message}");
            assert_eq!(last_error(), message);
        }
        assert_eq!(
            status_of(|| Err(EngineError::NotFound.into())),
            TEAK_NOT_FOUND
        );
    }
}
