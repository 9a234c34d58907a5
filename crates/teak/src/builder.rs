//! Options of a database.

use crate::database::Database;
use crate::error::Result;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{Disk, MemoryDisk};
use teak_encryption::{KeySource, PluginCipher};
use teak_engine::{Encryption, Engine, EngineOptions, FileIo, KeyId, Level, file_system};

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A commit is durable when it returns. Concurrent commits share a sync of the log.
    Immediate,
    /// A commit is durable within this time after it returned. A crash of the process or the
    /// machine may lose commits of that period; if it loses a commit, it also loses all later ones.
    Within(Duration),
}

/// Importance of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Information.
    Note,
    /// A failure that the engine handled.
    Warning,
    /// A failure that needs attention.
    Error,
}

/// Options of a database; [`Builder::open`] opens it.
///
/// ```
/// use std::time::Duration;
/// use teak::{Database, Durability};
///
/// # fn main() -> teak::Result<()> {
/// # let disk = std::sync::Arc::new(teak::disk::MemoryDisk::new());
/// let db = Database::builder("/var/lib/app/data")
///     .cache_bytes(512 << 20)
///     .durability(Durability::Within(Duration::from_millis(100)))
///     .background_threads(2)
/// #   .disk(disk)
///     .open()?;
/// # db.close()
/// # }
/// ```
#[must_use]
pub struct Builder {
    options: EngineOptions,
    /// `None`: the file system.
    disk: Option<Arc<dyn Disk>>,
    io: FileIo,
}

impl Builder {
    fn new(path: PathBuf) -> Self {
        Self {
            options: EngineOptions::new(path),
            disk: None,
            io: FileIo::Buffered,
        }
    }

    /// Memory budget in bytes, for all memory of the engine. At least 1 MiB; 256 MiB by default.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.options.cache_bytes = bytes;
        self
    }

    /// Memory limit of locks in bytes; an eighth of the memory budget by default.
    pub fn lock_bytes(mut self, bytes: u64) -> Self {
        self.options.lock_bytes_max = bytes;
        self
    }

    /// Limit of open file descriptors; no limit by default. With or without a limit, the files of a
    /// table that is not used for a while are closed.
    pub fn open_files(mut self, files: usize) -> Self {
        self.options.open_files = files;
        self
    }

    /// Sets when commits are durable; [`Durability::Immediate`] by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        match durability {
            Durability::Immediate => self.options.commit_sync = true,
            Durability::Within(period) => {
                self.options.commit_sync = false;
                self.options.log_sync_period = period.max(Duration::from_millis(1));
            }
        }
        self
    }

    /// The key management of encrypted tables (see [`TableSchema::encryption_key`](crate::TableSchema::encryption_key)), and
    /// the key of the log; without a key the log, which contains all changed rows, is not encrypted. The keys must be available
    /// as long as there is data that was written with them.
    pub fn keys(mut self, source: Box<dyn KeySource>, log: Option<KeyId>) -> Self {
        self.options.encryption = Encryption {
            cipher: Some(Arc::new(PluginCipher::new(source))),
            key: log,
        };
        self
    }

    /// Number of threads that flush and merge, at least one; the number of cores by default.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.options.background_threads = threads.max(1);
        self
    }

    /// Limit of the bytes per second that background jobs read and write, zero for no limit; 256 MiB
    /// by default. Jobs that writers wait for are not limited.
    pub fn io_bytes_per_second(mut self, bytes: u64) -> Self {
        self.options.io_bytes_per_second = bytes;
        self
    }

    /// Time between checkpoints; a minute by default. Recovery replays the log from the last
    /// checkpoint on.
    pub fn checkpoint_period(mut self, period: Duration) -> Self {
        self.options.checkpoint_period = period;
        self
    }

    /// Bound of the log's size in bytes; 1 GiB by default. From a quarter of the bound on,
    /// checkpoints shorten the log; near the bound, writers wait for a checkpoint, for at most a
    /// minute.
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.options.log_bytes_max = bytes;
        self.options.log_segment_bytes = self.options.log_segment_bytes.min(bytes);
        self
    }

    /// Lock timeout of transactions; 4 seconds by default. `Duration::ZERO`: no wait;
    /// `Duration::MAX`: no limit.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.options.lock_timeout = timeout;
        self
    }

    /// Sets a function that receives log messages, from any thread. It must not use the database.
    pub fn messages(mut self, sink: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        self.options.messages = Some(Arc::new(move |level, text: &str| {
            let level = match level {
                Level::Note => LogLevel::Note,
                Level::Warning => LogLevel::Warning,
                Level::Error => LogLevel::Error,
            };
            sink(level, text);
        }));
        self
    }

    /// Whether index files bypass the cache of the operating system (`O_DIRECT`); no by default. If
    /// the file system does not allow this, a message reports it. Has no effect with
    /// [`Builder::disk`].
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.io = if direct {
            FileIo::Direct
        } else {
            FileIo::Buffered
        };
        self
    }

    /// The disk that stores the files; the file system by default. See [`crate::disk`].
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Opens the database. If the directory is empty or missing, creates one in it; after a crash, all
    /// durable commits are recovered.
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse) when it is already open;
    /// [`Error::Corrupt`](crate::Error::Corrupt) when its catalogue or log is damaged;
    /// [`Error::UnsupportedFormat`](crate::Error::UnsupportedFormat) when a newer version wrote it;
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the memory budget is too
    /// small; errors of the disk.
    pub fn open(self) -> Result<Database> {
        let disk = self
            .disk
            .unwrap_or_else(|| file_system(&self.options, self.io));
        Ok(Database::new(Engine::open(disk, self.options)?))
    }
}

impl Database {
    /// Opens a database with default options. If the directory is empty or missing, creates a
    /// database in it.
    ///
    /// # Errors
    /// Errors of [`Builder::open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Options for opening the database in this directory.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }

    /// Opens a new database in memory, for tests. Its content is lost when it is dropped.
    ///
    /// # Errors
    /// Errors of [`Builder::open`].
    pub fn in_memory() -> Result<Self> {
        Self::builder("/").disk(Arc::new(MemoryDisk::new())).open()
    }
}
