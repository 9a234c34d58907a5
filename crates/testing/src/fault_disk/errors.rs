//! Errors of the fault disk.

use std::io;
use std::path::Path;
use teak_base::StorageError;

pub(super) fn injected(operation: &'static str, path: &Path) -> StorageError {
    StorageError::from_io(operation, path, io::Error::other("injected fault"))
}

pub(super) fn no_space(path: &Path) -> StorageError {
    StorageError::NoSpace {
        path: path.to_path_buf(),
    }
}

pub(super) fn not_found(path: &Path) -> StorageError {
    StorageError::NotFound {
        path: path.to_path_buf(),
    }
}
