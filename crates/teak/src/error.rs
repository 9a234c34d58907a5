//! Errors.

use std::fmt;
use std::path::PathBuf;
use teak_base::StorageError;
use teak_engine::{EngineError, WaitError};

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed.
///
/// An error in a transaction does not undo earlier writes. A failed write changes no entry of its
/// row. After [`Error::Conflict`] or [`Error::Deadlock`], roll the transaction back and run it
/// again; [`Database::transact`](crate::Database::transact) does that. After [`Error::LockTimeout`]
/// the lock was not granted: roll back, or repeat the call to wait longer.
///
/// ```
/// use teak::{Database, Error};
///
/// # fn main() -> teak::Result<()> {
/// let db = Database::in_memory()?;
/// let table = db.table("t")?;
/// table.insert("key", "value")?;
/// match table.insert("key", "another") {
///     Err(Error::DuplicateKey { index }) => assert_eq!(index, None), // the primary key
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction changed the row after this transaction's snapshot.
    Conflict,
    /// Deadlock: this transaction was selected from a cycle in the waits-for graph.
    Deadlock,
    /// The lock timeout expired.
    LockTimeout,
    /// Locks have reached their memory limit.
    TooManyLocks,
    /// A row with this key exists.
    DuplicateKey {
        /// The unique index that contains the key; `None` for the primary key.
        index: Option<String>,
    },
    /// No table of this name exists.
    NoSuchTable {
        /// The name.
        name: String,
    },
    /// A table of this name exists.
    TableExists {
        /// The name.
        name: String,
    },
    /// The table has no index of this name.
    NoSuchIndex {
        /// The name.
        name: String,
    },
    /// The schema that the table was opened with has other indexes than the table.
    SchemaMismatch {
        /// The table.
        table: String,
        /// The difference.
        reason: String,
    },
    /// The table was created or truncated after the transaction's snapshot.
    TableChanged,
    /// A key, value or row exceeds its limit.
    TooLarge {
        /// "key", "value" or "row".
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The disk or quota is full. Committed data is not affected; writes succeed again when there
    /// is space.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The log has reached its bound ([`Builder::log_bytes`](crate::Builder::log_bytes)), and no
    /// checkpoint has shortened it in time. The row was not written. Writes succeed again after a
    /// checkpoint.
    LogFull {
        /// The bound in bytes.
        bytes_max: u64,
    },
    /// The table refuses writes, because one of its files cannot be written or synced. Its rows can
    /// be read. It accepts writes again when the file can be written; after a failed sync, only
    /// when the database is opened again, or when
    /// [`Database::truncate_table`](crate::Database::truncate_table) has replaced the files.
    TableReadOnly {
        /// An index file of the table.
        path: PathBuf,
        /// The failure.
        cause: StorageError,
    },
    /// A file of the table is missing. Or a file could not be read when the database was opened
    /// after a crash: then the log records that it lacks are retained, and they still cannot be
    /// applied. No row is lost if the file can be read again. The next use of the table tries
    /// again.
    TableUnavailable {
        /// The table.
        name: String,
        /// Names the file and the failure.
        cause: StorageError,
    },
    /// A write or sync of this file failed earlier, so it accepts no more writes. If it is a file of
    /// the log, neither does the database: close it, open it again, and check which of the last
    /// commits exist. [`Database::checkpoint`](crate::Database::checkpoint) also names an index file
    /// with this error; writes of its table then fail with [`Error::TableReadOnly`].
    Poisoned {
        /// The file that failed.
        path: PathBuf,
        /// The first failure.
        first: String,
    },
    /// An implementation of [`Disk`](crate::disk::Disk) interrupted the call.
    Interrupted,
    /// The database is already open in this or another process.
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// A file has a format version that this library does not read, usually because a newer version
    /// of the library wrote it.
    UnsupportedFormat {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        found: u32,
        /// The newest version that this library reads.
        supported: u32,
    },
    /// Stored bytes are damaged. The text names the file.
    Corrupt(String),
    /// Another failure of a file.
    Storage(StorageError),
    /// The caller passed an invalid argument.
    InvalidArgument(String),
    /// For closures of [`Database::transact`](crate::Database::transact) that request a rollback.
    Aborted(String),
    /// A handle was used after the database was closed, or the library has a bug; the text
    /// describes it.
    Internal(String),
}

impl Error {
    /// Whether the error is a conflict or a deadlock: the transaction must be rolled back and can
    /// be run again immediately. [`Database::transact`](crate::Database::transact) does that. False
    /// for [`Error::LockTimeout`], because the transaction has waited for as long as it was allowed
    /// to.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Deadlock)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NoSpace { path } => Self::NoSpace { path },
            StorageError::InUse { path } => Self::InUse { path },
            StorageError::TooLarge { what, bytes, limit } => Self::TooLarge { what, bytes, limit },
            StorageError::Poisoned { path, first } => Self::Poisoned { path, first },
            StorageError::Interrupted => Self::Interrupted,
            StorageError::UnsupportedFormat {
                path,
                found,
                supported,
            } => Self::UnsupportedFormat {
                path,
                found,
                supported,
            },
            error if error.is_corrupt() => Self::Corrupt(error.to_string()),
            error => Self::Storage(error),
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Storage(error) => error.into(),
            EngineError::Wait(WaitError::Timeout) => Self::LockTimeout,
            EngineError::Wait(WaitError::Deadlock) => Self::Deadlock,
            EngineError::Wait(WaitError::TooManyLocks) => Self::TooManyLocks,
            EngineError::Wait(WaitError::Interrupted) => Self::Interrupted,
            EngineError::Conflict => Self::Conflict,
            EngineError::DuplicateKey => Self::DuplicateKey { index: None },
            EngineError::TableChanged => Self::TableChanged,
            EngineError::TableExists { name } => Self::TableExists { name },
            EngineError::NoSuchTable { name } => Self::NoSuchTable { name },
            EngineError::LogFull { bytes_max } => Self::LogFull { bytes_max },
            EngineError::TableReadOnly {
                cause: StorageError::NoSpace { path },
                ..
            } => Self::NoSpace { path },
            EngineError::TableReadOnly { path, cause } => Self::TableReadOnly { path, cause },
            EngineError::TableUnavailable { name, cause } => Self::TableUnavailable { name, cause },
            EngineError::TableDamaged { .. } => Self::Corrupt(error.to_string()),
            EngineError::InvalidArgument(text) => Self::InvalidArgument(text),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("another transaction changed the row after the snapshot"),
            Self::Deadlock => f.write_str("deadlock"),
            Self::LockTimeout => f.write_str("the lock timeout expired"),
            Self::TooManyLocks => f.write_str("locks have reached their memory limit"),
            Self::DuplicateKey { index: None } => f.write_str("a row with this primary key exists"),
            Self::DuplicateKey { index: Some(index) } => {
                write!(f, "a row with this key exists in index {index}")
            }
            Self::NoSuchTable { name } => write!(f, "no table {name}"),
            Self::TableExists { name } => write!(f, "table {name} exists"),
            Self::NoSuchIndex { name } => write!(f, "no index {name}"),
            Self::SchemaMismatch { table, reason } => write!(f, "table {table}: {reason}"),
            Self::TableChanged => f.write_str("the table was created after the snapshot"),
            Self::TooLarge { what, bytes, limit } => {
                write!(f, "a {what} of {bytes} bytes; the limit is {limit}")
            }
            Self::NoSpace { path } => write!(f, "no space for {}", path.display()),
            Self::LogFull { bytes_max } => write!(
                f,
                "the log has reached its bound of {bytes_max} bytes, and no checkpoint has shortened it in time"
            ),
            Self::TableReadOnly { path, cause } => {
                let path = path.display();
                write!(f, "the table of {path} is read-only: {cause}")
            }
            Self::TableUnavailable { name, cause } => {
                write!(f, "table {name} is unavailable: {cause}")
            }
            Self::Poisoned { path, first } => {
                let path = path.display();
                write!(
                    f,
                    "{path} accepts no more writes after an earlier failure: {first}"
                )
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::InUse { path } => write!(f, "the database is open: {}", path.display()),
            Self::UnsupportedFormat {
                path,
                found,
                supported,
            } => {
                let path = path.display();
                write!(
                    f,
                    "{path} has format version {found}; this library reads up to {supported}"
                )
            }
            Self::Storage(error) => error.fmt(f),
            Self::Corrupt(text)
            | Self::InvalidArgument(text)
            | Self::Aborted(text)
            | Self::Internal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error)
            | Self::TableReadOnly { cause: error, .. }
            | Self::TableUnavailable { cause: error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors that a test of a whole database cannot cause, or only after a minute.
    #[test]
    fn errors_of_the_engine_have_variants_of_their_own() {
        let interrupted = [
            Error::from(EngineError::Wait(WaitError::Interrupted)),
            Error::from(StorageError::Interrupted),
        ];
        for error in interrupted {
            assert!(matches!(error, Error::Interrupted), "{error:?}");
        }
        let full = Error::from(EngineError::LogFull { bytes_max: 7 });
        assert!(matches!(full, Error::LogFull { bytes_max: 7 }), "{full:?}");
        assert!(full.to_string().contains("7 bytes"), "{full}");
        let newer = Error::from(StorageError::UnsupportedFormat {
            path: "f".into(),
            found: 9,
            supported: 1,
        });
        assert!(matches!(newer, Error::UnsupportedFormat { found: 9, .. }));
        // The same as in the C interface: the table can be written again when there is space.
        let full = Error::from(EngineError::TableReadOnly {
            path: "t".into(),
            cause: StorageError::NoSpace { path: "f".into() },
        });
        assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
    }
}
