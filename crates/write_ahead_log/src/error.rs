//! Failures of the log's writer.

use teak_base::StorageError;

/// The error of a write or sync.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The disk is full. Nothing is lost: a batch that could not be written is
    /// retained in memory.
    Full(StorageError),
    /// Any other failure. It is unknown how much of the data is on disk.
    Broken(StorageError),
}

impl WriteError {
    /// Converts the error of an operation that can be repeated if the disk was
    /// full.
    pub(crate) fn of_write(error: StorageError) -> Self {
        if error.is_no_space() {
            Self::Full(error)
        } else {
            Self::Broken(error)
        }
    }

    pub(crate) fn into_inner(self) -> StorageError {
        let (Self::Full(error) | Self::Broken(error)) = self;
        error
    }
}
