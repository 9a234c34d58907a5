//! A failed call, and the status of each error of the engine.

use crate::status::teak_status::{self, *};
use ::teak_engine::{EngineError, StorageError, WaitError};
use std::borrow::Cow;

/// The result of the body of an exported function.
pub(crate) type Outcome = Result<teak_status, Failure>;

/// A failed call: its status and a message.
pub(crate) struct Failure {
    pub(super) status: teak_status,
    pub(crate) text: Cow<'static, str>,
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

impl Failure {
    #[cold]
    pub(crate) fn corrupt(text: &'static str) -> Self {
        Self {
            status: TEAK_CORRUPT,
            text: text.into(),
        }
    }

    pub(crate) fn alteration_ended() -> Self {
        Self::invalid("the alteration has ended")
    }
}

fn storage_status(error: &StorageError) -> teak_status {
    match error {
        StorageError::NoSpace { .. } => TEAK_NO_SPACE,
        StorageError::Corrupt { .. } => TEAK_CORRUPT,
        StorageError::UnsupportedFormat { .. } => TEAK_UNSUPPORTED_FORMAT,
        StorageError::Key { .. } => TEAK_NO_KEY,
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
            EngineError::LogFull { .. } => TEAK_NO_SPACE,
            EngineError::DuplicateKey => TEAK_DUPLICATE_KEY,
            EngineError::Conflict => TEAK_CONFLICT,
            EngineError::NotFound => TEAK_NOT_FOUND,
            EngineError::TableChanged => TEAK_TABLE_CHANGED,
            EngineError::NoSuchIndex { .. } => TEAK_NO_SUCH_INDEX,
            EngineError::TableExists { .. } => TEAK_TABLE_EXISTS,
            EngineError::NoSuchTable { .. } => TEAK_NO_SUCH_TABLE,
            EngineError::TableDamaged { .. } => TEAK_CORRUPT,
            EngineError::TableReadOnly { cause, .. } if cause.is_no_space() => TEAK_NO_SPACE,
            EngineError::TableReadOnly { .. } => TEAK_READ_ONLY,
            EngineError::TableUnavailable { .. } => TEAK_UNAVAILABLE,
            EngineError::BackupFailed(_) => TEAK_BACKUP_FAILED,
            EngineError::InvalidArgument(_) => TEAK_INVALID_ARGUMENT,
            _ => TEAK_INTERNAL,
        };
        // Frequent results are part of normal operation, so no text is formatted for them.
        let text = match status {
            TEAK_NOT_FOUND => Cow::Borrowed(""),
            TEAK_DUPLICATE_KEY => Cow::Borrowed("an entry of the same unique key exists"),
            _ => Cow::Owned(error.to_string()),
        };
        Self { status, text }
    }
}
