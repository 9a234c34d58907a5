//! The error of everything that touches files. Errors are values that carry
//! the file and the place; nothing below the engine logs or panics on them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a storage operation.
pub type StorageResult<T> = Result<T, StorageError>;

/// What can go wrong between the engine and the disk. Cloneable, so that one
/// failure can be told to every waiter of a group commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused an operation.
    Io {
        /// What was attempted, as a verb: "read", "write", "sync".
        operation: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The system's own error.
        source: Arc<io::Error>,
    },
    /// The disk or quota is full.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Bytes on disk are not what was written there.
    Corrupt {
        /// The file concerned.
        path: PathBuf,
        /// Byte offset of the damaged structure.
        offset: u64,
        /// What does not hold.
        reason: String,
    },
    /// A file of a format version that this build does not read.
    UnsupportedFormat {
        /// The file concerned.
        path: PathBuf,
        /// Version found in the file.
        found: u32,
        /// Newest version this build reads.
        supported: u32,
    },
    /// The named file does not exist.
    NotFound {
        /// The file concerned.
        path: PathBuf,
    },
    /// The named file exists already.
    AlreadyExists {
        /// The file concerned.
        path: PathBuf,
    },
    /// Somebody else, here or in another process, has the data open.
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// An earlier write or sync failed, so nothing later can be promised.
    Poisoned {
        /// The file concerned.
        path: PathBuf,
        /// The failure that came first.
        first: String,
    },
    /// The caller asked to stop (a killed statement, a shutdown).
    Interrupted,
    /// A key, value or block is larger than the format allows.
    TooLarge {
        /// What is too large: "key", "value", "block".
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

impl StorageError {
    /// Wraps a system error, telling a full disk and a missing file apart.
    #[must_use]
    pub fn from_io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::AlreadyExists => Self::AlreadyExists { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            _ => Self::Io {
                operation,
                path,
                source: Arc::new(source),
            },
        }
    }

    /// Damage found at `offset` of `path`.
    #[must_use]
    pub fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            offset,
            reason: reason.into(),
        }
    }

    /// Whether the error says that the disk or quota is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }

    /// Whether the error says that stored bytes are damaged.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                operation,
                path,
                source,
            } => write!(f, "cannot {operation} {}: {source}", path.display()),
            Self::NoSpace { path } => write!(f, "no space left for {}", path.display()),
            Self::Corrupt {
                path,
                offset,
                reason,
            } => write!(
                f,
                "{} is corrupt at byte {offset}: {reason}",
                path.display()
            ),
            Self::UnsupportedFormat {
                path,
                found,
                supported,
            } => write!(
                f,
                "{} has format version {found}; this build reads up to version {supported}",
                path.display()
            ),
            Self::NotFound { path } => write!(f, "{} does not exist", path.display()),
            Self::AlreadyExists { path } => write!(f, "{} exists already", path.display()),
            Self::InUse { path } => write!(
                f,
                "{} is locked: another process, or another engine of this one, has the data open",
                path.display()
            ),
            Self::Poisoned { path, first } => write!(
                f,
                "{} accepts no more writes after an earlier failure: {first}",
                path.display()
            ),
            Self::Interrupted => write!(f, "interrupted"),
            Self::TooLarge { what, bytes, limit } => {
                write!(
                    f,
                    "{what} of {bytes} bytes exceeds the limit of {limit} bytes"
                )
            }
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
