//! Errors of sorting and building.

use std::fmt;
use teak_base::StorageError;
use teak_base::bytes::Malformed;

/// Result of sorting or building.
pub type BulkLoadResult<T> = Result<T, BulkLoadError>;

/// An error of sorting or building.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BulkLoadError {
    /// A spill file could not be written or read, or is damaged.
    Spill(StorageError),
    /// The index file could not be written, or an entry is too large for it.
    Index(StorageError),
    /// The caller's check for an interrupt returned true.
    Interrupted,
    /// An entry that must be added in key order was not.
    NotInOrder,
    /// A bug; the text describes it.
    Internal(&'static str),
}

impl From<Malformed> for BulkLoadError {
    fn from(Malformed: Malformed) -> Self {
        // Nothing else could have changed the memory.
        Self::Internal("an entry in memory is malformed")
    }
}

impl fmt::Display for BulkLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spill(error) | Self::Index(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
            Self::NotInOrder => f.write_str("an entry was not added in the order of its key"),
            Self::Internal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BulkLoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spill(error) | Self::Index(error) => Some(error),
            _ => None,
        }
    }
}

/// An error of a build that calls functions of the caller.
#[derive(Clone, Debug)]
pub enum LoadError<E> {
    /// Sorting or writing failed.
    Failed(BulkLoadError),
    /// A function of the caller has returned this error.
    Caller(E),
}

impl<E> From<BulkLoadError> for LoadError<E> {
    fn from(error: BulkLoadError) -> Self {
        Self::Failed(error)
    }
}
