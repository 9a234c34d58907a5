//! Errors of engine calls.

use crate::index_number::IndexNumber;
use std::fmt;
use std::path::PathBuf;
use teak_base::StorageError;
use teak_bulk_load::BulkLoadError;
use teak_transactions::WaitError;

/// Result of an engine call.
pub type EngineResult<T> = Result<T, EngineError>;

/// The error of an engine call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A file is damaged or could not be read or written, the operation was interrupted, or a key,
    /// value or row is too large.
    Storage(StorageError),
    /// The lock timeout expired, or the transaction was the victim of a deadlock, was interrupted,
    /// or could not get memory for a lock.
    Wait(WaitError),
    /// A live entry of the same unique key exists; see
    /// `EngineTransaction::duplicate`.
    DuplicateKey,
    /// The row changed after the snapshot was taken.
    Conflict,
    /// The row to change, or the prepared transaction to end, does not exist.
    NotFound,
    /// The index was created, or last replaced, after the transaction's snapshot.
    TableChanged,
    /// The table has no index of this number.
    NoSuchIndex {
        /// The number.
        index: IndexNumber,
    },
    /// A table of this name exists.
    TableExists {
        /// The name.
        name: String,
    },
    /// No table of this name exists.
    NoSuchTable {
        /// The name.
        name: String,
    },
    /// An index file of the table is damaged, so the table cannot be opened.
    TableDamaged {
        /// The table.
        name: String,
        /// Names the damaged file and the reason.
        cause: StorageError,
    },
    /// The table rejects writes, because one of its files could not be written or synced.
    TableReadOnly {
        /// An index file of the table.
        path: PathBuf,
        /// The failure.
        cause: StorageError,
    },
    /// A file of the table is missing, or cannot be read. No row is lost if the file can be read
    /// later.
    TableUnavailable {
        /// The table.
        name: String,
        /// Names the file and the reason.
        cause: StorageError,
    },
    /// A backup cannot begin, or has ended before its copy was complete; the text is the reason.
    BackupFailed(String),
    /// The log has reached its bound, and no checkpoint could trim it in time.
    LogFull {
        /// The bound, in bytes.
        bytes_max: u64,
    },
    /// The caller passed an invalid argument, or the state of the table or the transaction does not
    /// permit the call; the text describes it.
    InvalidArgument(String),
    /// The engine is closing or has a bug, or the transaction has ended; the text describes it.
    Internal(String),
}

impl EngineError {
    /// Whether the error reports damage to stored bytes.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        match self {
            Self::Storage(error) | Self::TableUnavailable { cause: error, .. } => {
                error.is_corrupt()
            }
            Self::TableDamaged { .. } => true,
            _ => false,
        }
    }
}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<WaitError> for EngineError {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<BulkLoadError> for EngineError {
    fn from(error: BulkLoadError) -> Self {
        match error {
            BulkLoadError::Spill(error) | BulkLoadError::Index(error) => Self::Storage(error),
            BulkLoadError::Interrupted => Self::Wait(WaitError::Interrupted),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Wait(error) => error.fmt(f),
            Self::DuplicateKey => f.write_str("an entry of the same unique key exists"),
            Self::Conflict => f.write_str("the row changed after the snapshot was taken"),
            Self::NotFound => f.write_str("the row does not exist"),
            Self::TableChanged => f.write_str("the table was changed after the snapshot was taken"),
            Self::NoSuchIndex { index } => write!(f, "the table has no index {index}"),
            Self::TableExists { name } => write!(f, "table {name} already exists"),
            Self::NoSuchTable { name } => write!(f, "table {name} does not exist"),
            Self::TableDamaged { name, cause } => {
                write!(f, "table {name} cannot be opened: {cause}")
            }
            Self::TableReadOnly { path, cause } => {
                let path = path.display();
                write!(f, "the table of {path} is read-only: {cause}")
            }
            Self::TableUnavailable { name, cause } => {
                write!(f, "table {name} is unavailable: {cause}")
            }
            Self::LogFull { bytes_max } => write!(
                f,
                "the log has reached its bound of {bytes_max} bytes, and no checkpoint could trim it in time"
            ),
            Self::BackupFailed(reason) => write!(f, "the backup has failed: {reason}"),
            Self::InvalidArgument(text) | Self::Internal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error)
            | Self::TableDamaged { cause: error, .. }
            | Self::TableReadOnly { cause: error, .. }
            | Self::TableUnavailable { cause: error, .. } => Some(error),
            Self::Wait(error) => Some(error),
            _ => None,
        }
    }
}
