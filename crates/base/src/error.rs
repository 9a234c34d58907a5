//! The error type of all file operations. Most errors contain the file; errors of damaged data
//! also contain the offset. Crates below the engine return errors; they neither log them nor panic.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a storage operation.
pub type StorageResult<T> = Result<T, StorageError>;

/// An error of a storage operation. It can be cloned, because a recorded failure is returned more
/// than once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system returned an error.
    Io {
        /// The operation, as a verb: "read", "write", "sync".
        operation: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The disk or quota is full.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Bytes on disk are damaged.
    Corrupt {
        /// The file concerned.
        path: PathBuf,
        /// Byte offset of the damaged structure.
        offset: u64,
        /// The check that failed.
        reason: String,
    },
    /// The file has a format version that this build does not read.
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
    /// Another process, or another engine in this process, has opened the data directory.
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// An earlier write or sync failed, so later writes return this error.
    Poisoned {
        /// The file concerned.
        path: PathBuf,
        /// The first failure.
        first: String,
    },
    /// An encryption key is missing or wrong. The data itself is intact.
    Key {
        /// The encrypted file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The operation was interrupted (a killed statement, a shutdown).
    Interrupted,
    /// A key, value, row, block or log record is larger than allowed.
    TooLarge {
        /// What is too large, for example "key" or "log record".
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

impl StorageError {
    /// Converts a system error. A full disk or quota, a missing file and an existing file have
    /// variants of their own.
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

    /// A `Corrupt` error at `offset` of `path`.
    #[must_use]
    pub fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            offset,
            reason: reason.into(),
        }
    }

    /// A `Key` error of a file.
    #[must_use]
    pub fn key(path: &Path, key: &dyn fmt::Display, reason: &dyn fmt::Display) -> Self {
        Self::Key {
            path: path.to_path_buf(),
            key: key.to_string(),
            reason: reason.to_string(),
        }
    }

    /// Checks the version of a format.
    ///
    /// # Errors
    /// `UnsupportedFormat`, if it is not the supported one.
    pub fn check_version(path: &Path, found: u32, supported: u32) -> StorageResult<()> {
        if found == supported {
            return Ok(());
        }
        let path = path.to_path_buf();
        Err(Self::UnsupportedFormat {
            path,
            found,
            supported,
        })
    }

    /// Whether the disk or quota is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }

    /// Whether stored bytes are damaged.
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
            Self::Key { path, key, reason } => write!(
                f,
                "encryption key {key} of {} cannot be used: {reason}",
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
